"""N44 page two: what it says, against numpy, ml_dtypes and the rule by hand."""

import ml_dtypes
import numpy as np
import pytest
from chapters.execute import Executed, execute

pytestmark = pytest.mark.slow

F16, F32, B16 = np.float16, np.float32, ml_dtypes.bfloat16


@pytest.fixture(scope="module")
def page() -> Executed:
    return execute("n44_numbers.md")


def g(value: float, digits: int = 6) -> str:
    return f"{value:.{digits}g}".replace("-", "−")


def test_one_plus_three_ten_thousandths_in_fp16_is_one(page: Executed) -> None:
    """(S11)"""
    said = page.said
    assert said["result"] == g(float(F16(1) + F16(0.0003))) == "1"
    assert said["below"] == g(float(np.nextafter(F16(1), F16(0))))
    assert said["above"] == g(float(np.nextafter(F16(1), F16(2))))
    assert said["down"] == g(float(F16(1 - 0.0003))) == said["below"]
    assert (said["half"], said["half_down"]) == (g(2**-11, 3), g(2**-12, 3))
    assert (said["half_b"], said["half_32"]) == (g(2**-8, 3), g(2**-24, 3))
    assert (said["spacing_5"], said["half_5"]) == (g(2**-8, 3), g(2**-9, 3))


def test_the_table_of_limits_follows_the_rule(page: Executed) -> None:
    for weight, *limits in page.tables()["An update survives above"]:
        exponent = int(np.floor(np.log2(float(weight))))
        assert limits == [g(2.0 ** (exponent - m - 1), 3) for m in (7, 10, 23)]


def test_a_thousand_updates_with_and_without_a_master(page: Executed) -> None:
    said = page.said
    master, alone, visited = F32(1), F16(1), []
    for _ in range(1000):
        master += F32(1e-4)
        alone += F16(1e-4)
        visited.append(master)
    assert said["alone"] == g(float(alone)) == "1"
    assert said["kept"] == g(float(F16(master)))
    assert said["kept_b"] == g(float(B16(master)))
    assert int(said["first"]) == next(n for n, w in enumerate(visited, 1) if F16(w) != 1)
    assert int(said["first_b"]) == next(n for n, w in enumerate(visited, 1) if B16(w) != 1)


def test_bf16_has_range_and_fp16_has_precision(page: Executed) -> None:
    said = page.said
    assert (said["big"], said["tiny"]) == (g(float(np.finfo(F16).max)), g(2.0**-24, 3))
    assert said["big_b"] == g(float(ml_dtypes.finfo(B16).max), 3)
    assert said["tiny_b"] == g(2.0**-133, 3)
    probes = page.tables()["What the two 16-bit formats make of a number"]
    with np.errstate(over="ignore"):
        for value, _, half, brain in probes:
            number = float(value.replace("−", "-"))
            assert half.replace("infinity", "inf") == g(float(F16(number)))
            assert brain == g(float(B16(number)))
    assert [probe[2] for probe in probes] == ["infinity", "0", "1.00195"]


def test_what_becomes_of_the_gradients_is_what_numpy_makes_of_them(page: Executed) -> None:
    gradients = page.names["gradients"].astype(np.float64)
    rows = next(rows for title, rows in page.tables().items() if title.startswith("What becomes"))
    assert len(gradients) == 32_656 and len(rows) == 6
    with np.errstate(over="ignore"):
        for row, power in zip(rows, (-12, -8, 0, 8, 19, 22), strict=True):
            rounded = np.abs((gradients * 2.0**power).astype(F16))
            gone = int(((rounded == 0) & (gradients != 0)).sum())
            low = int(((rounded > 0) & (rounded < 2.0**-14)).sum())
            high = int(np.isinf(rounded).sum())
            counts = (gone, low, len(gradients) - gone - low - high, high)
            assert row[1:] == tuple(f"{count:,}" for count in counts)


def test_the_page_may_say_that_scaling_helps_and_that_too_much_overflows(page: Executed) -> None:
    rows = next(rows for title, rows in page.tables().items() if title.startswith("What becomes"))
    counts = [[int(text.replace(",", "")) for text in row[1:]] for row in rows]
    assert counts[0][0] > 1000, "made smaller, many vanish"
    assert counts[2][1] > counts[3][1], "scaled, fewer are subnormal"
    assert counts[4][:2] == [0, 0] and counts[4][3] == 0, "at its level all are kept"
    assert counts[5][3] > 0, "too large, some overflow"


def test_the_scale_finds_its_level_and_overflow_skips_a_step(page: Executed) -> None:
    levels, skipped = page.names["levels"], page.names["skipped"]
    scale, good = 24, 0
    for step, level in enumerate(levels):
        assert level == scale
        if step in skipped:
            scale, good = scale - 1, 0
        else:
            good += 1
            if good == 10:
                scale, good = scale + 1, 0
    falls = int(page.said["falls"])
    assert skipped[:falls] == list(range(falls)) and falls not in skipped
    assert len(skipped) == int(page.said["skipped"])
    assert max(levels[falls:]) - min(levels) <= 2, "it stays near its level"
    assert float(page.said["loss"]) > float(page.said["unscaled"])


def test_the_exercises(page: Executed) -> None:
    said = page.said
    assert (said["l16"], said["lb"], said["l32"]) == (g(2**-16, 3), g(2**-13, 3), g(2**-29, 3))
    assert said["survivors"] == "FP32"
    assert F16(0.05) + F16(1e-5) == F16(0.05) and F32(0.05) + F32(1e-5) != F32(0.05)
    assert F16(2048) + F16(1) == F16(2048) and F16(2047) + F16(1) != F16(2047)
    assert B16(256) + B16(1) == B16(256) and B16(255) + B16(1) != B16(255)
    assert (said["stuck"], said["stuck_b"]) == ("2,048", "256")
    # 2^(−m−1) < 0.0003
    assert int(said["enough"]) == int(np.ceil(-np.log2(0.0003) - 1)) == 11


def test_what_barely_survives_overshoots(page: Executed) -> None:
    # each update moves by a whole step of 2^−11
    assert page.said["own_ten"] == g(1 + 10 * 2**-11)
    assert page.said["exact_ten"] == g(1.003)
