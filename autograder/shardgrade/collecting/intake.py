"""Take in submissions from a folder or a zip; nothing that is there is overwritten unasked."""

import filecmp
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from shardbook.errors import InputError, one_of
from shardgrade.collecting.naming import FORMATS, Match, Named, detect, match, read_name
from shardgrade.gradebook.scores import Student
from shardgrade.layout import Layout

_MOST_BYTES: Final = 200 * 1024**2
_MOST_BYTES_OF_ALL: Final = 20 * 1024**3
_MOST_FILES: Final = 1000
_NO_WORK: Final = {"__MACOSX", ".ipynb_checkpoints", ".DS_Store", "Thumbs.db"}


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one submission.

    ``outcome`` is ``new``, ``same``, ``replaced``, ``different`` (something else is there, which
    stays), ``older`` (a later one of this student is there), ``unknown`` (nobody's), ``broken`` or
    ``missing`` (listed by hand, but no submission has this name).
    """

    label: str
    student: str
    how: str
    outcome: str
    told: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """Whose it is and where it goes; ``submitted`` are times known otherwise, by label."""

    layout: Layout
    assignment: str
    roster: dict[str, Student]
    by_hand: dict[str, str]
    submitted: dict[str, str]
    replace: bool = False
    dry_run: bool = False


def collect(rules: Rules, source: Path, form: str = "auto") -> list[Taken]:
    """Take in all submissions of the folder or zip ``source``.

    Raises:
        InputError: there is no such source, or nothing in it looks like a submission.
    """
    one_of("format", form, ("auto", *FORMATS))
    for left_by_a_kill in rules.layout.state.glob(".coming-*"):
        shutil.rmtree(left_by_a_kill)
    with tempfile.TemporaryDirectory() as temporary:
        folder = source
        if source.is_file() and zipfile.is_zipfile(source):
            folder = Path(temporary) / "all"
            _unpack(source, folder, _MOST_BYTES_OF_ALL)
        if not folder.is_dir():
            raise InputError("from", str(source), "name a folder or a zip file")
        entries = _entries(folder, rules)
        form = detect(entry.name for entry in entries) if form == "auto" else form
        groups = _grouped(entries, form, rules)
        if not groups:
            raise InputError("from", str(source), f"nothing in it is named as in format {form}")
        taken: list[Taken] = []
        for number, (found, mine) in enumerate(groups.items()):
            taken += _take(rules, found, mine, Path(temporary) / f"one-{number}")
    taken += _missing(rules, {one.label for mine in groups.values() for one, _ in mine})
    return sorted(taken, key=lambda one: (one.student, one.label))


def _missing(rules: Rules, names: set[str]) -> list[Taken]:
    told = "no submission has this name"
    return [
        Taken(label, student, "listed by hand", "missing", told)
        for label, student in rules.by_hand.items()
        if label not in names
    ]


def _entries(folder: Path, rules: Rules) -> list[Path]:
    entries = [path for path in sorted(folder.iterdir()) if path.name not in _NO_WORK]
    # A zip of a folder, or the exchange above its inbound folder: one step down.
    inbound = [path for path in entries if path.name == "inbound" and path.is_dir()]
    if inbound:
        return _entries(inbound[0], rules)
    if len(entries) == 1 and entries[0].is_dir() and not _is_submission(entries[0], rules):
        return _entries(entries[0], rules)
    return entries


def _is_submission(folder: Path, rules: Rules) -> bool:
    platforms = FORMATS[:-1]
    if any(read_name(folder.name, form) for form in platforms):
        return True
    inside = [path.name for path in folder.iterdir()]
    if any(read_name(name, form) for name in inside for form in platforms):
        return False
    return any(name == rules.assignment or name.endswith(".ipynb") for name in inside)


def _grouped(entries: list[Path], form: str, rules: Rules) -> dict[Match, list[tuple[Named, Path]]]:
    groups: dict[Match, list[tuple[Named, Path]]] = {}
    for path in entries:
        named = read_name(path.name, form)
        if named is None or (named.lab and named.lab != rules.assignment):
            continue
        if form == "folder" and path.is_file() and not _is_work(named):
            continue
        found = match(named, rules.roster, rules.by_hand)
        key = found if found.student else Match("", f"{found.how}: {path.name}")
        groups.setdefault(key, []).append((named, path))
    return groups


def _take(
    rules: Rules, found: Match, mine: list[tuple[Named, Path]], work: Path
) -> Iterator[Taken]:
    mine.sort(key=lambda one: (one[0].order, one[0].label))
    label = mine[-1][0].label
    if not found.student:
        yield Taken(label, "", found.how.partition(": ")[0], "unknown")
        return
    if not _is_safe(found.student):
        yield Taken(label, found.student, found.how, "broken", "this can't be a student's id")
        return
    whole = [one for one in mine if one[1].is_dir() or _is_work(one[0])]
    for named, _ in whole[:-1]:
        yield Taken(named.label, found.student, found.how, "older")
    beside = [one for one in mine if one not in whole]
    try:
        for named, path in [*beside, *whole[-1:]]:
            _lay_out(rules, named, path, work)
    except (OSError, InputError) as error:
        yield Taken(label, found.student, found.how, "broken", str(error))
        return
    told = _right_name(rules, work)
    if label in rules.submitted:
        (work / "timestamp.txt").write_text(rules.submitted[label] + "\n", encoding="ascii")
    yield Taken(label, found.student, found.how, _place(rules, found.student, work), told)


def _is_work(named: Named) -> bool:
    return Path(named.file or named.label).suffix in {".ipynb", ".zip"}


def _is_safe(student: str) -> bool:
    return not student.startswith(".") and not any(c in student for c in "/\\+\0")


def _lay_out(rules: Rules, named: Named, path: Path, work: Path) -> None:
    """Put what one entry holds into the folder ``work``."""
    work.mkdir(parents=True, exist_ok=True)
    if path.is_symlink():
        raise InputError("submission", path.name, "it is a link")
    if path.is_dir():
        inner = path / rules.assignment
        _copy(inner if inner.is_dir() else path, work)
        # A packed lab, as `shardbook lab pack` writes it, inside the platform's folder.
        for packed in sorted(work.glob("*.zip")):
            _unpack(packed, work, _MOST_BYTES)
            packed.unlink()
    elif zipfile.is_zipfile(path):
        _unpack(path, work, _MOST_BYTES)
    else:
        shutil.copyfile(path, work / (named.file or path.name))


def _copy(source: Path, target: Path) -> None:
    files = 0
    for folder, folders, names in os.walk(source):
        folders[:] = [name for name in folders if name not in _NO_WORK]
        for name in names:
            path = Path(folder) / name
            if name in _NO_WORK or not stat.S_ISREG(path.lstat().st_mode):
                continue
            files += 1
            if files > _MOST_FILES:
                raise InputError("submission", source.name, f"more than {_MOST_FILES} files")
            there = target / path.relative_to(source)
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, there)


def _unpack(archive: Path, target: Path, most: int) -> None:
    """Unpack plain files only, inside ``target`` only, and not more than ``most`` bytes.

    Raises:
        InputError: it is too large, broken or encrypted, or a name leads out of it.
    """
    try:
        _unpack_members(archive, target, most)
    except (zipfile.BadZipFile, zlib.error, EOFError, ValueError, RuntimeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError("zip", archive.name, f"it can't be unpacked: {error}") from None


def _unpack_members(archive: Path, target: Path, left: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(archive) as packed:
        members = [member for member in packed.infolist() if not member.is_dir()]
        for member in members:
            path = PurePosixPath(member.filename.replace("\\", "/"))
            if (
                path.is_absolute()
                or ".." in path.parts
                or any(":" in part for part in path.parts[:1])
            ):
                raise InputError("zip", archive.name, f"{member.filename!r} leads out of it")
            if set(path.parts) & _NO_WORK or stat.S_ISLNK(member.external_attr >> 16):
                continue
            there = target / path
            there.parent.mkdir(parents=True, exist_ok=True)
            # The size in the directory may lie: what comes out is counted.
            with packed.open(member) as inside, there.open("wb") as out:
                while block := inside.read(1 << 20):
                    left -= len(block)
                    if left < 0:
                        raise InputError("zip", archive.name, "it unpacks to too much")
                    out.write(block)


def _right_name(rules: Rules, work: Path) -> str:
    """Give the only notebook its released name, so that nbgrader finds it too."""
    wanted = [path.name for path in rules.layout.notebooks(rules.assignment)]
    found = sorted(work.rglob("*.ipynb"))
    if not found:
        return "there is no notebook in it"
    if len(found) == 1 and len(wanted) == 1 and found[0] != work / wanted[0]:
        told = f"{found[0].relative_to(work)} is taken as {wanted[0]}"
        found[0].rename(work / wanted[0])
        return told
    return ""


def _place(rules: Rules, student: str, work: Path) -> str:
    target = rules.layout.folder("submitted", student, rules.assignment)
    outcome = "new"
    if target.exists():
        if _same(target, work):
            return "same"
        if not rules.replace:
            return "different"
        outcome = "replaced"
    if rules.dry_run:
        return outcome
    target.parent.mkdir(parents=True, exist_ok=True)
    # Copied beside the place first: a name appears with all its files, or not at all.
    coming = Path(tempfile.mkdtemp(prefix=".coming-", dir=rules.layout.state))
    try:
        shutil.copytree(work, coming, dirs_exist_ok=True)
        coming.chmod(0o755)
        if outcome == "replaced":
            going = Path(tempfile.mkdtemp(prefix=".going-", dir=rules.layout.state))
            target.rename(going / "old")
            coming.rename(target)
            shutil.rmtree(going)
        else:
            coming.rename(target)
    finally:
        shutil.rmtree(coming, ignore_errors=True)
    return outcome


def _same(old: Path, new: Path) -> bool:
    names = [
        {path.relative_to(top) for path in top.rglob("*") if path.is_file()} for top in (old, new)
    ]
    return names[0] == names[1] and not any(
        filecmp.cmpfiles(old, new, [str(name) for name in names[0]], shallow=False)[1:]
    )
