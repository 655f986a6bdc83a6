"""Progress of long operations: a function that is called with one line at a time."""

from collections.abc import Callable

Progress = Callable[[str], None]


def quiet(_line: str) -> None:
    """Discards progress."""
