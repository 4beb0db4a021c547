"""The training loop: steps of all ranks, reports of each step, and the state between steps."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardbook.collectives.averaging import token_mean
from shardbook.errors import InputError, whole
from shardbook.training import watch
from shardbook.training.cluster import Sent, run_programs
from shardbook.training.data import Data, SeededData
from shardbook.training.device import Entry, Name
from shardbook.training.pace import Pace, Seconds
from shardbook.training.programs import Action, Program
from shardbook.training.rank import NextBatch, Rank
from shardbook.training.rendezvous import Call
from shardbook.training.settings import Settings
from shardbook.training.state import State, categories, gather, initialise, install

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class RankReport:
    """One rank's step: bytes (B) of the device ledger, bytes it sent, rounds it took part in."""

    rank: int
    bytes_after_backward: int | None  #: None if the program has no update
    peak_bytes: int
    peak_at: str
    alive_at_peak: Mapping[Name, int]
    sent_bytes: int
    rounds: int
    seconds: Seconds  #: all 0 unless the trainer has a pace
    held_at_start: Mapping[Name, int] = field(repr=False)  #: with what the total leaves out
    log: Sequence[Entry] = field(repr=False)

    def history(self) -> Iterator[tuple[Entry, dict[str, int]]]:
        """Give each line of the log with the bytes (B) of every category after it."""
        now: dict[str, int] = {}
        for name, size in self.held_at_start.items():
            now[name.category] = now.get(name.category, 0) + size
        for entry in self.log:
            now[entry.name.category] = now.get(entry.name.category, 0) + entry.change
            yield entry, {category: size for category, size in now.items() if size}


@dataclass(frozen=True, slots=True)
class StepReport:
    """One step of all ranks; ``loss`` is the mean over all tokens of all ranks, before it."""

    step: int
    loss: float
    skipped: bool  #: by loss scaling, because a gradient overflowed
    ranks: tuple[RankReport, ...]
    calls: Mapping[int, Sequence[Call]] = field(repr=False)
    sent: Sequence[Sent] = field(repr=False)
    observed: watch.Observed | None = field(default=None, repr=False)


def _same_program(step: int, rank: int, program: Program) -> Program:
    return program


def _own_rows(step: int, rank: int) -> int:
    return rank


def _same_call(step: int, rank: int, action: Action, call: Call) -> Call | None:
    return call


def _nothing(step: int, ranks: Sequence[Rank]) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where a fault, or a lab's own program, takes hold of a run; each is asked in every step."""

    #: the program that a rank executes, given the strategy's
    program: Callable[[int, int, Program], Program] = _same_program
    #: the rank whose rows a rank reads
    reads: Callable[[int, int], int] = _own_rows
    #: the call that a rank makes for an action, given the one it should make; None: it makes none
    call: Callable[[int, int, Action, Call], Call | None] = _same_call
    #: called after the step
    after: Callable[[int, Sequence[Rank]], None] = _nothing


