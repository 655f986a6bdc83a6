"""The readings of an interrupted stress run: they count as a separate part of the run that resumes it.

Each part has a cluster of its own, so no slope spans two. Clients report their latencies only at the end of a load, so
a part that was cut short has readings of daemons only.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from cephlab.lab.history.history import Event, Recorder, data_of
from cephlab.suites.stress import series

LEAST_LOOKS = 40
"""Fewest looks of a judged part: with fewer, a slope cannot be told."""
_PART = re.compile(r" \(part (\d+)\): ")


def take_over(recorder: Recorder, earlier: Sequence[Event], *, shared: bool) -> float:
    """Record the readings of earlier parts and their limits; returns the seconds of load that they had."""
    parts: dict[int, list[Mapping[str, Any]]] = {}
    looks = data_of(earlier, "reading")
    known = [int(match[1]) for data in looks for name in data["values"] if (match := _PART.search(name))]
    newest = max(known, default=0) + 1
    for data in looks:
        number = next((int(match[1]) for name in data["values"] if (match := _PART.search(name))), newest)
        parts.setdefault(number, []).append(data)
    return sum(_taken(recorder, number, readings, shared=shared) for number, readings in sorted(parts.items()))


def _taken(recorder: Recorder, number: int, readings: Sequence[Mapping[str, Any]], *, shared: bool) -> float:
    """Record one part. One that is too short to be judged is noted, and its time does not count."""
    if len(readings) < LEAST_LOOKS:
        recorder.record("left out", part=number, looks=len(readings), least=LEAST_LOOKS)
        return 0.0
    seconds = max(float(data["at_s"]) for data in readings)
    values: series.Values = {}
    for data in readings:
        own = {_named(name, number): value for name, value in data["values"].items()}
        recorder.record("reading", at_s=data["at_s"], values=own)
        values |= own
    series.declare(recorder, values, seconds / 3600, shared=shared)
    recorder.record("part", number=number, seconds=seconds, looks=len(readings))
    return seconds


def _named(name: str, number: int) -> str:
    """`osd.0: memory` as `osd.0 (part 1): memory`."""
    if _PART.search(name):
        return name
    whose, _, what = name.rpartition(": ")
    return f"{whose} (part {number}): {what}"
