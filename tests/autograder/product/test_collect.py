"""Names become students, files become submissions, and nothing is overwritten unasked."""

import io
import os
import random
import zipfile
from pathlib import Path

import made_course
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_course import NAME, Layout, make
from shardgrade.collecting import intake
from shardgrade.collecting.intake import Rules, Taken, collect
from shardgrade.collecting.naming import FORMATS, Named, detect, match, read_name
from shardgrade.gradebook.scores import Student

from shardbook.errors import InputError

ROSTER = {
    one.id: one
    for one in (
        Student("jdoe", "Jane", "Doe", "jane@uni.example", "4242"),
        Student("mmul", "Märta", "Müller-Lüdenscheidt", "mm@uni.example", "4343"),
        Student("al1", "Al", "Li", "al@uni.example", "1"),
        Student("al2", "Al", "Li", "li@uni.example", "2"),
    )
}


@pytest.mark.parametrize(
    ("form", "label", "wanted"),
    [
        ("canvas", "doejane_4242_99_hw.ipynb", {"name": "doejane", "user": "4242"}),
        ("canvas", "doejane_LATE_4242_99_my_hw-1.ipynb", {"file": "my_hw-1.ipynb"}),
        ("moodle", "Jane Doe_77_assignsubmission_file_", {"name": "Jane Doe", "file": ""}),
        ("moodle", "Jane Doe_77_assignsubmission_file", {"name": "Jane Doe"}),
        ("moodle", "J_D_77_assignsubmission_file_a_b.ipynb", {"name": "J_D", "file": "a_b.ipynb"}),
        (
            "exchange",
            "jdoe+hw+2026-10-01 12:00:00.123456 UTC",
            {"student": "jdoe", "lab": "hw", "order": "2026-10-01 12:00:00.123456 UTC"},
        ),
        ("exchange", "jdoe+hw+2026-10-01 12:00:00.123456 UTC+Zm9v", {"lab": "hw"}),
        ("folder", "jane.doe", {"student": "jane.doe", "file": ""}),
        ("folder", "jane.doe.ipynb", {"student": "jane.doe", "file": ""}),
        ("folder", "jdoe.zip", {"student": "jdoe"}),
    ],
)
def test_each_platforms_names_are_read(form: str, label: str, wanted: dict[str, str]) -> None:
    named = read_name(label, form)
    assert named is not None
    assert {key: getattr(named, key) for key in wanted} == wanted


def test_the_format_is_found_from_the_names() -> None:
    assert detect(["doejane_4242_99_hw.ipynb", "readme.txt", "x_1_2_hw.ipynb"]) == "canvas"
    assert detect(["Jane Doe_77_assignsubmission_file_", "X_1_assignsubmission_file_"]) == "moodle"
    assert detect(["a+hw+2026-10-01 12:00:00 UTC"]) == "exchange"
    assert detect(["jane", "bob"]) == detect([]) == "folder"


@given(st.text(max_size=40), st.sampled_from(FORMATS))
@settings(derandomize=True, deadline=None)
def test_any_name_is_read_or_refused(label: str, form: str) -> None:
    named = read_name(label, form)
    assert named is None or named.label == label


@pytest.mark.parametrize(
    ("named", "student", "how"),
    [
        (Named("x", name="doejane", user="4242"), "jdoe", "by the platform's user number"),
        (Named("x", name="doejane", user="5"), "jdoe", "by name"),
        (Named("x", name="mullerludenscheidtmarta"), "mmul", "by name"),
        (Named("x", name="Ma\u0308rta Müller-Lüdenscheidt"), "mmul", "by name"),
        (Named("x", name="Al Li"), "", "2 students of this name"),
        (Named("x", name="No One"), "", "not in the roster"),
        (Named("x", student="jdoe"), "jdoe", "by id"),
        (Named("x", student="Jane Doe"), "jdoe", "by name"),
        (Named("x", student="guest"), "guest", "by id; not in the roster"),
        (Named("by hand", name="No One"), "al2", "listed by hand"),
    ],
)
def test_a_name_becomes_the_right_student_or_none(named: Named, student: str, how: str) -> None:
    found = match(named, ROSTER, {"by hand": "al2"})
    assert (found.student, found.how) == (student, how)


def test_without_a_roster_the_id_is_made_from_the_name() -> None:
    assert match(Named("x", name="Jane van Doe"), {}, {}).student == "jane-van-doe"


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    layout = make(tmp_path / "course", {})
    layout.state.mkdir()
    return layout


