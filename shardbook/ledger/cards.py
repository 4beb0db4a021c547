"""Cards and models that the chapters compare: memory sizes and parameter counts."""

from dataclasses import dataclass
from typing import Final

from shardbook.numbers.units import GB


@dataclass(frozen=True, slots=True)
class Card:
    """A device and its memory in bytes (B), by the maker's data sheet (GB = 10⁹ B) (S3)."""

    name: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Model:
    """A published model and its number of parameters (S3)."""

    name: str
    parameters: int
    source: str


CARDS: Final = (
    Card("V100 16 GB", 16 * GB),
    Card("V100 32 GB", 32 * GB),
    Card("A100 40 GB", 40 * GB),
    Card("A100 80 GB", 80 * GB),
    Card("H100 80 GB", 80 * GB),
)

MODELS: Final = (
    Model("BERT-large", 340_000_000, "Devlin et al., NAACL 2019"),
    Model("GPT-2", 1_500_000_000, "Radford et al., 2019"),
    Model("Megatron-LM", 8_300_000_000, "Shoeybi et al., 2019"),
    Model("T5", 11_000_000_000, "Raffel et al., JMLR 2020"),
    Model("Llama 3 70B", 70_000_000_000, "Llama Team, 2024"),
    Model("GPT-3", 175_000_000_000, "Brown et al., NeurIPS 2020"),
    Model("Llama 3 405B", 405_000_000_000, "Llama Team, 2024"),
)
