"""Who weighs what: the same four gradients, averaged over tokens and averaged over ranks."""

from xml.etree.ElementTree import Element

from shardbook.collectives.averaging import divisor, token_mean, token_shares
from shardbook.errors import InputError
from shardbook.explorers import draw
from shardbook.explorers.controls import Choice, Number
from shardbook.explorers.explorer import Explorer
from shardbook.explorers.view import Table, View
from shardbook.numbers.units import format_count

_RANKS = 4
_LEFT, _COLUMN, _WIDEST, _LOW, _TALL = 8, 156, 120, 50, 128
_WAYS = {
    "mean-of-means": "the mean of the four means",
    "sum-of-means": "the sum of the four means",
}


def _draw(
    tokens_0: int, tokens_1: int, tokens_2: int, tokens_3: int, loss_2: float, other: str
) -> View:
    tokens = [tokens_0, tokens_1, tokens_2, tokens_3]
    if not any(tokens):
        raise InputError("tokens_0", tokens_0, "give at least one rank a token")
    losses = [1.0, 1.0, loss_2, 1.0]
    joint = token_mean([n * loss for n, loss in zip(tokens, losses, strict=True)], tokens)
    ways = ("token-mean", other)
    got = [_combined(tokens, losses, way) for way in ways]
    return View(
        _figure(tokens, other, got),
        _table(tokens, losses, other, got),
        _sentence(tokens, other, joint, got[1]),
    )


def _combined(tokens: list[int], losses: list[float], way: str) -> float:
    """Sum what the ranks bring: each its own sum, divided as ``way`` says."""
    total = sum(tokens)
    return sum(
        n * loss / divisor(way, n, total, _RANKS) for n, loss in zip(tokens, losses, strict=True)
    )


def _figure(tokens: list[int], other: str, got: list[float]) -> str:
    root = draw.canvas(_LEFT + _RANKS * _COLUMN + 8, 2 * 92 + _LOW + _TALL)
    shares = {way: token_shares(tokens, way) for way in ("token-mean", other)}
    fair = min(float(_LOW), _TALL / max(shares[other]))
    draw.words(root, _LEFT, 14, "width: tokens", class_="sb-small")
    draw.words(root, _LEFT + 110, 14, "height: what one token weighs", class_="sb-small")
    draw.words(root, _LEFT + 310, 14, "area: the rank's say", class_="sb-small")
    floor = 72 + _LOW
    _row(root, 38, floor, "right: Σ sums ÷ Σ tokens", tokens, shares["token-mean"], fair, got[0])
    title = f"wrong: {_WAYS[other]}"
    _row(root, floor + 56, floor + 90 + _TALL, title, tokens, shares[other], fair, got[1])
    return draw.text_of(root)


def _row(
    root: Element,
    top: float,
    floor: float,
    title: str,
    tokens: list[int],
    shares: list[float],
    fair: float,
    got: float,
) -> None:
    draw.words(root, _LEFT, top, f"{title} = {got:.4g}", class_="sb-strong")
    for rank, (count, share) in enumerate(zip(tokens, shares, strict=True)):
        middle = _LEFT + (rank + 0.5) * _COLUMN
        width, height = max(2, _WIDEST * count / max(tokens)) if count else 0, fair * share
        draw.block(
            root, EXPLORER.id, "gradients", middle - width / 2, floor - height, width, height
        )
        draw.words(
            root,
            middle,
            floor - max(height, fair) - 6,
            f"a token weighs {format_count(share, 3)}" if count else "nothing to weigh",
            anchor="middle",
            class_="sb-small",
        )
        draw.words(root, middle, floor + 18, f"rank {rank}: {count:,}", anchor="middle")
    draw.line(root, _LEFT, floor - fair, _LEFT + _RANKS * _COLUMN, floor - fair, "sb-limit")


def _table(tokens: list[int], losses: list[float], other: str, got: list[float]) -> Table:
    right, wrong = (token_shares(tokens, way) for way in ("token-mean", other))
    rows = [
        (f"rank {rank}", f"{n:,}", f"{loss:.4g}", f"{a:.4g}", f"{b:.4g}")
        for rank, (n, loss, a, b) in enumerate(zip(tokens, losses, right, wrong, strict=True))
    ]
    rows.append(("together", f"{sum(tokens):,}", "", f"{got[0]:.5g}", f"{got[1]:.5g}"))
    return Table(
        "What a token weighs, 1 = its fair share; last row: the loss that comes out",
        ("rank", "tokens", "mean loss of its tokens", "over tokens (right)", _WAYS[other]),
        tuple(rows),
    )


def _sentence(tokens: list[int], other: str, joint: float, wrong: float) -> str:
    way, off = _WAYS[other], wrong / joint - 1
    shares = token_shares(tokens, other)
    present = [rank for rank, n in enumerate(tokens) if n]
    most, least = max(present, key=shares.__getitem__), min(present, key=shares.__getitem__)
    if shares[most] == shares[least] == 1:
        return f"Every token weighs 1, so {way} is the joint batch's, {joint:.4g}, for any losses."
    if abs(off) < 5e-5:
        start = f"Here {way} happens to be the joint batch's mean, {joint:.4g}"
    else:
        start = f"The joint batch's mean loss is {joint:.4g}; {way} is {wrong:.4g}, {off:+.1%} off"
    if shares[most] == shares[least]:
        end = f"every token weighs {shares[most]:.4g}"
    else:
        times = shares[most] / shares[least]
        end = f"a token of rank {most} weighs {format_count(times, 3)} times one of rank {least}"
    return f"{start}: {end}."


EXPLORER = Explorer(
    "unequal-tokens",
    "Who weighs what",
    (
        *(
            Number(
                f"tokens_{rank}",
                f"Tokens on rank {rank}",
                "20" if rank == 2 else "60",
                ("0", "1", "5", "10", "20", "30", "40", "50", "60", "120", "240"),
                0,
                1_000_000,
            )
            for rank in range(_RANKS)
        ),
        Number(
            "loss_2",
            "Loss of a token on rank 2 (elsewhere 1)",
            "3",
            ("0.25", "0.5", "1", "1.5", "2", "3", "4", "6"),
            0.01,
            1000,
            integer=False,
        ),
        Choice("other", "Wrong way", "mean-of-means", tuple(_WAYS.items())),
    ),
    _draw,
)
