"""What `all_reduce_perf` of nccl-tests prints, and the latency and bandwidth that explain it.

The model is the ring's: T = 2(p - 1)(α + M/(pB)). Source of the format and of busbw: NVIDIA
nccl-tests, src/common.cu and doc/PERFORMANCE.md.
"""

import re
from dataclasses import dataclass
from typing import Final

from shardbook.collectives.bandwidth import busbw_factor, ring_seconds
from shardbook.collectives.closed_form import all_reduce_cost
from shardbook.collectives.network import Link
from shardbook.errors import InputError, one_of

_NAME: Final = "all_reduce_perf"
_RANK: Final = re.compile(r"#\s+Rank\s+\d+\s.*\son\s+(\S+)\s+device\s")
#: what mpirun may put before a line: the rank that prints
_PRINTER: Final = re.compile(r"^\s*(?:\[\d+,\d+\]<stdout>:|\d+:)\s?")
_GIGA: Final = 1e9
_SIZES: Final = "give sizes that differ, such as those of -b 8M -e 128M -f 2"


@dataclass(frozen=True, slots=True)
class Timing:
    """One size: bytes of the vector (M), and the time in s with another and the same output."""

    size: int
    out_of_place: float
    in_place: float


@dataclass(frozen=True, slots=True)
class Probe:
    """A run of all_reduce_perf: the host of each rank, and a `Timing` a size."""

    hosts: tuple[str, ...]
    timings: tuple[Timing, ...]

    @property
    def ranks(self) -> int:
        """Ranks of the run."""
        return len(self.hosts)

    @property
    def nodes(self) -> int:
        """Hosts that they are on."""
        return len(set(self.hosts))


@dataclass(frozen=True, slots=True)
class Fit:
    """The link that explains a probe best, in s and B/s one way, and how well it does.

    ``worst``: the largest relative distance of a time from the model's. ``latency_share``: the part
    of the smallest size's time that is latency; if it is not clearly more than ``worst``, the sizes
    say nothing about the latency.
    """

    link: Link
    worst: float
    latency_share: float


def parse_all_reduce(text: str) -> Probe:
    """Read what `all_reduce_perf` prints, both kinds of columns, old and new (S68).

    Raises InputError with line and column (counted in words, from 1) of what can't be read, does
    not agree with itself, or is another collective's.
    """
    hosts: list[str] = []
    names: list[str] = []
    timings = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = _PRINTER.sub("", raw)
        words = line.lstrip("# ").split()
        if found := _RANK.match(line):
            hosts.append(found[1])
        elif line.startswith("#") and words[:2] == ["size", "count"]:
            names = words
        elif words and words[0].isdigit() and not line.startswith("#"):
            if not hosts or not names:
                missing = "the columns' names" if hosts else "the ranks (# Using devices)"
                raise InputError(f"{_NAME} line {number}", line.strip(), f"give {missing} first")
            timings.append(_timing(number, words, names, len(hosts)))
    if not timings:
        raise InputError(_NAME, text[:60], "give all that all_reduce_perf prints, with its sizes")
    return Probe(tuple(hosts), tuple(timings))


def fit_link(probe: Probe, *, in_place: bool = False) -> Fit:
    """Return the latency and bandwidth of the ring that explain a probe best (S68).

    Least squares of the relative errors, the latency not below 0. Raises InputError: one rank, one
    size only, or times that do not grow with the size.
    """
    n = probe.ranks
    if n < 2:
        raise InputError("ranks", n, "give a probe of two ranks at least")
    cost = all_reduce_cost("ring", n)
    points = [(x.size, x.in_place if in_place else x.out_of_place) for x in probe.timings]
    rows = [(cost.rounds / t, float(cost.volume) * size / t) for size, t in points]
    aa, ab, bb = (sum(r[i] * r[j] for r in rows) for i, j in ((0, 0), (0, 1), (1, 1)))
    a, b = sum(r[0] for r in rows), sum(r[1] for r in rows)
    determinant = aa * bb - ab * ab
    if determinant < 1e-9 * aa * bb:
        raise InputError("sizes", points[0][0], _SIZES)
    latency, inverse = (a * bb - b * ab) / determinant, (b * aa - a * ab) / determinant
    if inverse <= 0:
        raise InputError("times", [t for _, t in points], "give times that grow with the size")
    if latency < 0:
        latency, inverse = 0.0, b / bb
    link = Link(latency, 1 / inverse)
    model = [ring_seconds(n, size, latency, link.bandwidth) for size, _ in points]
    worst = max(abs(m / t - 1) for m, (_, t) in zip(model, points, strict=True))
    return Fit(link, worst, cost.rounds * latency / min(model))


def cluster_pairs(link: Link, where: str) -> str:
    """Return a link as the planner's cluster text takes it: ``inside=…,inside_latency=…`` (S68).

    ``where``: ``inside`` a node, or ``between`` nodes (two ranks, one on each, so that one network
    card is measured). Raises InputError.
    """
    one_of("where", where, ("inside", "between"))
    return f"{where}={link.bandwidth:.4g},{where}_latency={link.latency:.4g}"


def _timing(line: int, words: list[str], names: list[str], ranks: int) -> Timing:
    size, times = int(_number(line, words, 0)), []
    for start in [place for place, name in enumerate(names) if name == "time"]:
        time, algbw, busbw = (_number(line, words, start + i) for i in range(3))
        if not time:
            raise _error(line, start, words, "give a time in µs above 0")
        expected = size / (time * 1e-6) / _GIGA
        if abs(algbw - expected) > 0.006 + 0.002 * expected:
            allowed = f"give size over time, {expected:.2f} GB/s"
            raise _error(line, start + 1, words, allowed)
        factor = float(busbw_factor("all-reduce", ranks))
        if abs(busbw - factor * algbw) > 0.006 * (1 + factor) + 0.001 * busbw:
            allowed = f"an all-reduce among {ranks} ranks has {factor:.4g} times its algbw"
            raise _error(line, start + 2, words, allowed)
        wrong = words[start + 3] if start + 3 < len(words) else ""
        if names[start + 3 : start + 4] == ["#wrong"] and wrong not in ("0", "N/A"):
            raise _error(line, start + 3, words, "give a run without wrong results, 0 or N/A")
        times.append(time * 1e-6)
    if len(times) != 2:
        raise InputError(f"{_NAME} line {line}", names, "give out-of-place and in-place columns")
    return Timing(size, times[0], times[1])


def _number(line: int, words: list[str], place: int) -> float:
    if place >= len(words) or not re.fullmatch(r"\d{1,15}(?:\.\d{1,9})?", words[place], re.ASCII):
        raise _error(line, place, words, "give a number")
    return float(words[place])


def _error(line: int, place: int, words: list[str], allowed: str) -> InputError:
    value = words[place] if place < len(words) else None
    return InputError(f"{_NAME} line {line}, column {place + 1}", value, allowed)
