"""A ring, round by round: who holds what after each round, and what each rank has sent."""

from dataclasses import dataclass
from itertools import islice
from xml.etree.ElementTree import Element

from shardbook.collectives.build import plan_of
from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.plan import Plan, Transfer
from shardbook.collectives.ring import ring_all_gather, ring_all_reduce, ring_reduce_scatter
from shardbook.collectives.verify import held_after
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number, Steps
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_bytes

_MB = 10**6
_LEFT, _WIDTH, _ROW, _TOP = 58, 432, 46, 104
_RINGS = {
    "all-reduce": ring_all_reduce,
    "reduce-scatter": ring_reduce_scatter,
    "all-gather": ring_all_gather,
}


@dataclass(frozen=True, slots=True)
class _State:
    """A plan after ``step`` of its ``rounds``: who holds what, sent B, the last transfers."""

    plan: Plan
    step: int
    rounds: int
    held: dict[int, dict[int, tuple[int, ...]]]
    sent: tuple[int, ...]
    last: tuple[Transfer, ...]

    def is_whole(self, rank: int, chunk: int) -> bool:
        """Whether the rank has every contribution to the chunk."""
        return len(self.held[rank].get(chunk, ())) == len(self.plan.chunks[chunk].sources)

    def holders(self, chunk: int) -> int:
        """How many ranks have the chunk whole."""
        return sum(self.is_whole(rank, chunk) for rank in self.plan.ranks)

    @property
    def wanted(self) -> list[tuple[int, int]]:
        """(rank, chunk) pairs that must be whole at the end."""
        chunks = enumerate(self.plan.chunks)
        return [(rank, number) for number, chunk in chunks for rank in chunk.targets]


def _draw(
    collective: str, algorithm: str, ranks: int, sizes: str, direction: str, step: int
) -> View:
    state = _at(_plan(collective, algorithm, ranks, sizes, direction), step)
    return View(_figure(state), _table(state), _sentence(state))


def _plan(collective: str, algorithm: str, ranks: int, sizes: str, direction: str) -> Plan:
    chunks = [_MB * (1 if sizes == "even" else 1 + i % 3) for i in range(ranks)]
    if algorithm == "ring":
        return _RINGS[collective](ranks, chunks, direction=1 if direction == "next" else -1)
    plan = plan_of(collective, algorithm, ranks, sum(chunks))
    # some algorithms cut the vector into more or fewer pieces than there are ranks
    if len(plan.chunks) == ranks or algorithm in ("tree", "naive"):
        return plan_of(collective, algorithm, ranks, chunks)
    return plan


def _at(plan: Plan, step: int) -> _State:
    rounds = sum(1 for _ in plan.rounds)
    shown = min(step, rounds)
    done = tuple(islice(plan.rounds, shown))
    part = Plan(plan.collective, plan.ranks, plan.chunks, done)
    sent = measure(part, flat(0.0, 1.0)).sent
    return _State(plan, shown, rounds, held_after(plan, shown), sent, done[-1] if done else ())


def _figure(state: _State) -> str:
    ranks, chunks = state.plan.ranks, state.plan.chunks
    root = draw.canvas(648, _TOP + len(ranks) * _ROW + 8)
    category = "gathered_parameters" if state.plan.collective == "all-gather" else "gradients"
    draw.hatches(root, EXPLORER.id)
    when = "before the first round" if not state.step else f"after round {state.step}"
    draw.words(root, 0, 16, f"{when} of {state.rounds}", class_="sb-strong")
    _key(root, category)
    cell = _WIDTH / len(chunks)
    for number, chunk in enumerate(chunks):
        middle = _LEFT + (number + 0.5) * cell
        draw.words(root, middle, 78, f"chunk {number}", anchor="middle", class_="sb-small")
        size = format_bytes(chunk.size, 3)
        draw.words(root, middle, 94, size, anchor="middle", class_="sb-small")
    for text, x in (("receives", _LEFT + _WIDTH + 8), ("has sent", 582)):
        draw.words(root, x, 94, text, class_="sb-small")
    tops = [_TOP + place * _ROW for place in range(len(ranks))]
    lefts = [_LEFT + number * cell + 3 for number in range(len(chunks))]
    frames: list[draw.Box] = [(x, y, cell - 6, _ROW - 6) for y in tops for x in lefts]
    style = {"fill": "none", "stroke": "currentColor", "stroke_opacity": "0.25"}
    draw.add(root, "path", d=draw.path_of(frames), **style)
    boxes: dict[str, list[draw.Box]] = {}
    for place, rank in enumerate(ranks):
        _rank(root, state, place, rank, boxes)
    for texture, places in boxes.items():
        draw.blocks(root, EXPLORER.id, category, places, texture=texture)
    return draw.text_of(root)


