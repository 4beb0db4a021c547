"""A layout handed in as plain data: read, and measured by the planner's ledger and closed form.

Models and clusters are dicts in lab plan; its text says what their entries are. They stand for the
planner's own: a dense model with tied tables and an MLP of width 4h, and cards whose memory may be
filled and whose FLOP/s are reached.
"""

from dataclasses import dataclass
from typing import Any, Final

from shardbook.errors import InputError
from shardbook.labs.values import Fault, plain, show
from shardbook.ledger.activations import RECOMPUTE
from shardbook.numbers.units import format_bytes, format_seconds
from shardbook.planner.layouts import Layout, refused
from shardbook.planner.memory import peak_memory, too_large
from shardbook.planner.presets import Card, Cluster, Model
from shardbook.planner.steptime import step_time

_DEGREES: Final = ("tensor", "pipeline", "data", "micro_batch")
_MOST: Final = 10**6


@dataclass(frozen=True, slots=True)
class Measured:
    """What a layout that can run takes: seconds a step, and bytes (B) of the fullest card."""

    seconds: float
    bytes: int


def model_of(model: dict[str, int]) -> Model:
    """The planner's model of a dict of the lab; ``batch`` is there in sequences."""
    hidden, heads = model["hidden"], model["heads"]
    return Model(
        "handed", model["layers"], hidden, heads, heads, 4 * hidden, model["vocabulary"],
        model["sequence"], model["batch"] * model["sequence"],
    )  # fmt: skip


def cluster_of(cluster: dict[str, Any]) -> Cluster:
    """The planner's cluster of a dict of the lab."""
    return Cluster(
        Card("handed", cluster["memory"], cluster["flops"], 0, 0, "lab plan"),
        cluster["nodes"],
        cluster["cards"],
        inside=cluster["inside"],
        inside_latency=cluster["inside_latency"],
        between=cluster["between"],
        between_latency=cluster["between_latency"],
        fraction=1.0,
    )


def read_layout(value: Any) -> Layout | Fault:
    """Return the layout that plain data stands for, or what is wrong with the data."""
    wanted = ("tensor", "pipeline", "data", "stage", "recompute", "micro_batch")
    if not isinstance(value, dict) or set(value) != set(wanted):
        return Fault("the layout", f"a dict with the entries {', '.join(wanted)}", show(value))
    for name in _DEGREES:
        if type(value[name]) is not int or not 1 <= value[name] <= _MOST:
            return Fault(f"the layout's {name}", "an int, at least 1", show(value[name]))
    if type(value["stage"]) is not int or not 0 <= value["stage"] <= 3:
        return Fault("the layout's stage", "0, 1, 2 or 3", show(value["stage"]))
    if value["recompute"] not in RECOMPUTE:
        return Fault("the layout's recompute", " or ".join(RECOMPUTE), show(value["recompute"]))
    return Layout(**value)


def set_up(model: dict[str, int], cluster: dict[str, Any], value: Any) -> Layout | Fault:
    """Return the layout that plain data stands for, if it can be set up at all.

    The planner lets first and last pipeline rank have a layer less; the lab does not.
    """
    layout = read_layout(value)
    if isinstance(layout, Fault):
        return layout
    reason = refused(model_of(model), cluster_of(cluster), layout)
    if not reason and model["layers"] % layout.pipeline:
        reason = "pipeline ranks do not divide the layers"
    return Fault("the layout", "one that can be set up", reason) if reason else layout


def run_layout(model: dict[str, int], cluster: dict[str, Any], value: Any) -> Measured | Fault:
    """Return what the layout that plain data stands for takes, or why it can't run."""
    layout = set_up(model, cluster, value)
    if isinstance(layout, Fault):
        return layout
    shape, cards = model_of(model), cluster_of(cluster)
    peak = peak_memory(shape, layout)
    if reason := too_large(cards, peak, 1.0):
        return Fault("the layout", "one that fits", f"{reason} of {format_bytes(peak.bytes)}")
    return Measured(step_time(shape, cards, layout).seconds, peak.bytes)


def too_slow(got: Measured, best: Measured, times: float) -> Fault | None:
    """Say whether a step takes more than ``times`` as long as the best one known."""
    if got.seconds <= best.seconds * times * (1 + 1e-9):
        return None
    wanted = f"at most {times:g} times the best one known"
    return Fault("the step", wanted, f"{got.seconds / best.seconds:.2f} times")


def measure(model: dict[str, int], cluster: dict[str, Any], layout: dict[str, Any]) -> None:
    """Print how long a step of ``layout`` takes and what the fullest card holds, or why it fails.

    An entry that a model or a cluster lacks raises `InputError`.
    """
    try:
        found = run_layout(model, cluster, plain(layout))
    except KeyError as error:
        raise InputError("entry", error.args[0], "give every entry that the text lists") from None
    if isinstance(found, Fault):
        print(found)
    else:
        room = format_bytes(cluster["memory"])
        print(f"{format_seconds(found.seconds)} a step; {format_bytes(found.bytes)} of {room}")
