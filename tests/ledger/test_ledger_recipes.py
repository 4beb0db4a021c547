"""Recipes: the published bytes per parameter, and user recipes refused when they can't be read."""

from fractions import Fraction

import pytest

from shardbook.errors import InputError
from shardbook.ledger.recipes import CATEGORIES, RECIPES, recipe_named, user_recipe


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("mixed-adam", 16),  # ZeRO §3.1: 2Ψ + 2Ψ + KΨ with K = 12
        ("mixed-adam-resident-fp32-gradients", 20),  # ZeRO-Infinity §3
        ("mixed-adam-fp32-gradients", 18),  # Megatron-LM, distributed optimizer
        ("bf16-adam", 12),
        ("fp32-adam", 16),
        ("fp32-sgd", 8),
        ("fp32-sgd-momentum", 12),
        ("mixed-adam-8bit", 10 + Fraction(2 * 4, 2048)),  # Dettmers et al. 2022, §2
    ],
)
def test_bytes_per_parameter_are_the_published_ones(name: str, size: Fraction) -> None:
    """(S2)"""
    recipe = RECIPES[name]
    assert recipe.bytes_per_parameter == size
    assert sum(recipe.by_category().values()) == size
    assert tuple(recipe.by_category()) == CATEGORIES


def test_every_published_recipe_is_tested() -> None:
    assert len(RECIPES) == 8
    assert all(recipe.name == name and recipe.source for name, recipe in RECIPES.items())


def test_each_started_block_has_a_scale() -> None:
    momentum = next(p for p in RECIPES["mixed-adam-8bit"].parts if p.category == "momentum")
    assert [momentum.bytes_of(n) for n in (1, 2048, 2049)] == [5, 2052, 2057]


def test_a_user_recipe_reads_as_it_is_written() -> None:
    recipe = recipe_named(" weights=2, gradients=2,momentum=4,variance=0")
    assert recipe.by_category() == {
        "weights": 2,
        "gradients": 2,
        "master_weights": 0,
        "momentum": 4,
        "variance": 0,
    }
    assert recipe_named(recipe) is recipe


@pytest.mark.parametrize(
    "text",
    [
        "adam",
        "",
        "weights",
        "weights=",
        "=2",
        "weights=-2",
        "weights=2.5",
        "weights=2,weights=2",
        "weights=0",
        "weights=2,",
        "activations=2",
        "weights=1025",
        "weights=" + "9" * 5000,
        "weights=²",
    ],
)
def test_a_recipe_that_cannot_be_read_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="recipe"):
        recipe_named(text)


@pytest.mark.parametrize("size", [True, 2.0, "2", None])
def test_user_bytes_must_be_whole(size: object) -> None:
    with pytest.raises(InputError, match="recipe weights"):
        user_recipe("mine", [("weights", size)])  # type: ignore[list-item]


@pytest.mark.parametrize("recipe", [None, 3, ["mixed-adam"]])
def test_a_recipe_of_another_type_is_refused(recipe: object) -> None:
    with pytest.raises(InputError, match="recipe is"):
        recipe_named(recipe)  # type: ignore[arg-type]
