"""The exercises of the source documents: where each stands in the book, with its solution."""

import re
from dataclasses import dataclass
from os.path import relpath
from pathlib import Path
from typing import Final

from shardbook.pages.contents import ROOT


@dataclass(frozen=True, slots=True)
class Exercise:
    """``document`` and ``number`` there; the page's path and the label before the exercise."""

    document: str
    number: str
    about: str
    page: str
    label: str


EXERCISES: Final = (
    Exercise("B", "1", "13B on 64 cards: which stages fit?",
             "chapters/n45_what_is_stored", "exercise-b-one"),
    Exercise("B", "2", "ZeRO-2 sends as much as data parallelism",
             "chapters/n48_what_it_costs", "exercise-b-two"),
    Exercise("B", "3", "The drawn ZeRO-1: what is wasted, how to mend it",
             "chapters/n48_what_it_costs", "exercise-b-three"),
    Exercise("B", "4", "Why stage 3 gathers nothing after the update",
             "chapters/n48_each_owner_updates", "exercise-b-four"),
    Exercise("B", "5", "The peak against the steady state",
             "chapters/n47_steady_is_not_peak", "exercise-b-five"),
    Exercise("B", "6", "Hybrid sharding on 8 × 8 cards",
             "chapters/n48_between_all_and_nothing", "exercise-b-six"),
    Exercise("B", "7", "The bandwidth that offload needs",
             "chapters/beyond_offload", "exercise-b-seven"),
    Exercise("B", "8", "The delayed update and stale weights",
             "chapters/beyond_offload", "exercise-b-eight"),
    Exercise("D", "1", "Activation checkpointing in the calculator",
             "chapters/n45_what_else_is_stored", "exercise-d-one"),
    Exercise("D", "2", "1F1B against GPipe: bubble and memory",
             "chapters/beyond_pipeline", "exercise-d-two"),
    Exercise("D", "3", "Accumulating gradients with and without communication",
             "chapters/n47_two_streams", "exercise-d-three"),
    Exercise("D", "4", "What a training costs", "chapters/beyond_costs", "exercise-d-four"),
    Exercise("D", "5", "Offload in the calculator: 70B on four cards",
             "chapters/beyond_offload", "exercise-d-five"),
    Exercise("E", "messages", "Groups and message sizes on two nodes of four cards",
             "chapters/n48_silent_faults", "exercise-e-messages"),
    Exercise("E", "faults", "Four faults: the metric that shows each, and what would refute it",
             "chapters/n48_silent_faults", "exercise-e-faults"),
    Exercise("E", "acceptance", "A save that fails on one rank; resuming on other ranks",
             "chapters/n48_stopping_and_starting", "exercise-e-acceptance"),
)  # fmt: skip


def lacks(exercise: Exercise, root: Path = ROOT) -> str:
    """Return what is missing at an exercise's place: page, label or solution; "" if nothing (S78).

    The solution is a dropdown between the label and the next label or heading.
    """
    path = root / f"{exercise.page}.md"
    if not path.is_file():
        return "page"
    parts = path.read_text(encoding="utf-8").split(f"\n({exercise.label})=\n")
    if len(parts) != 2:
        return "label"
    own = re.split(r"(?m)^(?:#+ |\(exercise-[\w-]+\)=$)", parts[1])[0]
    return "" if re.search(r"\{admonition\} Solution\n:class: dropdown\n\S", own) else "solution"


def exercises_text(folder: str, root: Path = ROOT) -> str:
    """Return the exercises in MyST for a page in ``folder``; those that stand are links (S78)."""
    rows = []
    for each in EXERCISES:
        page = f"{{doc}}`{relpath(each.page, folder)}`"
        place = f"{{ref}}`here <{each.label}>`, in {page}" if not lacks(each, root) else "**open**"
        rows.append(f"| {each.document} | {each.number} | {each.about} | {place} |")
    head = "| document | exercise | what it asks | where it stands |\n|---|---|---|---|"
    return "\n".join([head, *rows])
