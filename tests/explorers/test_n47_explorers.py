"""The explorers of N47: their numbers against sums on paper and the lectures' figures."""

import re
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.explorers.registry import get
from shardbook.schedules.fsdp import Policy, equal_units, fsdp_run
from shardbook.schedules.timeline import spans

UNITS = (3168, 9312, 9312, 9312, 1552)


@pytest.mark.parametrize(
    ("state", "seconds", "buffers"),
    [
        ({"overlap": "off"}, "40.5", 7),
        ({}, "36", 7),
        ({"backward_prefetch": "1"}, "27", 7),
        ({"backward_prefetch": "1", "limit": "2"}, "27", 2),
        ({"backward_prefetch": "1", "regather_last": "on"}, "27", 8),
        ({"backward_prefetch": "1", "units": "40", "limit": "2"}, "243", 2),
        ({"backward_prefetch": "1", "units": "40"}, "243", 79),
    ],
)
def test_the_timelines_finding_is_the_lectures(
    state: dict[str, str], seconds: str, buffers: int
) -> None:
    """(S29, S31)"""
    sentence = get("fsdp-timeline").view(state).sentence
    assert f"take {seconds} s:" in sentence
    assert f"at most {buffers} gathered" in sentence


@given(
    st.integers(1, 40),
    st.sampled_from(["0.5", "1", "1.5"]),
    st.sampled_from(["0.5", "1", "1.5"]),
    st.sampled_from(["serial", "overlap", "prefetch"]),
)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_the_timeline_follows_the_three_closed_forms(
    count: int, gather: str, reduce: str, policy: str
) -> None:
    state = {
        "units": str(count),
        "all_gather": gather,
        "reduce_scatter": reduce,
        "overlap": "off" if policy == "serial" else "on",
        "backward_prefetch": "1" if policy == "prefetch" else "0",
    }
    a, r = float(gather), float(reduce)
    waits = {
        "serial": (2 * count - 1) * a + count * r,
        "overlap": count * (a + r),
        "prefetch": a + r,
    }[policy]
    sentence = get("fsdp-timeline").view(state).sentence
    assert f"take{'s' if count == 1 else ''} {6 * count + waits:.4g} s:" in sentence
    assert f"and {waits:.4g} s in which nothing computes" in sentence


def test_the_limiter_delays_the_third_and_fourth_gather() -> None:
    limited = get("fsdp-timeline").view({"backward_prefetch": "1", "limit": "2"}).table.rows
    free = get("fsdp-timeline").view({"backward_prefetch": "1"}).table.rows
    assert [row[1].split()[0] for row in limited] == ["0", "1.5", "3.5", "5.5"]
    assert [row[1].split()[0] for row in free] == ["0", "1.5", "3", "4.5"]
    assert [row[3] for row in free][3] == "kept"


def test_a_slow_host_makes_a_tight_limiter_cost() -> None:
    def seconds(limit: str) -> float:
        state = {"backward_prefetch": "1", "issue": "0.5", "limit": limit}
        found = re.search(r"take ([\d.]+) s:", get("fsdp-timeline").view(state).sentence)
        assert found
        return float(found[1])

    assert seconds("2") > seconds("3") == seconds("none")


def test_the_curve_is_as_high_as_the_finding_says() -> None:
    view = get("fsdp-timeline").view({"backward_prefetch": "1", "limit": "3"})
    assert "at most 3 gathered" in view.sentence
    polygon = re.search(r'points="([^"]+)"', view.figure)
    assert polygon
    heights = {point.split(",")[1] for point in polygon[1].split()}
    foot = max(map(float, heights))
    assert {round((foot - float(height)) / 96, 2) for height in heights} == {0, 0.33, 0.67, 1}


