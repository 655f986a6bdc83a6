"""Watts and their sources: parsed, integrated over the time of a load, compared, and turned into work per watt."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import pairwise
from typing import Any

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.numbers import percent
from cephlab.lab.telemetry.demand import Interval

SAME_SHARE = 0.03
"""A larger difference of two sources of one scope is reported. The paper's meter and BMCs differed by 3 % (8.1.1)."""
GAP_S = 30.0
"""The watts between two readings further apart than this are unknown."""
STUCK = 10
"""This many equal readings in a row mean that the sensor is stuck: the watts of a machine always fluctuate."""
JUMP = 5.0
"""A reading above or below the mean of its neighbours by more than this factor is a sensor error: no server does that
within seconds."""


class Source(StrEnum):
    """The source of a reading. A model is not a measurement: it neither passes nor fails a requirement."""

    METER = "meter"
    BMC = "bmc"
    SENSORS = "sensors"
    RAPL = "rapl"
    MODEL = "model"


class Scope(StrEnum):
    """What the watts cover. MACHINE: at the plug, all power supplies together; CPU: only the processor packages."""

    MACHINE = "machine"
    CPU = "CPU"


@dataclass(frozen=True)
class Reading:
    """The watts of a node at one moment. at_s: seconds since the epoch."""

    at_s: float
    watts: float
    source: Source
    scope: Scope
    node: str


@dataclass(frozen=True)
class Energy:
    """Energy of one node during a load. idle_w: watts before the load, None if not measured. trouble: sensor errors."""

    node: str
    source: Source
    scope: Scope
    seconds: float
    joules: float
    idle_w: float | None = None
    trouble: tuple[str, ...] = ()

    @property
    def watts(self) -> float:
        """Mean watts over the window."""
        return self.joules / self.seconds

    @property
    def above_idle_w(self) -> float | None:
        """Watts above idle; None if idle was not measured."""
        return None if self.idle_w is None else self.watts - self.idle_w

    @property
    def measured(self) -> bool:
        """Whether a requirement of measured power may be judged by it."""
        return self.source is not Source.MODEL and not self.trouble


def energy_value(of: Energy) -> dict[str, Any]:
    """An energy as JSON values, for a history."""
    return {
        "node": of.node,
        "source": of.source.value,
        "scope": of.scope.value,
        "seconds": of.seconds,
        "watts": of.watts,
        "idle_w": of.idle_w,
        "trouble": list(of.trouble),
    }


def energy(readings: Sequence[Reading], window: tuple[float, float], idle: tuple[float, float] | None = None) -> Energy:
    """Integrate the readings of one node and source over a window, by trapezoids. idle: a window before the load.

    SpecError if sources, scopes or nodes are mixed; LabBroken if the readings do not cover a window.
    """
    kinds = {(reading.node, reading.source, reading.scope) for reading in readings}
    if len(kinds) != 1:
        raise SpecError(
            "watts of different sources cannot be added up", f"got {sorted(map(str, kinds))}", "integrate each alone"
        )
    ((node, source, scope),) = kinds
    ordered = sorted(readings, key=lambda reading: reading.at_s)
    joules, seconds = _integral(ordered, window), window[1] - window[0]
    trouble, idle_w = trouble_of(_used(ordered, window)), None
    if idle:
        idle_w = _integral(ordered, idle) / (idle[1] - idle[0])
        if _impossible(_used(ordered, idle)):
            trouble, idle_w = (*trouble, "reads impossible values before the load"), None
    return Energy(node, source, scope, seconds, joules, idle_w, trouble)


def _used(ordered: Sequence[Reading], window: tuple[float, float]) -> list[float]:
    """The watts that the integral over a window rests on: the readings in it, and the one next to it on each side."""
    first = max(at for at, reading in enumerate(ordered) if reading.at_s <= window[0])
    last = min(at for at, reading in enumerate(ordered) if reading.at_s >= window[1])
    return [reading.watts for reading in ordered[first : last + 1]]


def _integral(ordered: Sequence[Reading], window: tuple[float, float]) -> float:
    began_s, ended_s = window
    if not began_s < ended_s or ordered[0].at_s > began_s or ordered[-1].at_s < ended_s:
        got = f"got {ordered[0].at_s:.1f} to {ordered[-1].at_s:.1f}, wanted {began_s:.1f} to {ended_s:.1f}"
        raise LabBroken("the power readings do not cover the load", got)
    joules = 0.0
    for left, right in pairwise(ordered):
        low, high = max(began_s, left.at_s), min(ended_s, right.at_s)
        if low >= high:
            continue
        if right.at_s - left.at_s > GAP_S:
            raise LabBroken(
                "the power readings do not cover the load",
                f"a gap of {right.at_s - left.at_s:.0f} s from {left.at_s:.1f} on",
            )
        steep = (right.watts - left.watts) / (right.at_s - left.at_s)
        joules += (high - low) * (left.watts + steep * ((low + high) / 2 - left.at_s))
    return joules


def _impossible(watts: Sequence[float]) -> bool:
    return any(not math.isfinite(value) or value <= 0 for value in watts)


