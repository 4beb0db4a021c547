"""The corrections' values against the ones derived by hand."""

import pytest

from shardbook.training.splitting.reconciliation import corrections

FOUND = {entry.id: entry for entry in corrections()}


@pytest.mark.parametrize(
    ("name", "document", "values"),
    [
        ("M10", "D", []),
        ("M13", "D", [(2, 2, 1)]),
        ("M17", "C", [(1, 0, 0), (1, 1, 0)]),
        ("M18", "C", [(0.01, 0.333, 1.333), (0.01, 0.267, 1.067), (0.01, 0.167, 0.667)]),
        ("M19", "C", []),
        ("M24", "C", [(0.25, 0.5, 0.5)]),
        ("M36", "D", []),
    ],
)
def test_values(name, document, values):
    entry = FOUND[name]
    assert entry.document == document
    for figure, (claimed, as_source, right) in zip(entry.figures, values, strict=True):
        assert (figure.claimed, figure.as_source, figure.right) == pytest.approx(
            (claimed, as_source, right), abs=0.0005
        )


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("M10", "2,048/16,384 = 1/8"),
        ("M13", "1 forward, 1 backward"),
        ("M17", "its columns give: 1 all-reduce"),
        ("M17", "output, 1 all-reduce forward"),
        ("M18", "10.7 for h = 4,096"),
        ("M19", "1 of 4 on 4 ranks"),
        ("M36", "ZeRO precedes FSDP by 4 years"),
    ],
)
def test_derivations(name, said):
    """(S55, S60)"""
    assert said in " ".join(FOUND[name].derivation)
