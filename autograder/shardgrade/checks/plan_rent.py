"""Hidden check of plan.6: the cheapest rent that fits and ends in time. No engine function does it."""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from shardgrade.checks.judging import Case, HiddenCheck, Probe

#: divided by every number of cards on offer
_ANY: Final = 480
_PLENTY: Final = 10**15
_FOREVER: Final = 10**7


def _job(rng: Random, **given: float) -> dict[str, Any]:
    parameters = rng.randint(2, 30) * 10**9
    job = {
        "steps": rng.randint(20_000, 90_000),
        "batch": _ANY,
        "flop": 6.0 * 2048 * parameters,
        "states": 16 * parameters,
        "kept": rng.randint(4, 12) * 10**9,
        "moved": 6 * parameters,
    }
    return job | given


def _offer(rng: Random, **given: float) -> dict[str, Any]:
    offer = {
        "cards": rng.choice((4, 8)),
        "nodes": rng.randint(3, 6),
        "memory": _PLENTY,
        "flops": rng.choice((60e12, 150e12, 300e12, 450e12)),
        "bandwidth": rng.choice((10e9, 25e9, 50e9)),
        "price": rng.randint(2, 16) / 4,
    }
    return offer | given


def _small_cards(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        job = _job(rng)
        most = job["states"] / 8 + job["kept"]
        offers = [_offer(rng, memory=int(most * rng.uniform(0.3, 1.1))) for _ in range(4)]
        yield job, offers, _FOREVER


def _hours(job: dict[str, Any], offer: dict[str, Any], nodes: int) -> float:
    each = job["batch"] / (nodes * offer["cards"]) * job["flop"] / offer["flops"]
    return float(job["steps"] * (each + (nodes > 1) * job["moved"] / offer["bandwidth"]) / 3600)


def _short_of_time(rng: Random) -> Iterable[Case]:
    for _ in range(6):
        job, offers = _job(rng), [_offer(rng) for _ in range(4)]
        most = sorted(_hours(job, offer, offer["nodes"]) for offer in offers)
        yield job, offers, int(most[1] * 1.2)


def _short_jobs(rng: Random) -> Iterable[Case]:
    for _ in range(8):
        yield _job(rng, steps=rng.randint(40, 200)), [_offer(rng) for _ in range(3)], _FOREVER


def _odd_batches(rng: Random) -> Iterable[Case]:
    for batch in (256, 448, 512, 704, 832, 1024):
        job, offers = _job(rng, batch=batch), [_offer(rng, nodes=6) for _ in range(3)]
        yield job, offers, int(min(_hours(job, offer, 3) for offer in offers) * 1.1)


def _none_will_do(rng: Random) -> Iterable[Case]:
    for _ in range(3):
        job, offers = _job(rng), [_offer(rng) for _ in range(3)]
        yield job, offers, int(min(_hours(job, offer, offer["nodes"]) for offer in offers) / 2)
        yield job | {"kept": 2 * _PLENTY}, offers, _FOREVER
        yield job, offers, _FOREVER
        yield job, [], _FOREVER


RENT: Final = HiddenCheck(
    blocked=(),
    probes=(
        Probe("enough memory", _small_cards),
        Probe("in time", _short_of_time),
        Probe("whole hours", _short_jobs),
        Probe("the batch divides", _odd_batches),
        Probe("no offer", _none_will_do),
    ),
)
