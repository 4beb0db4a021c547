"""The budget experiment: tables against formulas, reruns, and refused configurations (S67, S76)."""

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from labs.config import read_systems
from labs.run import command
from labs.systems import run_systems
from shardbook.cli import run
from shardbook.collectives.step import step_traffic
from shardbook.planner.layouts import Layout
from shardbook.planner.memory import peak_memory
from shardbook.planner.presets import model_named
from shardbook.planner.traffic import sent_bytes

CONFIG = Path(__file__).parents[2] / "labs" / "configs" / "systems.json"
SMALL = {
    "model": "layers=4,hidden=256,heads=4,sequence=128,batch=2048,vocabulary=1000",
    "card": "a100-80,price=2",
    "cards": [4, 8],
    "cards_per_node": [4],
    "between": ["10GB/s"],
    "strategies": [
        {"name": "DP", "stage": 0, "tensor": 1},
        {"name": "FSDP", "stage": 3, "tensor": 1},
        {"name": "TP", "stage": 0, "tensor": "node"},
    ],
    "micro_batch": 1,
    "recompute": "none",
    "spread": 0,
    "ring": {"ranks": 3, "messages": ["1000B"]},
}


def written(tmp_path, **changes):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(SMALL | changes))
    return path


def test_the_command_writes_every_file_the_same_twice(tmp_path):
    arguments = ["--experiment", "systems", "--config", str(CONFIG), "--seed", "7", "--out"]
    for name in ("one", "two"):
        result = CliRunner().invoke(command, [*arguments, str(tmp_path / name)])
        assert result.exit_code == 0, result.output
    files = sorted(path.name for path in (tmp_path / "one").iterdir())
    assert files == ["configurations.csv", "ledger.csv", "picture.svg", "results.json",
                     "ring_events.csv", "rings.csv"]  # fmt: skip
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()
    results = json.loads((tmp_path / "one" / "results.json").read_text())
    with (tmp_path / "one" / "configurations.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(results["configurations"]) == 3 * 2 * 2 * 4
    assert results["seed"] == 7


def test_the_seed_draws_the_slowest_card(tmp_path):
    config = read_systems(written(tmp_path, spread=0.1))
    one, again, other = (run_systems(config, seed)["configurations"] for seed in (7, 7, 8))
    assert one == again != other
    assert all(row["slowest_card"] > 1 for row in one)


def test_rows_are_the_closed_forms(tmp_path):
    tables = run_systems(read_systems(written(tmp_path)), 0)
    for row in tables["configurations"]:
        assert row["fits"] and row["slowest_card"] == 1
        assert row["tokens_per_second"] == pytest.approx(2048 / row["seconds"])
        hourly = row["cards"] * 2 / 3600
        assert row["dollars_per_million_tokens"] == pytest.approx(
            hourly / row["tokens_per_second"] * 1e6
        )
        held = [each["bytes"] for each in tables["ledger"]
                if (each["cards"], each["strategy"]) == (row["cards"], row["strategy"])]  # fmt: skip
        assert sum(held) == row["peak_bytes"]


def test_every_ring_event_is_there(tmp_path):
    tables = run_systems(read_systems(written(tmp_path)), 0)
    events, (ring,) = tables["ring_events"], tables["rings"]
    # 2(N − 1) rounds of N transfers; 1000 B in three chunks; the largest fills each round.
    assert len(events) == 4 * 3
    assert sorted({event["bytes"] for event in events}) == [333, 334]
    assert sum(event["bytes"] for event in events) == 4 * 1000
    assert ring["seconds"] == pytest.approx(4 * (5e-6 + 334 / 10e9))
    assert events[-1]["end"] == pytest.approx(ring["seconds"])
    # algbw times 2(N − 1)/N, N = 3
    assert ring["busbw"] == pytest.approx(1000 / ring["seconds"] * 4 / 3)


@pytest.mark.parametrize(
    ("stage", "strategy"), [(0, "dp"), (1, "zero1"), (2, "zero2"), (3, "zero3")]
)
@pytest.mark.parametrize("ranks", [2, 4, 8])
def test_data_traffic_is_that_of_the_counted_rings(stage, strategy, ranks):
    model = model_named("layers=4,hidden=256,heads=4,sequence=128,batch=1024,vocabulary=1024")
    layout = Layout(data=ranks, stage=stage, micro_batch=8 // ranks)  # one micro-batch a step
    counted = step_traffic(strategy, ranks, [model.parameters]).sent_bytes_per_rank
    assert sent_bytes(model, layout)["data"] == counted
    assert sent_bytes(model, layout)["tensor"] == 0


def test_tensor_traffic_by_hand():
    model = model_named("layers=4,hidden=256,heads=4,sequence=128,batch=1024,vocabulary=1024")
    # 8 micro-batches × 4 layers × 4 all-reduces, each 2 · 3/4 of 128 · 256 · 2 B
    sent = sent_bytes(model, Layout(tensor=4))
    assert sent["tensor"] == 8 * 4 * 4 * 2 * 3 * 128 * 256 * 2 // 4
    full = sent_bytes(model, Layout(tensor=4, recompute="full"))
    assert full["tensor"] * 2 == sent["tensor"] * 3


def test_what_is_too_large_is_named_by_kind():
    model = model_named("llama3-8b,batch=1048576")
    layout = Layout(data=8, recompute="selective")
    assert peak_memory(model, layout).largest == "optimizer states"
    assert peak_memory(model, Layout(data=8, stage=3)).largest == "activations"


@pytest.mark.parametrize(
    "changes",
    [{"cards": []}, {"cards": [0]}, {"cards": [4, 4]}, {"cards": 4}, {"between": [5]},
     {"between": ["fast"]}, {"strategies": [{"name": "DP", "stage": 4, "tensor": 1}]},
     {"strategies": [{"name": "DP", "stage": 1}]}, {"model": "gpt5"}, {"model": 3},
     {"card": "a100-80,nodes=2"}, {"recompute": "some"}, {"spread": -1}, {"colour": 1},
     {"ring": {"ranks": 1, "messages": ["1B"]}}, {"ring": 3}, {"micro_batch": 1.5}],
)  # fmt: skip
def test_a_bad_configuration_is_one_line_and_exit_2(changes, tmp_path, capsys):
    config = str(written(tmp_path, **changes))
    arguments = ["--experiment", "systems", "--config", config, "--out", str(tmp_path / "out")]
    with pytest.raises(SystemExit) as stop:
        run(command, "labs.run", arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "arguments",
    [[], ["--experiment", "other"], ["--experiment", "systems"],
     ["--experiment", "systems", "--config", "/nowhere.json"],
     ["--experiment", "systems", "--config", str(CONFIG), "--seed", "x"],
     ["--experiment", "systems", "--config", __file__]],
)  # fmt: skip
def test_bad_arguments_are_one_line_and_exit_2(arguments, capsys):
    with pytest.raises(SystemExit) as stop:
        run(command, "labs.run", arguments)
    assert stop.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_list_names_the_experiments():
    assert "systems: " in CliRunner().invoke(command, ["--list"]).output


def test_every_field_is_documented():
    text = (CONFIG.parents[1] / "README.md").read_text()
    assert all(f"| `{field}` |" in text for field in SMALL)
