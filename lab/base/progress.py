"""How what takes long says what it is doing: a function that takes one line at a time."""

from collections.abc import Callable

Progress = Callable[[str], None]


def quiet(_line: str) -> None:
    """Progress that nobody listens to."""
