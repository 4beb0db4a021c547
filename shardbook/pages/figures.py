"""Static figures: matplotlib's SVG inline in the page, in the page's text colour, with alt text."""

import io
import re
from dataclasses import dataclass
from html import escape
from typing import Any


@dataclass(frozen=True, slots=True)
class Figure:
    """An SVG with its alt text, displayed as HTML."""

    svg: str
    alt: str

    def _repr_html_(self) -> str:
        return f'<div class="sb-static" role="img" aria-label="{escape(self.alt)}">{self.svg}</div>'


def figure(drawn: Any, alt: str) -> Figure:
    """Return a matplotlib figure for the page; ``alt`` states its finding in a sentence.

    Raises `ValueError` for an alt text that says nothing.
    """
    import matplotlib
    from matplotlib import pyplot

    if len(alt.split()) < 5:
        raise ValueError(f"the alt text states the figure's finding in a sentence, not {alt!r}")
    text = io.StringIO()
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": alt}):
        drawn.savefig(
            text, format="svg", transparent=True, bbox_inches="tight", metadata={"Date": None}
        )
    pyplot.close(drawn)
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"#000000|\bblack\b", "currentColor", svg)
    # Text without a fill of its own would stay black on a dark page.
    svg = svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" fill="currentColor" ', 1)
    return Figure(svg, alt)
