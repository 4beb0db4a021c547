"""Stages: the course's must-give numbers, a second implementation, and the ledger's properties."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.ledger.recipes import CATEGORIES, RECIPES, Part, recipe_named
from shardbook.ledger.stages import Ledger, bytes_per_rank
from shardbook.numbers.units import GB

MLP = (3168, 9312, 9312, 9312, 1552)

quiet = settings(derandomize=True, deadline=None)
recipes = st.sampled_from(sorted(RECIPES))
stages = st.integers(0, 3)
# multiples of 2,048 too: a piece may end just where a block of the 8-bit recipe does
sizes_of_units = st.integers(1, 5000) | st.integers(1, 12).map(lambda blocks: 2048 * blocks)
units = st.lists(sizes_of_units, min_size=1, max_size=4)


@pytest.mark.parametrize(
    ("parameters", "ranks", "gigabytes"),
    [
        (8 * 10**9, 4, [128, 56, 44, 32]),
        (75 * 10**8, 64, [120, 31.40625, 16.640625, 1.875]),
        (13 * 10**9, 64, [208, 54.4375, 28.84375, 3.25]),
        (7 * 10**9, 8, [112, 38.5, 26.25, 14]),
        (10**12, 1024, [16000, 4011.71875, 2013.671875, 15.625]),
    ],
)
def test_stages_give_the_published_sizes(
    parameters: int, ranks: int, gigabytes: list[float]
) -> None:
    """(S1, S6, S7, S38)"""
    for stage, size in enumerate(gigabytes):
        assert bytes_per_rank(parameters, ranks, stage).fullest_rank_bytes == size * GB


def test_one_step_of_the_small_model_holds_what_the_trainers_log() -> None:
    # S18, end of backward on 4 ranks; steady state of stage 3
    sizes = [bytes_per_rank(MLP, 4, stage).fullest_rank_bytes for stage in range(4)]
    assert sizes == [522_496, 228_592, 179_608, 130_624]
    assert [size / sum(MLP) for size in sizes] == [16, 7, 5.5, 4]


@pytest.mark.parametrize(
    ("recipe", "stage_1"),
    [
        # Megatron-LM's table of its distributed optimizer, d data-parallel ranks
        ("mixed-adam-resident-fp32-gradients", lambda d: 4 + 16 / d),
        ("mixed-adam-fp32-gradients", lambda d: 6 + 12 / d),
        ("fp32-adam", lambda d: 8 + 8 / d),
    ],
)
def test_stage_1_agrees_with_megatrons_table(recipe, stage_1) -> None:  # type: ignore[no-untyped-def]
    for ranks in (2, 8, 64):
        ledger = bytes_per_rank(6400, ranks, 1, recipe)
        assert ledger.fullest_rank_bytes == 6400 * stage_1(ranks)


def test_the_8bit_recipe_gives_the_hand_computed_bytes() -> None:
    # ⌈10,000 / 3⌉ = 3,334 elements, 2 started blocks a rank; 5 blocks undivided
    assert bytes_per_rank(10_000, 3, 3, "mixed-adam-8bit").by_category() == {
        "weights": 6668,
        "gradients": 6668,
        "master_weights": 13336,
        "momentum": 3334 + 8,
        "variance": 3334 + 8,
    }
    assert bytes_per_rank(10_000, 3, 0, "mixed-adam-8bit").by_category()["momentum"] == 10_020


def test_the_last_ranks_hold_the_padding() -> None:
    # nn.Linear 4×3 on 16 ranks: 15 elements, one of padding (B §5.2)
    linear = bytes_per_rank(15, 16, 3, "weights=2")
    assert [(line.first_rank, line.last_rank, line.padding_bytes) for line in linear.lines] == [
        (0, 14, 0),
        (15, 15, 2),
    ]
    # 9 elements on 4 ranks: pieces of 3, so rank 3 holds nothing but padding
    nine = bytes_per_rank(9, 4, 3, "weights=1")
    assert [
        (line.owned_bytes, line.padding_bytes) for r in range(4) for line in nine.lines_of(r)
    ] == [
        (3, 0),
        (3, 0),
        (3, 0),
        (0, 3),
    ]


@pytest.mark.parametrize(
    ("sizes", "ranks", "padded"),
    [(MLP, 3, 32_658), (MLP, 4, 32_656), (314_572_800, 1000, 314_573_000), (15, 16, 16)],
)
def test_padding_of_known_units(sizes: tuple[int, ...] | int, ranks: int, padded: int) -> None:
    assert bytes_per_rank(sizes, ranks, 3).padded_parameters == padded


def _owners(part: Part, unit: int, ranks: int) -> list[int]:
    """Owned elements by rank, element by element: pad on the right, cut into equal pieces."""
    padded = [True] * unit
    while len(padded) % ranks:
        padded.append(False)
    piece = len(padded) // ranks
    return [sum(padded[rank * piece : (rank + 1) * piece]) for rank in range(ranks)]


@quiet
@given(
    units, st.integers(1, 40), stages, st.sampled_from(sorted(set(RECIPES) - {"mixed-adam-8bit"}))
)
def test_every_rank_equals_a_count_element_by_element(
    sizes: list[int], ranks: int, stage: int, recipe: str
) -> None:
    ledger = bytes_per_rank(sizes, ranks, stage, recipe)
    for rank in range(ranks):
        for part, line in zip(ledger.recipe.parts, ledger.lines_of(rank), strict=True):
            owners = [_owners(part, unit, ranks) for unit in sizes]
            sharded = ranks == 1 or stage >= part.sharded_from
            whole = part.bytes * sum(sizes)
            owned = part.bytes * sum(owner[rank] for owner in owners)
            full = part.bytes * sum(owner[0] for owner in owners)
            expected = (owned, full - owned, 0) if sharded else (0, 0, whole)
            assert (line.owned_bytes, line.padding_bytes, line.replicated_bytes) == expected


@quiet
@given(units, st.integers(1, 300), stages, recipes)
def test_owned_bytes_add_up_to_the_whole(
    sizes: list[int], ranks: int, stage: int, recipe: str
) -> None:
    ledger = bytes_per_rank(sizes, ranks, stage, recipe)
    alone = bytes_per_rank(sizes, 1, stage, recipe).by_category()
    owned = dict.fromkeys(CATEGORIES, 0)
    copies = dict.fromkeys(CATEGORIES, 0)
    for line in ledger.lines:
        count = line.last_rank - line.first_rank + 1
        owned[line.category] += count * line.owned_bytes
        copies[line.category] += count * line.replicated_bytes
    for category in CATEGORIES:
        # every rank has a full copy of what is replicated
        assert copies[category] % ranks == 0
        assert owned[category] + copies[category] // ranks == alone[category]


@quiet
@given(units, st.integers(1, 300), stages, recipes)
def test_lines_cover_every_rank_once_and_hold_what_by_category_says(
    sizes: list[int], ranks: int, stage: int, recipe: str
) -> None:
    ledger = bytes_per_rank(sizes, ranks, stage, recipe)
    for rank in range(ranks):
        here = [line for line in ledger.lines if line.first_rank <= rank <= line.last_rank]
        mine = ledger.lines_of(rank)
        assert [_bytes(line) for line in here] == [_bytes(line) for line in mine]
        held = dict.fromkeys(CATEGORIES, 0)
        for line in here:
            assert min(line.owned_bytes, line.padding_bytes, line.replicated_bytes) >= 0
            held[line.category] += line.bytes
        assert held == ledger.by_category()


def _bytes(line) -> tuple[object, ...]:  # type: ignore[no-untyped-def]
    return (line.category, line.owned_bytes, line.padding_bytes, line.replicated_bytes)


@quiet
@given(units, st.integers(1, 5000), st.integers(1, 5000), stages, recipes)
def test_the_fullest_rank_never_grows_with_ranks(
    sizes: list[int], few: int, more: int, stage: int, recipe: str
) -> None:
    few, more = sorted((few, more))
    small = bytes_per_rank(sizes, more, stage, recipe).by_category()
    large = bytes_per_rank(sizes, few, stage, recipe).by_category()
    assert all(small[category] <= large[category] for category in CATEGORIES)


@quiet
@given(units, st.integers(1, 5000))
def test_padding_is_less_than_ranks_per_unit(sizes: list[int], ranks: int) -> None:
    for unit in sizes:
        ledger = bytes_per_rank(unit, ranks, 3)
        assert 0 <= ledger.padded_parameters - unit < ranks
        assert ledger.padded_parameters % ranks == 0


@quiet
@given(st.integers(1, 10**15), st.integers(1, 10**6), recipes)
def test_a_higher_stage_never_stores_more(parameters: int, ranks: int, recipe: str) -> None:
    sizes = [bytes_per_rank(parameters, ranks, s, recipe).fullest_rank_bytes for s in range(4)]
    assert sizes == sorted(sizes, reverse=True)


@quiet
@given(st.integers(1, 10**15), stages, recipes)
def test_one_rank_owns_everything_at_every_stage(parameters: int, stage: int, recipe: str) -> None:
    ledger = bytes_per_rank(parameters, 1, stage, recipe)
    exact = math.ceil(parameters * recipe_named(recipe).bytes_per_parameter)
    assert exact <= ledger.fullest_rank_bytes <= exact + 8  # at most two scales more, rounded up
    assert all(not line.replicated and not line.padding_bytes for line in ledger.lines)


def test_a_large_ledger_has_few_lines() -> None:
    ledger = bytes_per_rank(10**13, 4096, 3, "mixed-adam-8bit")
    assert len(ledger.lines) <= 5 * 5
    assert ledger.fullest_rank_bytes == 10 * 2441406250 + 2 * 4 * 1192093  # ⌈10¹³/4096⌉, its blocks


def test_a_line_prints_as_it_is_spoken() -> None:
    lines = bytes_per_rank(10, 4, 2).lines
    assert [str(line) for line in lines[:2]] == [
        "ranks 0–2: weights (FP16) 20 B, replicated, start → end of training",
        "ranks 0–2: gradients (FP16) 6 B, 6 owned, backward → end of update",
    ]
    assert str(lines[-1]) == (
        "rank 3: variance (FP32) 12 B, 4 owned + 8 padding, start → end of training"
    )


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("parameters", {"parameters": 0}),
        ("parameters", {"parameters": -1}),
        ("parameters", {"parameters": 1.5}),
        ("parameters", {"parameters": 10**15 + 1}),
        ("parameters", {"parameters": float("nan")}),
        ("parameters", {"parameters": float("inf")}),
        ("parameters", {"parameters": "8B"}),
        ("parameters", {"parameters": None}),
        ("units", {"parameters": []}),
        ("units", {"parameters": [3, 0]}),
        ("units", {"parameters": [10**15, 1]}),
        ("units", {"parameters": [1] * 1001}),
        ("ranks", {"parameters": 8, "ranks": 0}),
        ("ranks", {"parameters": 8, "ranks": 2.5}),
        ("ranks", {"parameters": 8, "ranks": 10**6 + 1}),
        ("ranks", {"parameters": 8, "ranks": True}),
        ("stage", {"parameters": 8, "stage": 4}),
        ("stage", {"parameters": 8, "stage": "one"}),
        ("recipe", {"parameters": 8, "recipe": "adam"}),
    ],
)
def test_bad_input_names_the_argument(argument: str, arguments: dict[str, object]) -> None:
    with pytest.raises(InputError) as caught:
        bytes_per_rank(**arguments)  # type: ignore[arg-type]
    assert caught.value.argument.startswith(argument)
    assert "give" in str(caught.value)


@pytest.mark.parametrize("rank", [-1, 4, 0.5])
def test_a_rank_outside_the_world_is_refused(rank: float) -> None:
    ledger: Ledger = bytes_per_rank(10, 4, 3)
    with pytest.raises(InputError, match="rank is"):
        ledger.lines_of(rank)  # type: ignore[arg-type]
