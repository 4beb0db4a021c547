"""N44 page one: what it says, against the lecture's numbers and the chain rule by hand."""

import math

import numpy as np
import pytest
from chapters.execute import Executed, execute

PSI, LARGEST = 32_656, 97 * 96


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n44_the_update.md")


def test_two_bytes_to_use_a_model_sixteen_to_train_it(page: Executed) -> None:
    """(S2)"""
    said = page.said
    assert (said["b_weights"], said["b_others"], said["b_all"]) == ("2", "14", "16")
    assert (said["b_gradients"], said["b_master"], said["b_moments"]) == ("2", "4", "8")


def test_one_step_for_one_weight_is_what_the_chain_rule_gives(page: Executed) -> None:
    said = page.said
    y = 1.0 * 2
    gradient = 2 * (y - 1) * 2
    assert (said["beta1"], said["beta2"]) == ("0.9", "0.999")
    momentum, variance = 0.1 * gradient, 0.001 * gradient**2
    master = 1 - 0.001 * (momentum / 0.1) / (math.sqrt(variance / 0.001) + 1e-8)
    assert (said["loss"], said["g"], said["g_bias"]) == ("1", f"{gradient:g}", f"{2 * (y - 1):g}")
    assert (said["m"], said["v"]) == (f"{momentum:g}", f"{variance:g}")
    assert said["master"] == f"{master:g}" == "0.999"
    assert said["working"] == f"{np.float16(master):.6g}" == "0.999023"
    assert (said["slow_master"], said["slow_working"]) == ("0.9999", f"{np.float16(0.9999):g}")
    values = {row[0]: row[1] for row in page.tables()["One step for one weight"][1:-1]}
    assert values == {
        "prediction": "2", "loss": "1", "gradient": "4", "momentum": "0.4", "variance": "0.016",
        "master weight": "0.999",
    }  # fmt: skip


def test_the_units_and_the_bytes_are_the_lectures(page: Executed) -> None:
    """(S16, S17, S18)"""
    said = page.said
    assert said["units"] == "3,168, 9,312, 9,312, 9,312, 1,552"
    assert said["psi"] == f"{PSI:,}"
    assert (said["rest"], said["rest_each"]) == (f"{14 * PSI:,} B", "14")
    assert (said["back"], said["back_each"]) == ("522,496 B", "16")
    assert (said["peak"], said["peak_at"]) == ("559,744 B", "update 1")
    assert said["more"] == f"{4 * LARGEST:,} B" == "37,248 B"
    rows = next(rows for title, rows in page.tables().items() if title.startswith("Logged"))
    assert [row[1:] for row in rows] == [
        ("457,184", "14"), ("522,496", "16"), ("559,744", "17.14"),
    ]  # fmt: skip
    assert "+37,248 B update gradient of unit 1 → 559,744 B" in page.printed


def test_most_of_the_ledger_waits(page: Executed) -> None:
    said = page.said
    # load, five forwards, the loss, five backwards, five updates, clear
    assert int(said["moving"]) == 1 + 5 + 1 + 5 + 5 + 1
    assert (said["momentum_used"], said["momentum_idle"]) == ("5", "13")
    assert page.questions()[
        "A step of this network has 18 moments. In how many of them is Adam's momentum used?"
    ].startswith("In 5")
    # layer 2's weights, its input and its output, against all states and three kept inputs
    used = 2 * LARGEST + 2 * 2 * 16 * 96
    there = 14 * PSI + 2 * 16 * (32 + 3 * 96) + 4 * 16 * 16
    assert said["forward_used"] == f"{used:,} B"
    assert said["forward_there"] == f"{there:,} B"
    assert said["forward_part"] == f"{used / there:.0%}"


def test_where_the_rule_breaks(page: Executed) -> None:
    said = page.said
    assert said["second"] == f"{16 * PSI:,} B"
    assert (said["resident_each"], said["resident_all"]) == ("20", f"{20 * PSI:,} B")
    table = page.tables()["The same network with larger batches"]
    for (rows, states, passing, _, _), batch in zip(table, (16, 256, 4096), strict=True):
        assert (rows, states) == (f"{batch:,}", f"{14 * PSI:,}")
        # inputs of all layers, outputs and their gradient in FP16, targets in FP32
        assert passing == f"{2 * batch * (32 + 4 * 96 + 2 * 16) + 4 * batch * 16:,}"
    assert [row[4].split()[0] for row in table] == ["update", "backward", "backward"]


def test_the_cases_to_solve(page: Executed) -> None:
    said = page.said
    assert (said["plain_rest"], said["plain_back"]) == ("10", "12")
    assert said["plain_peak"] == f"{12 * PSI + 4 * LARGEST:,} B"
    digits = 785 * 512 + 513 * 256 + 257 * 10
    assert said["digits_at"] == "update 0"
    assert said["digits_peak"] == f"{16 * digits + 4 * 785 * 512:,} B"
    assert said["early"] == f"{16 * PSI + 4 * LARGEST - 2 * 33 * 96:,} B"
    assert said["fused"] == f"{14 * PSI + 6 * LARGEST:,} B"


def test_the_batch_at_which_the_digits_peak_leaves_the_update(page: Executed) -> None:
    sizes = [785 * 512, 513 * 256, 257 * 10]
    update = 16 * sum(sizes) + 4 * sizes[0]

    def backward(layer: int, rows: int) -> int:
        """States, gradients from this layer up, activations to here, two output gradients."""
        widths = (784, 512, 256, 10)
        kept = sum(widths[: layer + 1])
        back = widths[layer + 1] + (widths[layer] if layer else 0)
        return 14 * sum(sizes) + 2 * sum(sizes[layer:]) + 2 * rows * (kept + back)

    turn = int(page.said["turn"].replace(",", ""))
    assert max(backward(layer, turn) for layer in range(3)) > update
    assert max(backward(layer, turn // 2) for layer in range(3)) <= update
    layer = max(range(3), key=lambda each: backward(each, turn))
    assert page.said["turn_at"] == f"backward {layer}"
