"""Bandwidth-centric partitioning: each card reads a part of a layer over its own link.

ZeRO-Infinity (Rajbhandari et al., SC 2021, §6.1): if one owner reads a layer from CPU or NVMe and
broadcasts it, all cards wait for the owner's one link. If each of N cards reads an N-th part and
all gather the parts, N links work at once, until the links between the cards are the limit. Reading,
gathering and computing of successive layers overlap, so the slowest of them sets the rate.
"""

from math import ceil
from typing import Final

from shardbook.errors import real, whole
from shardbook.ledger.stages import MOST_RANKS

#: B/s of each card from CPU memory and from NVMe while all 16 of a DGX-2 read and share the host's
#: links, as reported (§6.1); fewer get more each
CPU_PER_CARD: Final = 3.0e9
NVME_PER_CARD: Final = 1.6e9
#: B/s at which a card receives gathered layers from its peers, as reported
BETWEEN_CARDS: Final = 70e9
#: B/s of one card's PCIe link while no other card uses it
PCIE: Final = 12e9

_FASTEST: Final = 1e18


def partitioned_rate(cards: int, per_card: float, between: float = BETWEEN_CARDS) -> float:
    """Return the B/s at which layers arrive whole at every card if each reads its part (S49).

    ``per_card``: B/s that each of the ``cards`` reads while all do; ``between``: B/s of gathering.

    Raises:
        InputError: a number out of its range.
    """
    cards = whole("cards", cards, 1, MOST_RANKS)
    reads = cards * real("per card", per_card, 1e-9, _FASTEST, "B/s")
    return min(reads, real("between", between, 1e-9, _FASTEST, "B/s"))


def owner_rate(link: float = PCIE, between: float = BETWEEN_CARDS) -> float:
    """Return the B/s at which layers arrive whole if one owner reads each and broadcasts it (S49).

    However many cards there are: only one link reads.

    Raises:
        InputError: a number out of its range.
    """
    link = real("link", link, 1e-9, _FASTEST, "B/s")
    return min(link, real("between", between, 1e-9, _FASTEST, "B/s"))


def cards_until_capped(per_card: float, between: float = BETWEEN_CARDS) -> int:
    """Return the fewest cards whose reads together reach the rate between the cards (S49).

    Raises:
        InputError: a number out of its range.
    """
    between = real("between", between, 1e-9, _FASTEST, "B/s")
    return max(1, ceil(between / real("per card", per_card, 1e-9, _FASTEST, "B/s")))
