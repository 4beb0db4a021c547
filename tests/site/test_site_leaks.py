"""The site as a reader gets it, searched byte by byte: pages, search index, wheel, downloads."""

from pathlib import Path

import pytest
from leaks import find_leaks, secret_lines


@pytest.mark.site
@pytest.mark.slow
def test_the_built_site_holds_no_solution_and_no_hidden_check(site: Path) -> None:
    assert secret_lines()
    assert not find_leaks(site)
