"""`shardbook offload`: where states may lie, and how much bandwidth hides them."""

from fractions import Fraction

import click

from shardbook.commands.options import (
    BYTES,
    COUNT,
    FLOPS,
    RATE,
    json_option,
    print_json,
    print_table,
)
from shardbook.errors import InputError, whole
from shardbook.ledger.fits import MOST_CARD_BYTES
from shardbook.ledger.stages import MOST_PARAMETERS, MOST_RANKS
from shardbook.ledger.tiers import SCHEMES, TIERS, Node, held, largest_by_tier
from shardbook.numbers.units import format_bytes, format_count
from shardbook.planner.bandwidth import KINDS, efficiency, intensity, required_bandwidth
from shardbook.planner.placements import placements


@click.group()
def command() -> None:
    """Where states may lie, and how much bandwidth hides them."""


@command.command("partitions")
@json_option
def partitions(as_json: bool) -> None:
    """List the 128 placements of a step's states and computations."""
    every = placements()
    if as_json:
        print_json(
            [
                {
                    "gpu": list(each.gpu),
                    "traffic_bytes_per_parameter": each.traffic,
                    "gpu_bytes_per_parameter": each.gpu_bytes,
                }
                for each in every
            ]
        )
        return
    print_table(
        ["on the GPU", "B crossing", "B on the GPU"],
        [[", ".join(each.gpu) or "–", str(each.traffic), str(each.gpu_bytes)] for each in every],
    )


@command.command("bandwidth")
@click.option("--peak", type=FLOPS, default="70TFLOP/s", show_default=True, help="FLOP/s reached.")
@click.option("--sequence", type=COUNT, default="1024", show_default=True, help="Tokens.")
@click.option("--batch", type=COUNT, default="1", show_default=True, help="Sequences a device.")
@click.option("--hidden", type=COUNT, default="8192", show_default=True, help="Width.")
@click.option("--interval", type=COUNT, default="1", show_default=True, help="Layers a checkpoint.")
@click.option("--efficiency", "wanted", type=COUNT, help="Give it for the bandwidth it needs.")
@click.option("--bandwidth", type=RATE, help="Give it for the efficiency it allows.")
@json_option
def bandwidth(
    peak: Fraction,
    sequence: Fraction,
    batch: Fraction,
    hidden: Fraction,
    interval: Fraction,
    wanted: Fraction | None,
    bandwidth: Fraction | None,
    as_json: bool,
) -> None:
    """Efficiency from bandwidth, or bandwidth from efficiency.

    With neither, the bandwidth that an efficiency of 0.9 needs.
    """
    if wanted is not None and bandwidth is not None:
        raise InputError("--bandwidth", bandwidth, "give either --bandwidth or --efficiency")
    if wanted is None and bandwidth is None:
        wanted = Fraction(9, 10)
    shape = {
        "sequence": whole("sequence", sequence, 1, 10**9),
        "batch": whole("batch", batch, 1, 10**9),
        "hidden": whole("hidden", hidden, 1, 10**9),
        "interval": whole("interval", interval, 1, 10**6),
    }
    rows = []
    for kind in KINDS:
        works = intensity(kind, **shape)
        if bandwidth is None:
            assert wanted is not None
            share, rate = float(wanted), required_bandwidth(works, float(wanted), float(peak))
        else:
            share, rate = efficiency(works, float(bandwidth), float(peak)), float(bandwidth)
        rows.append((kind, works, rate, share))
    if as_json:
        keys = ("kind", "intensity", "bandwidth", "efficiency")
        print_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    print_table(
        ["fetched", "FLOP/B", "bandwidth", "efficiency"],
        [
            [kind, f"{works:,.0f}", f"{format_bytes(rate)}/s", f"{share:.1%}"]
            for kind, works, rate, share in rows
        ],
    )


@command.command("tiers")
@click.argument("parameters", type=COUNT)
@click.option("--cards", type=COUNT, default="1", show_default=True, help="Cards of a node.")
@click.option("--nodes", type=COUNT, default="1", show_default=True, help="Equal nodes.")
@click.option("--card", type=BYTES, default="80GB", show_default=True, help="A card's memory.")
@click.option("--cpu", type=BYTES, default="512GB", show_default=True, help="A node's CPU memory.")
@click.option("--nvme", type=BYTES, default="0", show_default=True, help="A node's NVMe.")
@click.option("--reserve", type=BYTES, default="0", show_default=True, help="Kept free on a card.")
@click.option("--recipe", help="Bytes a parameter, as in `shardbook ledger`; else each its own.")
@json_option
def tiers(
    parameters: Fraction,
    cards: Fraction,
    nodes: Fraction,
    card: Fraction,
    cpu: Fraction,
    nvme: Fraction,
    reserve: Fraction,
    recipe: str | None,
    as_json: bool,
) -> None:
    """What each system keeps on GPU, CPU and NVMe, and if it fits.

    The model has so many PARAMETERS.
    """
    model = whole("parameters", parameters, 1, MOST_PARAMETERS)
    hosts = whole("nodes", nodes, 1, MOST_RANKS)
    node = Node(
        whole("cards", cards, 1, MOST_RANKS),
        whole("card", card, 1, MOST_CARD_BYTES),
        whole("CPU memory", cpu, 0, MOST_CARD_BYTES),
        whole("NVMe", nvme, 0, MOST_CARD_BYTES),
        whole("reserve", reserve, 0, MOST_CARD_BYTES),
    )
    found = [
        (
            scheme,
            held(scheme, model, node, nodes=hosts, recipe=recipe),
            largest_by_tier(scheme, node, nodes=hosts, recipe=recipe),
        )
        for scheme in SCHEMES.values()
    ]
    if as_json:
        print_json(
            [
                {
                    "scheme": scheme.name,
                    "bytes": {tier: here.of(tier) for tier in TIERS},
                    "fits": here.fits,
                    "too_full": list(here.too_full),
                    "largest_parameters": largest.parameters,
                }
                for scheme, here, largest in found
            ]
        )
        return
    print_table(
        ["system", "each card", "CPU", "NVMe", "no room", "largest model"],
        [
            [
                scheme.title,
                *(format_bytes(here.of(tier), 3) for tier in TIERS),
                ", ".join(here.too_full) or "–",
                format_count(largest.parameters, 3),
            ]
            for scheme, here, largest in found
        ],
    )