def test_blocks_lie_where_the_run_has_them() -> None:
    policy = Policy(backward_prefetch=1, limit=2)
    done = spans(fsdp_run(equal_units(4, 2, 4, 1.5, 1.5, 1), policy))
    scale = 506 / (40.5 + 4)
    rows = {"compute": 46, "communication": 88, "all-reduce": 130}
    wanted = [
        (rows[span.stream], 126 + span.start * scale, (span.end - span.start) * scale)
        for span in done
    ]
    figure = (
        get("fsdp-timeline")
        .view({"backward_prefetch": "1", "limit": "2", "all_reduce": "1"})
        .figure
    )
    paths = [path for path in re.findall("<path[^>]+>", figure) if 'dasharray="4 4"' not in path]
    drawn = [
        (int(y), float(x), float(wide))
        for x, y, wide in re.findall(r"M([\d.]+) (\d+)h([\d.]+)v34h", "".join(paths))
    ]
    assert len(drawn) == len(wanted)
    for ours, theirs in zip(sorted(drawn), sorted(wanted), strict=True):
        assert ours == pytest.approx(theirs, abs=0.011)


def test_forward_prefetch_gathers_units_before_the_first_forward() -> None:
    view = get("fsdp-timeline").view({"forward_prefetch": "2", "limit": "1"})
    assert "at most 3 gathered" in view.sentence, "two units ahead need room for three"
    view = get("fsdp-timeline").view({"backward_prefetch": "2", "limit": "1"})
    assert view.table.rows[1][1] == "3.5 to 5", "gathered after the forward of unit 0"


@pytest.mark.parametrize(
    ("state", "end", "gaps", "issued"),
    [
        ({"backward_prefetch": "1", "limit": "2"}, 27, 1.5, [0, 3.5, 5.5, 7.5, 13.5, 17.5]),
        ({}, 36, 1.5 + 3 * 3, [0]),
        ({"overlap": "off", "issue": "0.5"}, 41, 0.5, [0.5 * at for at in range(1, 20)]),
    ],
)
def test_the_picture_frames_waiting_and_marks_what_the_host_issues(
    state: dict[str, str], end: float, gaps: float, issued: list[float]
) -> None:
    """On the scale of everything in one queue; the host's cost counts once an action there."""
    scale = 506 / (40.5 + 19 * float(state.get("issue", "0")))
    figure = get("fsdp-timeline").view(state).figure
    limit = re.search(r'<line x1="([\d.]+)"[^>]*class="[^"]*sb-limit', figure)
    assert limit and float(limit[1]) == pytest.approx(126 + end * scale, abs=0.01)
    framed = re.findall(r'<path d="([^"]+)"[^>]*stroke-dasharray="4 4"', figure)
    widths = [float(width) for width in re.findall(r"h([\d.]+)v", "".join(framed))]
    assert sum(widths[1:]) == pytest.approx(gaps * scale, abs=0.1), "the first is the legend's"
    ticks = re.findall(r"M([\d.]+) [\d.]+v14", figure)
    assert [float(tick) for tick in ticks] == pytest.approx(
        [126 + time * scale for time in issued], abs=0.01
    )


def test_units_kept_after_the_forward_are_gathered_once() -> None:
    view = get("fsdp-timeline").view({"backward_prefetch": "1", "reshard": "off"})
    assert {row[3] for row in view.table.rows} == {"kept"}
    assert "take 27 s:" in view.sentence
    assert "at most 4 gathered" in view.sentence


@pytest.mark.parametrize(
    ("passes", "seconds", "reduced"), [("2-each", "54", 8), ("2-last", "51", 4)]
)
def test_accumulating_reduces_in_the_last_pass_only(
    passes: str, seconds: str, reduced: int
) -> None:
    """(S37)"""
    state = {"backward_prefetch": "1", "passes": passes}
    view = get("fsdp-timeline").view(state)
    assert f"take {seconds} s: 48 s of compute" in view.sentence
    assert sum(row[5] != "not yet" for row in view.table.rows) == reduced
    assert [row[0] for row in view.table.rows][4] == "pass 1, unit 0"


@pytest.mark.parametrize(("overlap", "seconds"), [("on", "28"), ("off", "44.5")])
def test_hybrid_sharding_adds_an_all_reduce_a_unit(overlap: str, seconds: str) -> None:
    """Hidden on a stream of its own, but for the last; in one queue all four. (S34)"""
    state = {"overlap": overlap, "backward_prefetch": "1", "all_reduce": "1"}
    view = get("fsdp-timeline").view(state)
    streams = "three streams" if overlap == "on" else "one stream"
    assert f"4 units on {streams} take {seconds} s:" in view.sentence
    assert f"; {streams}, prefetch 0 forward and 1 backward" in view.table.caption
    assert view.table.header[-1] == "all-reduce"
    assert ">all-reduce</text>" in view.figure.split("host issues")[0] or overlap == "off"


