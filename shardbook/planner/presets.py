"""Models and cards by name, with their sources; or written as ``key=value`` lists.

A model is a transformer's shape with its sequence and batch. Peaks are dense BF16 (FP16 on V100)
with FP32 accumulation. Prices a card-hour are those of the source lectures' exercise, not quotes.
"""

from dataclasses import dataclass, fields, replace
from typing import Any, Final

from shardbook.errors import InputError, one_of, whole
from shardbook.numbers.units import GB, GIB, parse_bytes, parse_count, parse_flops
from shardbook.planner.pairs import (
    bytes_of,
    fraction_of,
    number_of,
    preset_and_pairs,
    rate_of,
    seconds_of,
    within,
)


@dataclass(frozen=True, slots=True)
class Model:
    """A transformer: ``feed_forward`` is the MLP's width, 3 matrices if ``gated``, else 2.

    ``experts`` copies of the MLP, ``active`` of them a token. ``batch`` is in tokens a step.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    feed_forward: int
    vocabulary: int
    sequence: int
    batch: int
    gated: int = 0
    tied: int = 1
    experts: int = 1
    active: int = 1
    source: str = "as given"

    @property
    def attention_parameters(self) -> int:
        """Parameters of a layer's attention: queries and output, keys and values."""
        return 2 * self.hidden**2 * (self.heads + self.kv_heads) // self.heads

    @property
    def expert_parameters(self) -> int:
        """Parameters of one MLP, i.e. of one expert of one layer."""
        return (2 + self.gated) * self.hidden * self.feed_forward

    @property
    def layer_parameters(self) -> int:
        """Parameters of one layer with all its experts; biases and norms are left out."""
        return self.attention_parameters + self.experts * self.expert_parameters

    @property
    def embedding_parameters(self) -> int:
        """Parameters of one embedding table, vocabulary × hidden."""
        return self.vocabulary * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters; tied input and output embeddings count once."""
        return self.layers * self.layer_parameters + (2 - self.tied) * self.embedding_parameters

    @property
    def active_parameters(self) -> int:
        """Parameters that one token uses."""
        idle = self.layers * (self.experts - self.active) * self.expert_parameters
        return self.parameters - idle

    @property
    def layer_flops(self) -> int:
        """FLOP of one layer's forward a token: 2 a parameter, and 4 · s · h for attention.

        Full attention matrices, as Narayanan et al., SC 2021, appendix, count them.
        """
        used = self.attention_parameters + self.active * self.expert_parameters
        return 2 * used + 4 * self.sequence * self.hidden

    @property
    def head_flops(self) -> int:
        """FLOP of the output layer's forward a token: 2 · vocabulary · hidden."""
        return 2 * self.embedding_parameters


@dataclass(frozen=True, slots=True)
class Card:
    """A device: memory in B, peak in FLOP/s, power in W, price in $ an hour (0: not known)."""

    name: str
    memory: int
    peak: float
    watts: float
    price: float
    source: str


def _gpt(name: str, layers: int, hidden: int, heads: int, batch: int, source: str) -> Model:
    return Model(
        name, layers, hidden, heads, heads, 4 * hidden, 51200, 2048, 2048 * batch, source=source
    )


_MEGATRON: Final = "Narayanan et al., SC 2021, Table 1"
#: size → layers, hidden, heads, batch in sequences, TP, PP, cards, TFLOP/s a card as reported
MEGATRON_TABLE: Final = {
    "megatron-1.7b": (24, 2304, 24, 512, 1, 1, 32, 137),
    "megatron-3.6b": (30, 3072, 32, 512, 2, 1, 64, 138),
    "megatron-7.5b": (36, 4096, 32, 512, 4, 1, 128, 142),
    "megatron-18b": (40, 6144, 48, 1024, 8, 1, 256, 135),
    "megatron-39b": (48, 8192, 64, 1536, 8, 2, 512, 138),
    "megatron-76b": (60, 10240, 80, 1792, 8, 4, 1024, 140),
    "megatron-145b": (80, 12288, 96, 2304, 8, 8, 1536, 148),
    "megatron-310b": (96, 16384, 128, 2160, 8, 16, 1920, 155),
    "megatron-530b": (105, 20480, 128, 2520, 8, 35, 2520, 163),
    "megatron-1t": (128, 25600, 160, 3072, 8, 64, 3072, 163),
}