def notebook(mark: str = "") -> str:
    return made_course.notebook(made_course.cells({"t1": 1}, essay=f"essay {mark}"))


def take(layout: Layout, source: Path, form: str = "auto", **changes: object) -> list[Taken]:
    rules = {"roster": ROSTER, "by_hand": {}, "submitted": {}, **changes}
    return collect(Rules(layout, NAME, **rules), source, form)  # type: ignore[arg-type]


def submitted(layout: Layout, student: str) -> set[str]:
    folder = layout.folder("submitted", student, NAME)
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


def test_a_canvas_download_is_taken_in(layout: Layout, tmp_path: Path) -> None:
    archive = tmp_path / "submissions.zip"
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("doejane_4242_99_hw.ipynb", notebook("old"))
        packed.writestr("doejane_LATE_4242_100_hw-1.ipynb", notebook("new"))
        packed.writestr("doejane_4242_98_data.csv", "1,2")
        packed.writestr("lial_1_120_whatever.ipynb", notebook())
        packed.writestr("nobody_77_121_hw.ipynb", notebook())
    taken = {(one.label, one.student, one.outcome) for one in take(layout, archive)}
    assert taken == {
        ("doejane_4242_99_hw.ipynb", "jdoe", "older"),
        ("doejane_LATE_4242_100_hw-1.ipynb", "jdoe", "new"),
        ("lial_1_120_whatever.ipynb", "al1", "new"),
        ("nobody_77_121_hw.ipynb", "", "unknown"),
    }
    assert submitted(layout, "jdoe") == {"hw.ipynb", "data.csv"}
    folder = layout.folder("submitted", "jdoe", NAME)
    assert "essay new" in (folder / "hw.ipynb").read_text()
    assert layout.submissions(NAME).keys() == {"jdoe", "al1"}


def test_a_moodle_download_is_taken_in(layout: Layout, tmp_path: Path) -> None:
    top = tmp_path / "download" / "Course-hw-123"
    made_course.write(top / "Jane Doe_7_assignsubmission_file_" / "hw.ipynb", notebook())
    made_course.write(
        top / "Märta Müller-Lüdenscheidt_8_assignsubmission_file_hw.ipynb", notebook()
    )
    packed = top / "Al Li_9_assignsubmission_file_" / "hw-submission.zip"
    packed.parent.mkdir()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("hw.ipynb", notebook())
    by_hand = {"Al Li_9_assignsubmission_file_": "al1"}
    taken = take(layout, tmp_path / "download", by_hand=by_hand)
    assert {(one.student, one.outcome) for one in taken} == {
        ("jdoe", "new"),
        ("mmul", "new"),
        ("al1", "new"),
    }
    assert all(submitted(layout, student) == {"hw.ipynb"} for student in ("jdoe", "mmul", "al1"))


def test_a_listed_name_that_no_submission_has_is_told(layout: Layout, tmp_path: Path) -> None:
    """Also beside those that one has, be it the work or a file beside it."""
    made_course.write(tmp_path / "in" / "nobody_7_1_hw.ipynb", notebook())
    made_course.write(tmp_path / "in" / "nobody_7_2_plot.txt", "beside it")
    listed = dict.fromkeys(["nobody_7_1_hw.ipynb", "nobody_7_2_plot.txt", "nobody_7_1_hw"], "al1")
    taken = take(layout, tmp_path / "in", by_hand=listed)
    assert [(one.label, one.outcome) for one in taken] == [
        ("nobody_7_1_hw", "missing"),
        ("nobody_7_2_plot.txt", "new"),
    ]
    assert submitted(layout, "al1") == {"hw.ipynb", "plot.txt"}


def test_the_exchange_gives_the_latest_with_its_time(layout: Layout, tmp_path: Path) -> None:
    inbound = tmp_path / "exchange" / "inbound"
    for hour in (9, 12):
        time = f"2026-10-01 {hour:02}:00:00.000000 UTC"
        folder = inbound / f"jdoe+{NAME}+{time}"
        made_course.write(folder / "hw.ipynb", notebook(str(hour)))
        made_course.write(folder / "timestamp.txt", time)
    made_course.write(inbound / "jdoe+other+2026-10-01 12:00:00 UTC" / "x.ipynb", notebook())
    taken = take(layout, inbound.parent)
    assert {(one.student, one.outcome) for one in taken} == {("jdoe", "new"), ("jdoe", "older")}
    folder = layout.folder("submitted", "jdoe", NAME)
    assert "essay 12" in (folder / "hw.ipynb").read_text()
    assert (folder / "timestamp.txt").read_text() == "2026-10-01 12:00:00.000000 UTC"


