"""Find solution lines and hidden checks in what readers and students get.

A leaked line is a line of a reference solution's body or of a hidden check with at least 20
characters that are not white space, and that stands neither in the engine nor in a stub; an import
of the standard library tells nothing and does not count. Every byte of a folder is searched: inside
zips, wheels, tars and gzips, behind HTML tags and entities, JSON and percent escapes, base64 and
UTF-16. Not found: a line that was reworded or encrypted, and text inside compressed PDF streams.
"""

import ast
import base64
import binascii
import functools
import gzip
import html
import io
import re
import sys
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
SIGNIFICANT = 20

_TAG = re.compile(r"<[^<>]*>")
_ESCAPE = re.compile(r'\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|[nrt"\'/\\])')
_PLAIN = {"n": "\n", "r": "\n", "t": "\t"}
_BASE64 = re.compile(rb"[A-Za-z0-9+/]{80,}={0,2}")


@dataclass(frozen=True, slots=True)
class Leak:
    """A secret ``line`` found in ``file`` (members of archives behind ``!``)."""

    file: str
    line: str


def find_leaks(folder: Path, root: Path = ROOT) -> list[Leak]:
    """Search every byte below ``folder``; an empty list is what one hopes for."""
    search = _Search(secret_lines(root))
    leaks = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        for name, data in _unpacked(str(path.relative_to(folder)), path.read_bytes()):
            found = {line for text in set(_readings(data)) for line in search.found_in(text)}
            leaks += [Leak(name, line) for line in sorted(found)]
    return leaks


class _Search:
    """Many needles at once: only where the first eight bytes fit is a needle compared."""

    def __init__(self, lines: frozenset[str]) -> None:
        self._by_head: dict[int, list[tuple[bytes, str]]] = {}
        for line in lines:
            needle = _significant(line).encode()
            self._by_head.setdefault(_windows(needle[:8], "<u8")[0], []).append((needle, line))
        self._heads = np.array(sorted(self._by_head), dtype="<u8")
        self._pairs = np.zeros((4, 2**16), dtype=bool)
        for place in range(4):
            self._pairs[place, (self._heads >> np.uint64(16 * place)) & np.uint64(0xFFFF)] = True

    def found_in(self, text: str) -> set[str]:
        data = text.encode(errors="replace")
        if len(data) < SIGNIFICANT:
            return set()
        pairs = _windows(data, "<u2")
        last = len(data) - 7
        maybe = np.flatnonzero(self._pairs[0][pairs[:last]])
        for place in (1, 2, 3):
            maybe = maybe[self._pairs[place][pairs[maybe + 2 * place]]]
        heads = _windows(data, "<u8")[maybe]
        hits = np.isin(heads, self._heads)
        return {
            line
            for start, head in zip(maybe[hits].tolist(), heads[hits].tolist(), strict=True)
            for needle, line in self._by_head[head]
            if data.startswith(needle, start)
        }


def _windows(data: bytes, kind: str) -> np.ndarray:
    """The bytes from each offset on, read as one number."""
    count = len(data) - np.dtype(kind).itemsize + 1
    return np.ndarray((count,), dtype=kind, buffer=data, strides=(1,))


@functools.cache
def secret_lines(root: Path = ROOT) -> frozenset[str]:
    """The lines that must not be found."""
    lines: set[str] = set()
    for path in (root / "solutions").glob("*.py"):
        lines.update(_body_lines(path))
    for path in (root / "autograder" / "shardgrade" / "checks").glob("*.py"):
        lines.update(path.read_text(encoding="utf-8").splitlines())
    public = _public_text(root)
    return frozenset(
        line.strip()
        for line in lines
        if len(_significant(line)) >= SIGNIFICANT
        and _significant(line) not in public
        and not _imports_the_standard_library(line)
    )


def _imports_the_standard_library(line: str) -> bool:
    """Such a line tells nothing, and stands in Python's own files, which the site serves."""
    match = re.match(r"(?:from|import) (\w+)", line.strip())
    return match is not None and match[1] in sys.stdlib_module_names


def _body_lines(path: Path) -> Iterator[str]:
    source = path.read_text(encoding="utf-8")
    lines = source.splitlines()
    for node in ast.parse(source).body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield from lines[node.body[0].lineno - 1 : node.end_lineno]


def _public_text(root: Path) -> str:
    paths = [*(root / "shardbook").rglob("*.py"), *(root / "labs").glob("*.md")]
    return "\n".join(_significant(path.read_text(encoding="utf-8")) for path in paths)


def _significant(text: str) -> str:
    return "".join(text.split())


def _unpacked(name: str, data: bytes, depth: int = 4) -> Iterator[tuple[str, bytes]]:
    yield name, data
    if depth == 0:
        return
    for inner, content in _members(data):
        yield from _unpacked(f"{name}!{inner}", content, depth - 1)


def _members(data: bytes) -> Iterator[tuple[str, bytes]]:
    if data[:2] == b"PK" and zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            yield from ((name, archive.read(name)) for name in archive.namelist())
    if data[:2] == b"\x1f\x8b":
        yield "gzip", gzip.decompress(data)
    if data[257:262] == b"ustar":
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            for member in archive:
                if file := archive.extractfile(member):
                    yield member.name, file.read()
    if data.startswith(b"# Sphinx inventory"):
        yield "inventory", zlib.decompress(data.split(b"\n", 4)[4])
    for match in _BASE64.finditer(data):
        try:
            yield "base64", base64.b64decode(match[0], validate=True)
        except binascii.Error:
            continue


def _readings(data: bytes) -> Iterator[str]:
    text = data.decode("utf-8", errors="replace")
    yield _significant(text)
    if b"\x00" in data:
        for encoding in ("utf-16-le", "utf-16-be"):
            yield _significant(data.decode(encoding, errors="replace"))
        return
    unescaped, shown = _unescape(text), html.unescape(_TAG.sub("", text))
    for reading in (unescaped, shown, _unescape(shown), html.unescape(_TAG.sub("", unescaped))):
        yield _significant(reading)
    yield _significant(html.unescape(shown))
    yield _significant(urllib.parse.unquote(text))


def _unescape(text: str) -> str:
    def plain(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if code[0] in "ux" else _PLAIN.get(code, code)

    return _ESCAPE.sub(plain, text)
