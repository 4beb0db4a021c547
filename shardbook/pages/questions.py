"""Questions a reader commits to before seeing the answer: no script, no server.

Each option opens its own verdict, so a wrong choice is met with the reason people make it.
"""

from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class Option:
    """One answer: its text, whether it is right, and why."""

    text: str
    correct: bool
    because: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question with its options, displayed as HTML."""

    text: str
    options: tuple[Option, ...]

    def _repr_html_(self) -> str:
        group = f"q{abs(_stable_hash(self.text))}"
        options = "".join(
            f'<details name="{group}"><summary>{escape(option.text)}</summary>'
            f"<p><strong>{'✓ Right.' if option.correct else '✗ No.'}</strong> "
            f"{escape(option.because)}</p></details>"
            for option in self.options
        )
        return (
            f'<div class="sb-quiz" role="group" aria-label="Question">'
            f'<p class="sb-question">{escape(self.text)}</p>{options}</div>'
        )


def right(text: str, because: str) -> Option:
    """Return the right option and the reason it is right."""
    return Option(text, True, because)


def wrong(text: str, because: str) -> Option:
    """Return a wrong option and the idea that leads to it, answered."""
    return Option(text, False, because)


def ask(text: str, *options: Option) -> Question:
    """Return a question; raises `ValueError` unless exactly one option is right."""
    if sum(option.correct for option in options) != 1 or len(options) < 2:
        raise ValueError(f"a question has one right option and at least one wrong: {text!r}")
    return Question(text, options)


def _stable_hash(text: str) -> int:
    import zlib

    return zlib.crc32(text.encode())
