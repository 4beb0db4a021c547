"""Mistakes of the source lectures that the planner and the cost settle."""

from shardbook.corrections import Correction, Figure
from shardbook.planner.cost import REPORTED
from shardbook.planner.presets import MODELS, Model

_LESSON_PRICE = 3.5
_WAYS = 8


def corrections() -> tuple[Correction, ...]:
    """Return M16 and M25."""
    return _m16(), _m25()


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
