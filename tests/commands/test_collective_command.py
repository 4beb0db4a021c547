"""`shardbook collective`: the JSON contract, exactness, refusals."""

import json

import pytest
from click.testing import CliRunner

from shardbook.cli import main
from shardbook.collectives.build import ALGORITHMS
from shardbook.commands.collective import command

KEYS = {"rounds", "sent_bytes_per_rank", "seconds", "algbw", "busbw"}
COMMON = ["--ranks", "4", "--bytes", "1GiB", "--bandwidth", "50GB/s"]


def asked(*arguments):
    result = CliRunner().invoke(command, [*arguments, "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def test_four_ranks_one_gib():
    answer = asked("all-reduce", "--algorithm", "ring", *COMMON, "--latency", "0")
    assert answer.keys() >= KEYS
    assert answer["rounds"] == 6
    assert answer["sent_bytes_per_rank"] == [3 * 2**29] * 4
    assert answer["seconds"] == pytest.approx(0.0322122547)
    assert answer["algbw"] == pytest.approx(2**30 / 0.0322122547)
    assert answer["busbw"] == pytest.approx(50e9)


@pytest.mark.parametrize("algorithm", ["ring", "tree", "naive", "direct", "hierarchical"])
@pytest.mark.parametrize(
    "collective", ["all-reduce", "reduce-scatter", "all-gather", "all-to-all", "broadcast"]
)
@pytest.mark.parametrize("ranks", [1, 3, 8])
def test_the_five_collectives_by_the_five_algorithms(collective, algorithm, ranks):
    answer = asked(
        collective, "--algorithm", algorithm, "--ranks", str(ranks), "--bytes", "1001",
        "--bandwidth", "1e9", "--latency", "5us",
    )  # fmt: skip
    assert answer.keys() >= KEYS
    assert len(answer["sent_bytes_per_rank"]) == ranks
    assert sum(answer["sent_bytes_per_rank"]) == sum(answer["received_bytes_per_rank"])
    assert all(type(size) is int for size in answer["sent_bytes_per_rank"])
    assert (answer["algbw"] is None) == (ranks == 1)
    assert answer["seconds"] >= answer["rounds"] * 5e-6 * (1 - 1e-12)


def test_indivisible_bytes_are_exact():
    answer = asked("all-reduce", "--ranks", "7", "--bytes", "1000003", "--bandwidth", "1")
    assert sum(answer["sent_bytes_per_rank"]) == 2 * 6 * 1000003


def test_slow_links_between_nodes_and_shared_cards():
    slow = [
        "all-reduce", "--algorithm", "hierarchical", "--ranks", "8", "--bytes", "800",
        "--bandwidth", "100", "--between-bandwidth", "10", "--between-latency", "3", "--nodes", "2",
    ]  # fmt: skip
    answer = asked(*slow)
    assert answer["seconds"] == pytest.approx(6 * 200 / 100 + 2 * (3 + 100 / 10))
    assert answer["between_bytes"] == 8 * 2 * 100
    shared = asked(*slow, "--cards", "1")
    assert shared["seconds"] == pytest.approx(6 * 200 / 100 + 2 * (3 + 400 / 10))
    assert asked(*slow, "--ranks-per-node", "4") == answer


def test_a_ring_over_nodes_pays_for_the_slow_edge():
    answer = asked(
        "all-gather", "--ranks", "4", "--bytes", "400", "--bandwidth", "100",
        "--between-bandwidth", "10", "--ranks-per-node", "2",
    )  # fmt: skip
    assert answer["seconds"] == pytest.approx(3 * 100 / 10)


def test_the_table_says_the_same():
    result = CliRunner().invoke(command, ["all-reduce", *COMMON, "--draw", "--nodes", "2"])
    assert result.exit_code == 0, result.output
    for text in ("1,610,612,736", "rounds     6", "32.2 ms", "busbw      50 GB/s", "+3←0"):
        assert text in result.output
    many = CliRunner().invoke(
        command, ["broadcast", "--ranks", "20", "--bytes", "0", "--bandwidth", "1"]
    )
    assert "and 4 more ranks" in many.output
    alone = CliRunner().invoke(
        command, ["all-reduce", "--ranks", "1", "--bytes", "5", "--bandwidth", "1"]
    )
    assert "algbw      -" in alone.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["nope", *COMMON],
        ["all-reduce", *COMMON, "--algorithm", "nope"],
        ["gather", *COMMON, "--algorithm", "direct"],
        ["all-reduce", *COMMON[:-2], "--bandwidth", "0"],
        ["all-reduce", *COMMON[:-2], "--bandwidth", "fast"],
        ["all-reduce", *COMMON, "--latency", "-1"],
        ["all-reduce", *COMMON, "--ranks", "0"],
        ["all-reduce", *COMMON, "--ranks", "2.5"],
        ["all-reduce", *COMMON, "--ranks", "4097"],
        ["all-to-all", *COMMON, "--ranks", "257"],
        ["all-reduce", *COMMON, "--bytes", "0.5"],
        ["all-reduce", *COMMON, "--nodes", "3"],
        ["all-reduce", *COMMON, "--ranks-per-node", "3"],
        ["all-reduce", *COMMON, "--ranks-per-node", "2", "--nodes", "1"],
        ["all-reduce", *COMMON, "--nodes", "2", "--cards", "3"],
        ["all-reduce", *COMMON, "--between-bandwidth", "1"],
        ["all-to-all", *COMMON, "--ranks", "6", "--algorithm", "halving-doubling"],
        ["all-reduce"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["collective", *arguments, "--json"])
    captured = capsys.readouterr()
    assert stopped.value.code == 2
    assert captured.out == ""
    assert len(captured.err.strip().splitlines()) == 1


def test_help_names_the_algorithms():
    text = CliRunner().invoke(command, ["--help"]).output
    for name in ALGORITHMS:
        assert name in text
