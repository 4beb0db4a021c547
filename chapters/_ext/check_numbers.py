"""Reject numbers typed by hand in the pages' prose.

Why: typed numbers drift away from the engine, from each other and from their units. What a page
states is computed in a cell and placed with ``{glue:text}``; see CONTRIBUTING.md.
It reads the text between the cells, and inside the cells the sentences given to a question or a
figure. It does not catch: numbers written as words, a computed number placed in the wrong sentence,
and a wrong coefficient in a formula.
"""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

#: (what may stand there, why)
ALLOWED = [
    (r"\b(?:TF|FP|BF|INT|E\dM)\d+\b", "the name of a number format"),
    (
        r"\bZeRO-[123]\b|\b[Ss]tages? [0-3](?:(?:,| and| or|–|,? to) [0-3])*\b",
        "the name of a stage",
    ),
    (
        r"\bN4[4-8]\b|\b(?:n4[4-8]|pp|tp|plan|offload)\.\d\b|\b[SM]\d{1,2}\b",
        "the id of a chapter, task, system or mistake",
    ),
    (
        r"\b(?:GPT-[23]|Llama [23]|DGX-2|DeepSeek-V3|[VAH]\d{3}s?|H800)\b",
        "the name of a model or card",
    ),
    (r"\b(?:4|8|16|32)-bit\b", "the width of a number format, as its name"),
    (r"\b(?:[Rr]ank|[Ll]ayer|[Ee]xpert) \d\b", "an index as a name"),
    (r"\b\d+[FBIW]\d+\b", "an action of a pipeline, as the engine prints it"),
    (r"\b[pg]16\b|\b[pmv]32\b", "a state in ZeRO-Offload's graph, as the engine names it"),
    (r"\b1F1B\b|\b[123]D\b|\bLecture 13\b", "a name"),
    (r"§\d+(?:\.\d+)*|\b(?:Table|Figure|Eq\.|equation|Section) \d+\b", "a place in a source"),
    (r"\b(?:19|20)\d\d\b", "a year"),
    (r"\b(?:GB|GiB|kB|MB|MiB|TB|KiB|TiB) = (?:10|2)[⁰¹²³⁴⁵⁶⁷⁸⁹]+", "the definition of a unit"),
    (r"(?m)^\s*\d+\.\s", "a list's marker"),
    (r"(?m)^#+ .*$", "a heading numbers nothing but its place"),
    (r"\bCC BY 4\.0\b|\bPython ≥ 3\.11\b|\bUTF-8\b|\bWCAG 2\b", "the name of a licence or version"),
]
#: calls whose sentences a reader sees
_SPOKEN = {"ask", "right", "wrong", "figure", "table"}


class Finding(NamedTuple):
    """A digit that nothing accounts for."""

    line: int
    text: str


def typed_numbers(page: str) -> list[Finding]:
    """Return the digits in ``page`` (MyST text) that are neither computed nor in an allowed form."""
    prose = _without_cells(page)
    findings = list(_digits(_without_markup(prose)))
    for first_line, code in _cells(page):
        findings += _spoken_digits(first_line, code)
    return sorted(findings)


def _blank(match: re.Match[str]) -> str:
    return re.sub(r"[^\n]", " ", match[0])


def _cells(page: str) -> Iterator[tuple[int, str]]:
    for match in re.finditer(r"(?ms)^(`{3,})\{code-cell\}[^\n]*\n(.*?)^\1\s*$", page):
        body = re.sub(r"(?m)^:[\w-]+:.*$|\A---\n.*?^---$", "", match[2], flags=re.S | re.M)
        yield page.count("\n", 0, match.start(2)) + 1, body


def _without_cells(page: str) -> str:
    page = re.sub(r"(?s)\A---\n.*?\n---\n", _blank, page)
    page = re.sub(r"(?ms)^(`{3,})\{code-cell\}[^\n]*\n.*?^\1\s*$", _blank, page)
    return re.sub(r"(?m)^ *(?:`{3,}|:{3,})(?:\{[\w:-]+\}.*)?$|^ *:[\w-]+:.*$", _blank, page)


def _without_markup(prose: str) -> str:
    # Computed, or a reference: roles whose content is a key. A quotation must name its source.
    prose = re.sub(r"\{(?:glue:\w+|doc|ref|term|cite|cite:\w+|eq|download)\}`[^`]*`", _blank, prose)
    prose = re.sub(r"\{quoted\}`[^`]*\((?=[^`)]*[A-Za-z])[^`)]*\)`", _blank, prose)
    prose = re.sub(r"\]\([^)]*\)|<[^>]*>|(?<!\})`{1,2}[^`\n]*`{1,2}(?<!`\d`)", _code_or_link, prose)
    # A formula's coefficients are the rule itself; a sum of plain numbers is a result.
    prose = re.sub(r"(?s)\$\$.+?\$\$|\$[^$\n]+\$", _formula, prose)
    for pattern, _reason in ALLOWED:
        prose = re.sub(pattern, _blank, prose)
    return prose


def _code_or_link(match: re.Match[str]) -> str:
    text = match[0]
    is_code_with_a_name = text.startswith("`") and re.search(r"[A-Za-z_]{2}", text)
    return _blank(match) if not text.startswith("`") or is_code_with_a_name else text


def _formula(match: re.Match[str]) -> str:
    symbols = re.sub(
        r"\\(?:text|mathrm)\{[^}]*\}|\\(?:times|cdot|approx|frac|quad|,)", "", match[0]
    )
    return _blank(match) if re.search(r"\\[A-Z]?[a-z]+|[A-Za-z]", symbols) else match[0]


def _digits(prose: str) -> Iterator[Finding]:
    for number, line in enumerate(prose.split("\n"), start=1):
        for match in re.finditer(r"\S*\d\S*", line):
            yield Finding(number, match[0])


def _spoken_digits(first_line: int, code: str) -> Iterator[Finding]:
    for call in ast.walk(ast.parse(code)):
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") in _SPOKEN:
            for argument in [*call.args, *(keyword.value for keyword in call.keywords)]:
                for node in _sentences(argument):
                    for _, text in _digits(_without_markup(node.value)):
                        yield Finding(first_line + node.lineno - 1, text)


def _sentences(node: ast.AST) -> Iterator[ast.Constant]:
    """The typed parts of the texts in ``node``; calls are looked at by themselves."""
    if isinstance(node, (ast.FormattedValue, ast.Call, ast.Subscript)):
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    for child in ast.iter_child_nodes(node):
        yield from _sentences(child)


def main(folders: list[str]) -> int:
    """Check every page below ``folders``; return 1 if any has a typed number."""
    failed = False
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.md")):
            for line, text in typed_numbers(path.read_text(encoding="utf-8")):
                failed = True
                print(f"{path}:{line}: {text}: a number typed by hand; compute it and glue it")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["chapters"]))
