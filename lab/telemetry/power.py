"""Watts with where they come from: read, integrated over a load's window, compared, and turned into work per watt."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Any

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.telemetry.demand import Interval

SAME_SHARE = 0.03
"""Two sources of one scope that differ by more are said to. The paper's meter and its BMCs were 3 % apart (8.1.1)."""
GAP_S = 30.0
"""Two readings further apart than this do not say what lay between them."""
STUCK = 10
"""So many equal readings in a row are those of a sensor that has stopped: a machine's watts tremble."""
JUMP = 5.0
"""A reading so many times its neighbours' mean is a sensor's error: no server does that within seconds."""


class Source(StrEnum):
    """Who says it. A model is no measurement: it neither passes nor fails a requirement."""

    METER = "meter"
    BMC = "bmc"
    SENSORS = "sensors"
    RAPL = "rapl"
    MODEL = "model"


class Scope(StrEnum):
    """What the watts are of. MACHINE: at its plug, all power supplies together; CPU: its packages alone."""

    MACHINE = "machine"
    CPU = "CPU"


@dataclass(frozen=True)
class Reading:
    """Watts at one moment. at_s: seconds since the epoch; node: whose."""

    at_s: float
    watts: float
    source: Source
    scope: Scope
    node: str


@dataclass(frozen=True)
class Energy:
    """Of one node over a window of load. idle_w: before it, None where nobody measured it. trouble: of the sensor."""

    node: str
    source: Source
    scope: Scope
    seconds: float
    joules: float
    idle_w: float | None = None
    trouble: tuple[str, ...] = ()

    @property
    def watts(self) -> float:
        """Mean over the window."""
        return self.joules / self.seconds

    @property
    def above_idle_w(self) -> float | None:
        """What the load took; None without an idle figure."""
        return None if self.idle_w is None else self.watts - self.idle_w

    @property
    def measured(self) -> bool:
        """Whether a requirement of measured power may rest on it."""
        return self.source is not Source.MODEL and not self.trouble


def energy_value(of: Energy) -> dict[str, Any]:
    """As JSON values, for a history."""
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
    """The integral of one node's readings of one source over a window, by trapezoids; idle: a window before the load.

    SpecError where sources, scopes or nodes are mixed; LabBroken where the readings do not cover a window.
    """
    kinds = {(each.node, each.source, each.scope) for each in readings}
    if len(kinds) != 1:
        raise SpecError(
            "watts of different origins are not added up", f"got {sorted(map(str, kinds))}", "integrate each"
        )
    ((node, source, scope),) = kinds
    ordered = sorted(readings, key=lambda each: each.at_s)
    joules, seconds = _integral(ordered, window), window[1] - window[0]
    idle_w = _integral(ordered, idle) / (idle[1] - idle[0]) if idle else None
    within = [each.watts for each in ordered if window[0] <= each.at_s <= window[1]]
    return Energy(node, source, scope, seconds, joules, idle_w, trouble_of(within))


def _integral(ordered: Sequence[Reading], window: tuple[float, float]) -> float:
    began_s, ended_s = window
    if not began_s < ended_s or ordered[0].at_s > began_s or ordered[-1].at_s < ended_s:
        have = f"{ordered[0].at_s:.1f} to {ordered[-1].at_s:.1f}"
        raise LabBroken("watts do not cover the load", f"asked for {began_s:.1f} to {ended_s:.1f}, have {have}")
    joules = 0.0
    for left, right in pairwise(ordered):
        low, high = max(began_s, left.at_s), min(ended_s, right.at_s)
        if low >= high:
            continue
        if right.at_s - left.at_s > GAP_S:
            raise LabBroken(
                "watts do not cover the load", f"a gap of {right.at_s - left.at_s:.0f} s from {left.at_s:.1f} on"
            )
        steep = (right.watts - left.watts) / (right.at_s - left.at_s)
        joules += (high - low) * (left.watts + steep * ((low + high) / 2 - left.at_s))
    return joules


def trouble_of(watts: Sequence[float]) -> tuple[str, ...]:
    """What is wrong with a sensor's readings, in words: negative or no numbers, stuck, jumping."""
    said = []
    if any(not math.isfinite(value) or value < 0 for value in watts):
        said.append("reads what no machine takes")
    if any(len(set(watts[i : i + STUCK])) == 1 for i in range(len(watts) - STUCK + 1)):
        said.append(f"has stopped: {STUCK} equal readings in a row")
    for before, value, after in zip(watts, watts[1:], watts[2:], strict=False):
        beside = (before + after) / 2
        if beside > 0 and not beside / JUMP <= value <= beside * JUMP:
            said.append(f"jumps: {value:g} W between {before:g} and {after:g}")
            break
    return tuple(said)