@given(st.sampled_from([512, 1024, 5120]), st.integers(1, 60), st.sampled_from([2, 64, 1000]))
@settings(derandomize=True, deadline=None, max_examples=30)
def test_unit_sizes_are_sums_on_paper(width: int, layers: int, ranks: int) -> None:
    """(S25)"""
    state = {"width": str(width), "layers": str(layers), "ranks": str(ranks)}
    rows = {row[0]: row for row in get("unit-size").view(state).table.rows}
    square, embedding = width * width, 32_000 * width
    counts = {"whole model": 1, "blocks": layers + 1, "half blocks": 2 * layers + 1}
    counts["linears"] = 6 * layers + 1
    for name, count in counts.items():
        assert rows[name][1] == f"{count:,}"
        # two all-gathers and a reduce-scatter a unit
        assert rows[name][6:8] == (f"{3 * count:,}", f"{2 * count:,}")
    parts = [-(-size // ranks) for size in (12 * square, embedding)]
    padding = ranks * (layers * parts[0] + parts[1]) - 12 * square * layers - embedding
    assert rows["blocks"][5] == f"{padding:,}"


def test_13b_by_blocks_holds_its_shard_and_a_block() -> None:
    """(S25, S26, S27)"""
    even = {row[0]: row for row in get("unit-size").view({}).table.rows}
    assert even["blocks"][2:5] == ("398 MB", "629 MB", "1.03 GB")
    assert even["whole model"][3] == "25.5 GB"
    assert even["linears"][3] == "328 MB", "the embedding: 32,000 × 5,120 in two bytes"
    # 63 rounds: 82 gathers, each 10 µs a round, and 63/64 of twice the model at 50 GB/s
    seconds = 82 * 63 * 10e-6 + 2 * 63 / 64 * 2 * 12_746_752_000 / 50e9
    assert even["blocks"][8] == f"{seconds:.3g} s"
    uneven = {row[0]: row for row in get("unit-size").view({"parts": "uneven"}).table.rows}
    slow = 82 * 64 * 63 * 10e-6 + 2 * 2 * 12_746_752_000 / 50e9
    assert uneven["blocks"][8] == f"{slow:.3g} s"


@given(st.sampled_from([2, 3, 4, 8, 64]), st.sampled_from([0, 1000, 100_000]))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_a_steps_parts_are_sums_on_paper(ranks: int, kept: int) -> None:
    """(S18, S24)"""
    shards = [Fraction(-(-size // ranks)) for size in UNITS]
    actions = [f"{kind}{unit}" for unit in range(5) for kind in ("AG", "F")]
    actions += [f"{kind}{unit}" for unit in (4, 3, 2, 1, 0) for kind in ("AG", "B", "RS")]
    for step, action in enumerate([*actions, "Adam"]):
        state = {"step": str(step), "ranks": str(ranks), "kept": str(kept)}
        table = get("sharded-step").view(state).table
        assert table.header[1] == f"now, {action}"
        now = [int(row[1].replace(",", "")) for row in table.rows]
        unit = int(action[-1]) if action[-1].isdigit() else None
        kind = action.rstrip("01234")
        done = 5 if kind == "Adam" else 4 - unit + (kind == "RS") if step >= 10 else 0
        alive = (
            unit + (kind == "F") if step < 10 else unit + (kind != "RS") if unit is not None else 0
        )
        full = 2 * shards[unit] * ranks if unit is not None else 0
        assert now[:3] == [12 * sum(shards), 2 * sum(shards), 2 * sum(shards[5 - done :])]
        assert now[3] == (full if kind in ("AG", "F", "B") else 0)
        assert now[4] == (full if kind in ("B", "RS") else 0)
        assert now[5] == alive * kept
        assert now[6] == sum(now[:6])


def test_the_peak_of_the_step_is_the_lectures() -> None:
    """(S18)"""
    peak = get("sharded-step").view({"step": "20"})
    assert peak.sentence == (
        "While the rank runs the backward of unit 1, it holds 161,632 B: this is the peak of the step."
    )
    assert "holds 130,624 B;" in get("sharded-step").view({"step": "25"}).sentence
