"""Reads an experiment's configuration: every field checked, errors name field, value and choices."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from shardbook.errors import InputError, one_of, real, whole
from shardbook.ledger.activations import RECOMPUTE
from shardbook.numbers.units import parse_bytes, parse_rate
from shardbook.planner.budget import Strategy
from shardbook.planner.presets import Cluster, Model, cluster_named, model_named


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


_FIELDS: Final = (
    "model", "card", "cards", "cards_per_node", "between", "strategies", "micro_batch",
    "recompute", "spread", "ring",
)  # fmt: skip


def read_systems(path: Path) -> Systems:
    """Read a configuration of the budget experiment.

    Raises:
        InputError: the file can't be read, a field is missing, unknown or not allowed.
    """
    given = _fields("config", _load(path), _FIELDS)
    ring = _fields("ring", given["ring"], ("ranks", "messages"))
    card = _text("card", given["card"])
    for key in ("nodes", "cards", "between"):
        if f"{key}=" in card.replace("_latency", "").replace(" ", ""):
            raise InputError("card", card, f"leave out {key}=: the experiment varies it")
    return Systems(
        model_named(_text("model", given["model"])),
        cluster_named(card),
        _list("cards", given["cards"], lambda name, value: whole(name, value, 1, 10**5)),
        _list("cards_per_node", given["cards_per_node"], lambda name, v: whole(name, v, 1, 1024)),
        _list("between", given["between"], _rate),
        _list("strategies", given["strategies"], _strategy),
        whole("micro_batch", given["micro_batch"], 1, 1024),
        one_of("recompute", given["recompute"], RECOMPUTE),
        real("spread", given["spread"], 0, 1),
        whole("ring ranks", ring["ranks"], 2, 64),
        _list("ring messages", ring["messages"], _message),
    )


def _load(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError("--config", str(path), f"can't be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError("--config", str(path), f"is not JSON: {error}") from None


def _fields(name: str, given: Any, known: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(given, dict):
        raise InputError(name, given, f"give an object with {', '.join(known)}")
    for key in given:
        one_of(f"{name} field", key, known)
    for key in known:
        if key not in given:
            raise InputError(f"{name} field", key, "is missing: give it")
    return given


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(name, value, "give text")
    return value


def _list(name: str, given: Any, read: Callable[[str, Any], Any]) -> tuple[Any, ...]:
    if not isinstance(given, list) or not given:
        raise InputError(name, given, "give a list of at least one")
    values = tuple(read(name, value) for value in given)
    if len(set(values)) < len(values):
        raise InputError(name, given, "name each once")
    return values


def _rate(name: str, value: Any) -> float:
    return real(name, parse_rate(name, _text(name, value)), 1, 1e18, "B/s")


def _message(name: str, value: Any) -> int:
    return whole(name, parse_bytes(name, _text(name, value)), 1, 10**15)


def _strategy(name: str, value: Any) -> Strategy:
    given = _fields(name, value, ("name", "stage", "tensor"))
    tensor = given["tensor"]
    return Strategy(
        _text(f"{name} name", given["name"]),
        whole(f"{name} stage", given["stage"], 0, 3),
        0 if tensor == "node" else whole(f"{name} tensor", tensor, 1, 1024),
    )
