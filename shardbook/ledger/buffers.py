"""Temporary buffers for fused operations: as large as the model, or of constant size.

Fusing all gradients into one FP32 buffer makes one large, fast collective; the buffer grows with the
model. ZeRO's C_B bounds it by a constant (Rajbhandari et al., SC 2020, §6.2).
"""

from typing import Final

from shardbook.errors import whole
from shardbook.ledger.stages import MOST_PARAMETERS

#: PyTorch DDP's default bucket, ``bucket_cap_mb=25``, which it reads as MiB (Li et al., VLDB 2020)
DDP_BUCKET_BYTES: Final = 25 * 2**20

_FP32: Final = 4


def fused_buffer_bytes(parameters: int) -> int:
    """Bytes (B) of one FP32 buffer that holds every gradient: 6 GB for 1.5 × 10⁹ parameters (S40).

    Raises:
        InputError: parameters is not a whole number in 1…10¹⁵.
    """
    return _FP32 * whole("parameters", parameters, 1, MOST_PARAMETERS)


def constant_buffer_bytes(parameters: int, most: int = DDP_BUCKET_BYTES) -> int:
    """Bytes (B) of the buffer when it is filled, sent and filled again: at most ``most`` (S40).

    Raises:
        InputError: parameters or most is not a whole number in 1…10¹⁵.
    """
    return min(fused_buffer_bytes(parameters), whole("buffer", most, 1, 10**15))
