"""Drawing in SVG: one colour, label and texture per category for the whole book.

Colour is never the only carrier. Solid means owned, hatched replicated, outlined temporary.
Fills are attributes, so that a figure stands alone in a PDF or an EPUB; the class beside them
lets the page's stylesheet switch to the dark palette. Coordinates are rounded, so that two
Python versions write the same bytes.
"""

from functools import cache
from html import escape
from typing import Final
from xml.etree.ElementTree import Element, SubElement

#: category → (label, fill on white); each has a contrast of at least 3:1 on white
CATEGORIES: Final = {
    "weights": ("weights", "#0072B2"),
    "gradients": ("gradients", "#D55E00"),
    "master_weights": ("master weights", "#00785A"),
    "momentum": ("momentum", "#B5487F"),
    "variance": ("variance", "#6F4FA3"),
    "activations": ("activations", "#7A6200"),
    "gathered_parameters": ("gathered parameters", "#0A7080"),
    "buffers": ("buffers", "#5F6875"),
}


#: x, y, width, height
Box = tuple[float, float, float, float]

#: width of a letter of small text, generous: fonts differ between readers
_LETTER: Final = 7.4


def number(value: float) -> str:
    """Write a coordinate: at most two decimals, no trailing zeros, never ``-0``."""
    if type(value) is int:
        return str(value)
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def canvas(width: float, height: float) -> Element:
    """Return an SVG root of ``width`` × ``height`` user units that scales with its container."""
    return Element(
        "svg",
        {
            "xmlns": "http://www.w3.org/2000/svg",
            "viewBox": f"0 0 {number(width)} {number(height)}",
            "class": "sb-svg",
            "aria-hidden": "true",
            "focusable": "false",
        },
    )


def add(parent: Element, tag: str, text: float | str = "", **attributes: float | str) -> Element:
    """Append a child; ``class_`` and ``stroke_width`` become ``class`` and ``stroke-width``."""
    spelled = {
        key.rstrip("_").replace("_", "-"): value if isinstance(value, str) else number(value)
        for key, value in attributes.items()
    }
    return _append(parent, tag, spelled, text)


def _append(
    parent: Element, tag: str, attributes: dict[str, str], text: float | str = ""
) -> Element:
    child = SubElement(parent, tag, attributes)
    child.text = str(text) or None
    return child


def words(
    parent: Element, x: float, y: float, text: str, *, anchor: str = "start", class_: str = ""
) -> Element:
    """Write ``text`` in the page's text colour; ``class_`` may be ``sb-small`` or ``sb-strong``."""
    place = {"x": number(x), "y": number(y)}
    return _append(parent, "text", place | _lettering(class_, anchor), text)


@cache
def _lettering(class_: str, anchor: str) -> dict[str, str]:
    return {
        "class": f"sb-text {class_}".strip(),
        "text-anchor": anchor,
        "fill": "currentColor",
        "font-size": "12" if "sb-small" in class_ else "14",
        "font-weight": "700" if "sb-strong" in class_ else "400",
        "font-family": "system-ui, sans-serif",
    }


def line(parent: Element, x1: float, y1: float, x2: float, y2: float, class_: str = "") -> Element:
    """Draw a line in the text colour; class ``sb-faint`` is for grids, ``sb-limit`` for limits."""
    place = {"x1": number(x1), "y1": number(y1), "x2": number(x2), "y2": number(y2)}
    return _append(parent, "line", place | _stroke(class_))


@cache
def _stroke(class_: str) -> dict[str, str]:
    style = {"class": class_, "stroke": "currentColor", "stroke-width": "1"}
    if class_ == "sb-faint":
        style["stroke-opacity"] = "0.25"
    if class_ == "sb-limit":
        style |= {"stroke-width": "2", "stroke-dasharray": "6 4"}
    return style


def hatches(root: Element, scope: str) -> None:
    """Define the textures of this figure; ``scope`` keeps their ids apart from other figures'."""
    root.append(_definitions(scope))


