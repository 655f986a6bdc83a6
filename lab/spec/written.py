"""Reads the values of a spec as people write them: sizes with units, numbers and booleans as options."""

import re
from typing import Annotated, Any

from pydantic import AllowInfNan, BeforeValidator, Strict

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_MOST_BYTES = 1 << 63
_SIZE = re.compile(r"([0-9]{1,20}(?:\.[0-9]{1,20})?)\s*([KMGT]?)(i?B)?", re.IGNORECASE)


def size_bytes(text: str) -> int | None:
    """Bytes from `4k`, `10GiB` or a plain number; None for any other text, and from 8 EiB. Units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    size = int(float(match[1]) * _UNITS[match[2].upper()]) if match else None
    return size if size is not None and size < _MOST_BYTES else None


def size_text(number_bytes: int) -> str:
    """`10GiB`, by the largest unit that leaves a whole number."""
    for unit in ("T", "G", "M", "K"):
        if number_bytes and number_bytes % _UNITS[unit] == 0:
            return f"{number_bytes // _UNITS[unit]}{unit}iB"
    return str(number_bytes)


def names_file(profile: str) -> bool:
    """Whether this is the path of a profile's file, not a profile's name."""
    return "/" in profile or profile.endswith(".toml")


def _size(value: Any) -> int:
    if isinstance(value, str):
        size = size_bytes(value)
    else:
        size = value if isinstance(value, int) and not isinstance(value, bool) else None
    if size is None:
        raise ValueError('bytes, as a number or with K, M, G or T such as "10GiB", below 8 EiB')
    return size


def _option(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return value
    raise ValueError("text, a number, or true or false")


Size = Annotated[int, BeforeValidator(_size)]
"""Bytes."""

OptionText = Annotated[str, BeforeValidator(_option)]
"""The value of a setting in ceph.conf, which is text."""

Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Real = Annotated[float, Strict()]
Finite = Annotated[float, Strict(), AllowInfNan(False)]