def _key(root: Element, category: str) -> None:
    x = 0.0
    for texture, label in (
        ("temporary", "some ranks' parts"),
        ("owned", "whole, here only"),
        ("replicated", "whole on several ranks"),
    ):
        draw.block(root, EXPLORER.id, category, x, 32, 14, 14, texture=texture)
        draw.words(root, x + 20, 44, label, class_="sb-small")
        x += 44 + 6.6 * len(label)
    draw.outline(root, x, 32, 14, 14)
    draw.words(root, x + 20, 44, "just received", class_="sb-small")


def _rank(
    root: Element, state: _State, place: int, rank: int, boxes: dict[str, list[draw.Box]]
) -> None:
    """Write what a rank holds, and put the boxes of it into ``boxes``, by texture."""
    top = _TOP + place * _ROW
    cell = _WIDTH / len(state.plan.chunks)
    draw.words(root, 0, top + 22, f"rank {rank}")
    arrived = [move for move in state.last if move.target == rank]
    for number, chunk in enumerate(state.plan.chunks):
        x = _LEFT + number * cell + 3
        parts = state.held[rank].get(number, ())
        if parts:
            whole = state.is_whole(rank, number)
            texture = "temporary" if not whole else "owned"
            if whole and state.holders(number) > 1:
                texture = "replicated"
            width = (cell - 14) * len(parts) / len(chunk.sources)
            boxes.setdefault(texture, []).append((x + 4, top + 5, width, 13))
            draw.words(
                root,
                x + cell / 2 - 3,
                top + 34,
                _parts(parts, whole=whole),
                anchor="middle",
                class_="sb-small",
            )
        if any(move.chunk == number for move in arrived):
            draw.outline(root, x, top, cell - 6, _ROW - 6)
    x = _LEFT + _WIDTH + 8
    draw.words(root, x, top + 25, _from(arrived), class_="sb-small")
    draw.words(root, 582, top + 25, format_bytes(state.sent[place], 4))


def _parts(parts: tuple[int, ...], *, whole: bool) -> str:
    if whole:
        return "whole"
    return ("+" if len(parts) < 4 else "").join(map(str, parts))


def _from(arrived: list[Transfer]) -> str:
    sources = list(dict.fromkeys(move.source for move in arrived))
    if not sources:
        return "–"
    return f"← rank {sources[0]}" if len(sources) == 1 else f"← {len(sources)} ranks"


def _table(state: _State) -> Table:
    rows = []
    for place, rank in enumerate(state.plan.ranks):
        chunks = state.held[rank]
        whole = [str(n) for n in chunks if state.is_whole(rank, n)]
        partial = [
            f"{n} ({'+'.join(map(str, parts))})"
            for n, parts in chunks.items()
            if not state.is_whole(rank, n)
        ]
        received = [
            f"{move.chunk} from {move.source}" for move in state.last if move.target == rank
        ]
        rows.append(
            (
                f"rank {rank}",
                ", ".join(whole) or "none",
                ", ".join(partial) or "none",
                ", ".join(received) or "nothing",
                format_bytes(state.sent[place]),
            )
        )
    return Table(
        f"After round {state.step} of {state.rounds}: {state.plan.collective} of "
        f"{format_bytes(state.plan.elements)}",
        (
            "rank",
            "chunks that are whole",
            "partial sums (of ranks)",
            "received in this round",
            "sent",
        ),
        tuple(rows),
    )


def _sentence(state: _State) -> str:
    wanted = state.wanted
    done = sum(state.is_whole(*pair) for pair in wanted)
    total = state.plan.elements
    most, least = max(state.sent), min(state.sent)
    share = f"{most / total:.3g} times " if most != total else ""
    sent = f"every rank has sent {share}the whole data"
    if most != least:
        sent = f"the ranks have sent from {least / total:.3g} to {most / total:.3g} times the data"
    if state.step == 0:
        start, sent = f"Before the first of {state.rounds} rounds", "nothing has been sent"
    else:
        start = f"After round {state.step} of {state.rounds}"
    return f"{start}, {done} of {len(wanted)} chunks are whole where they are wanted, and {sent}."


EXPLORER = Explorer(
    "ring",
    "A ring, round by round",
    (
        Choice("collective", "Collective", "all-reduce", tuple((name, name) for name in _RINGS)),
        Choice(
            "algorithm",
            "Algorithm",
            "ring",
            (
                ("ring", "ring"),
                ("tree", "binary tree"),
                ("halving-doubling", "halving and doubling"),
                ("naive", "naive: through rank 0"),
                ("direct", "direct: all to all ranks"),
            ),
        ),
        Number("ranks", "Ranks", "4", ("2", "3", "4", "5", "6", "7", "8"), 2, 8),
        Choice(
            "sizes",
            "Chunks",
            "even",
            (("even", "equal: 1 MB each"), ("uneven", "uneven: 1, 2, 3, 1, 2, … MB")),
        ),
        Choice(
            "direction",
            "Ring sends to",
            "next",
            (("next", "the next rank"), ("previous", "the previous rank")),
        ),
        Steps("step", "Round", "3", 14),
    ),
    _draw,
)
