"""Tiers: which states lie on the GPU, in the CPU's memory or on NVMe, and what fits.

ZeRO-Offload (Ren et al., USENIX ATC 2021, §3 and §4.2) keeps the half-precision weights on the GPU
and puts gradients and optimizer states in the CPU's memory; on several cards each rank offloads
its own part, so a node's CPU holds the parts of its cards. ZeRO-Infinity (Rajbhandari et al., SC
2021, §3 and §5.1) cuts everything as stage 3 does and may put all of it on CPU or NVMe.

Only states are counted. A card also needs room for the layer in use and its activations, which
`Node.reserve_bytes` keeps free.
"""

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import Final

from shardbook.errors import InputError, one_of, whole
from shardbook.ledger.fits import MOST_CARD_BYTES
from shardbook.ledger.recipes import CATEGORIES, Recipe, recipe_named
from shardbook.ledger.stages import MOST_PARAMETERS, MOST_RANKS, bytes_per_rank
from shardbook.numbers.units import GB

GPU: Final = "GPU"
CPU: Final = "CPU"
NVME: Final = "NVMe"
#: from the fastest to the largest
TIERS: Final = (GPU, CPU, NVME)

OPTIMIZER: Final = ("master_weights", "momentum", "variance")


@dataclass(frozen=True, slots=True)
class Scheme:
    """Where a system keeps weights, gradients and optimizer states, and at which ZeRO stage."""

    name: str
    title: str
    stage: int
    weights: str
    gradients: str
    optimizer: str
    recipe: str = "mixed-adam"

    def tier(self, category: str) -> str:
        """The tier of one of the ledger's categories."""
        if category in OPTIMIZER:
            return self.optimizer
        return self.weights if category == "weights" else self.gradients


_INFINITY_RECIPE: Final = "mixed-adam-resident-fp32-gradients"
_ALL: Final = (
    Scheme("data-parallel", "data parallelism", 0, GPU, GPU, GPU),
    Scheme("zero-2", "ZeRO-2", 2, GPU, GPU, GPU),
    Scheme("zero-3", "ZeRO-3", 3, GPU, GPU, GPU),
    Scheme("zero-offload", "ZeRO-Offload", 2, GPU, CPU, CPU),
    Scheme("zero-3-optimizer-cpu", "ZeRO-3, optimizer on the CPU", 3, GPU, GPU, CPU),
    Scheme("zero-3-offload", "ZeRO-3, gradients and optimizer on the CPU", 3, GPU, CPU, CPU),
    Scheme("zero-3-nvme", "ZeRO-3, gradients on the CPU, optimizer on NVMe", 3, GPU, CPU, NVME),
    Scheme("infinity-cpu", "ZeRO-Infinity, all on the CPU", 3, CPU, CPU, CPU, _INFINITY_RECIPE),
    Scheme("infinity-nvme", "ZeRO-Infinity, all on NVMe", 3, NVME, NVME, NVME, _INFINITY_RECIPE),
)
SCHEMES: Final = {scheme.name: scheme for scheme in _ALL}


@dataclass(frozen=True, slots=True)
class Node:
    """A host with its cards; sizes in B. ``reserve_bytes`` of each card are left to activations.

    Raises:
        InputError: a size or count out of its range, or a reserve that is all of a card.
    """

    cards: int
    card_bytes: int
    cpu_bytes: int
    nvme_bytes: int = 0
    reserve_bytes: int = 0

    def __post_init__(self) -> None:
        whole("cards", self.cards, 1, MOST_RANKS)
        whole("card", self.card_bytes, 1, MOST_CARD_BYTES)
        whole("CPU memory", self.cpu_bytes, 0, MOST_CARD_BYTES)
        whole("NVMe", self.nvme_bytes, 0, MOST_CARD_BYTES)
        whole("reserve", self.reserve_bytes, 0, self.card_bytes - 1)

    @property
    def room(self) -> dict[str, int]:
        """B that states may take: on each card, in the node's CPU memory, on its NVMe."""
        return {
            GPU: self.card_bytes - self.reserve_bytes,
            CPU: self.cpu_bytes,
            NVME: self.nvme_bytes,
        }


