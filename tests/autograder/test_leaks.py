"""The leak search finds what is planted, in every form a reader could get it."""

import base64
import gzip
import html
import io
import json
import urllib.parse
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from leaks import find_leaks, secret_lines

LINE = "table[category] += size_of[format_name]"


def _zipped(data: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("inside.html", data)
    return buffer.getvalue()


def _highlighted(line: str) -> str:
    words = [f"<span class='n'>{html.escape(word)}</span>" for word in line.split(" ")]
    return f"<pre>{'&nbsp;'.join(words)}</pre>"


FORMS: dict[str, Callable[[str], bytes]] = {
    "plain": str.encode,
    "other white space": lambda line: line.replace(" ", "\n   ").encode(),
    "HTML": lambda line: html.escape(f"<p>{line}</p>").encode(),
    "highlighted HTML": lambda line: _highlighted(line).encode(),
    "JSON": lambda line: json.dumps({"source": f'"é" \n{line}\n'}).encode(),
    "JSON in JSON": lambda line: json.dumps(json.dumps([f'"\n{line}'])).encode(),
    "HTML in JSON": lambda line: json.dumps(_highlighted(line)).encode(),
    "UTF-16": lambda line: line.encode("utf-16-le"),
    "percent": lambda line: urllib.parse.quote(line).encode(),
    "base64": lambda line: base64.b64encode((line * 3).encode()),
    "gzip": lambda line: gzip.compress(line.encode()),
    "HTML in a zip": lambda line: _zipped(_highlighted(line).encode()),
    "zip in a zip": lambda line: _zipped(_zipped(line.encode())),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_planted_line_is_found(form: str, tmp_path: Path) -> None:
    assert find_leaks(tmp_path) == []
    (tmp_path / "planted").write_bytes(FORMS[form](LINE))
    assert {leak.line for leak in find_leaks(tmp_path)} == {LINE}


def test_a_hidden_check_is_a_secret_and_the_engine_is_not() -> None:
    lines = secret_lines()
    assert any("rng.sample(_CATEGORIES" in line for line in lines)
    assert not any(line.startswith("from collections.abc import Callable") for line in lines)
