"""What `shardbook plan` prints."""

import pytest

from shardbook.cli import main


@pytest.mark.parametrize(
    ("model", "parts"),
    [("llama3-8b", ["layout", "why", "launch", "sources:"]), ("llama3-405b", ["why", "sources:"])],
)
def test_one_blank_line_stands_before_each_part(
    capsys: pytest.CaptureFixture[str], model: str, parts: list[str]
) -> None:
    """Also where nothing fits, and the table and its settings are left out."""
    with pytest.raises(SystemExit) as ended:
        main(["plan", model, "h100-80", "--best", "1", "--recompute", "full", "--offload", "none"])
    assert ended.value.code == 0
    head, *rest = capsys.readouterr().out.split("\n\n")
    assert head.endswith("fit by the ledger (no run has tested it)")
    assert [part.split()[0] for part in rest] == parts
