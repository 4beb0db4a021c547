"""The commands as an instructor types them: the promised JSON, one line for what can't be done."""

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import made_course
import pytest
from made_course import NAME, Layout, make
from shardgrade import cli
from shardgrade.grading import result

from shardbook.labs.registry import LABS

POINTS = {"ada": {"t1": 4, "t2": 6}, "bob": {"t1": 1.5}}

Run = Callable[..., Any]


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.setattr(
        result, "grade_many", lambda requests, workers: made_course.execute(requests)
    )
    return make(tmp_path / "course", POINTS)


@pytest.fixture
def run(layout: Layout, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command on the course; returns its JSON, or with ``code`` its line on stderr."""

    def call(*words: str, code: int = 0) -> Any:
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, "--course", str(layout.root), "--json"])
        captured = capsys.readouterr()
        assert ended.value.code == code, captured.err
        return json.loads(captured.out) if captured.out else captured.err

    return call


def test_grade_prints_one_record_a_submission(run: Run) -> None:
    ada, bob = run("grade", "--assignment", NAME)
    assert (ada["student"], ada["score"], ada["max_score"]) == ("ada", 10, 15)
    assert bob["scores"] == {"essay": 0, "t1": 1.5, "t2": 0}
    assert bob["went_wrong"] == ["t2: nothing"] and bob["put_right"] == []
    assert bob["notices"] == ["t2: nothing"] and bob["seconds"] == 0.01 and bob["fresh"]
    assert not any(record["fresh"] for record in run("grade", "--assignment", NAME))


def test_grade_tells_how_far_it_is_and_what_went_wrong(
    layout: Layout, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["grade", "--assignment", NAME, "--course", str(layout.root)]
    with pytest.raises(SystemExit):
        cli.main(words)
    captured = capsys.readouterr()
    assert "bob: t2: nothing" in captured.err and "2 of 2 graded, 0:00 left" in captured.err
    assert captured.out.splitlines()[0].split() == ["student", "score", "essay", "t1", "t2"]
    made_course.hand_in(layout, "bob", {"t1": 2.0})
    with pytest.raises(SystemExit):
        cli.main(words)
    captured = capsys.readouterr()
    assert "bob: t1: 1.5 → 2" in captured.err and "1 graded, 1 unchanged" in captured.out


def test_an_interrupt_says_what_stands(
    layout: Layout, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(requests: Any, workers: int) -> Any:
        yield made_course.graded(next(iter(requests)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(result, "grade_many", interrupted)
        assert "Stopped; 1 are recorded" in run("grade", "--assignment", NAME, code=130)
    fresh = [record["student"] for record in run("grade", "--assignment", NAME) if record["fresh"]]
    assert fresh == ["bob"]


def test_regrade_shows_before_it_applies(layout: Layout, run: Run) -> None:
    run("grade", "--assignment", NAME)
    made_course.hand_in(layout, "bob", {"t1": 2.0})
    wanted = [{"student": "bob", "grade_id": "t1", "old": 1.5, "new": 2.0}]
    shown = run("regrade", "--assignment", NAME)
    assert (shown["applied"], shown["changes"]) == (False, wanted)
    assert run("export", "--assignment", NAME, "--to", str(layout.root / "a.csv"))
    assert ",1.5," in (layout.root / "a.csv").read_text()
    done = run("regrade", "--assignment", NAME, "--apply")
    assert (done["applied"], done["changes"]) == (True, wanted)
    assert run("regrade", "--assignment", NAME) == {"graded": 0, "applied": False, "changes": []}


def test_a_term_from_roster_to_purge(layout: Layout, run: Run, tmp_path: Path) -> None:
    roster = tmp_path / "roster.csv"
    roster.write_text("id,first_name,last_name\nada,Ada,L\nbob,Bob,B\ncem,Cem,C\n")
    assert run("roster", str(roster))["added"] == ["ada", "bob", "cem"]
    made_course.write(
        tmp_path / "in" / "Cem C_1_assignsubmission_file_" / "mine.ipynb",
        made_course.notebook(made_course.cells({"t1": 4})),
    )
    made_course.write(tmp_path / "in" / "No One_2_assignsubmission_file_" / "hw.ipynb", "{}")
    words = ["collect", "--assignment", NAME, "--from", str(tmp_path / "in")]
    taken = {one["student"]: one for one in run(*words, code=1)}
    assert taken["cem"]["outcome"] == "new" and "taken as hw.ipynb" in taken["cem"]["told"]
    assert taken[""]["outcome"] == "unknown"
    times = tmp_path / "times.csv"
    times.write_text(
        "name,student,submitted\nCem C_1_assignsubmission_file_,cem,2026-10-02T13:00+00:00\n"
    )
    taken = run(*words, "--map", str(times), "--replace", code=1)
    assert "replaced" in {one["outcome"] for one in taken}
    run("grade", "--assignment", NAME)
    told = run("late", "--assignment", NAME, "--due", "2026-10-01T12:00+00:00", "--per-day", "0.25")
    assert told["penalties"] == {"cem": 2.0}  # a day and an hour
    run("extend", NAME, "cem", "--hours", "25", "--reason", "ill")
    assert run("late", "--assignment", NAME)["penalties"] == {}
    (asked,) = run("request", "add", NAME, "bob", "--task", "t1", "--text", "Why?")
    run("request", "answer", str(asked["id"]), "--text", "See t1.")
    (answered,) = run("request", "list", NAME)
    assert answered["answer"] == "See t1."
    report = run("report", "--assignment", NAME)
    assert report["students"] == 3 and Path(report["html"]).is_file()
    assert run("similar", "--assignment", NAME) == []
    backups = run("restore")["backups"]
    assert [name.rpartition("Z-")[2] for name in backups] == [
        "grade-hw.db",
        "late-hw.db",
        "extend-hw.db",
        "request.db",
        "request.db",
    ]
    assert run("restore", backups[1])["restored"] == backups[1]
    assert run("late", "--assignment", NAME)["policy"] is None
    assert run("purge")["deleted"] is False
    assert run("purge", "--yes")["rows"]["student"] == 3
    assert not (layout.root / "submitted").exists() or not layout.submissions(NAME)


def test_verdicts_show_what_stopped_each_wrong_answer(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["verdicts", "n44", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert ended.value.code == 0
    assert {row["task"] for row in rows} == {task.id for task in LABS["n44"].tasks}
    for row in rows:
        assert (row["verdict"] == "passed") is row["right"] is (row["missed"] == [])
    table = importlib.import_module("killtable")
    row = table.Row("n44.1", "says three", False, 4.0, 4.0, ())
    monkeypatch.setattr(table, "verdicts", lambda labs: [row])
    with pytest.raises(SystemExit) as ended:
        cli.main(["verdicts", "n44"])
    said = capsys.readouterr().out
    assert ended.value.code == 1
    assert said == ("n44.1\n  wrong     4 of 4  says three: passed\n1 answers, 1 judged wrongly.\n")


@pytest.mark.parametrize(
    "words",
    [
        ["grade"],
        ["grade", "n45", "--assignment", NAME],
        ["grade", "n99"],
        ["grade", "--assignment", "hw9"],
        ["grade", "--assignment", NAME, "--isolation", "none"],
        ["grade", "--assignment", NAME, "--scheduler", "foo"],
        ["grade", "--assignment", NAME, "--scheduler", ""],
        ["grade", "--assignment", NAME, "--scheduler", "http://host:8787"],
        ["regrade", "--assignment", NAME, "--scheduler", "tcp://host"],
        ["report", "--assignment", "hw9"],
        ["export", "--assignment", "hw9"],
        ["collect", "--assignment", NAME, "--from", "/nowhere"],
        ["collect", "--assignment", NAME],
        ["late", "--assignment", NAME, "--per-day", "2"],
        ["late", "--assignment", NAME, "--grace-minutes", "5"],
        ["late", "--assignment", NAME, "--at-most", "0.5"],
        ["late", "--assignment", NAME, "--due", "2026-10-01"],
        ["late", "--assignment", NAME, "--due", "2026-10-01T12:00"],
        ["extend", NAME, "bob", "--hours", "-1"],
        ["extend", NAME, "bob", "--hours", "nan"],
        ["extend", "hw9", "bob", "--hours", "1"],
        ["request", "add", "hw9", "bob", "--text", "?"],
        ["request", "add", NAME, "bob", "--task", "t9", "--text", "?"],
        ["request", "answer", "7", "--text", "?"],
        ["roster", "/nowhere.csv"],
        ["restore", "yesterday"],
        ["similar", "--assignment", NAME, "--threshold", "2"],
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Run, words: list[str]) -> None:
    error = run(*words, code=2)
    assert error.startswith("shardgrade: ") and error.count("\n") == 1


def test_a_scheduler_s_address_is_taken_where_nothing_needs_grading(run: Run) -> None:
    words = ["grade", "--assignment", NAME]
    run(*words)
    for address in ("tcp://host:8786", "tls://10.0.0.1:8786", "tcp://[::1]:8786"):
        assert not any(record["fresh"] for record in run(*words, "--scheduler", address))
    assert "foo" in run(*words, "--scheduler", "foo", code=2)


def test_a_listed_time_that_is_none_is_refused_before_anything_is_taken(
    run: Run, tmp_path: Path
) -> None:
    listed, given = tmp_path / "names.csv", tmp_path / "in"
    listed.write_text("name,student,submitted\ncem,cem,yesterday\n")
    made_course.write(given / "cem" / "hw.ipynb", made_course.notebook({}))
    words = ["collect", "--assignment", NAME, "--from", str(given), "--map", str(listed)]
    assert "submitted (in names.csv) is 'yesterday'" in run(*words, code=2)
    (cem,) = run(*words[:5], "--dry-run")
    assert cem["outcome"] == "new"


def test_more_time_for_a_stranger_is_given_with_a_warning(
    layout: Layout, capsys: pytest.CaptureFixture[str]
) -> None:
    for student, warned in (("bob", False), ("bop", True)):
        with pytest.raises(SystemExit) as ended:
            cli.main(["extend", NAME, student, "--hours", "3", "--course", str(layout.root)])
        captured = capsys.readouterr()
        assert ended.value.code == 0 and f"{student} has 3 h more" in captured.out
        assert bool(captured.err) is warned


@pytest.mark.parametrize(
    "url",
    [
        "mysql+nothing://x/y",
        "postgresql+pg8000_missing://x",
        "postgresql+psycopg://x:port/y",
        "rubbish",
    ],
)
def test_an_address_that_is_no_database_s_is_bad_input(run: Run, url: str) -> None:
    error = run("grade", "--assignment", NAME, "--db-url", url, code=2)
    assert error.startswith("shardgrade: db-url is ") and error.count("\n") == 1


def test_a_driver_that_is_not_installed_is_one_line(run: Run) -> None:
    error = run("grade", "--assignment", NAME, "--db-url", "oracle+cx_oracle://x/y", code=1)
    assert "cx_Oracle" in error and error.count("\n") == 1


def test_a_gradebook_that_is_none_is_one_line(layout: Layout, run: Run) -> None:
    (layout.root / "gradebook.db").write_text("x" * 5000)
    error = run("grade", "--assignment", NAME, code=1)
    assert error.count("\n") == 1 and "not a database" in error


def test_doctor_names_what_is_amiss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from shardgrade.commands import doctor
    from shardgrade.sandbox import ladder
    from shardgrade.sandbox.ladder import RUNGS, Probed

    monkeypatch.setattr(ladder, "probe", lambda: tuple(Probed(rung, "") for rung in RUNGS))
    told = doctor.examine(tmp_path / "not" / "there")
    assert told["best"] == RUNGS[0] and told["troubles"] == []
    assert told["packages"]["nbgrader"] and told["free_disk"] > 0
    monkeypatch.setattr(
        ladder,
        "probe",
        lambda: (*(Probed(rung, "no") for rung in RUNGS[:-1]), Probed(RUNGS[-1], "")),
    )
    monkeypatch.setattr(doctor, "_ENOUGH", 10**30)
    troubles = doctor.examine(tmp_path)["troubles"]
    assert any("does not work here: no" in trouble for trouble in troubles)
    assert any("trust the class" in trouble for trouble in troubles)
    assert any("are free" in trouble for trouble in troubles)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in cli.COMMANDS)
    commands = Path(cli.__file__).parent / "commands"
    modules = {path.stem for path in commands.glob("*.py")} - {"__init__", "target"}
    assert modules == set(cli.COMMANDS)


@pytest.mark.parametrize(
    "words",
    [
        ["late", "hw", "--due", "2026-10-01", "--grace-minutes", "5", "--due", "2026-10-02"],
        ["request", "list", "hw", "--json", "--json"],
    ],
)
def test_an_option_given_twice_is_refused(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    option = words[-1] if words[-1].startswith("--") else words[-2]
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"shardgrade: {option} is given 2 times\n"
