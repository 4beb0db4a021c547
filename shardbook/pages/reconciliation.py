"""The mistakes of the source documents: those that the engine settles, and those still open."""

import importlib
import pkgutil
import re
from itertools import groupby
from typing import Final

import shardbook
from shardbook.corrections import Correction, Figure

#: what the source documents are
DOCUMENTS: Final = {
    "A": "a lecture's overview: putting the training ledger onto several devices, N44 to N48",
    "B": "a lecture on zero redundancy and PyTorch FSDP, with scripts and a simulated trainer",
    "C": "illustrated notes on five kinds of parallelism",
    "D": "an extension lesson with simulations and calculators in plain Python",
    "E": "notes on training with several GPUs: where parameters are, how data flows, what to probe",
}

#: mistake → document and what it is about
MISTAKES: Final = {
    "M1": ("C", "A pipeline's utilisation with four micro-batches on four stages"),
    "M2": ("C", "A pipeline's utilisation with more micro-batches"),
    "M3": ("D", "Two ratios that are both called bubble"),
    "M4": ("D", "1F1B and its bubble"),
    "M5": ("D", "Adam's moments of a 7B model"),
    "M6": ("D", "What mixed precision saves"),
    "M7": ("D", "How many cards 70B needs"),
    "M8": ("D", "A calculator that contradicts its text"),
    "M9": ("D", "How many cards 405B needs, and why more were used"),
    "M10": ("D", "One cluster as a part of another"),
    "M11": ("D", "When a ring is done, and who sends how much"),
    "M12": ("D", "The gradient of a mean, and means of unequal shards"),
    "M13": ("D", "After which matrix product tensor parallelism communicates"),
    "M14": ("D", "Which ranks see different data"),
    "M15": ("D", "70B on four cards by offloading"),
    "M16": ("D", "The price of a training"),
    "M17": ("C", "What column and row splits communicate, forward and backward"),
    "M18": ("C", "How large the traffic of tensor parallelism is"),
    "M19": ("C", "Which split is called vertical"),
    "M20": ("C", "What the stages communicate"),
    "M21": ("C", "Who holds which layer at stage 3"),
    "M22": ("C", "What stages 1 and 3 save on a given number of ranks"),
    "M23": ("C", "A naive all-reduce against a ring"),
    "M24": ("C", "How many experts a card holds"),
    "M25": ("C", "What helps when one layer does not fit"),
    "M26": ("B", "How many placements of ZeRO-Offload are cheapest"),
    "M27": ("B", "How exactly ZeRO's Table 2 comes out"),
    "M28": ("B", "What hybrid sharding saves between nodes"),
    "M29": ("B", "Whether the last unit is gathered again"),
    "M30": ("B", "What the rate limiter and forward prefetch cost"),
    "M31": ("B", "What tiling gains"),
    "M32": ("B", "Checkpoints of a 100B model"),
    "M33": ("B", "How many strategies are compared"),
    "M34": ("D", "Activations of a layer"),
    "M35": ("D", "NVLink against InfiniBand"),
    "M36": ("D", "Whether ZeRO or FSDP came first"),
    "M37": ("E", "How many cards two nodes have"),
}


def settled() -> tuple[Correction, ...]:
    """Return the corrections of every engine module called ``reconciliation``, in order of id.

    A mistake may have several, each from the module that computes a part of it. Raises
    `ValueError` for an id that is not in `MISTAKES`.
    """
    found: list[Correction] = []
    for module in pkgutil.walk_packages(shardbook.__path__, "shardbook."):
        if module.name.endswith(".reconciliation") and module.name != __name__:
            found += importlib.import_module(module.name).corrections()
    if unknown := {correction.id for correction in found} - set(MISTAKES):
        raise ValueError(f"settled, but not a mistake in the list: {sorted(unknown)}")
    order = list(MISTAKES)
    return tuple(sorted(found, key=lambda correction: order.index(correction.id)))


def overview_text(corrections: tuple[Correction, ...]) -> str:
    """Return all mistakes as a MyST table: settled ones link to their place, open ones say so."""
    places = {correction.id for correction in corrections}
    rows = [
        f"| {f'[{id}](#{id.lower()})' if id in places else id} | {document} | {about} | "
        f"{'settled' if id in places else '**open**'} |"
        for id, (document, about) in MISTAKES.items()
    ]
    return "\n".join(
        ["| mistake | document | what it is about | state |", "|---|---|---|---|", *rows]
    )


def settled_text(corrections: tuple[Correction, ...]) -> str:
    """Return the corrections in MyST: claim, values, derivation, how it came about."""
    return "\n\n".join(
        f"({id.lower()})=\n### {id}: {MISTAKES[id][1]}\n\n"
        + "\n\n".join(_text(correction) for correction in group)
        for id, group in groupby(corrections, key=lambda correction: correction.id)
    )


def _text(correction: Correction) -> str:
    steps = "\n".join(f"1. {_plain(step)}" for step in correction.derivation)
    parts = [f"**Document {correction.document} says.** {_plain(correction.claim)}"]
    if correction.figures:
        head = "| value | claimed | by the document's way | right |\n|---|---|---|---|\n"
        parts.append(head + "\n".join(map(_row, correction.figures)))
    parts += ["**Derivation.**", steps, f"**How such a mistake arises.** {_plain(correction.how)}"]
    return "\n\n".join(parts)


def _row(figure: Figure) -> str:
    values = (figure.claimed, figure.as_source, figure.right)
    said = " | ".join(f"{_number(value)} {figure.unit}".rstrip() for value in values)
    return f"| {_plain(figure.what)} | {said} |"


def _number(value: float) -> str:
    whole = value == int(value) or abs(value) >= 10_000
    return (f"{value:,.0f}" if whole else f"{value:.4g}").replace("-", "−")


def _plain(text: str) -> str:
    """The text with MyST's marks made ordinary characters: a price is no formula."""
    return re.sub(r"([\\`*_|<$\[\]])", r"\\\1", text)
