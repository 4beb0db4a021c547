"""The gradebook in PostgreSQL, where its programs are installed."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import made_course
import pytest
from made_course import grade, hand_in, make
from shardgrade import cli
from shardgrade.gradebook import backup
from shardgrade.layout import open_layout
from sqlalchemy import create_engine

PROGRAMS = [shutil.which(name) for name in ("initdb", "pg_ctl")]

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not all(PROGRAMS), reason="needs PostgreSQL's initdb and pg_ctl"),
    pytest.mark.skipif(
        os.geteuid() == 0 and not shutil.which("setpriv"), reason="needs setpriv: it refuses root"
    ),
]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A server of its own, on a socket in a folder of its own."""
    pytest.importorskip("psycopg")
    with tempfile.TemporaryDirectory(prefix="pg", dir="/tmp") as home:
        before: list[str] = []
        if os.geteuid() == 0:
            os.chown(home, 65534, 65534)
            before = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

        def call(*words: str) -> None:
            subprocess.run([*before, *words], check=True, cwd=home, stdout=subprocess.DEVNULL)

        initdb, pg_ctl = map(str, PROGRAMS)
        call(initdb, "-D", f"{home}/d", "-U", "staff", "-A", "trust", "-E", "UTF8", "--no-locale")
        options = f"-k {home} -c listen_addresses='' -c fsync=off"
        call(pg_ctl, "-D", f"{home}/d", "-l", f"{home}/log", "-o", options, "-w", "start")
        try:
            yield f"postgresql+psycopg://staff@/postgres?host={home}"
        finally:
            call(pg_ctl, "-D", f"{home}/d", "-m", "immediate", "stop")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_a_database_that_is_not_in_unicode_is_refused_in_one_line(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], encoding: str
) -> None:
    name = encoding.lower()
    with closing(create_engine(url, isolation_level="AUTOCOMMIT").connect()) as connection:
        made = f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0"
        connection.exec_driver_sql(made)
    layout = make(tmp_path, {"ann": {"t1": 1}})
    other = url.replace("/postgres?", f"/{name}?").replace("staff@", "staff:secret@")
    for command in ("grade", "report"):
        words = [command, "--assignment", made_course.NAME, "--course", str(layout.root)]
        with pytest.raises(SystemExit) as ended:
            cli.main([*words, "--db-url", other])
        said = capsys.readouterr().err
        assert ended.value.code == 2 and said.count("\n") == 1
        assert f"its encoding is {encoding}, not Unicode" in said and "secret" not in said


def test_it_holds_what_a_file_holds_and_a_backup_brings_it_back(url: str, tmp_path: Path) -> None:
    points = {f"student-{n}": {"t1": n, "t2": n * 0.5} for n in range(4)}
    file = make(tmp_path / "file", points)
    grade(file)
    make(tmp_path / "server", points)
    layout = open_layout(tmp_path / "server", url)
    assert grade(layout).done == 4
    assert grade(layout).done == 0
    wanted = made_course.tables(file)
    assert made_course.tables(layout) == wanted
    copy = backup.backup(layout, "test")
    assert copy is not None
    hand_in(layout, "student-1", {"t1": 4, "t2": 6})
    assert len(grade(layout).changes) == 2
    assert made_course.tables(layout) != wanted
    backup.restore(layout, copy.name)
    assert made_course.tables(layout) == wanted
