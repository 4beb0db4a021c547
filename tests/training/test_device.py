import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.errors import InputError
from shardbook.training.device import OUTSIDE, Device, Name, checksum

CATEGORIES = ["weights", "gradients", "activations", "receive_buffers"]


@settings(derandomize=True, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from(CATEGORIES), st.integers(0, 2), st.integers(0, 20)), max_size=30
    )
)
def test_total_and_peak_follow_the_arrays(steps):
    """The second implementation is a dictionary and a running maximum (S18)."""
    device = Device(0)
    held: dict[Name, int] = {}
    peak = 0
    for category, unit, size in steps:
        name = Name(category, unit)
        if name in held:
            device.free(name)
            del held[name]
        else:
            device.allocate(name, np.zeros(size, np.float16))
            held[name] = 2 * size
        counted = {n: b for n, b in held.items() if n.category not in OUTSIDE}
        peak = max(peak, sum(counted.values()))
        assert device.total == sum(counted.values())
        assert device.alive() == counted
        assert device.peak == peak
        assert device.log[-1].total == device.total
        assert sum(entry.change for entry in device.log) == sum(held.values())


def test_the_peak_remembers_when_it_was_and_who_was_alive():
    device = Device(2)
    device.moment = "forward, unit 0"
    device.allocate(Name("weights", 0), np.zeros(10, np.uint8))
    device.moment = "backward, unit 0"
    device.allocate(Name("gradients", 0), np.zeros(30, np.uint8))
    device.free(Name("gradients", 0))
    device.moment = "update, unit 0"
    device.allocate(Name("gradients", 0), np.zeros(20, np.uint8))
    assert (device.peak, device.peak_at) == (40, "backward, unit 0")
    assert device.alive_at_peak == {Name("weights", 0): 10, Name("gradients", 0): 30}
    expected = "rank 2, update, unit 0: +20 B gradients of unit 0 → 30 B"
    assert str(device.log[-1]) == expected


def test_shrinking_keeps_the_part_and_gives_the_rest_back():
    device = Device(0)
    device.allocate(Name("gradients", 1), np.arange(8, dtype=np.float16))
    device.shrink(Name("gradients", 1), slice(2, 4))
    assert device.get(Name("gradients", 1)).tolist() == [2, 3]
    assert device.total == 4


@pytest.mark.parametrize(
    "misuse",
    [
        lambda d: d.get(Name("weights", 1)),
        lambda d: d.free(Name("weights", 1)),
        lambda d: d.allocate(Name("weights", 0), np.zeros(1)),
        lambda d: d.rename(Name("weights", 0), Name("weights", 0)),
        lambda d: d.shrink(Name("weights", 1), slice(1)),
    ],
)
def test_using_what_is_not_there_names_moment_array_and_rank(misuse):
    device = Device(3)
    device.moment = "forward, unit 0"
    device.allocate(Name("weights", 0), np.zeros(4))
    with pytest.raises(InputError, match=r"forward, unit 0 is 'weights of unit \d': rank 3"):
        misuse(device)
    assert device.total == 32


@settings(derandomize=True, deadline=None, max_examples=50)
@given(st.integers(0, 99), st.integers(0, 31))
def test_a_checksum_finds_every_single_flipped_bit(element, bit):
    array = np.random.default_rng(0).standard_normal(100).astype(np.float32)
    before = checksum(array)
    array.view(np.uint32)[element] ^= np.uint32(1 << bit)
    assert checksum(array) != before
