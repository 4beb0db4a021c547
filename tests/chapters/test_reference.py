"""The reference pages: coverage, reconciliation, the map, the glossary."""

import re
from pathlib import Path

import pytest
from chapters.execute import CHAPTERS, execute

from shardbook.pages.classroom import reading_minutes, sequence
from shardbook.pages.contents import map_text, pages
from shardbook.pages.coverage import coverage, coverage_text
from shardbook.pages.coverage_rows import ROWS
from shardbook.pages.reconciliation import MISTAKES, overview_text, settled, settled_text

#: rows that chapter N45 completes
LEDGER = [f"S{n}" for n in (*range(1, 11), 13, 14, 38, *range(40, 44))]

TOC = "format: jb-book\nroot: index\nparts:\n  - caption: N45\n    chapters:\n      - file: page\n"
FUNCTION = 'def sizes():\n    """Sizes (S4)."""\n'
TEST = 'def test_sizes_are_printed_ones():\n    """(S4)"""\n'
PAGE = "% covers: S4\n\n# A page\n"


def repository(folder: Path, function: str = FUNCTION, test: str = TEST, page: str = PAGE) -> Path:
    """A small course in which one row has what it needs, unless told otherwise."""
    texts = {
        "shardbook/m.py": function,
        "tests/test_m.py": test,
        "page.md": page,
        "_toc.yml": TOC,
        "index.md": "# A book\n",
    }
    for name, text in texts.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def missing(folder: Path, row: str = "S4") -> tuple[str, ...]:
    return next(found.missing for found in coverage(folder) if found.id == row)


def test_there_are_78_rows_in_order() -> None:
    assert list(ROWS) == [f"S{n}" for n in range(1, 79)]
    assert [row.id for row in coverage()] == list(ROWS)


def test_the_rows_of_the_ledger_are_complete() -> None:
    assert {row.id: row.missing for row in coverage() if row.id in LEDGER and row.missing} == {}


def test_a_row_with_page_function_and_test_is_done(tmp_path: Path) -> None:
    assert missing(repository(tmp_path)) == ()


@pytest.mark.parametrize(
    ("without", "lacks"),
    [
        ({"function": "def sizes():\n    pass\n"}, "engine"),
        ({"function": '"""A module (S4)."""\n'}, "engine"),
        ({"test": "def test_sizes():\n    pass\n"}, "test"),
        ({"test": 'def helper():\n    """(S4)"""\n'}, "test"),
        ({"page": "# A page\n"}, "page"),
    ],
)
def test_a_row_that_lacks_something_is_shown_as_open(
    tmp_path: Path, without: dict[str, str], lacks: str
) -> None:
    folder = repository(tmp_path, **without)
    assert missing(folder) == (lacks,)
    line = next(x for x in coverage_text(coverage(folder), "").splitlines() if "| S4 |" in x)
    assert line.count("**open**") == 1


def test_a_page_that_is_not_in_the_book_does_not_count(tmp_path: Path) -> None:
    (repository(tmp_path) / "_toc.yml").write_text("format: jb-book\nroot: index\n")
    assert missing(tmp_path) == ("page",)


def test_the_front_page_counts(tmp_path: Path) -> None:
    (repository(tmp_path, page="# A page\n") / "index.md").write_text(PAGE)
    assert missing(tmp_path) == ()


def test_a_module_of_tests_may_name_a_row_for_all_of_them(tmp_path: Path) -> None:
    assert missing(repository(tmp_path, test='"""Sizes (S3, S4)."""\n')) == ()