def disagreement(first: Energy, second: Energy) -> str:
    """In words, how far two sources of one scope and node are apart; empty within SAME_SHARE.

    SpecError for different scopes: a CPU's watts and its machine's are not the same thing.
    """
    if (first.scope, first.node) != (second.scope, second.node):
        mixed = f"{first.node} {first.scope} and {second.node} {second.scope}"
        raise SpecError("watts of different things are not compared", mixed, "compare sources of one scope")
    share = abs(first.watts - second.watts) / max(first.watts, second.watts)
    if share <= SAME_SHARE:
        return ""
    return f"{first.node}: {first.source} {first.watts:.1f} W, {second.source} {second.watts:.1f} W: {share:.1%} apart"


def modelled(idle_w: float, loaded_w: float, utilisation: float) -> float:
    """Watts of a machine by its profile: idle + (loaded - idle) x utilisation of its CPUs.

    The linear model of Fan, Weber and Barroso, Power provisioning for a warehouse-sized computer, ISCA 2007.
    """
    if not 0 <= utilisation <= 1 or not 0 <= idle_w <= loaded_w:
        got = f"idle {idle_w:g} W, loaded {loaded_w:g} W, utilisation {utilisation:g}"
        raise SpecError("watts cannot be modelled", got, "wanted: 0 <= idle <= loaded, utilisation of 0 to 1")
    return idle_w + (loaded_w - idle_w) * utilisation


@dataclass(frozen=True)
class PerWatt:
    """Operations a second for each watt, that is operations a joule, with an interval and where the watts are from."""

    value: float
    low: float
    high: float
    watts: float
    source: Source
    scope: Scope


def work_per_watt(rate: Interval, energies: Sequence[Energy]) -> PerWatt:
    """What all nodes together do for a watt. rate: operations a second over the same window.

    The watts are as uncertain as SAME_SHARE, what two sources of one machine may differ by. SpecError for energies of
    different sources, scopes or windows, and for a node that is named twice.
    """
    kinds = {(each.source, each.scope, each.seconds) for each in energies}
    if len(kinds) != 1 or len({each.node for each in energies}) != len(energies):
        named = ", ".join(f"{each.node} {each.source} {each.scope} {each.seconds:g} s" for each in energies)
        raise SpecError("watts of different origins are not added up", named or "no energy", "take one source for all")
    watts = sum(each.watts for each in energies)
    ((source, scope, _),) = kinds
    low, high = rate.low / (watts * (1 + SAME_SHARE)), rate.high / (watts * (1 - SAME_SHARE))
    return PerWatt(rate.mean / watts, max(0.0, low), high, watts, source, scope)


# What machines say


_DCMI = re.compile(r"^\s*Instantaneous power reading:\s+(\d+) Watts", re.MULTILINE)
_DCMI_ON = re.compile(r"^\s*Power reading state is:\s+activated", re.MULTILINE)
DCMI_ARGV = ("ipmitool", "dcmi", "power", "reading")


def dcmi_watts(text: str) -> float:
    """The machine's watts from what DCMI_ARGV prints (ipmitool 1.8.19); Unavailable where the BMC measures none."""
    match = _DCMI.search(text)
    if match is None or not _DCMI_ON.search(text):
        raise Unavailable(
            "the BMC says no watts", text[-500:], "does it have DCMI, and is its power reading activated?"
        )
    return float(match[1])


def redfish_watts(text: str) -> float:
    """The machine's watts from the answer of /redfish/v1/Chassis/ID/Power (DMTF DSP2046, schema Power)."""
    try:
        controls: Sequence[Mapping[str, Any]] = json.loads(text)["PowerControl"]
        return sum(float(control["PowerConsumedWatts"]) for control in controls)
    except (ValueError, KeyError, TypeError) as error:
        raise Unavailable("Redfish says no watts", f"{error!r}: {text[:500]}") from error


@dataclass(frozen=True)
class Counted:
    """An energy counter. range_uj: where it begins again at 0."""

    energy_uj: int
    range_uj: int


def rapl_watts(before: Mapping[str, Counted], after: Mapping[str, Counted], seconds: float) -> float:
    """Watts of all packages between two looks; a counter that began again is counted over once.

    SpecError where the looks have different packages.
    """
    if before.keys() != after.keys() or not before or seconds <= 0:
        raise SpecError("energy counters do not fit each other", f"{sorted(before)}, {sorted(after)} in {seconds:g} s")
    spent_uj = sum((after[zone].energy_uj - before[zone].energy_uj) % after[zone].range_uj for zone in before)
    return spent_uj / 1e6 / seconds
