"""The key to every figure of the book: a colour for each category, a texture for each place."""

from xml.etree.ElementTree import Element

from shardbook.explorers import draw
from shardbook.pages.figures import Figure

_TEXTURES = {
    "owned": "solid: owned by one rank",
    "replicated": "hatched: on every rank",
    "temporary": "outlined: temporary",
}
_COLUMN, _ROW = 230, 30


def colour_key() -> Figure:
    """Return the categories in their colours, and one of them in each texture."""
    root = draw.canvas(3 * _COLUMN, 4 * _ROW + 6)
    draw.hatches(root, "key")
    entries = [("owned", category, label) for category, (label, _) in draw.CATEGORIES.items()]
    for place, (texture, category, label) in enumerate(entries):
        _entry(root, place % 3, place // 3, category, texture, label)
    for place, (texture, label) in enumerate(_TEXTURES.items()):
        _entry(root, place, 3, "weights", texture, label)
    labels = ", ".join(label for label, _ in draw.CATEGORIES.values())
    return Figure(
        draw.text_of(root),
        f"Each category has a colour of its own: {labels}. {'; '.join(_TEXTURES.values())}.",
    )


def _entry(root: Element, column: int, row: int, category: str, texture: str, label: str) -> None:
    x, y = column * _COLUMN + 4, row * _ROW + 6
    draw.block(root, "key", category, x, y, 28, 18, texture=texture)
    draw.words(root, x + 38, y + 14, label)
