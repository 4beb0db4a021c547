"""One graded class for all tests here: nbgrader takes a second for each submission."""

import pytest
from shardgrade.demo import Graded, grade_class

from shardbook.labs.registry import LABS


@pytest.fixture(scope="session")
def graded(tmp_path_factory: pytest.TempPathFactory) -> Graded:
    return grade_class(LABS["n45"], tmp_path_factory.mktemp("course"))
