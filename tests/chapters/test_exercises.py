"""The exercises of the sources stand on pages, with solutions (S78)."""

from pathlib import Path

import pytest
from chapters.execute import execute

from shardbook.pages.exercises import EXERCISES, Exercise, exercises_text, lacks

ONE = Exercise("B", "1", "a question", "page", "exercise-b-one")
SOLVED = (
    "(exercise-b-one)=\n**One.** Why?\n\n:::{admonition} Solution\n:class: dropdown\nSo.\n:::\n"
)


def test_the_sources_have_eight_five_and_three_parts() -> None:
    """B 1–8, D 1–5, and E's task in three parts."""
    numbers = {
        document: [x.number for x in EXERCISES if x.document == document] for document in "BDE"
    }
    assert numbers["B"] == [str(n) for n in range(1, 9)]
    assert numbers["D"] == [str(n) for n in range(1, 6)]
    assert len(numbers["E"]) == 3
    assert len({x.label for x in EXERCISES}) == len(EXERCISES)


@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda x: x.label)
def test_an_exercise_of_the_sources_stands_with_its_solution(exercise: Exercise) -> None:
    assert lacks(exercise) == ""


@pytest.mark.parametrize(
    ("text", "lack"),
    [
        ("# A page\n\n" + SOLVED, ""),
        ("# A page\n\n**One.** Why?\n", "label"),
        ("# A page\n\n(exercise-b-one)=\n**One.** Why?\n\n## Next\n\n" + SOLVED[17:], "solution"),
        ("# A page\n\n(exercise-b-one)=\n**One.** Why?\n\n(exercise-b-two)=\n" + SOLVED[17:],
         "solution"),
        (None, "page"),
    ],
)  # fmt: skip
def test_what_is_missing_is_named(tmp_path: Path, text: str | None, lack: str) -> None:
    if text is not None:
        (tmp_path / "page.md").write_text(text, encoding="utf-8")
    assert lacks(ONE, tmp_path) == lack


def test_the_table_links_what_stands_and_shows_what_does_not(tmp_path: Path) -> None:
    assert exercises_text("chapters/reference", tmp_path).count("**open**") == len(EXERCISES)
    text = exercises_text("chapters/reference")
    assert "{ref}`here <exercise-b-one>`, in {doc}`../n45_what_is_stored`" in text


def test_the_answers_are_those_the_source_has() -> None:
    """B 1: 208, 54.4, 28.8, 3.25 GB; B 3: 3Ψ, 2Ψ; B 5; B 6: 0.22 and 2.95 M; D 2: 3/11."""
    said = execute("n45_what_is_stored.md").said
    assert [said[f"e{n}"] for n in range(4)] == ["208 GB", "54.4375 GB", "28.8438 GB", "3.25 GB"]
    said = execute("n48_what_it_costs.md").said
    assert said["dp_sent"] == said["zero2_sent"] == f"{2 * 3 * 2 * 32656 // 4:,}"
    assert (said["drawn"], said["mended"], said["wasted"]) == ("2.625", "1.75", "33%")
    said = execute("n47_steady_is_not_peak.md").said
    assert (said["peak"], said["steady"]) == ("161,632 B", "130,624 B")
    parts = ("x_states", "own_gradients", "gathered", "full")
    assert sum(int(said[x].removesuffix(" B").replace(",", "")) for x in parts) == 161_632
    said = execute("n48_between_all_and_nothing.md").said
    assert (said["hybrid_models"], said["full_models"]) == ("0.22", "2.95")
    said = execute("beyond_pipeline.md").said
    assert said["two_idle"] == said["one_idle"] == f"{3 / 11:.1%}"
    assert (said["two_held"], said["one_held"]) == ("8, 8, 8, 8", "4, 3, 2, 1")
    said = execute("n48_silent_faults.md").said
    assert (said["f_sent"], said["f_sent_whole"]) == (
        f"{3 * 3 * 32656 // 2:,}",
        f"{2 * 3 * 32656 // 2:,}",
    )
    assert said["f_wait"] == "0 s" and int(said["p_whole"].replace(",", "")) > 161_632
