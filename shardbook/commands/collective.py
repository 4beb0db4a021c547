"""`shardbook collective`: rounds, bytes and time of a collective."""

from fractions import Fraction

import click

from shardbook.collectives.bandwidth import algbw, busbw
from shardbook.collectives.build import ALGORITHMS, plan_of, squarest_node
from shardbook.collectives.contract import COLLECTIVES
from shardbook.collectives.draw import grid
from shardbook.collectives.measure import Measured, measure
from shardbook.collectives.network import Link, Network, flat, two_level
from shardbook.collectives.plan import MOST_ELEMENTS
from shardbook.commands.options import (
    BYTES,
    COUNT,
    RATE,
    SECONDS,
    json_option,
    print_json,
    print_table,
)
from shardbook.errors import InputError, one_of, whole
from shardbook.numbers.units import format_bytes, format_seconds

_SHOWN = 16


@click.command()
@click.argument("collective")
@click.option("--algorithm", default="ring", show_default=True, help=", ".join(ALGORITHMS))
@click.option("--ranks", type=COUNT, required=True)
@click.option("--bytes", "size", type=BYTES, required=True, help="S as nccl-tests counts it.")
@click.option("--bandwidth", type=RATE, required=True, help="Of a rank's port, one way.")
@click.option("--latency", type=SECONDS, default="0", show_default=True, help="Of a round.")
@click.option("--nodes", type=COUNT, help="Hierarchical: as square as it goes unless given.")
@click.option("--ranks-per-node", type=COUNT)
@click.option("--between-bandwidth", type=RATE, help="Of a network card. Default: --bandwidth.")
@click.option("--between-latency", type=SECONDS, help="Default: --latency.")
@click.option("--cards", type=COUNT, help="Network cards a node. Default: one a rank.")
@click.option("--draw", is_flag=True, help="Also print who receives what in which round.")
@json_option
def command(
    collective: str,
    algorithm: str,
    ranks: Fraction,
    size: Fraction,
    bandwidth: Fraction,
    latency: Fraction,
    nodes: Fraction | None,
    ranks_per_node: Fraction | None,
    between_bandwidth: Fraction | None,
    between_latency: Fraction | None,
    cards: Fraction | None,
    draw: bool,
    as_json: bool,
) -> None:
    """Count and price a COLLECTIVE.

    all-reduce, reduce-scatter, all-gather, all-to-all, broadcast, reduce, gather or scatter.
    """
    one_of("collective", collective, COLLECTIVES)
    one_of("algorithm", algorithm, ALGORITHMS)
    n = whole("ranks", ranks, 1, _most_ranks(collective, algorithm))
    total = whole("bytes", size, 0, MOST_ELEMENTS)
    width = _ranks_per_node(n, nodes, ranks_per_node)
    if width is None and algorithm == "hierarchical":
        width = squarest_node(n)
    inside = Link(float(latency), float(bandwidth))
    between = Link(
        float(latency if between_latency is None else between_latency),
        float(bandwidth if between_bandwidth is None else between_bandwidth),
    )
    network = _network(inside, between, width, cards)
    if width is None and (between_latency, between_bandwidth, cards) != (None, None, None):
        raise InputError("nodes", None, "give --nodes or --ranks-per-node for links between nodes")
    plan = plan_of(collective, algorithm, n, total, width)
    measured = measure(plan, network)
    seconds = measured.seconds
    rates = algbw(total, seconds), busbw(collective, n, total, seconds)
    answer = {
        "collective": collective,
        "algorithm": algorithm,
        "ranks": n,
        "ranks_per_node": width,
        "bytes": total,
        "rounds": measured.rounds,
        "transfers": measured.transfers,
        "sent_bytes_per_rank": list(measured.sent),
        "received_bytes_per_rank": list(measured.received),
        "inside_bytes": measured.inside_bytes,
        "between_bytes": measured.between_bytes,
        "seconds": seconds,
        "algbw": rates[0],
        "busbw": rates[1],
    }
    if as_json:
        print_json(answer)
        return
    _print(measured, *rates, as_nodes=width is not None)
    if draw:
        click.echo("\n" + grid(plan))


def _most_ranks(collective: str, algorithm: str) -> int:
    """Return a bound that keeps an answer to seconds and about half a gigabyte."""
    if algorithm == "ring":
        return 256 if collective == "all-to-all" else 4096
    return 256 if (collective, algorithm) == ("all-to-all", "tree") else 1024


def _ranks_per_node(
    ranks: int, nodes: Fraction | None, ranks_per_node: Fraction | None
) -> int | None:
    if ranks_per_node is not None:
        width = whole("ranks-per-node", ranks_per_node, 1, ranks)
        if ranks % width:
            raise InputError("ranks-per-node", width, f"give a divisor of the {ranks} ranks")
        if nodes is not None and nodes * width != ranks:
            raise InputError("nodes", int(nodes), f"{ranks} ranks are {ranks // width} × {width}")
        return width
    if nodes is None:
        return None
    count = whole("nodes", nodes, 1, ranks)
    if ranks % count:
        raise InputError("nodes", count, f"give a divisor of the {ranks} ranks")
    return ranks // count


def _network(inside: Link, between: Link, width: int | None, cards: Fraction | None) -> Network:
    if width is None:
        return flat(inside.latency, inside.bandwidth)
    return two_level(
        inside, between, width, None if cards is None else whole("cards", cards, 1, width)
    )


def _print(
    measured: Measured, algorithm: float | None, bus: float | None, *, as_nodes: bool
) -> None:
    rows = [
        [f"rank {rank}", f"{sent:,}", f"{received:,}"]
        for rank, sent, received in zip(
            measured.ranks[:_SHOWN], measured.sent, measured.received, strict=False
        )
    ]
    print_table(["", "sent, B", "received, B"], rows)
    if len(measured.ranks) > _SHOWN:
        click.echo(f"… and {len(measured.ranks) - _SHOWN:,} more ranks")
    click.echo(f"\nrounds     {measured.rounds:,}")
    if as_nodes:
        click.echo(f"inside     {format_bytes(measured.inside_bytes)}")
        click.echo(f"between    {format_bytes(measured.between_bytes)}")
    click.echo(f"time       {format_seconds(measured.seconds)}")
    for name, rate in (("algbw", algorithm), ("busbw", bus)):
        click.echo(f"{name}      {'-' if rate is None else format_bytes(rate) + '/s'}")