@pytest.mark.parametrize(
    "wrong",
    [
        {"function": FUNCTION.replace("S4", "S79")},
        {"test": TEST.replace("S4", "S4, S0")},
        {"page": PAGE.replace("S4", "S4 S100")},
    ],
)
def test_a_tag_that_names_no_row_is_refused(tmp_path: Path, wrong: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        coverage(repository(tmp_path, **wrong))


@pytest.mark.parametrize("tag", ["(S4, M26)", "(a paper, S4)", "(S4,\n    S5)", "(S4 S5)", "S4"])
def test_a_tag_that_would_count_nowhere_is_refused(tmp_path: Path, tag: str) -> None:
    for wrong in ({"function": FUNCTION}, {"test": TEST}):
        ((kind, text),) = wrong.items()
        with pytest.raises(ValueError, match=r"m\.py, line 2: S4.* would count nowhere"):
            coverage(repository(tmp_path, **{kind: text.replace("(S4)", tag)}))


def test_rows_and_mistakes_stand_in_parentheses_of_their_own(tmp_path: Path) -> None:
    assert missing(repository(tmp_path, test=TEST.replace("(S4)", "(S4) (M26)"))) == ()


def test_the_coverage_page_lists_every_row_and_counts_them() -> None:
    page = execute("reference/coverage.md")
    lines = page.shown[0].data.splitlines()
    assert [m[1] for x in lines if (m := re.match(r"\| (S\d+) \|", x))] == list(ROWS)
    open_rows = [x for x in lines if x.startswith("| S") and "**open**" in x]
    assert int(page.said["rows"]) - int(page.said["done"]) == len(open_rows)


def test_every_correction_of_the_engine_is_on_the_page() -> None:
    named = {
        id
        for path in (CHAPTERS.parent / "shardbook").rglob("reconciliation.py")
        if path.parent.name != "pages"
        for id in re.findall(r'^        "(M\d+)",$', path.read_text(encoding="utf-8"), re.M)
    }
    assert named and named <= {correction.id for correction in settled()}


def test_the_37_mistakes_are_settled_or_open() -> None:
    page = execute("reference/reconciliation.md")
    overview = next(x.data for x in page.shown if "| state |" in getattr(x, "data", ""))
    ids = re.findall(r"^\| \[?(M\d+)", overview, flags=re.M)
    assert ids == list(MISTAKES) == [f"M{n}" for n in range(1, 38)]
    assert overview.count("**open**") == int(page.said["left"])
    assert overview.count("| settled |") == int(page.said["settled"])


def test_an_open_mistake_is_shown_as_open() -> None:
    some = settled()[:1]
    text = overview_text(some)
    assert text.count("settled") == 1
    assert text.count("**open**") == len(MISTAKES) - 1


def test_a_settled_mistake_has_claim_value_derivation_and_cause() -> None:
    text = settled_text(settled())
    m9 = text[text.index("### M9:") : text.index("### M11:")]
    assert "| cards at 16 B | 61 cards | 61 cards | 81 cards |" in m9
    assert "405 × 16 B ÷ 80 GB = 81" in m9
    m5 = text[text.index("### M5:") : text.index("### M6:")]
    assert "| left on an 80 GB card | 24 GB | 24 GB | −4 GB |" in m5
    for part in ("says.**", "**Derivation.**", "How such a mistake arises.**"):
        assert part in m5


def test_the_map_links_what_stands_and_says_what_does_not(tmp_path: Path) -> None:
    text = map_text("", repository(tmp_path))
    assert "| **N45** |" in text and "{doc}`page`" in text
    assert text.count("not written yet") == 5


def test_the_index_has_the_bytes_of_the_usual_recipe() -> None:
    page = execute("index.md")
    assert (page.said["b_use"], page.said["b_train"]) == ("2", "16")  # ZeRO, section 3.1
    assert "gathered parameters" in page.shown[-1].alt


def test_the_classes_go_from_one_update_to_the_joint_update() -> None:
    """A's sequence: update, ledger, data copies, gather on demand, joint update (S77)."""
    classes = sequence()
    assert [each.chapter for each in classes] == [f"N{n}" for n in range(44, 49)]
    assert [each.step for each in classes] == [
        "one update", "the ledger", "data copies", "gather on demand", "the joint update",
    ]  # fmt: skip
    page = execute("index.md")
    shown = next(x.data for x in page.shown if "| class | step |" in getattr(x, "data", ""))
    for each in classes:
        assert 30 * len(each.pages) <= each.reading <= 45 * len(each.pages)
        assert f"{{doc}}`{each.pages[0].path.removeprefix('chapters/')}`" in shown
    total = sum(each.reading for each in classes) / 60
    assert float(page.said["reading"].removesuffix(" h")) == pytest.approx(total, abs=0.13)


def test_a_page_says_its_time_in_a_known_way() -> None:
    assert reading_minutes("**Time** about half an hour. **The") == 30
    assert reading_minutes("**Time** a little over forty minutes.") == 45
    for text in ("**Time** quite long.", "**Time** about two weeks.", ""):
        with pytest.raises(ValueError, match="Time"):
            reading_minutes(text)


def glossary() -> dict[str, str]:
    text = (CHAPTERS / "reference" / "glossary.md").read_text(encoding="utf-8")
    entries = re.search(r"(?s)```\{glossary\}\n(.*?)\n```", text)
    assert entries
    return dict(entry.split("\n", 1) for entry in entries[1].split("\n\n"))


def test_every_term_has_a_chinese_equivalent_and_a_meaning() -> None:
    for term, meaning in glossary().items():
        chinese, _, english = meaning.strip().partition(". ")
        assert re.search(r"[\u4e00-\u9fff]", chinese), term
        assert len(english.split()) >= 4, term


def test_every_term_says_on_which_page_it_is_used() -> None:
    known = {page.path for page in pages()}
    for term, meaning in glossary().items():
        used = re.findall(r"\{doc\}`\.\./(\w+)`", meaning)
        assert used and all(f"chapters/{page}" in known for page in used), term


def test_terms_stand_in_alphabetical_order() -> None:
    assert list(glossary()) == sorted(glossary(), key=str.casefold)


def test_pages_are_read_in_the_books_order() -> None:
    listed = re.findall(r"file: (\S+)", (CHAPTERS.parent / "_toc.yml").read_text(encoding="utf-8"))
    assert [page.path for page in pages()] == listed
