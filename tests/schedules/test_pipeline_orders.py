"""Pipeline orders against PyTorch's, and their text against itself."""

import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.schedules.pipeline import (
    SCHEDULES,
    PipelineAction,
    format_order,
    make_order,
    overlapped,
    parse_action,
    parse_order,
    pipedream,
)

DATA = Path(__file__).parent / "data"
NAMES = {schedule.name: name for name, schedule in SCHEDULES.items()}
GOLDEN = [json.loads(path.read_text()) for path in sorted((DATA / "pipeline").glob("*.json"))]


def as_pytorch_means(golden):
    """Without idle slots and REDUCE_GRAD; the last rank of 1F1B renumbered from 0."""
    rows = [[a for a in row if a and "REDUCE" not in a] for row in golden["actions"]]
    if golden.get("torch_bug"):
        last = golden["P"] - 1
        rows[-1] = [f"{last}F{int(a.split('F')[1]) - 1}" if "F" in a else a for a in rows[-1]]
    return rows


@pytest.mark.parametrize("golden", GOLDEN, ids=lambda g: f"{g['schedule']}-{g['P']}-{g['m']}")
def test_actions_are_pytorchs(golden):
    order = make_order(NAMES[golden["schedule"]], golden["P"], golden["m"], golden["v"])
    assert [[str(action) for action in row] for row in order] == as_pytorch_means(golden)


@pytest.mark.parametrize("schedule", list(NAMES))
def test_actions_or_refusal_are_pytorchs_for_many_sizes(schedule):
    digests = json.loads((DATA / "pipeline_digests.json").read_text())[schedule]
    different = []
    for key, digest in digests.items():
        try:
            text = format_order(make_order(NAMES[schedule], *map(int, key.split(","))))
        except InputError as error:
            assert error.argument == "micro-batches"
            ours = "refused"
        else:
            ours = hashlib.sha256(text.encode()).hexdigest()[:16]
        if ours != digest:
            different.append(key)
    assert not different
    assert len(digests) >= 160


indices = st.integers(0, 10**9 - 1)
single = st.one_of(
    st.builds(
        PipelineAction,
        indices,
        st.sampled_from(["F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B"]),
        indices,
        parts=st.just(()),
    ),
    st.builds(
        PipelineAction,
        indices,
        st.sampled_from(["UNSHARD", "RESHARD", "REDUCE_GRAD"]),
        micro_batch=st.none(),
        parts=st.just(()),
    ),
)
pairs = st.builds(
    lambda s, t, m, k: overlapped(PipelineAction(s, "F", m), PipelineAction(t, "B", k)),
    *[indices] * 4,
)


@given(st.one_of(single, pairs))
@settings(derandomize=True, deadline=None)
def test_text_and_action_are_inverses(action):
    assert parse_action(str(action)) == action


@given(st.sampled_from(list(SCHEDULES)), st.integers(1, 5), st.integers(1, 4))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_a_schedules_text_and_order_are_inverses(name, ranks, rounds):
    order = make_order(name, ranks, 2 * ranks * rounds)
    assert parse_order(format_order(order)) == order


def test_pytorchs_idle_slots_are_skipped():
    assert parse_order("0F0,,0B0\n - null 1F0 . 1B0\n") == parse_order("0F0 0B0\n1F0 1B0")


@pytest.mark.parametrize(
    "text",
    ["", "F0", "0F", "0X1", "02F0", "-1F0", "0F0 ", "(0F0)OVERLAP_F_B", "(0B0;1F0)OVERLAP_F_B",
     "(0F0;1B0)", "0UNSHARD3", "٣F0", "(0F0;(1F0;2B0)OVERLAP_F_B)OVERLAP_F_B"],
)  # fmt: skip
def test_other_text_is_refused(text):
    with pytest.raises(InputError) as caught:
        parse_action(text)
    assert caught.value.argument == "action"


@pytest.mark.parametrize(
    ("arguments", "argument"),
    [
        (("gpipe", 4, 8, 2), "chunks"),
        (("1f1b", 4, 8, 2), "chunks"),
        (("zbv", 4, 8, 1), "chunks"),
        (("dualpipev", 4, 8, 3), "chunks"),
        (("1f1b", 4, 3), "micro-batches"),
        (("dualpipev", 4, 7), "micro-batches"),
        (("interleaved-1f1b", 4, 9, 2), "micro-batches"),
        (("interleaved-zero-bubble", 2, 5, 3), "micro-batches"),
        (("gpipe", 0, 8), "stages"),
        (("gpipe", 4, 0), "micro-batches"),
        (("gpipe", 4096, 10**6), "micro-batches"),
        (("zbv", 1000, 4), "stages"),
        (("GPipe", 4, 8), "schedule"),
    ],
)
def test_impossible_schedules_are_refused_by_name(arguments, argument):
    with pytest.raises(InputError) as caught:
        make_order(*arguments)
    assert caught.value.argument == argument


@given(st.integers(1, 8), st.integers(0, 24))
@settings(derandomize=True, deadline=None)
def test_pipedream_stashes_a_version_for_each_stage_behind(ranks, more):
    """(S57)"""
    result = pipedream(ranks, 2 * ranks + more)
    assert result.stashed == tuple(range(ranks, 0, -1))
    for rank in range(ranks):
        behind = ranks - 1 - rank
        assert result.staleness[rank][behind:] == (behind,) * (2 * ranks + more - behind)
        assert result.versions[rank][: behind + 1] == (0,) * (behind + 1)
