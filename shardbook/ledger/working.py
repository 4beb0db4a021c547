"""Working memory: what one operator, or the update of one unit, needs beside the states."""

from typing import Final

from shardbook.errors import whole
from shardbook.ledger.stages import Ledger

_MOST_HIDDEN: Final = 10**7

#: FP16 or BF16 bytes of one element
_HALF: Final = 2
_FP32: Final = 4

#: the largest linear layer of a transformer is hidden → 4 · hidden
_WIDENING: Final = 4


def operator_tensor_bytes(hidden: int, tiles: int = 1) -> int:
    """Bytes (B) of the weight, or of its gradient, of one tile of the hidden → 4 hidden layer.

    Rounded up to a whole byte.

    Raises:
        InputError: hidden is not a whole number in 1…10⁷, or tiles not one in 1…hidden.
    """
    hidden = whole("hidden", hidden, 1, _MOST_HIDDEN)
    tiles = whole("tiles", tiles, 1, hidden)
    return -(-_HALF * hidden * _WIDENING * hidden // tiles)


def working_bytes(hidden: int, tiles: int = 1) -> int:
    """Model-state working memory (MSWM): 4 · hidden · 4 hidden bytes over the tiles (S43).

    The weight and its gradient of the largest operator must be there at once (Rajbhandari et al.,
    ZeRO-Infinity, SC 2021, §3; memory-centric tiling §5.1.3): 1.07 GB at hidden 8192.

    Raises:
        InputError: as `operator_tensor_bytes`.
    """
    return 2 * operator_tensor_bytes(hidden, tiles)


def largest_hidden(contiguous_bytes: int, tiles: int = 1) -> int:
    """The largest power-of-two hidden whose tensors each fit one free piece of memory (S43).

    ``contiguous_bytes`` (B) is the largest piece, as in a fragmented memory of 2 GiB pieces; the
    weight and its gradient may lie in different ones. 0 if not even hidden = 1 fits.

    Raises:
        InputError: contiguous_bytes or tiles is not a whole positive number.
    """
    contiguous_bytes = whole("contiguous bytes", contiguous_bytes, 1, 10**15)
    tiles = whole("tiles", tiles, 1, _MOST_HIDDEN)
    fitting = 0
    hidden = 1
    while -(-_HALF * hidden * _WIDENING * hidden // tiles) <= contiguous_bytes:
        fitting, hidden = hidden, 2 * hidden
    return fitting


def update_bytes(ledger: Ledger) -> int:
    """Bytes (B) on the fullest rank while the update turns one unit's gradients into FP32 (S2).

    The states and 4 B for each element of the largest piece that this rank updates. At stages 2 and
    3 a step peaks earlier, in backward.
    """
    largest = max(ledger.units)
    piece = largest if ledger.stage == 0 else -(-largest // ledger.ranks)
    return ledger.fullest_rank_bytes + _FP32 * piece
