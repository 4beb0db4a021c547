"""Reading what probes print. The samples in data/ are written after the formats that the programs
document; no machine of ours printed them."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.collectives.measure import measure
from shardbook.collectives.network import flat
from shardbook.collectives.probes import Probe, Timing, cluster_pairs, fit_link, parse_all_reduce
from shardbook.collectives.ring import ring_all_reduce
from shardbook.collectives.topology import KINDS, parse_topology
from shardbook.errors import InputError
from shardbook.planner.presets import cluster_named

DATA = Path(__file__).parent / "data"


def sample(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def test_two_cards_on_pcie():
    """(S68)"""
    topology = parse_topology(sample("topo_2_pcie"))
    assert (topology.gpus, topology.nics) == (("GPU0", "GPU1"), ())
    assert topology.kind("GPU0", "GPU1") == "PHB"
    assert topology.nearest_nics("GPU0") == ()


def test_eight_cards_on_nvlink_with_network_cards():
    """Colours in the head, cards' rows with affinities, network cards' without (S68)."""
    topology = parse_topology(sample("topo_8_nvlink"))
    assert len(topology.gpus) == 8
    assert topology.nics == ("NIC0", "NIC1", "NIC2", "NIC3")
    assert topology.farthest(topology.gpus) == "NV12"
    assert topology.nearest_nics("GPU5") == ("NIC2",)
    assert topology.kind("NIC3", "GPU0") == "SYS"


def test_two_bridged_pairs_of_an_older_driver():
    """(S68)"""
    topology = parse_topology(sample("topo_4_bridged"))
    assert topology.nics == ("mlx5_0",)
    assert topology.farthest(("GPU2", "GPU3")) == "NV4"
    assert topology.farthest(topology.gpus) == "SYS"


def test_more_nvlinks_are_nearer_and_all_kinds_are_ordered():
    order = ["NV12", "NV2", *list(KINDS)[1:]]
    cards = [f"GPU{i}" for i in range(len(order) + 1)]
    rows = [
        [card, *("X" if i == j else order[max(i, j) - 1] for j in range(len(cards)))]
        for i, card in enumerate(cards)
    ]
    topology = parse_topology("\n".join(" ".join(words) for words in [cards, *rows]))
    for last in range(2, len(cards) + 1):
        assert topology.farthest(cards[:last]) == order[last - 2]


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("PHB\t X \t", "PBH\t X \t"), "line 3, column 2"),
        (("GPU1\tPHB\t X ", "GPU1\tSYS\t X "), "line 3, column 2"),
        (("GPU0\t X ", "GPU0\tPIX"), "line 2, column 2"),
        (("GPU1\tPHB", "GPU7\tPHB"), "line 3, column 1"),
        (("GPU1\tPHB\t X \t0-31\t0\t\tN/A", "GPU1\tPHB"), "line 3, column 3"),
        (("GPU1\tPHB\t X \t0-31\t0\t\tN/A\n", ""), "line 3, column 1"),
    ],
)
def test_a_bad_matrix_is_refused_at_its_line_and_column(change, place):
    """(S68)"""
    text = sample("topo_2_pcie")
    assert change[0] in text
    with pytest.raises(InputError, match=f"topology {place} is"):
        parse_topology(text.replace(*change, 1))


@pytest.mark.parametrize("text", ["", "GPU1 GPU0", "command not found: nvidia-smi"])
def test_text_without_a_matrix_is_refused(text):
    with pytest.raises(InputError, match="topology is"):
        parse_topology(text)


def test_the_lessons_command_prints_five_sizes():
    """-b 8M -e 128M -f 2 -g 2 (S68)"""
    probe = parse_all_reduce(sample("all_reduce_2_pcie"))
    assert (probe.ranks, probe.nodes) == (2, 1)
    assert [timing.size for timing in probe.timings] == [8 << (20 + i) for i in range(5)]
    assert probe.timings[0].out_of_place == pytest.approx(724.2e-6)
    assert probe.timings[-1].in_place == pytest.approx(11115e-6)


def test_busbw_of_the_samples_is_their_average():
    """The last line is the mean over sizes and both ways; computed here from the times."""
    for name in ("all_reduce_2_pcie", "all_reduce_8_nvlink", "all_reduce_2_nodes"):
        text = sample(name)
        probe = parse_all_reduce(text)
        factor = 2 * (probe.ranks - 1) / probe.ranks
        rates = [
            factor * timing.size / seconds / 1e9
            for timing in probe.timings
            for seconds in (timing.out_of_place, timing.in_place)
        ]
        printed = float(text.split("Avg bus bandwidth    :")[1].split()[0])
        assert sum(rates) / len(rates) == pytest.approx(printed, rel=1e-3)


def test_two_nodes_with_log_lines_between():
    """(S68)"""
    probe = parse_all_reduce(sample("all_reduce_2_nodes"))
    assert (probe.ranks, probe.nodes, len(probe.timings)) == (2, 2, 25)
    assert fit_link(probe).link.latency == pytest.approx(11e-6, rel=0.02)
    assert fit_link(probe, in_place=True).link.bandwidth == pytest.approx(23.4e9, rel=0.02)


def test_an_old_table_without_root_and_with_a_rank_before_each_line():
    head = "#  size count type redop time algbw busbw error time algbw busbw error"
    rank = "#  Rank  {0} Pid  7 on h device  {0} [0x0{0}] Tesla V100"
    row = "1000000 250000 float sum 100.0 10.00 10.00 5e-07 200.0 5.00 5.00 5e-07"
    lines = [rank.format(0), rank.format(1), head, row]
    for mark in ("", "0: ", "[1,0]<stdout>:"):
        probe = parse_all_reduce("\n".join(mark + line for line in lines))
        assert probe.timings == (Timing(1_000_000, pytest.approx(1e-4), pytest.approx(2e-4)),)


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(2, 9), st.floats(1e-6, 1e-3), st.floats(1e9, 1e12))
def test_a_fit_finds_the_link_that_priced_the_plans(ranks, latency, bandwidth):
    """Times counted round by round on a network are explained by that network (S68)."""
    sizes = [ranks << shift for shift in (4, 12, 20, 26)]
    seconds = [
        measure(ring_all_reduce(ranks, size), flat(latency, bandwidth)).seconds for size in sizes
    ]
    timings = tuple(Timing(size, t, 2 * t) for size, t in zip(sizes, seconds, strict=True))
    probe = Probe(("h",) * ranks, timings)
    fit = fit_link(probe)
    assert fit.link.latency == pytest.approx(latency, rel=1e-6)
    assert fit.link.bandwidth == pytest.approx(bandwidth, rel=1e-6)
    assert fit.worst < 1e-6
    assert fit_link(probe, in_place=True).link.bandwidth == pytest.approx(bandwidth / 2, rel=1e-6)


def test_large_sizes_alone_do_not_find_the_latency():
    """From 8 MiB on it is a few per cent of the time; from 8 B on it is all of it (S68)."""
    large = fit_link(parse_all_reduce(sample("all_reduce_2_pcie")))
    every = fit_link(parse_all_reduce(sample("all_reduce_2_nodes")))
    assert large.latency_share < 0.06
    assert every.latency_share > 0.99


def test_a_latency_is_never_negative():
    timings = tuple(Timing(size, size**1.1 * 1e-10, 1) for size in (1000, 2000, 4000))
    fit = fit_link(Probe(("h", "h"), timings))
    assert fit.link.latency == 0
    assert fit.worst > 0.01


def test_the_fit_enters_the_planners_cluster():
    """(S68)"""
    link = fit_link(parse_all_reduce(sample("all_reduce_2_nodes"))).link
    cluster = cluster_named(f"a100-80,nodes=2,{cluster_pairs(link, 'between')}")
    assert cluster.between == pytest.approx(link.bandwidth, rel=1e-3)
    assert cluster.between_latency == pytest.approx(link.latency, rel=1e-3)
    assert cluster.inside == cluster_named("a100-80").inside


@pytest.mark.parametrize(
    ("change", "place"),
    [
        (("1410.3", "1410.x"), "line 11, column 6"),
        (("1410.3", "0"), "line 11, column 6"),
        (("11.90   11.90", "21.90   11.90"), "line 11, column 7"),
        (("11.90   11.90", "11.90   20.83"), "line 11, column 8"),
        (("11.90   11.90      0", "11.90   11.90      3"), "line 11, column 9"),
        (("  12.03   12.03      0", ""), "line 13, column 11"),
        (("#       size         count", "#"), "line 10 is"),
        (("#  Rank  0 Group  0 Pid  41000 on", "#  Rank"), "line 10, column 8"),
    ],
)
def test_a_bad_table_is_refused_at_its_line_and_column(change, place):
    """(S68)"""
    text = sample("all_reduce_2_pcie")
    assert change[0] in text
    with pytest.raises(InputError, match=f"all_reduce_perf {place}"):
        parse_all_reduce(text.replace(*change, 1))


def test_another_collective_is_told_by_its_busbw():
    """An all-gather among two has half its algbw as busbw."""
    text = sample("all_reduce_2_pcie").replace("11.90   11.90", "11.90    5.95")
    with pytest.raises(InputError, match="an all-reduce among 2 ranks has 1 times its algbw"):
        parse_all_reduce(text)


@pytest.mark.parametrize(
    "make",
    [
        lambda: parse_all_reduce(""),
        lambda: parse_all_reduce("all_reduce_perf: command not found"),
        lambda: parse_topology(sample("topo_2_pcie")).kind("GPU0", "GPU2"),
        lambda: parse_topology(sample("topo_2_pcie")).farthest(["GPU0"]),
        lambda: fit_link(Probe(("h",), (Timing(8, 1.0, 1.0), Timing(16, 2.0, 2.0)))),
        lambda: fit_link(Probe(("h", "h"), (Timing(8, 1.0, 1.0), Timing(8, 2.0, 2.0)))),
        lambda: fit_link(Probe(("h", "h"), (Timing(8, 2.0, 1.0), Timing(16, 1.0, 2.0)))),
        lambda: cluster_pairs(flat(0.0, 1.0).inside, "outside"),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(InputError):
        make()
