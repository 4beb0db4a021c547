"""The corrections' values against the ones derived by hand."""

import pytest

from shardbook.errors import InputError
from shardbook.training.reconciliation import correction, corrections


@pytest.mark.parametrize(
    ("name", "document", "values"),
    [
        ("M12", "D", [(-1.2658, -1.2658, -0.0791), (0, 0.10, 0)]),
        ("M14", "D", [(8, 8, 2)]),
        ("M20", "C", [(0, 0, 2), (1, 1, 0), (3, 3, 3), (4, 4, 1)]),
        ("M21", "C", [(1, 1, 5), (1, 1, 0.25)]),
        ("M29", "B", [(2.25, 2.25, 2.214)]),
        ("M33", "B", [(4, 4, 5), (5, 5, 4)]),
    ],
)
def test_values(name, document, values):
    entry = correction(name)
    assert entry.document == document
    for figure, (claimed, as_source, right) in zip(entry.figures, values, strict=True):
        assert figure.claimed == claimed
        assert figure.as_source == pytest.approx(as_source, abs=0.005)
        assert figure.right == pytest.approx(right, abs=0.0005)


def test_all_are_listed_in_order():
    assert [entry.id for entry in corrections()] == ["M12", "M14", "M20", "M21", "M29", "M33"]


def test_an_unknown_one_is_refused():
    with pytest.raises(InputError, match="M12"):
        correction("M1")