#: DGX-2 as the ZeRO-Infinity paper counts it: 16 V100 of 32 GB, 1.5 TB, 28 TB (figure 2b, as
#: reported); the reserve of 4 GB a card is the source lecture's
DGX2: Final = Node(16, 32 * GB, 1500 * GB, 28_000 * GB, 4 * GB)
#: one of its cards alone, with all of the host
ONE_V100: Final = replace(DGX2, cards=1)
#: the extension lesson's node for 70B: four 80 GB cards, 512 GB, 2 TB of NVMe
FOUR_CARDS: Final = Node(4, 80 * GB, 512 * GB, 2000 * GB)


@dataclass(frozen=True, slots=True)
class Held:
    """B of states by tier: on the fullest card, in one node's CPU memory, on one node's NVMe."""

    gpu: int
    cpu: int
    nvme: int
    #: the tiers that hold more than the node has room for, fastest first
    too_full: tuple[str, ...]

    @property
    def fits(self) -> bool:
        """Whether every tier has room."""
        return not self.too_full

    def of(self, tier: str) -> int:
        """B of one of `TIERS`."""
        return {GPU: self.gpu, CPU: self.cpu, NVME: self.nvme}[tier]


def scheme_named(name: str | Scheme) -> Scheme:
    """Return the scheme of that name. Raises InputError for an unknown one."""
    return name if isinstance(name, Scheme) else SCHEMES[one_of("scheme", name, SCHEMES)]


def held(
    scheme: str | Scheme,
    parameters: int,
    node: Node,
    *,
    nodes: int = 1,
    model_parallel: int = 1,
    recipe: str | Recipe | None = None,
) -> Held:
    """Return what each tier holds when ``nodes`` equal nodes train ``parameters`` (S15).

    Model parallelism first cuts the model into ``model_parallel`` parts; the ranks that hold the
    same part shard it as the scheme's stage does. ``recipe``: another than the scheme's own.

    Raises:
        InputError: an unknown scheme or recipe, a number out of its range, or a model parallel
            degree that does not divide the cards.
    """
    scheme = scheme_named(scheme)
    cards = node.cards * whole("nodes", nodes, 1, MOST_RANKS)
    parallel = whole("model parallel", model_parallel, 1, cards)
    if cards % parallel:
        allowed = f"give a number that divides the {cards:,} cards"
        raise InputError("model parallel", model_parallel, allowed)
    part = -(-whole("parameters", parameters, 1, MOST_PARAMETERS) // parallel)
    return _held(scheme, part, node, cards // parallel, recipe_named(recipe or scheme.recipe))


def _held(scheme: Scheme, part: int, node: Node, ranks: int, recipe: Recipe) -> Held:
    by_category = bytes_per_rank(part, ranks, scheme.stage, recipe).by_category()
    tiers = dict.fromkeys(TIERS, 0)
    for category in CATEGORIES:
        tier = scheme.tier(category)
        tiers[tier] += by_category[category] * (1 if tier == GPU else node.cards)
    room = node.room
    too_full = tuple(tier for tier in TIERS if tiers[tier] > room[tier])
    return Held(tiers[GPU], tiers[CPU], tiers[NVME], too_full)


@dataclass(frozen=True, slots=True)
class Largest:
    """The most ``parameters`` whose states fit, and the tiers that have no room for one more."""

    scheme: Scheme
    parameters: int
    full: tuple[str, ...]


def largest_by_tier(
    scheme: str | Scheme,
    node: Node,
    *,
    nodes: int = 1,
    model_parallel: int = 1,
    recipe: str | Recipe | None = None,
) -> Largest:
    """Return the largest model whose states fit all tiers, 0 parameters if none does (S51).

    Raises:
        InputError: as `held`.
    """
    scheme = scheme_named(scheme)

    def at(parameters: int) -> Held:
        return held(
            scheme, parameters, node, nodes=nodes, model_parallel=model_parallel, recipe=recipe
        )

    sizes = range(1, MOST_PARAMETERS + 1)
    most = bisect_left(sizes, True, key=lambda parameters: not at(parameters).fits)
    full = at(most + 1).too_full if most < MOST_PARAMETERS else ()
    return Largest(scheme, most, full)
