"""The configurations of the experiments, one class and one reader each."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from labs import reading
from shardbook.errors import InputError, one_of, real, whole
from shardbook.ledger.activations import RECOMPUTE
from shardbook.planner.budget import Strategy
from shardbook.planner.presets import Cluster, Model, cluster_named, model_named
from shardbook.training.faults import HANGS
from shardbook.training.settings import Settings
from shardbook.training.slowness import Bench


@dataclass(frozen=True, slots=True)
class Systems:
    """The budget experiment: every number of cards × cards a node × bandwidth × strategy."""

    model: Model
    cluster: Cluster
    cards: tuple[int, ...]
    cards_per_node: tuple[int, ...]
    between: tuple[float, ...]
    strategies: tuple[Strategy, ...]
    micro_batch: int
    recompute: str
    spread: float
    ring_ranks: int
    messages: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Slowness:
    """A slow link or rank: the step that is timed, where the fault is, how many times slower."""

    bench: Bench
    where: int
    times: float


@dataclass(frozen=True, slots=True)
class OneRank:
    """A run, and the rank that saves, or whose program is wrong in each of ``faults``."""

    settings: Settings
    rank: int
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Messages:
    """A network's messages on ``nodes`` nodes of ``cards_per_node`` cards."""

    layers: tuple[int, ...]
    rows: int
    nodes: int
    cards_per_node: int
    element_bytes: int


_SYSTEMS: Final = (
    "model", "card", "cards", "cards_per_node", "between", "strategies", "micro_batch",
    "recompute", "spread", "ring",
)  # fmt: skip
_NETWORK: Final = ("layers", "rows")
_BENCH: Final = (
    "strategy", "ranks", *_NETWORK, "seconds", "latency", "bandwidth", "spread", "healthy_runs",
    "probe",
)  # fmt: skip
_MOST: Final = 10**5


def read_systems(path: Path, seed: int = 0) -> Systems:
    """Read a configuration of the budget experiment.

    Raises:
        InputError: the file can't be read, a field is missing, unknown or not allowed.
    """
    given = reading.load(path, _SYSTEMS)
    ring = reading.fields("ring", given["ring"], ("ranks", "messages"))
    card = reading.text("card", given["card"])
    for key in ("nodes", "cards", "between"):
        if f"{key}=" in card.replace("_latency", "").replace(" ", ""):
            raise InputError("card", card, f"leave out {key}=: the experiment varies it")
    cards, widths = (
        reading.each_once(name, given[name], lambda n, v, most=most: whole(n, v, 1, most))
        for name, most in (("cards", _MOST), ("cards_per_node", 1024))
    )
    return Systems(
        model_named(reading.text("model", given["model"])),
        cluster_named(card),
        cards,
        widths,
        reading.each_once("between", given["between"], reading.rate),
        reading.each_once("strategies", given["strategies"], _strategy),
        whole("micro_batch", given["micro_batch"], 1, 1024),
        one_of("recompute", given["recompute"], RECOMPUTE),
        real("spread", given["spread"], 0, 1),
        whole("ring ranks", ring["ranks"], 2, 64),
        reading.each_once("ring messages", ring["messages"], reading.size),
    )


def read_slow_link(path: Path, seed: int) -> Slowness:
    """Read a configuration of slow-link. Raises InputError as `read_systems` does."""
    return _slowness(reading.load(path, (*_BENCH, "place", "times")), "place", seed)


def read_slow_rank(path: Path, seed: int) -> Slowness:
    """Read a configuration of slow-rank. Raises InputError as `read_systems` does."""
    return _slowness(reading.load(path, (*_BENCH, "rank", "times")), "rank", seed)


def read_gather(path: Path, seed: int) -> Settings:
    """Read a configuration of whole-model-gather. Raises InputError as `read_systems` does."""
    return _settings(reading.load(path, ("ranks", *_NETWORK)), "zero3", seed)


def read_save(path: Path, seed: int) -> OneRank:
    """Read a configuration of save-peak. Raises InputError as `read_systems` does."""
    given = reading.load(path, ("strategy", "ranks", *_NETWORK, "rank"))
    settings = _settings(given, given["strategy"], seed)
    return OneRank(settings, whole("rank", given["rank"], 0, settings.ranks - 1))


def read_hang(path: Path, seed: int) -> OneRank:
    """Read a configuration of hang. Raises InputError as `read_systems` does."""
    given = reading.load(path, ("strategy", "ranks", *_NETWORK, "rank", "faults"))
    settings = _settings(given, given["strategy"], seed)
    faults = reading.each_once("faults", given["faults"], lambda n, v: one_of(n, v, sorted(HANGS)))
    return OneRank(settings, whole("rank", given["rank"], 0, settings.ranks - 1), faults)


def read_messages(path: Path, seed: int) -> Messages:
    """Read a configuration of messages. Raises InputError as `read_systems` does."""
    given = reading.load(path, (*_NETWORK, "nodes", "cards_per_node", "element_bytes"))
    return Messages(
        _layers(given),
        whole("rows", given["rows"], 1, 10**9),
        whole("nodes", given["nodes"], 2, 1024),
        whole("cards_per_node", given["cards_per_node"], 2, 64),
        whole("element_bytes", given["element_bytes"], 1, 8),
    )


def read_demos(path: Path, seed: int) -> dict[str, dict[str, str]]:
    """Read a configuration of demos. Raises InputError as `read_systems` does."""
    controls = reading.mapping("controls", reading.load(path, ("controls",))["controls"])
    return {
        explorer: {
            control: reading.text(f"controls of {explorer}: {control}", value)
            for control, value in reading.mapping(f"controls of {explorer}", texts).items()
        }
        for explorer, texts in controls.items()
    }


def _slowness(given: Mapping[str, Any], where: str, seed: int) -> Slowness:
    took = reading.mapping("seconds", given["seconds"])
    bench = Bench(
        _settings(given, given["strategy"], seed),
        {kind: reading.seconds(f"seconds of {kind}", value) for kind, value in took.items()},
        reading.seconds("latency", given["latency"]),
        reading.rate("bandwidth", given["bandwidth"]),
        real("spread", given["spread"], 0, 10),
        whole("healthy_runs", given["healthy_runs"], 1, 1000),
        seed,
        reading.size("probe", given["probe"]),
    )
    place = whole(where, given[where], 0, bench.settings.ranks - 1)
    return Slowness(bench, place, real("times", given["times"], 1, 1e6))


def _settings(given: Mapping[str, Any], strategy: str, seed: int) -> Settings:
    return Settings(
        reading.text("strategy", strategy),
        whole("ranks", given["ranks"], 2, 64),
        seed,
        _layers(given),
        whole("rows", given["rows"], 1, 4096),
    )


def _layers(given: Mapping[str, Any]) -> tuple[int, ...]:
    layers = reading.many("layers", given["layers"], lambda n, v: whole(n, v, 1, 4096))
    if not 2 <= len(layers) <= 65:
        raise InputError("layers", given["layers"], "give from 2 to 65 widths, the input's first")
    return layers


def _strategy(name: str, value: Any) -> Strategy:
    given = reading.fields(name, value, ("name", "stage", "tensor"))
    tensor = given["tensor"]
    return Strategy(
        reading.text(f"{name} name", given["name"]),
        whole(f"{name} stage", given["stage"], 0, 3),
        0 if tensor == "node" else whole(f"{name} tensor", tensor, 1, 1024),
    )
