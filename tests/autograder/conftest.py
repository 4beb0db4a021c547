"""One graded class for all tests here: nbgrader takes a second for each submission."""

import sys
from pathlib import Path

import pytest
from shardgrade.demo import Graded, grade_class

from shardbook.labs.registry import LABS


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    return grade_class(LABS["n45"], tmp_path_factory.mktemp("course"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Elsewhere than on Linux there is no grading: its isolation is the Linux kernel's."""
    here = Path(__file__).parent
    if sys.platform != "linux":
        for item in items:
            if here in item.path.parents:
                item.add_marker(pytest.mark.skip(reason="grading runs on Linux only"))
