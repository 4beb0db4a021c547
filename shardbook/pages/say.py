"""Numbers for the prose: computed in a cell, placed in the text with ``{glue:text}``."""


def say(**texts: object) -> None:
    """Make each value available to the page's prose as ``{glue:text}`NAME```."""
    from myst_nb import glue  # only where the book is built

    for name, value in texts.items():
        glue(name, value, display=False)
