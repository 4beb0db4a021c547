"""Similarity, versions, requests, purging, and grading elsewhere."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import made_course
import pytest
import shardgrade.similar
from made_course import NAME, Layout, grade, make
from shardgrade import disputes, late, purge, scheduler, version
from shardgrade.course import GraderError
from shardgrade.gradebook import backup
from shardgrade.gradebook.tables import reading, writing
from shardgrade.grading.result import GradeRequest
from shardgrade.similar import similar

import shardbook
from shardbook.errors import InputError

ONE = """
def total(sizes, ranks):
    padded = {}
    for name, size in sizes.items():
        rest = size % ranks
        padded[name] = size + (ranks - rest if rest else 0)
    result = 0
    for name in sorted(padded):
        if padded[name] > 0:
            result += padded[name] // ranks
    return result
"""
OTHER = """
def total(sizes, ranks):
    return sum(-(-size // ranks) for size in sizes.values() if size)
"""
RENAMED = ONE.replace("padded", "grown").replace("rest", "left").replace("result", "all_of_it")


def _answers(layout: Layout, texts: dict[str, str]) -> None:
    for student, text in texts.items():
        cells = {**made_course.cells({}), "t1-solution": text}
        path = layout.folder("submitted", student, NAME) / "hw.ipynb"
        made_course.write(path, made_course.notebook(cells))


def test_renamed_copies_are_found_and_own_work_is_not(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {})
    _answers(layout, {"ada": ONE, "bob": f"# mine\n{RENAMED}", "cem": OTHER})
    layout.folder("submitted", "eve", NAME).mkdir(parents=True)
    (layout.folder("submitted", "eve", NAME) / "hw.ipynb").write_text("junk")
    assert [(pair.one, pair.other) for pair in similar(layout, NAME)] == [("ada", "bob")]


def test_what_was_handed_out_is_no_similarity(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {})
    cells = {**made_course.cells({}), "t1-solution": ONE}
    made_course.write(layout.folder("release", ".", NAME) / "hw.ipynb", made_course.notebook(cells))
    _answers(layout, {"ada": ONE, "bob": ONE})
    assert similar(layout, NAME) == []


def test_the_engines_code_is_recognised(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {})
    source = (Path(shardbook.__file__).parent / "errors.py").read_text()
    _answers(layout, {"ada": source[source.index("def whole") :], "bob": OTHER})
    found = similar(layout, NAME)
    assert ("ada", "shardbook/errors.py") in {(pair.one, pair.other) for pair in found}
    assert "bob" not in {pair.one for pair in found}
    assert shardgrade.similar.Pair("a", "b", 0.2, 0.9, 5).share == 0.9


def test_another_release_or_engine_is_recognised(tmp_path: Path) -> None:
    stamp = version.stamp([{"cell_type": "code", "source": "x"}], "n45")
    other = version.stamp([{"cell_type": "code", "source": "y"}], "n45")
    old = {"shardbook": {**stamp["shardbook"], "engine": "0.0.1"}}
    source = tmp_path / "source.ipynb"
    source.write_text(made_course.notebook({}, stamp))
    said = {}
    for name, metadata in {"same": stamp, "other": other, "old": old, "bare": {}}.items():
        path = tmp_path / name / "renamed.ipynb"
        made_course.write(path, made_course.notebook({}, metadata))
        said[name] = version.note(path.parent, source) or ""
    assert said["same"] == ""
    assert f"release {other['shardbook']['release']} instead of" in said["other"]
    assert f"engine 0.0.1 instead of {shardbook.__version__}" in said["old"]
    assert "doesn't say" in said["bare"]
    assert "doesn't say" in (version.note(tmp_path / "nothing", source) or "")
    (tmp_path / "other" / "renamed.ipynb").write_text("[" * 100_000)
    assert "doesn't say" in (version.note(tmp_path / "other", source) or "")
    source.write_text(made_course.notebook({}))
    assert version.note(tmp_path / "bare", source) is None  # not one of our labs


def test_requests_are_recorded_and_answered(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {"ada": {"t1": 4}})
    grade(layout)
    with writing(layout) as connection:
        first = disputes.record(connection, "ada", NAME, "t1", "It is right.")
        disputes.record(connection, "ada", NAME, "", "All of it.")
        answered = disputes.answer(connection, first.id, "It is, see t1.")
    assert answered.answer == "It is, see t1." and answered.answered
    with reading(layout) as connection:
        found = disputes.requests(connection, NAME)
    assert [one.text for one in found] == ["All of it.", "It is right."]
    with pytest.raises(InputError, match="request"), writing(layout) as connection:
        disputes.answer(connection, 99, "?")


def test_a_purge_leaves_no_name_behind(tmp_path: Path) -> None:
    crowd: dict[str, dict[str, float]] = {f"ada-lovelace-{number}": {} for number in range(20)}
    layout = make(tmp_path / "course", {"ada-lovelace": {"t1": 4}, **crowd})
    grade(layout)
    with writing(layout) as connection:
        late.set_policy(connection, NAME, late.Policy(0.1))
        late.extend(connection, NAME, "ada-lovelace", late.timedelta(hours=1), "flu")
        disputes.record(connection, "ada-lovelace", NAME, "t1", "please")
    backup.backup(layout, "x")
    made_course.write(layout.root / "reports" / "hw.csv", "figures")
    made_course.write(layout.root / "exports" / "hw.csv", "ada-lovelace")
    foretold = purge.survey(layout)
    assert made_course.tables(layout)["students"]  # telling deletes nothing
    assert purge.purge(layout) == foretold
    assert foretold.rows["student"] == foretold.files["submitted"] == 21
    left = [path for path in layout.root.rglob("*") if path.is_file()]
    assert not any(b"ada-lovelace" in path.read_bytes() for path in left)
    with closing(sqlite3.connect(layout.root / "gradebook.db")) as book:
        # Whether SQLite blanks what it deletes depends on how it was built: no page may be free.
        assert book.execute("PRAGMA freelist_count").fetchone() == (0,)
    assert set(foretold.kept) >= {"source", "release", "reports", "gradebook.db"}
    with reading(layout) as connection:
        assert late.policy_of(connection, NAME) == late.Policy(0.1)
    made_course.hand_in(layout, "cem", {"t1": 4})
    assert grade(layout).done == 1  # the next term


def _requests(layout: Layout) -> list[GradeRequest]:
    source = layout.notebooks(NAME)[0]
    return [
        GradeRequest(student, NAME, folder, source)
        for student, folder in layout.submissions(NAME).items()
    ]


@pytest.mark.slow
def test_a_cluster_gives_the_same_results(tmp_path: Path) -> None:
    from distributed import LocalCluster

    layout = make(tmp_path / "course", {"ada": {"t1": 4}, "bob": {}, "cem": {"t2": 1.5}})
    wanted = {one.student: one for one in made_course.execute(_requests(layout))}
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    )
    with cluster:
        address = cluster.scheduler_address
        assert address.startswith("tcp://")
        found = {
            one.student: one
            for one in scheduler.on_cluster(address, _requests(layout), made_course.graded)
        }
        assert found == wanted
        (layout.folder("submitted", "bob", NAME) / "hw.ipynb").unlink()
        with pytest.raises(GraderError, match="a worker can't grade"):
            list(scheduler.on_cluster(address, _requests(layout), made_course.graded))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:1", "nonsense"])
def test_a_scheduler_that_does_not_answer_is_said(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scheduler, "_PATIENCE", 0.3)
    with pytest.raises(GraderError, match="no scheduler answers there"):
        list(scheduler.on_cluster(address, []))


def test_a_result_goes_through_json_unchanged(tmp_path: Path) -> None:
    layout = make(tmp_path / "course", {"ada": {"t1": 4}})
    (result,) = made_course.execute(_requests(layout))
    assert type(result).from_json(result.to_json()) == result
    assert json.loads(result.to_json())["student"] == "ada"
