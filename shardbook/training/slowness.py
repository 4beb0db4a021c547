"""A slow link and a slow rank: told apart by metrics, and by swapping places or data.

Every run draws how much slower than planned each rank and the network are, as real runs differ;
a faulty run has the draws of a healthy one, so that only the fault is between them.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Final

from shardbook.collectives.measure import measure
from shardbook.collectives.network import Network, flat
from shardbook.collectives.ring import ring_all_reduce
from shardbook.errors import InputError, one_of, real, whole
from shardbook.training.pace import Pace
from shardbook.training.programs import Action
from shardbook.training.settings import Settings
from shardbook.training.suspicions import Case, Metric, Trial, highest
from shardbook.training.trainer import Hooks, Trainer

#: the actions that take time without other ranks
TIMED: Final = ("load", "forward", "backward", "update")


@dataclass(frozen=True, slots=True)
class Bench:
    """A training step whose time is taken, ``runs`` times in health.

    ``seconds``: what an action of a kind takes, s; ``latency`` in s, ``bandwidth`` in B/s.
    ``spread``: a rank or the network takes up to so much longer in a run, as a part of its time.
    ``probe``: bytes (B) that two ranks all-reduce alone. Raises InputError.
    """

    settings: Settings
    seconds: Mapping[str, float]
    latency: float
    bandwidth: float
    spread: float
    runs: int
    seed: int
    probe: int

    def __post_init__(self) -> None:
        whole("ranks", self.settings.ranks, 4, 1024)
        for kind, seconds in self.seconds.items():
            one_of("seconds of", kind, TIMED)
            real(f"seconds of {kind}", seconds, 0, 1e6, "s")
        real("spread", self.spread, 0, 10)
        whole("runs", self.runs, 1, 1000)
        whole("probe", self.probe, 1, 10**15)
        flat(self.latency, self.bandwidth)


@dataclass(frozen=True, slots=True)
class Slow:
    """What is so many times slower: port → times and so on.

    A port stays at its place, ``sending`` goes with the rank, ``data`` with the rows, wherever
    they are put; ``card`` is all that the rank computes.
    """

    port: Mapping[int, float] = field(default_factory=dict)
    sending: Mapping[int, float] = field(default_factory=dict)
    data: Mapping[int, float] = field(default_factory=dict)
    card: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Timed:
    """One run: metrics by name (s, and B for sent_bytes), the latest rank, the slowest place."""

    metrics: Mapping[str, float]
    late_rank: int
    slow_place: int


def timed(
    bench: Bench,
    run: int,
    slow: Slow | None = None,
    *,
    places: Mapping[int, int] | None = None,
    rows: Mapping[int, int] | None = None,
) -> Timed:
    """Run one step and time it; ``run`` chooses its draws (S70).

    ``places`` and ``rows`` name ranks that sit at another place, or read another rank's rows.
    ``late_seconds`` is by how much the latest rank waits less than ranks do usually (the median):
    so long do others wait for it. ``port_seconds`` is the time of the probe at the slowest place.
    """
    slow = slow or Slow()
    ranks = range(bench.settings.ranks)
    place = {rank: (places or {}).get(rank, rank) for rank in ranks}
    reads = {rank: (rows or {}).get(rank, rank) for rank in ranks}
    draw = random.Random(f"{bench.seed} {run}")
    slower = {rank: 1 + bench.spread * draw.random() for rank in ranks}
    network = replace(
        flat(bench.latency, bench.bandwidth / (1 + bench.spread * draw.random())),
        slow=tuple((r, slow.port.get(place[r], 1) * slow.sending.get(r, 1)) for r in ranks),
    )

    def seconds(rank: int, action: Action) -> float:
        took = bench.seconds.get(action.kind, 0.0) * slower[rank]
        if action.kind == "load":
            return took * slow.data.get(reads[rank], 1)
        return took * slow.card.get(rank, 1)

    hooks = Hooks(reads=lambda step, rank: reads[rank])
    step = Trainer(bench.settings, hooks=hooks, pace=Pace(network, seconds)).step()
    spent = [report.seconds for report in step.ranks]
    waiting = median(each.waiting for each in spent)
    late = max(ranks, key=lambda rank: -spent[rank].waiting)
    ports = _port_seconds(network, bench)
    slowest = max(ranks, key=lambda rank: ports[rank])
    return Timed(
        {
            "step_seconds": max(each.total for each in spent),
            "compute_seconds": median(each.compute for each in spent),
            "communication_seconds": median(each.communication for each in spent),
            "waiting_seconds": waiting,
            "late_seconds": waiting - spent[late].waiting,
            "port_seconds": ports[slowest],
            "sent_bytes": max(report.sent_bytes for report in step.ranks),
        },
        late,
        place[slowest],
    )


def slow_link(bench: Bench, place: int, times: float) -> Case:
    """Return the case of a port that is ``times`` (1 to 1e6) slower, with a swap of ranks (S70).

    The impostor sends as slowly, wherever it sits. Raises InputError.
    """
    other = _other(bench, "place", place, times)
    trials = []
    for wrong, slow in (
        ("the link of that place", Slow(port={place: times})),
        ("what runs on that rank", Slow(sending={place: times})),
    ):
        before = timed(bench, 0, slow)
        seen = timed(bench, 0, slow, places={place: other, other: place}).slow_place
        trials.append(
            Trial(
                wrong,
                before.metrics["port_seconds"],
                f"place {place}",
                f"place {seen}",
                seen != place,
            )
        )
    return _case(
        bench,
        Slow(port={place: times}),
        suspicion=f"the link at place {place} is slow",
        metric="port_seconds",
        experiment=f"let the ranks at places {place} and {other} swap; which place is slow now?",
        trials=tuple(trials),
    )


def slow_rank(bench: Bench, rank: int, times: float) -> Case:
    """Return the case of a rank whose rows come ``times`` (1 to 1e6) as slowly (S70).

    The impostor's card is slow, by as many seconds a step. Raises InputError.
    """
    other = _other(bench, "rank", rank, times)
    program = bench.settings.program
    by_kind = {
        load: sum(bench.seconds.get(a.kind, 0.0) for a in program if (a.kind == "load") == load)
        for load in (True, False)
    }
    if not by_kind[False]:
        raise InputError("seconds", dict(bench.seconds), "let computing take some time")
    card = 1 + (times - 1) * by_kind[True] / by_kind[False]
    trials = []
    for wrong, slow in (
        ("the rows of that rank", Slow(data={rank: times})),
        ("the card of that rank", Slow(card={rank: card})),
    ):
        before = timed(bench, 0, slow)
        seen = timed(bench, 0, slow, rows={rank: other, other: rank}).late_rank
        trials.append(
            Trial(
                wrong,
                before.metrics["late_seconds"],
                f"rank {other}",
                f"rank {seen}",
                seen != other,
            )
        )
    return _case(
        bench,
        Slow(data={rank: times}),
        suspicion=f"the data of rank {rank} is slow",
        metric="late_seconds",
        experiment=f"let ranks {rank} and {other} swap their rows; which rank is late now?",
        trials=tuple(trials),
    )


def _other(bench: Bench, name: str, value: int, times: float) -> int:
    """Check a fault, and return the rank or place on the other side of the ring."""
    ranks = bench.settings.ranks
    whole(name, value, 0, ranks - 1)
    real("times", times, 1, 1e6)
    return (value + ranks // 2) % ranks


def _case(
    bench: Bench,
    fault: Slow,
    *,
    suspicion: str,
    metric: str,
    experiment: str,
    trials: tuple[Trial, ...],
) -> Case:
    healthy = [timed(bench, run).metrics for run in range(bench.runs)]
    faulty = timed(bench, 0, fault).metrics
    metrics = tuple(
        Metric(name, min(run[name] for run in healthy), highest([r[name] for r in healthy]), value)
        for name, value in faulty.items()
    )
    threshold = next(each.high for each in metrics if each.name == metric)
    said = f"the highest of {bench.runs} healthy runs"
    return Case(suspicion, metric, threshold, said, metrics, experiment, trials)


def _port_seconds(network: Network, bench: Bench) -> list[float]:
    """Let neighbours all-reduce the probe, a pair at a time; return each rank's better time, s.

    A pair is as slow as the slower of its ports; with the other neighbour a good port is fast.
    """
    ranks = bench.settings.ranks
    pairs = [
        measure(ring_all_reduce((r, (r + 1) % ranks), bench.probe), network).seconds
        for r in range(ranks)
    ]
    return [min(pairs[r - 1], pairs[r]) for r in range(ranks)]
