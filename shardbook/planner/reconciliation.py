"""Mistakes of the source lectures that the planner and the cost settle."""

from shardbook.corrections import Correction, Figure
from shardbook.ledger.tiers import CPU, FOUR_CARDS, held
from shardbook.numbers.units import GB
from shardbook.planner.cost import REPORTED
from shardbook.planner.placements import ONE_WAY_EDGES, best, placements
from shardbook.planner.presets import MODELS, Model

_LESSON_PRICE = 3.5
_WAYS = 8
_70B = 70_000_000_000


def corrections() -> tuple[Correction, ...]:
    """Return M15, M16, M25 and M26."""
    return _m15(), _m16(), _m25(), _m26()


def _m15() -> Correction:
    cpu = FOUR_CARDS.room[CPU] / GB
    classic = held("zero-offload", _70B, FOUR_CARDS)
    shorter = held("zero-3-optimizer-cpu", _70B, FOUR_CARDS, recipe="bf16-adam")
    optimizer = held("zero-3-optimizer-cpu", _70B, FOUR_CARDS)
    both = held("zero-3-offload", _70B, FOUR_CARDS)
    nvme = held("zero-3-nvme", _70B, FOUR_CARDS)
    return Correction(
        "M15",
        "D",
        "With the optimizer in a node's 512 GB of CPU memory, 70B trains on 4 cards of 80 GB"
        " instead of 16.",
        "The states that leave the cards are no longer counted anywhere, and offloading is taken"
        " to include sharding.",
        (
            Figure(
                "moments in CPU memory, without master weights", "GB", cpu, cpu, shorter.cpu / GB
            ),
            Figure("moments and master weights", "GB", cpu, cpu, optimizer.cpu / GB),
            Figure("weights on each card, ZeRO-Offload", "GB", 80, 80, classic.gpu / GB),
        ),
        (
            f"Two FP32 moments of 70B are {shorter.cpu / GB:g} GB, with FP32 master weights"
            f" {optimizer.cpu / GB:g} GB: neither fits {cpu:g} GB.",
            f"ZeRO-Offload keeps all half-precision weights on every card: {classic.gpu / GB:g} GB.",
            f"Stage 3 cuts them: {optimizer.gpu / GB:g} GB a card with gradients,"
            f" {both.gpu / GB:g} GB if these leave the card, too.",
            f"With the optimizer on NVMe it fits: {nvme.gpu / GB:g} GB a card, {nvme.cpu / GB:g} GB"
            f" of CPU memory, {nvme.nvme / GB:g} GB of NVMe.",
        ),
    )


def _m26() -> Correction:
    both_ways, one_way = placements(), placements(ONE_WAY_EDGES)
    cheap, cheap_one_way = (
        sum(each.traffic <= 4 for each in every) for every in (both_ways, one_way)
    )
    exactly = sum(each.traffic == 4 for each in both_ways)
    return Correction(
        "M26",
        "B",
        "Four placements have the least traffic, 4M bytes.",
        "The placement that leaves everything on the GPU has no traffic at all and is counted with"
        " the others; and the graph is drawn with one arrow between the update and its states.",
        (
            Figure("placements with exactly 4 B a parameter", "", 4, cheap, exactly),
            Figure("placements with at most 4 B a parameter", "", 4, cheap_one_way, cheap),
        ),
        (
            f"Of all {len(both_ways)} placements, {cheap - exactly} crosses nothing and stores"
            f" {both_ways[0].gpu_bytes} B a parameter on the GPU; {exactly} cross 4 B.",
            f"Among them {best().gpu[0]} alone on the GPU stores least, {best().gpu_bytes} B.",
            "The update reads and writes each of its FP32 states: 8 B in all. With one arrow of"
            f" 4 B each, {cheap_one_way} placements would stay within 4 B: moments alone on the"
            " other side seem as cheap.",
        ),
    )


def _m16() -> Correction:
    run = next(each for each in REPORTED if each.name == "DeepSeek-V3")
    as_source = run.card_hours * _LESSON_PRICE / 1e6
    right = run.card_hours * run.price_needed / 1e6
    return Correction(
        "M16",
        "D",
        f"At ${_LESSON_PRICE:.2f} a card-hour the estimator reproduces DeepSeek-V3's $5.6M.",
        "The lesson's H100 price is used for a report that states its own price and card.",
        (
            Figure("cost of the final run", "million $", 5.6, as_source, right),
            Figure("price a card-hour", "$", _LESSON_PRICE, _LESSON_PRICE, run.price_needed),
        ),
        (
            f"{run.card_hours / 1e6:.3f}M H800-hours × ${run.price_needed:g} = ${right:.2f}M.",
            f"The same hours × ${_LESSON_PRICE:.2f} = ${as_source:.2f}M.",
            "A cost is hours times a price: state the price with the card-hours.",
        ),
    )


def _m25() -> Correction:
    model = MODELS["megatron-1t"]
    layer = _layer_gb(model)
    return Correction(
        "M25",
        "C",
        "When one layer does not fit, tensor and pipeline parallelism together make it fit; data"
        " parallelism is among the ways that split the model.",
        "A pipeline deals out whole layers, and data parallelism copies the model: neither makes a"
        " layer smaller.",
        (
            Figure(
                f"largest piece of one layer's weights, pipeline over {_WAYS}",
                "GB",
                layer / _WAYS,
                layer / _WAYS,
                layer,
            ),
            Figure(
                f"largest piece of one layer's weights, tensor parallelism over {_WAYS}",
                "GB",
                layer / _WAYS,
                layer / _WAYS,
                layer / _WAYS,
            ),
        ),
        (
            f"A layer of width {model.hidden:,} has {model.layer_parameters / 1e9:.2f} billion"
            f" parameters: {layer:.2f} GB in half precision.",
            f"On {_WAYS} pipeline ranks each layer still lies whole on one rank: {layer:.2f} GB.",
            f"Tensor parallelism cuts its matrices: {layer / _WAYS:.2f} GB; tiling does it in time.",
        ),
    )


def _layer_gb(model: Model) -> float:
    return 2 * model.layer_parameters / 1e9
