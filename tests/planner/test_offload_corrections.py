"""The mistakes about offloading, against the sums of the reconciliation (S15, S44)."""

from shardbook.planner.reconciliation import corrections

BY_ID = {each.id: each for each in corrections()}


def test_70b_does_not_fit_512_gb_of_cpu_memory() -> None:
    """8 and 12 B a parameter leave the card; 2 B stay on each by the classic scheme (M15)."""
    figures = BY_ID["M15"].figures
    assert [figure.right for figure in figures] == [8 * 70, 12 * 70, 2 * 70]
    assert all(figure.right > figure.claimed for figure in figures)
    steps = " ".join(BY_ID["M15"].derivation)
    # (140 + 140)/4 and 140/4 a card; 140 GB of gradients and 840 GB of states leave it
    assert "70 GB a card" in steps and "35 GB if" in steps and "840 GB of NVMe" in steps


def test_three_placements_cross_exactly_four_bytes_and_one_none() -> None:
    """With one-way edges it would be six within four bytes (M26)."""
    exactly, at_most = BY_ID["M26"].figures
    assert (exactly.right, at_most.right, at_most.as_source) == (3, 4, 6)
    assert "1 crosses nothing and stores 16 B" in BY_ID["M26"].derivation[0]
