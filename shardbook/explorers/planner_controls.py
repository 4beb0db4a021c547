"""The controls that explorers of whole layouts share: a model, a card, the wire between nodes."""

from typing import Final

from shardbook.explorers.controls import Choice, Number

#: preset → its name as it is spoken
MODEL_NAMES: Final = {
    "llama3-8b": "Llama 3 8B",
    "llama3-70b": "Llama 3 70B",
    "llama3-405b": "Llama 3 405B",
    "mixtral-8x7b": "Mixtral 8x7B",
    "megatron-1.7b": "Megatron 1.7B",
    "megatron-7.5b": "Megatron 7.5B",
    "megatron-39b": "Megatron 39B",
    "gpt3-175b": "GPT-3 175B",
    "megatron-1t": "Megatron 1T",
}
CARD_NAMES: Final = {
    "v100-32": "V100 32 GB",
    "a100-40": "A100 40 GB",
    "a100-80": "A100 80 GB",
    "h100-80": "H100 80 GB",
}


def model_choice(default: str) -> Choice:
    """Which preset to train."""
    return Choice("model", "Model", default, tuple(MODEL_NAMES.items()))


def card_choice() -> Choice:
    """Which card to train on."""
    return Choice("card", "Card", "h100-80", tuple(CARD_NAMES.items()))


def between() -> Number:
    """What a card sends in a second to another node, one way, B/s."""
    return Number(
        "between", "Bandwidth of a card between nodes, one way", "50GB/s",
        ("1GB/s", "3GB/s", "6GB/s", "12.5GB/s", "25GB/s", "50GB/s", "100GB/s"),
        1e6, 1e13, integer=False, kind="rate", unit="B/s",
    )  # fmt: skip
