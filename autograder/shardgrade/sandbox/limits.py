"""What a submission may use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one submission.

    ``cell_seconds`` is the time of one cell, ``seconds`` of the whole submission; ``deaths`` the
    number of times that the student's process may die or hang before the rest is given up.
    ``memory`` comes on top of what Python and its packages take (B). ``output`` is what one cell may
    print (characters), ``files`` what the scratch folder may hold (B), ``message`` what one value may
    take on its way (B). A submission has one process; its threads share that memory.
    """

    cell_seconds: float = 10.0
    seconds: float = 120.0
    deaths: int = 4
    memory: int = 2 * 1024**3
    output: int = 1_000_000
    files: int = 64 * 1024**2
    message: int = 64 * 1024**2
