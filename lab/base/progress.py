"""How what takes long says what it is doing: a function that takes one line at a time."""

from __future__ import annotations

from collections.abc import Callable

Progress = Callable[[str], None]


def quiet(_line: str) -> None:
    """Progress that nobody listens to."""
