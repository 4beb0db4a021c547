"""Class lists as Canvas, Moodle and nbgrader write them."""

from pathlib import Path

import pytest
from made_course import grade, make, tables
from shardgrade.gradebook.scores import Student, students
from shardgrade.gradebook.tables import writing
from shardgrade.roster import import_roster, read_roster

from shardbook.errors import InputError

CANVAS = """Student,ID,SIS User ID,SIS Login ID,Section,hw (12)
    Points Possible,,,,,15
"Doe, Jane",4242,S1,jdoe,A,
"Student, Test",9,,,A,
"""
MOODLE = """\ufeff"First name","Last name","ID number","Email address",Username
Jane,Doe,S1,jane@uni.example,jdoe
Al,Li,,al@uni.example,
"""


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (CANVAS, [Student("jdoe", "Jane", "Doe", "", "4242")]),
        ('Student,ID,Section\n"Doe, Jane",4242,A\n', [Student("4242", "Jane", "Doe", "", "4242")]),
        (
            MOODLE,
            [
                Student("jdoe", "Jane", "Doe", "jane@uni.example"),
                Student("al", "Al", "Li", "al@uni.example"),
            ],
        ),
        (
            "id,first_name,last_name,email,lms_user_id\njdoe,Jane,Doe,j@x,42\n",
            [Student("jdoe", "Jane", "Doe", "j@x", "42")],
        ),
        ("Username;Full name\njdoe;Jane van Doe\n", [Student("jdoe", "Jane van", "Doe")]),
    ],
    ids=["canvas", "canvas without SIS", "moodle", "nbgrader", "semicolons"],
)
def test_each_list_is_read(text: str, wanted: list[Student], tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_text(text, encoding="utf-8")
    assert read_roster(path) == wanted


@pytest.mark.parametrize("content", [b"", b"a,b\n1,2\n", b"id\njdoe\njdoe\n", b"\xff\xfe\x00"])
def test_what_is_no_list_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "list.csv"
    path.write_bytes(content)
    with pytest.raises(InputError, match="roster"):
        read_roster(path)


def test_an_import_adds_and_changes_but_never_removes(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {"ada": {"t1": 4}})
    grade(layout)
    before = tables(layout)["scores"]
    wanted = [Student("ada", "Ada", "L"), Student("bob", "Bob", "B", "b@x")]
    with writing(layout) as connection:
        done = import_roster(connection, wanted)
    assert (done.added, done.changed) == (("bob",), ("ada",))
    with writing(layout) as connection:
        done = import_roster(connection, [Student("bob", email="new@x")])
        assert (done.changed, done.missing) == (("bob",), ("ada",))
        assert students(connection)["bob"] == Student("bob", "Bob", "B", "new@x")
    assert tables(layout)["scores"] == before
