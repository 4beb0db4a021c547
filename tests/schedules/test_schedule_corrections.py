"""The reconciliation entries against the values of the corrections' derivations."""

import pytest

from shardbook.schedules.reconciliation import corrections

RIGHT = {
    "M1": [14, 57.1],
    "M2": [72.7, 84.2, 2.29],
    "M3": [15.8, 75.0],
    "M4": [27.3, 4],
    "M29": [2.214],
    "M30": [0.3, 3.0, -2.8],
}
AS_SOURCE = {
    "M1": [11, 72.7],
    "M2": [72.7, 84.2, 2.9],
    "M3": [18.75, 300],
    "M4": [27.3, 8],
    "M29": [2.25],
    "M30": [0, 0, 0],
}


@pytest.mark.parametrize("entry", corrections(), ids=lambda entry: entry.id)
def test_both_values_come_out(entry):
    for figures, values in (("right", RIGHT), ("as_source", AS_SOURCE)):
        computed = [getattr(figure, figures) for figure in entry.figures]
        digits = [len(str(value).partition(".")[2]) for value in values[entry.id]]
        rounded = [round(value, places) for value, places in zip(computed, digits, strict=True)]
        assert rounded == values[entry.id]


def test_every_mistake_has_one_entry():
    assert [entry.id for entry in corrections()] == list(RIGHT)
    assert all(entry.derivation for entry in corrections())