#: the paper's batch is 3.2 million tokens; 1,536 sequences divide better
_GPT_3: Final = "Brown et al., NeurIPS 2020, Table 2.1"
_LLAMA: Final = "Llama Team, 2024, Table 3"

MODELS: Final = {
    model.name: model
    for model in (
        *(_gpt(name, *row[:4], _MEGATRON) for name, row in MEGATRON_TABLE.items()),
        replace(_gpt("gpt3-175b", 96, 12288, 96, 1536, _GPT_3), vocabulary=50257),
        Model(
            "llama3-8b", 32, 4096, 32, 8, 14336, 128256, 8192, 4 * 2**20, 1, 0, source=_LLAMA
        ),
        Model(
            "llama3-70b", 80, 8192, 64, 8, 28672, 128256, 8192, 16 * 2**20, 1, 0, source=_LLAMA
        ),
        Model(
            "llama3-405b", 126, 16384, 128, 8, 53248, 128256, 8192, 16 * 2**20, 1, 0, source=_LLAMA
        ),
        Model(
            "mixtral-8x7b", 32, 4096, 32, 8, 14336, 32000, 4096, 4 * 2**20, 1, 0, 8, 2,
            source="Jiang et al., 2024, Table 1; the batch is ours",
        ),
    )
}  # fmt: skip

CARDS: Final = {
    card.name: card
    for card in (
        Card("v100-32", 32 * GIB, 125e12, 300, 0, "NVIDIA V100 data sheet (SXM2)"),
        Card("a100-40", 40 * GIB, 312e12, 400, 2, "NVIDIA A100 data sheet (SXM4)"),
        Card("a100-80", 80 * GIB, 312e12, 400, 2, "NVIDIA A100 data sheet (SXM4)"),
        Card("h100-80", 80 * GIB, 989.4e12, 700, 3.5, "NVIDIA H100 data sheet (SXM5)"),
        Card("h800-80", 80 * GIB, 989.4e12, 700, 2, "DeepSeek-V3 report, 2024: $2 an hour"),
    )
}


@dataclass(frozen=True, slots=True)
class Cluster:
    """``nodes`` of ``cards`` each; bandwidths in B/s, one-way, of one card.

    ``fraction``: the part of the peak that matrix products reach, nothing being waited for.
    ``host_memory`` and ``nvme_memory`` (0: no drives) are of a node; ``host_bandwidth`` joins a
    card and its host, ``nvme_bandwidth`` a card and the drives while all cards use them.
    """

    card: Card
    nodes: int
    cards: int = 8
    inside: float = 300e9
    inside_latency: float = 2e-6
    between: float = 25e9
    between_latency: float = 5e-6
    fraction: float = 0.5
    host_memory: int = 1000 * GB
    host_bandwidth: float = 16e9
    nvme_memory: int = 0
    nvme_bandwidth: float = 1.6e9

    @property
    def size(self) -> int:
        """Cards of all nodes."""
        return self.nodes * self.cards


#: card → one-way bandwidth in B/s of a card inside its node (NVLink), and between nodes
_LINKS: Final = {
    "v100-32": (150e9, 12.5e9),
    "a100-40": (300e9, 25e9),
    "a100-80": (300e9, 25e9),
    "h100-80": (450e9, 50e9),
    "h800-80": (200e9, 50e9),
}

#: machine → one node of it. DGX-2: ZeRO-Infinity, SC 2021, §3 and figure 2b, as reported: 1.5 TB
#: of CPU memory, 28 TB of NVMe; 3.0 and 1.6 GB/s a card when all use them; 800 Gb/s a node
MACHINES: Final = {
    "dgx-2": Cluster(
        CARDS["v100-32"], 1, 16, 150e9, between=6.25e9, host_memory=1500 * GB, host_bandwidth=3e9,
        nvme_memory=28_000 * GB, nvme_bandwidth=1.6e9,
    )
}  # fmt: skip