def test_nothing_is_overwritten_unasked(layout: Layout, tmp_path: Path) -> None:
    source = tmp_path / "in"
    made_course.write(source / "jdoe.ipynb", notebook("one"))
    made_course.write(source / "al1" / NAME / "hw.ipynb", notebook("one"))
    assert {one.outcome for one in take(layout, source, dry_run=True)} == {"new"}
    assert not layout.submissions(NAME)
    assert {one.outcome for one in take(layout, source)} == {"new"}
    assert {one.outcome for one in take(layout, source)} == {"same"}
    made_course.write(source / "jdoe.ipynb", notebook("two"))
    assert {one.outcome for one in take(layout, source)} == {"same", "different"}
    kept = layout.folder("submitted", "jdoe", NAME) / "hw.ipynb"
    assert "essay one" in kept.read_text()
    assert {one.outcome for one in take(layout, source, replace=True)} == {"same", "replaced"}
    assert "essay two" in kept.read_text()
    assert {one.outcome for one in take(layout, source)} == {"same"}
    assert not list(layout.state.iterdir())


def test_a_time_known_otherwise_is_kept(layout: Layout, tmp_path: Path) -> None:
    made_course.write(tmp_path / "in" / "jdoe.ipynb", notebook())
    take(layout, tmp_path / "in", submitted={"jdoe.ipynb": "2026-10-02T08:00:00+00:00"})
    from shardgrade.gradebook.writer import timestamp_of

    found = timestamp_of(layout.folder("submitted", "jdoe", NAME))
    assert found is not None and found.isoformat() == "2026-10-02T08:00:00"


@pytest.mark.parametrize(
    "name", ["../evil.ipynb", "/etc/evil", "a/../../evil", "C:/evil", "..\\evil"]
)
def test_a_zip_that_leads_out_is_refused(layout: Layout, tmp_path: Path, name: str) -> None:
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "jdoe.zip", "w") as archive:
        archive.writestr("hw.ipynb", notebook())
        archive.writestr(name, "x")
    (one,) = take(layout, tmp_path / "in")
    assert one.outcome == "broken" and "leads out" in one.told
    assert not list(tmp_path.rglob("evil*")) and not layout.submissions(NAME)


def test_a_zip_that_grows_without_end_is_refused(
    layout: Layout, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "_MOST_BYTES", 1_000_000)
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "jdoe.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("hw.ipynb", bytes(3_000_000))
    (one,) = take(layout, tmp_path / "in")
    assert one.outcome == "broken" and "too much" in one.told


def test_damaged_zips_are_told_and_never_stop_the_rest(layout: Layout, tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("hw.ipynb", notebook() * 3)
    whole = packed.getvalue()
    damage = random.Random(3)
    (tmp_path / "in").mkdir()
    for number in range(150):
        data = bytearray(whole)
        for _ in range(damage.randrange(1, 4)):
            data[damage.randrange(len(data))] = damage.randrange(256)
        (tmp_path / "in" / f"s{number}.zip").write_bytes(data)
    taken = take(layout, tmp_path / "in", roster={})
    assert len(taken) == 150
    assert {one.outcome for one in taken} == {"new", "broken"}
    assert sum("can't be unpacked" in one.told for one in taken) > 20


def test_broken_and_hostile_entries_do_not_stop_the_rest(layout: Layout, tmp_path: Path) -> None:
    source = tmp_path / "in"
    made_course.write(source / "jdoe.ipynb", notebook())
    made_course.write(source / "al1" / "hw.ipynb", notebook())
    os.symlink("/etc/passwd", source / "al1" / "data.txt")
    os.symlink("/etc/passwd", source / "al2.ipynb")
    (source / "mmul.zip").write_bytes(b"PK\x03\x04 no zip")
    taken = {one.student: one.outcome for one in take(layout, source)}
    assert taken["jdoe"] == taken["al1"] == "new" and taken["al2"] == "broken"
    assert submitted(layout, "al1") == {"hw.ipynb"}
    # Kept as it came, so that grading tells what it is.
    assert taken["mmul"] == "new" and submitted(layout, "mmul") == {"mmul.zip"}


def test_a_source_without_submissions_is_refused(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for path in (tmp_path / "in", tmp_path / "nowhere"):
        with pytest.raises(InputError, match="from"):
            take(layout, path)
