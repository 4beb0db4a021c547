"""The objects of one step against the log of a step that really runs."""

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.ledger.lifetimes import ACROSS_LAYERS, ACROSS_STEPS, one_step, total
from shardbook.training.device import Device, Name
from shardbook.training.optimizers import SGD, Adam, Optimizer
from shardbook.training.settings import LAYERS, Settings
from shardbook.training.trainer import Trainer

#: what passes between the layers changes its name in the run, not its memory
PASSING = {"activations", "outputs", "output_gradients", "temporaries", "targets"}


def moment_of(text: str) -> str:
    """The run's moment as ours: on one device a reduction belongs to the backward before it."""
    return text.replace(", unit", "").replace("all-reduce", "backward")


def by_category(sizes: list[tuple[str, int]]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for category, size in sizes:
        name = "passing" if category in PASSING else category
        counted[name.replace("local_gradients", "gradients")] += size
    return +counted


def run(layers: tuple[int, ...], rows: int, optimizer: Optimizer) -> Trainer:
    return Trainer(
        Settings(strategy="dp", ranks=1, layers=layers, samples=rows, optimizer=optimizer)
    )


def assert_bytes_agree(layers: tuple[int, ...], rows: int, optimizer: Optimizer) -> None:
    step = one_step(layers, rows, optimizer.states)
    trainer = run(layers, rows, optimizer)
    held = [(name.category, size) for name, size in trainer.ranks[0].device.alive().items()]
    log = trainer.step().ranks[0].log
    for number, moment in enumerate(step.moments):
        held += [(e.name.category, e.change) for e in log if moment_of(e.moment) == moment]
        ours = [(thing.category, thing.bytes) for thing in step.after(number)]
        assert by_category(held) == by_category(ours), moment
    assert {moment_of(entry.moment) for entry in log} == set(step.moments[1:])


@settings(derandomize=True, deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=7).map(tuple),
    st.integers(1, 40),
    st.sampled_from([Adam(), SGD(), SGD(momentum=0.9)]),
)
def test_after_each_moment_the_bytes_are_the_runs(
    layers: tuple[int, ...], rows: int, optimizer: Optimizer
) -> None:
    assert_bytes_agree(layers, rows, optimizer)


def test_the_lectures_network_has_16_bytes_a_parameter_and_its_peak_in_an_update() -> None:
    step = one_step(LAYERS, 16)
    at = step.moments.index
    assert total(step.after(0)) == 14 * 32_656
    assert total(step.after(at("backward 0"))) == 522_496 == 16 * 32_656
    assert step.moments[step.peak] == "update 1"
    assert total(step.during(step.peak)) == 559_744 == 522_496 + 4 * 97 * 96
    assert total(step.after(at("clear"))) == total(step.after(0))


def test_objects_are_used_when_the_run_reaches_for_them(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer = run(LAYERS, 4, Adam())
    reached = set()
    get = Device.get

    def noted(device: Device, name: Name) -> object:
        if "all-reduce" not in device.moment and device.moment != "clear":
            reached.add((name.category.replace("local_", ""), name.unit, moment_of(device.moment)))
        return get(device, name)

    monkeypatch.setattr(Device, "get", noted)
    log = trainer.step().ranks[0].log
    reached |= {
        (e.name.category.replace("local_", ""), e.name.unit, moment_of(e.moment))
        for e in log
        if "all-reduce" not in e.moment and e.moment != "clear"
    }
    step = one_step(LAYERS, 4)
    ours = {
        (thing.category, thing.layer, step.moments[moment])
        for thing in step.things
        for moment in thing.uses
    }
    # The run hands the first layer's weights to its backward, which does not look at them.
    reached.discard(("weights", 0, "backward 0"))
    assert {u for u in ours if u[0] not in PASSING} == {u for u in reached if u[0] not in PASSING}
    for layer in range(5):
        assert ("activations", layer, f"forward {layer}") in ours & reached
        assert ("activations", layer, f"backward {layer}") in ours & reached


@pytest.mark.parametrize("layers", [(32, 16), LAYERS, (784, 512, 256, 10)])
def test_only_states_last_into_the_next_step(layers: tuple[int, ...]) -> None:
    step = one_step(layers, 16)
    scopes = {thing.category: thing.scope for thing in step.things}
    assert {c for c, scope in scopes.items() if scope == ACROSS_STEPS} == {
        "weights", "master_weights", "momentum", "variance",
    }  # fmt: skip
    assert {c for c, scope in scopes.items() if scope == ACROSS_LAYERS} == {
        "activations", "targets", "gradients",
    }  # fmt: skip


@pytest.mark.parametrize("layers", [(), (3,), (3, 0), (3, -1), (3, 1.5), (2,) * 66])
def test_a_network_that_is_none_is_refused(layers: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="layers"):
        one_step(layers, 16)


def test_a_batch_without_rows_is_refused() -> None:
    with pytest.raises(InputError, match="rows"):
        one_step(LAYERS, 0)
