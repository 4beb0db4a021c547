"""FSDP2's memory to the byte, against PyTorch's FSDPMemTracker."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.fsdp_memory import (
    LLAMA_1B,
    TINY,
    Llama,
    elements,
    fsdp2_memory,
    gathered_elements,
    sharded_elements,
)

PATHS = sorted((Path(__file__).parent / "data" / "fsdp2_memory").glob("*.json"))
MODELS = {"tiny": TINY, "1B": LLAMA_1B}


def predicted(measured):
    return fsdp2_memory(
        MODELS[measured["model"]],
        measured["N"],
        activations=measured["snap"]["after_forward"]["Activation"],
        reshard=measured["reshard"],
        mixed=measured["mp"] == "bf16",
    )


def same(ours, theirs):
    return ours | {"Total": sum(ours.values())} == theirs


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_states_and_gradients_are_pytorchs_to_the_byte(path):
    measured = json.loads(path.read_text())
    snap, ours = measured["snap"], predicted(measured)
    assert same(ours.between_steps, snap["steady"])
    assert same(ours.after_forward, snap["after_forward"])
    assert same(ours.after_backward, snap["after_backward"])


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
def test_the_peak_is_pytorchs_where_the_closed_form_holds(path):
    measured = json.loads(path.read_text())
    peak, ours = measured["snap"]["peak_fwd_bwd"], predicted(measured).peak
    if "rootsplit" in path.stem or (measured["model"] == "tiny" and measured["ac"]):
        assert not same(ours, peak)
    else:
        assert same(ours, peak)


#: the model of data/fsdp2_uneven.json
SMALL = Llama(width=64, layers=3, heads=4, kv_heads=2, ffn=100, vocabulary=101)
UNEVEN = json.loads((Path(__file__).parent / "data" / "fsdp2_uneven.json").read_text())


@pytest.mark.parametrize("case", UNEVEN, ids=lambda c: f"N{c['N']}-rank{c['rank']}-{c['mp']}")
def test_rows_are_padded_as_pytorch_does_and_one_rank_gathers_nothing(case):
    snap = case["snap"]
    ours = fsdp2_memory(
        SMALL,
        case["N"],
        rank=case["rank"],
        activations=snap["after_forward"]["Activation"],
        sequence=case["seq"],
        reshard=case["reshard"],
        mixed=case["mp"] == "bf16",
    )
    loss = {"Activation": 4}
    assert same(ours.between_steps | loss, snap["steady_after_step"])
    assert same(ours.after_forward, snap["after_forward"])
    assert same(ours.after_backward, snap["after_backward"])
    if case["reshard"]:
        assert same(ours.peak, snap["peak_fwd_bwd"])


def test_sizes_of_the_models_are_pytorchs():
    for path in PATHS:
        measured = json.loads(path.read_text())
        model = MODELS[measured["model"]]
        assert model.parameters == measured["psi"]
        assert elements(model.layer) == measured["psi_layer"]


shapes = st.lists(
    st.lists(st.integers(1, 40), min_size=1, max_size=3).map(tuple), min_size=1, max_size=4
).map(tuple)


@given(shapes, st.integers(1, 17))
@settings(derandomize=True, deadline=None)
def test_all_ranks_together_store_every_element_once(shapes, ranks):
    stored = [sharded_elements(shapes, ranks, rank) for rank in range(ranks)]
    assert sum(stored) == elements(shapes)
    assert stored == sorted(stored, reverse=True)
    assert stored[0] * ranks == gathered_elements(shapes, ranks)


def test_ranks_beyond_the_rows_store_nothing():
    assert [sharded_elements(((5, 3),), 4, rank) for rank in range(4)] == [6, 6, 3, 0]


def test_impossible_models_are_refused():
    with pytest.raises(InputError, match="heads"):
        Llama(width=10, layers=1, heads=3, kv_heads=1, ffn=4, vocabulary=7)
    with pytest.raises(InputError, match="ranks"):
        fsdp2_memory(TINY, 0, activations=0)
    with pytest.raises(InputError, match="rank"):
        fsdp2_memory(TINY, 2, activations=0, rank=2)
