"""What is drawn is well-formed SVG that says what was asked for."""

from xml.etree import ElementTree

from hypothesis import given, settings
from hypothesis import strategies as st

from shardbook.explorers import draw

TEXTS = st.text(st.sampled_from("ab &<>\"'é✓;#"), max_size=8)
CHILDREN = st.lists(st.tuples(TEXTS, TEXTS, st.booleans()), max_size=6)


@given(CHILDREN)
@settings(derandomize=True, deadline=None)
def test_a_figure_reads_back_as_it_was_drawn(children: list[tuple[str, str, bool]]) -> None:
    root = draw.canvas(10, 10)
    parent = root
    for text, value, inside in children:
        child = draw.add(parent, "g", text, class_=value, stroke_width="1")
        parent = child if inside else parent
    read = ElementTree.fromstring(draw.text_of(root))
    drawn, found = list(root.iter()), list(read.iter())
    assert len(drawn) == len(found)
    for one, other in zip(drawn, found, strict=True):
        assert other.tag.endswith(f"}}{one.tag}")
        assert (other.text or "") == (one.text or "")
        assert {**other.attrib, "xmlns": ""} == {**one.attrib, "xmlns": ""}


@given(st.integers(-(10**9), 10**9))
@settings(derandomize=True, deadline=None)
def test_a_whole_coordinate_is_written_as_its_real_twin(value: int) -> None:
    assert draw.number(value) == draw.number(float(value))
