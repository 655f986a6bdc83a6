"""Figures with units, as people write them: "128 GiB", "25 Gb/s", "20 us"; a number alone is refused."""

import math
import re
from enum import StrEnum


class Measure(StrEnum):
    """What a figure measures, by the unit that the model calculates in."""

    BYTES = "bytes"
    RATE = "bytes/s"
    TIME = "s"
    OPS = "ops/s"
    SPEED = "points"
    POWER = "W"
    OBJECTS = "objects"
    WORK = "ops/s/W"


UNITS: dict[Measure, dict[str, float]] = {
    Measure.BYTES: {
        "B": 1,
        "KB": 1e3,
        "MB": 1e6,
        "GB": 1e9,
        "TB": 1e12,
        "PB": 1e15,
        "EB": 1e18,
        "KiB": 2.0**10,
        "MiB": 2.0**20,
        "GiB": 2.0**30,
        "TiB": 2.0**40,
        "PiB": 2.0**50,
        "EiB": 2.0**60,
    },
    Measure.RATE: {
        "B/s": 1,
        "bytes/s": 1,
        "MB/s": 1e6,
        "GB/s": 1e9,
        "MiB/s": 2.0**20,
        "GiB/s": 2.0**30,
        "Mb/s": 1e6 / 8,
        "Gb/s": 1e9 / 8,
    },
    Measure.TIME: {"s": 1, "ms": 1e-3, "us": 1e-6, "min": 60, "h": 3600},
    Measure.OPS: {"IOPS": 1, "ops/s": 1},
    Measure.SPEED: {"points": 1},
    Measure.POWER: {"W": 1},
    Measure.OBJECTS: {"objects": 1},
    Measure.WORK: {"ops/s/W": 1},
}
"""Unit -> how many of the kind's own unit it is."""


def scale_of(unit: str, kind: Measure) -> float | None:
    """How many of the kind's own unit a unit is, in any common spelling; None where it is not a unit of that kind."""
    if unit in UNITS[kind]:
        return UNITS[kind][unit]
    word = unit.replace("bits", "bit").replace("bps", "b/s").replace("Bps", "B/s").replace("µ", "u").replace("μ", "u")
    word = re.sub(r"bit(?=/|$)", "b", word.replace("/sec", "/s"))
    if kind is Measure.OPS:
        prefixed = re.fullmatch(r"([kKM]?)\s*(IOPS|iops|ops/s|op/s)", word)
        return {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6}[prefixed[1]] if prefixed else None
    return UNITS[kind].get(word)


_FIGURE = re.compile(r"([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,3})?)\s*([A-Za-zµμ/]+|[kKM] [A-Za-z/]+)")


def parse(text: str, kind: Measure) -> float:
    """The figure in the kind's own unit; ValueError says what was wanted."""
    known = ", ".join(UNITS[kind])
    match = _FIGURE.fullmatch(text.strip())
    if not match:
        raise ValueError(f'a figure above 0 with its unit, e.g. "10 {next(iter(UNITS[kind]))}"; units: {known}')
    scale = scale_of(match[2], kind)
    if scale is None:
        raise ValueError(f"one of the units {known}")
    value = float(match[1]) * scale
    if value <= 0:
        raise ValueError("a figure above 0")
    if not math.isfinite(value):
        raise ValueError("a finite figure")
    return value


_STEPS: dict[Measure, tuple[tuple[str, float], ...]] = {
    Measure.BYTES: (
        ("EiB", 2.0**60),
        ("PiB", 2.0**50),
        ("TiB", 2.0**40),
        ("GiB", 2.0**30),
        ("MiB", 2.0**20),
        ("KiB", 2.0**10),
        ("B", 1),
    ),
    Measure.RATE: (("GB/s", 1e9), ("MB/s", 1e6), ("B/s", 1)),
    Measure.TIME: (("s", 1), ("ms", 1e-3), ("us", 1e-6)),
    Measure.OPS: (("kops/s", 1e3), ("ops/s", 1)),
    Measure.SPEED: (("points", 1),),
    Measure.POWER: (("W", 1),),
    Measure.OBJECTS: (("billion objects", 1e9), ("million objects", 1e6), ("objects", 1)),
    Measure.WORK: (("ops/s/W", 1),),
}


def show(value: float, kind: Measure) -> str:
    """The figure for a reader: three significant digits and the largest unit that fits."""
    for unit, size in _STEPS[kind]:
        if abs(value) >= size:
            return f"{digits(value / size, 3)} {unit}"
    unit, size = _STEPS[kind][-1]
    return f"{value / size:.3g} {unit}"


def digits(value: float, count: int) -> str:
    """So many significant digits, and every one before the point rather than an exponent."""
    return f"{value:,.{count}g}" if abs(value) < 10**count - 0.5 else f"{value:,.0f}"


def terabytes(size_bytes: float) -> str:
    """A size in the unit of disks, also if it is smaller: `12.5 TB`; PB and EB from 10,000 of the unit below."""
    fits = (unit for unit in ("TB", "PB") if abs(size_bytes) < 9999.5 * UNITS[Measure.BYTES][unit])
    unit = next(fits, "EB")
    return f"{digits(size_bytes / UNITS[Measure.BYTES][unit], 4)} {unit}"