@cache
def _definitions(scope: str) -> Element:
    definitions = Element("defs")
    for category, (_, fill) in CATEGORIES.items():
        pattern = add(
            definitions,
            "pattern",
            id=_hatch(scope, category),
            width=7,
            height=7,
            patternUnits="userSpaceOnUse",
            patternTransform="rotate(45)",
        )
        add(
            pattern,
            "rect",
            width=7,
            height=7,
            class_=f"sb-{category}",
            fill=fill,
            fill_opacity="0.3",
        )
        add(pattern, "rect", width=3, height=7, class_=f"sb-{category}", fill=fill)
    return definitions


def block(
    parent: Element,
    scope: str,
    category: str,
    x: float,
    y: float,
    width: float,
    height: float,
    *,
    texture: str = "owned",
) -> Element:
    """Draw bytes of a category: ``owned`` is solid, ``replicated`` hatched, ``temporary`` outlined."""
    place = {"x": x, "y": y, "width": max(width, 0), "height": height}
    shape = {name: number(value) for name, value in place.items()}
    return _append(parent, "rect", _textured(scope, category, texture) | shape)


def blocks(
    parent: Element,
    scope: str,
    category: str,
    boxes: list[Box],
    *,
    texture: str = "owned",
) -> Element:
    """Draw many blocks (x, y, width, height) of a category as one path, which is faster."""
    return _append(parent, "path", {"d": path_of(boxes)} | _textured(scope, category, texture))


def path_of(boxes: list[Box]) -> str:
    """Write boxes (x, y, width, height) as the ``d`` of one path."""
    return "".join(
        [
            f"M{number(x)} {number(y)}h{number(width)}v{number(height)}h-{number(width)}z"
            for x, y, width, height in boxes
        ]
    )


@cache
def _textured(scope: str, category: str, texture: str) -> dict[str, str]:
    fill = CATEGORIES[category][1]
    if texture == "replicated":
        return {
            "class": f"sb-{category} sb-replicated",
            "fill": f"url(#{_hatch(scope, category)})", "stroke": fill, "stroke-width": "1",
        }  # fmt: skip
    if texture == "temporary":
        return {
            "class": f"sb-{category} sb-temporary",
            "fill": fill, "fill-opacity": "0.12", "stroke": fill, "stroke-width": "2",
        }  # fmt: skip
    return {"class": f"sb-{category}", "fill": fill}


def outline(parent: Element, x: float, y: float, width: float, height: float) -> Element:
    """Frame what is chosen, in the text colour."""
    style = {"fill": "none", "stroke": "currentColor"}
    return add(parent, "rect", x=x, y=y, width=width, height=height, stroke_width=2, **style)


def legend(root: Element, scope: str, categories: list[str], x: float, y: float) -> None:
    """Write the categories' labels with their colours, and what the textures mean."""
    left = x
    for category in categories:
        label = CATEGORIES[category][0]
        block(root, scope, category, left, y - 10, 14, 14)
        words(root, left + 20, y + 2, label, class_="sb-small")
        left += 36 + _LETTER * len(label)
    left = x
    first = categories[0]
    for texture, label in (
        ("owned", "solid: owned by this rank"),
        ("replicated", "hatched: on every rank"),
    ):
        block(root, scope, first, left, y + 14, 14, 14, texture=texture)
        words(root, left + 20, y + 26, label, class_="sb-small")
        left += 36 + _LETTER * len(label)


def limit(root: Element, x: float, top: float, bottom: float, label: str) -> None:
    """Draw a vertical limit, such as a card's memory, with its label below it."""
    line(root, x, top, x, bottom, "sb-limit")
    words(root, x, bottom + 18, label, anchor="middle", class_="sb-small")


def text_of(root: Element) -> str:
    """Return the figure as SVG text.

    It reads the same as `ElementTree.tostring`'s, which looks for namespaces first and takes three
    times as long: half of an update.
    """
    spelled = "".join([f' {name}="{value}"' for name, value in root.items()])
    if "&" in spelled or "<" in spelled or spelled.count('"') != 2 * len(root.keys()):
        spelled = "".join([f' {name}="{escape(value)}"' for name, value in root.items()])
    inside = "".join([text_of(child) for child in root])
    if root.text:
        inside = escape(root.text, quote=False) + inside
    return f"<{root.tag}{spelled}>{inside}</{root.tag}>" if inside else f"<{root.tag}{spelled} />"


def _hatch(scope: str, category: str) -> str:
    return f"hatch-{scope}-{category}"