def model_named(text: str) -> Model:
    """Return a preset, changed by pairs: ``llama3-8b``, ``llama3-8b,sequence=4096``, ``layers=…``.

    Without a preset, layers, hidden and heads are needed; the rest is as in GPT-3.

    Raises:
        InputError: an unknown preset or key, or a value that is not allowed.
    """
    first, pairs = preset_and_pairs("model", text)
    base = MODELS[one_of("model", first, MODELS)] if first else None
    known = [field.name for field in fields(Model) if field.name not in ("name", "source")]
    values: dict[str, Any] = {}
    for key, value in pairs:
        one_of("model key", key, known)
        low = 0 if key in ("gated", "tied") else 1
        values[key] = whole(f"model {key}", parse_count(f"model {key}", value), low, 10**9)
        if low == 0:
            whole(f"model {key}", values[key], 0, 1)
    if base is None:
        for key in ("layers", "hidden", "heads"):
            if key not in values:
                raise InputError("model", text, f"give {key}=, or a preset: {', '.join(MODELS)}")
        defaults = {
            "kv_heads": values["heads"],
            "feed_forward": 4 * values["hidden"],
            "vocabulary": 51200,
            "sequence": 2048,
        }
        values = defaults | values
        values.setdefault("batch", 512 * values["sequence"])
        model = Model(name="given", **values)
    else:
        model = replace(base, **values)
    _check_model(model)
    return model


def _check_model(model: Model) -> None:
    if model.hidden % model.heads:
        raise InputError("model heads", model.heads, f"give a divisor of hidden ({model.hidden})")
    if model.heads % model.kv_heads:
        raise InputError("model kv_heads", model.kv_heads, "give a divisor of the heads")
    if model.active > model.experts:
        raise InputError("model active", model.active, "give at most as many as experts")
    if model.batch % model.sequence:
        allowed = f"give tokens, a multiple of the sequence ({model.sequence:,})"
        raise InputError("model batch", model.batch, allowed)


def cluster_named(text: str) -> Cluster:
    """Return a cluster written as ``h100-80,nodes=128,between=50GB/s`` or ``dgx-2,nodes=32``.

    Raises:
        InputError: no or an unknown card, machine or key, or a value that is not allowed.
    """
    first, pairs = preset_and_pairs("cluster", text)
    known = [*CARDS, *MACHINES]
    if not first:
        allowed = f"start with a card or machine ({', '.join(known)}), then pairs such as nodes=4"
        raise InputError("cluster", text, allowed)
    one_of("cluster", first, known)
    base = MACHINES.get(first)
    if base is None:
        inside, between = _LINKS[first]
        base = Cluster(CARDS[first], 1, inside=inside, between=between)
    card, values = base.card, {}
    for key, value in pairs:
        name = f"cluster {one_of('cluster key', key, [*_CLUSTER_KEYS, 'memory', 'peak', 'price'])}"
        if key == "memory":
            card = replace(card, memory=whole(name, parse_bytes(name, value), 1, 10**15))
        elif key == "peak":
            card = replace(card, peak=within(name, parse_flops(name, value), 1, 10**24))
        elif key == "price":
            card = replace(card, price=within(name, parse_count(name, value), 0, 10**6))
        else:
            values[key] = _CLUSTER_KEYS[key](name, value)
    return replace(base, card=card, **values)


_CLUSTER_KEYS: Final[dict[str, Any]] = {
    "nodes": number_of,
    "cards": number_of,
    "inside": rate_of,
    "inside_latency": seconds_of,
    "between": rate_of,
    "between_latency": seconds_of,
    "fraction": fraction_of,
    "host_memory": bytes_of,
    "host_bandwidth": rate_of,
    "nvme_memory": bytes_of,
    "nvme_bandwidth": rate_of,
}
