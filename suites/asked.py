"""How long or how often a scenario repeats, if an environment variable says so instead of its tier."""

import os

from cephlab.lab.base.errors import SpecError


def minutes(variable: str, usual: float) -> float:
    """The minutes that an environment variable asks for, else the usual ones. SpecError if it holds no length."""
    text = os.environ.get(variable)
    if text is None:
        return usual
    try:
        length = float(text)
    except ValueError:
        length = 0.0
    if not 0 < length < float("inf"):
        raise SpecError(f"{variable} is not a length", f"got {text!r}, wanted minutes above 0", "unset it")
    return length


def count(variable: str, of: str, usual: int) -> int:
    """The number that an environment variable asks for, else the usual one. SpecError if it holds none. of: of what."""
    text = os.environ.get(variable)
    if text is None:
        return usual
    if not text.isdecimal() or int(text) < 1:
        raise SpecError(f"{variable} is not a number of {of}", f"got {text!r}, wanted 1 or more", "unset it")
    return int(text)
