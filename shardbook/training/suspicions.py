"""Suspicions put to the test: the metric that shows a fault, the experiment that would refute it.

Each case runs healthy, with its fault, and with an impostor: another fault that the metric shows
just as well. The experiment's outcome must be what the suspicion predicts when the fault is
there, and another one when the impostor is; otherwise it could not refute anything.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from shardbook.errors import InputError, whole
from shardbook.training.checkpoint import snapshot
from shardbook.training.saving import copy_on_device, gather_on_one_rank
from shardbook.training.settings import Settings
from shardbook.training.trainer import RankReport, Trainer


@dataclass(frozen=True, slots=True)
class Metric:
    """A number of the run, s or B by its name: lowest and highest in health, and with the fault."""

    name: str
    low: float
    high: float
    faulty: float

    @property
    def moved(self) -> str:
        """Where the fault took it, seen from the healthy runs: up, down or no."""
        if self.low <= self.faulty <= self.high:
            return "no"
        return "up" if self.faulty > self.high else "down"


@dataclass(frozen=True, slots=True)
class Trial:
    """The experiment, made on a run of which we know what is wrong.

    ``metric`` is what roused the suspicion; ``predicted`` what the suspicion says that the
    experiment gives, ``seen`` what it gave.
    """

    wrong: str
    metric: float
    predicted: str
    seen: str
    refuted: bool


@dataclass(frozen=True, slots=True)
class Case:
    """A suspicion: the metric that shows it above ``threshold``, all metrics, the experiment."""

    suspicion: str
    metric: str
    threshold: float
    threshold_is: str
    metrics: tuple[Metric, ...]
    experiment: str
    trials: tuple[Trial, ...]


def whole_model_gather(settings: Settings) -> Case:
    """Return the case of all units gathered before the first is used, in ZeRO-3 (S70).

    The impostor gathers unit by unit and frees none after its forward. Raises InputError.
    """
    if not settings.kind.shards_weights:
        raise InputError("strategy", settings.strategy, "give zero3, which gathers weights")
    _several(settings)
    if len(settings.units) < 2:
        raise InputError("layers", settings.layers, "give three sizes at least: two units")
    sizes = [unit.padded * settings.dtype.itemsize for unit in settings.units]
    healthy, faulty, impostor = (
        _step(replace(settings, options=replace(settings.options, **changes)))
        for changes in ({}, {"gather_whole_model": True}, {"reshard_after_forward": False})
    )
    trials = []
    for wrong, report in (
        ("all units are gathered at once", faulty),
        ("units are gathered one by one and kept", impostor),
    ):
        seen = gathered_at_first_forward(report)
        trials.append(
            Trial(
                wrong, most_gathered(report), f"{sum(sizes):,} B", f"{seen:,} B", seen < sum(sizes)
            )
        )
    named: dict[str, Callable[[RankReport], float]] = {
        "gathered_bytes": most_gathered,
        "peak_bytes": lambda report: report.peak_bytes,
        "after_backward_bytes": lambda report: report.bytes_after_backward or 0,
        "sent_bytes": lambda report: report.sent_bytes,
    }
    return Case(
        "the whole model is gathered at once",
        "gathered_bytes",
        max(sizes),
        "the largest unit",
        tuple(Metric(n, of(healthy), of(healthy), of(faulty)) for n, of in named.items()),
        "read the gathered bytes when the first unit's forward begins",
        tuple(trials),
    )


def save_peak(settings: Settings, rank: int = 0) -> Case:
    """Return the case of a save that collects the whole state on one rank's device (S70).

    The impostor copies each rank's own part on its device before writing it. Raises InputError.
    """
    _several(settings)
    whole("rank", rank, 0, settings.ranks - 1)
    trainer = Trainer(settings)
    step = trainer.step().ranks[rank]
    device = trainer.ranks[rank].device
    device.begin()
    snapshot(trainer)
    by_rank = device.peak
    gathered, copied = gather_on_one_rank(trainer, rank)[1], copy_on_device(trainer, rank)
    of_step = {
        "peak_bytes": step.peak_bytes,
        "after_backward_bytes": step.bytes_after_backward or 0,
        "sent_bytes": step.sent_bytes,
    }
    return Case(
        "saving is what runs out of memory",
        "save_bytes",
        step.peak_bytes,
        "the peak of the step",
        (
            Metric("save_bytes", by_rank, by_rank, gathered),
            *(Metric(name, size, size, size) for name, size in of_step.items()),
        ),
        "let each rank save its own part",
        tuple(
            Trial(
                wrong,
                before,
                f"at most {step.peak_bytes:,} B",
                f"{after:,} B",
                after > step.peak_bytes,
            )
            for wrong, before, after in (
                ("one rank gathers the state", gathered, by_rank),
                ("each rank copies its part first", copied, copied),
            )
        ),
    )


def most_gathered(report: RankReport) -> int:
    """Return the most bytes (B) of gathered weights that a rank held at once."""
    return max(now.get("gathered_weights", 0) for _, now in report.history())


def gathered_at_first_forward(report: RankReport) -> int:
    """Return the bytes (B) of gathered weights when the first unit's forward begins."""
    held = 0
    for entry, now in report.history():
        if entry.moment.startswith("forward"):
            break
        held = now.get("gathered_weights", 0)
    return held


def highest(healthy: Sequence[float]) -> float:
    """Return the threshold that healthy runs set: their highest value.

    If runs differ by chance alone, one more healthy run is the highest of all k + 1 with
    probability 1/(k + 1): that is the rate of false alarms.
    """
    return max(healthy)


def _several(settings: Settings) -> None:
    if settings.ranks < 2:
        raise InputError("ranks", settings.ranks, "give at least 2")


def _step(settings: Settings) -> RankReport:
    return Trainer(settings).step().ranks[0]