class Trainer:
    """A training on simulated devices, one `step` at a time (S16).

    Starts from the seed's values, or from ``start``: then at its step, data position and loss
    scale. With a ``pace`` each step is timed. ``watched`` runs also take what the checks of
    `shardbook.training.checks` look at.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        data: Data | None = None,
        start: State | None = None,
        hooks: Hooks | None = None,
        pace: Pace | None = None,
        watched: bool = False,
        deferred: bool = True,
    ) -> None:
        self.settings = settings
        self.hooks = hooks or Hooks()
        self.data = data or SeededData(settings.seed, settings.layers[0], settings.layers[-1])
        self.ranks = [Rank(rank, settings) for rank in range(settings.ranks)]
        self.steps_done = self.steps_skipped = 0
        self.loss_scale = settings.loss_scale
        self._program = settings.program
        self._pace = pace
        self._watched = watched
        for rank in self.ranks:
            rank.watched = watched
        if start is None:
            initialise(self.ranks, deferred=deferred)
        else:
            install(self.ranks, start)
            self.data.restore(dict(start.data))
            self.steps_done, self.steps_skipped = start.step, start.skipped
            self.loss_scale = start.loss_scale

    def step(self) -> StepReport:
        """Run one step.

        Raises:
            HangError: ranks wait for each other (`shardbook.training.rendezvous`).
            InputError: a program needs an array that its rank does not hold.
        """
        step = self.steps_done
        programs = {r.rank: self._checked(step, r.rank) for r in self.ranks}
        batches = self._batches()
        before = watch.before(self.ranks, batches) if self._watched else None
        for rank in self.ranks:
            rank.device.moment = "start"
            rank.device.begin()
            source = self._source(batches, self.hooks.reads(step, rank.rank))
            scale = self.loss_scale.scale if self.loss_scale else 1.0
            rank.begin(step - self.steps_skipped, scale, source)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is a result here
            alter = partial(self.hooks.call, step)
            traffic = run_programs(self.ranks, programs, alter, self._pace)
        skipped = self.ranks[0].skip
        if self.loss_scale:
            self.loss_scale = self.loss_scale.after(skipped)
        self.steps_done += 1
        self.steps_skipped += skipped
        loss = token_mean([r.loss_sum for r in self.ranks], [r.tokens for r in self.ranks])
        observed = watch.after(self.ranks, before, step, loss) if before else None
        self.hooks.after(step, self.ranks)
        return StepReport(
            step,
            loss,
            skipped,
            tuple(
                RankReport(
                    r.rank,
                    r.bytes_after_backward,
                    r.device.peak,
                    r.device.peak_at,
                    r.device.alive_at_peak,
                    traffic.ranks[r.rank].sent_bytes,
                    traffic.ranks[r.rank].rounds,
                    traffic.ranks[r.rank].seconds,
                    r.device.held_at_start,
                    r.device.log,
                )
                for r in self.ranks
            ),
            {rank: one.calls for rank, one in traffic.ranks.items()},
            traffic.sent,
            observed,
        )

    def run(self, steps: int) -> list[StepReport]:
        """Run ``steps`` (1 to 100,000) steps and return their reports."""
        return [self.step() for _ in range(whole("steps", steps, 1, 100_000))]

    def state(self) -> State:
        """Return the whole state after the last step."""
        return State(
            self.steps_done,
            self.settings.layers,
            {category: gather(self.ranks, category) for category in categories(self.settings)},
            self.data.state(),
            self.loss_scale,
            self.steps_skipped,
        )

    def weights(self, rank: int = 0) -> Array:
        """Return the full working weights as ``rank`` (or its shard group) has them, unpadded."""
        return gather(self.ranks, "weights", rank)

    def weights_sha256(self) -> str:
        """Return the SHA-256 of the full working weights of rank 0, in layer order."""
        return hashlib.sha256(self.weights().tobytes()).hexdigest()

    def _checked(self, step: int, rank: int) -> Program:
        program = self.hooks.program(step, rank, self._program)
        for action in program:
            if action.unit is not None:
                whole("unit", action.unit, 0, len(self.settings.units) - 1)
        return program

    def _batches(self) -> list[list[tuple[Array, Array]]]:
        """Draw the step's joint batch: [micro-batch][rank] → inputs and targets."""
        s = self.settings
        rows = s.ranks * s.samples
        micro_batches = []
        for _ in range(s.options.micro_batches):
            inputs, targets = self.data.draw(rows)
            cuts = range(s.samples, rows, s.samples)
            pieces = zip(np.split(inputs, cuts), np.split(targets, cuts), strict=True)
            micro_batches.append(list(pieces))
        return micro_batches

    @staticmethod
    def _source(batches: list[list[tuple[Array, Array]]], reads: int) -> NextBatch:
        coming = iter([micro_batch[reads] for micro_batch in batches])

        def next_batch() -> tuple[Array, Array]:
            batch = next(coming, None)
            if batch is None:
                raise InputError("action", "load", "the step's micro-batches are used up")
            return batch

        return next_batch