def trouble_of(watts: Sequence[float]) -> tuple[str, ...]:
    """What is wrong with the readings of a sensor, in words: not above 0, not a number, stuck, jumping."""
    problems = []
    if _impossible(watts):
        problems.append("reads impossible values")
    if any(len(set(watts[i : i + STUCK])) == 1 for i in range(len(watts) - STUCK + 1)):
        problems.append(f"is stuck: {STUCK} equal readings in a row")
    for before, value, after in zip(watts, watts[1:], watts[2:], strict=False):
        mean = (before + after) / 2
        if mean > 0 and not mean / JUMP <= value <= mean * JUMP:
            problems.append(f"jumps: {value:g} W between {before:g} and {after:g}")
            break
    return tuple(problems)


def apart(first: Energy, second: Energy) -> float:
    """By which share of the larger one two sources of one node and scope differ.

    SpecError for different scopes: the watts of a CPU and those of its machine are not the same thing.
    """
    if (first.scope, first.node) != (second.scope, second.node):
        mixed = f"{first.node} {first.scope} and {second.node} {second.scope}"
        raise SpecError("watts of different nodes or scopes cannot be compared", mixed, "compare sources of one scope")
    most = max(abs(first.watts), abs(second.watts))
    return abs(first.watts - second.watts) / most if most else 0.0


def disagreement(first: Energy, second: Energy) -> str:
    """In words, how much two sources of one node and scope differ; empty within SAME_SHARE. Errors: as `apart`."""
    if (share := apart(first, second)) <= SAME_SHARE:
        return ""
    both = f"{first.source} {first.watts:.1f} W, {second.source} {second.watts:.1f} W"
    return f"{first.node}: {both}: {percent(share)} apart"


def modelled(idle_w: float, loaded_w: float, utilisation: float) -> float:
    """Watts of a machine from its profile: idle + (loaded - idle) x utilisation of its CPUs.

    The linear model of Fan, Weber and Barroso, Power provisioning for a warehouse-sized computer, ISCA 2007.
    """
    if not 0 <= utilisation <= 1 or not 0 <= idle_w <= loaded_w:
        got = f"idle {idle_w:g} W, loaded {loaded_w:g} W, utilisation {utilisation:g}"
        raise SpecError("watts cannot be modelled", got, "wanted: 0 <= idle <= loaded, utilisation of 0 to 1")
    return idle_w + (loaded_w - idle_w) * utilisation


def watts_of_all(energies: Sequence[Energy]) -> Interval:
    """The watts of all nodes together, as exact as two sources of one machine agree."""
    watts = sum(part.watts for part in energies)
    return Interval(watts, watts * (1 - SAME_SHARE), watts * (1 + SAME_SHARE), len(energies))


def work_per_watt(rate: Interval, energies: Sequence[Energy]) -> Interval:
    """Work per watt of all nodes together, in operations per joule. rate: operations per second over the same window.

    The uncertainty of the watts is SAME_SHARE, by which two sources of one machine may differ. SpecError for energies
    of different sources, scopes or windows, and for a node that is named twice.
    """
    kinds = {(part.source, part.scope, part.seconds) for part in energies}
    if len(kinds) != 1 or len({part.node for part in energies}) != len(energies):
        named = ", ".join(f"{part.node} {part.source} {part.scope} {part.seconds:g} s" for part in energies)
        raise SpecError("watts of different sources cannot be added up", named or "no energy", "use one source for all")
    watts = sum(part.watts for part in energies)
    low, high = rate.low / (watts * (1 + SAME_SHARE)), rate.high / (watts * (1 - SAME_SHARE))
    return replace(rate, mean=rate.mean / watts, low=max(0.0, low), high=high)


# What machines report


_DCMI = re.compile(r"^\s*Instantaneous power reading:\s+(\d+) Watts", re.MULTILINE)
_DCMI_ON = re.compile(r"^\s*Power reading state is:\s+activated", re.MULTILINE)
DCMI_ARGV = ("ipmitool", "dcmi", "power", "reading")


def dcmi_watts(text: str) -> float:
    """The watts of a machine from the output of DCMI_ARGV (ipmitool 1.8.19); Unavailable if the BMC measures none."""
    match = _DCMI.search(text)
    if match is None or not _DCMI_ON.search(text):
        raise Unavailable(
            "the BMC reports no watts", text[-500:], "check that it has DCMI and that its power reading is activated"
        )
    return float(match[1])


def redfish_watts(text: str) -> float:
    """The watts of a machine from the answer of /redfish/v1/Chassis/ID/Power (DMTF DSP2046, schema Power)."""
    try:
        controls: Sequence[Mapping[str, Any]] = json.loads(text)["PowerControl"]
        first, *more = [float(control["PowerConsumedWatts"]) for control in controls]
        return sum(more, first)
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable("Redfish reports no watts", f"{error!r}: {text[:500]}") from error


@dataclass(frozen=True)
class Counted:
    """An energy counter. range_uj: the value at which it wraps to 0."""

    energy_uj: int
    range_uj: int


def rapl_watts(before: Mapping[str, Counted], after: Mapping[str, Counted], seconds: float) -> float:
    """Watts of all packages between two looks; a counter may wrap once in between.

    SpecError if the looks have different packages.
    """
    if before.keys() != after.keys() or not before or seconds <= 0:
        raise SpecError("energy counters do not match", f"{sorted(before)}, {sorted(after)} in {seconds:g} s")
    spent_uj = sum((after[zone].energy_uj - before[zone].energy_uj) % after[zone].range_uj for zone in before)
    return spent_uj / 1e6 / seconds
