"""The series of a stress run: what is read, how it becomes a series, and how much it may change in an hour."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from cephlab.lab.history.history import Recorder
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.daemons import DaemonReading
from cephlab.lab.workloads.fiolatency import Window

Readings = Mapping[str, DaemonReading]
Values = dict[str, float | None]


@dataclass(frozen=True)
class Kind:
    """A kind of series. per_hour: the change for the worse that is allowed in an hour, of its median where `share`.

    over_run: the change that is allowed over a whole run, however short, e.g. an allocator's reserve; over_run_shared:
    likewise on a machine that others share, None where it is not judged there. steps: whether it jumps while healthy.
    least: the value at which it stands still. least_hours: of a run that can judge it.
    """

    unit: str
    worse: str
    per_hour: float
    over_run: float
    over_run_shared: float | None = None
    share: bool = False
    steps: bool = False
    least: float | None = None
    least_hours: float = 0.0

    def declared(self, series: str, hours: float, *, shared: bool) -> dict[str, Any]:
        """As the check `drift` reads it. shared: whether others may use the machine."""
        over_run, open_for = self.over_run_shared if shared else self.over_run, SHARED
        if hours < self.least_hours:
            over_run, open_for = None, f"judged from {60 * self.least_hours:g} minutes on"
        allowed = None if over_run is None else max(self.per_hour, over_run / hours)
        unit = "of its median" if self.share else self.unit
        most = " ".join(filter(None, (f"{self.per_hour:g}", unit, "an hour")))
        why = f"{most}, or {over_run:g} over the run" if over_run is not None else open_for
        return {
            "series": series,
            "unit": self.unit,
            "worse": self.worse,
            "per_hour": allowed,
            "share": self.share,
            "least": self.least,
            "steps": self.steps,
            "why": why,
        }


SHARED = "others share the machine: recorded, not judged"


def _held_everywhere(unit: str, per_hour: float, over_run: float, *, steps: bool = False) -> Kind:
    """Judged on shared machines too: what a daemon holds does not grow because of other programs."""
    return Kind(unit, "up", per_hour, over_run, over_run_shared=over_run, steps=steps)


KINDS: Mapping[str, Kind] = {
    "rate": Kind("operations/s", "down", per_hour=0.02, over_run=0.10, share=True, least=0.0),
    "mean latency": Kind("s", "up", per_hour=0.05, over_run=0.25, share=True),
    "p99 latency": Kind("s", "up", per_hour=0.10, over_run=0.50, share=True),
    "CPU beside its peers": Kind("", "up", 0.02, over_run=0.15, over_run_shared=0.15, share=True, least_hours=0.3),
    "CPU of an operation": Kind("s", "up", per_hour=0.02, over_run=0.10, over_run_shared=0.50, share=True),
    "memory": _held_everywhere("MiB", per_hour=4.0, over_run=64.0),
    "threads": _held_everywhere("", per_hour=1.0, over_run=8.0),
    "open files": _held_everywhere("", per_hour=2.0, over_run=24.0),
    "log": _held_everywhere("KiB", per_hour=256.0, over_run=64.0, steps=True),
    "mon log": _held_everywhere("KiB", per_hour=4096.0, over_run=512.0, steps=True),
    "mgr log": _held_everywhere("KiB", per_hour=2048.0, over_run=256.0, steps=True),
    "DB": _held_everywhere("MiB", per_hour=32.0, over_run=128.0, steps=True),
    "store": _held_everywhere("MiB", per_hour=16.0, over_run=16.0, steps=True),
}
"""Kind by the name of a series, see `kind_of`. The limits were measured: docs/measured/stress.md."""


def kind_of(series: str) -> Kind:
    """The kind of `osd.0: memory`: that of `osd memory` if there is one, else of `memory`."""
    whose, _, what = series.rpartition(": ")
    return KINDS.get(f"{whose.partition('.')[0]} {what}") or KINDS[what]


def of_daemons(names: Mapping[str, str], before: Readings, now: Readings, seconds: float) -> Values:
    """Values of each daemon from two looks, None for one that could not be read. names: daemon -> kind; all get one.

    CPU of an operation: an OSD's CPU time between the looks, divided by its own and its replica operations.
    """
    values: Values = {}
    for name, kind in names.items():
        reading = now.get(name)
        values |= _held(name, reading)
        if kind == "rgw":  # it logs a line for every request: its log follows the load, not the time
            del values[f"{name}: log"]
        if kind == "mon":
            values[f"{name}: store"] = reading.store_bytes / MIB if reading else None
        if kind == "osd":
            values |= _of_osd(name, before.get(name), reading, seconds)
    return values


def _held(name: str, reading: DaemonReading | None) -> Values:
    return {
        f"{name}: memory": reading.beyond / MIB if reading else None,
        f"{name}: threads": float(reading.footprint.threads) if reading else None,
        f"{name}: open files": float(reading.footprint.files) if reading else None,
        f"{name}: log": reading.log_bytes / 1024 if reading else None,
    }


def _of_osd(name: str, before: DaemonReading | None, now: DaemonReading | None, seconds: float) -> Values:
    database = now.counters.get("bluefs.db_used_bytes", 0.0) / MIB if now else None
    if now is None or before is None:
        return {f"{name}: DB": database, f"{name}: CPU of an operation": None, f"{name}: rate": None}
    operations = _operations(now) - _operations(before)
    cost = (now.cpu_s - before.cpu_s) / operations if operations > 0 else None
    return {f"{name}: DB": database, f"{name}: CPU of an operation": cost, f"{name}: rate": operations / seconds}


def _operations(reading: DaemonReading) -> float:
    return reading.counters.get("osd.op", 0.0) + reading.counters.get("osd.subop", 0.0)


def beside_peers(values: Values, alike: Sequence[Sequence[str]]) -> Values:
    """CPU per operation of each OSD over the mean of its peers. alike: OSDs in groups of one architecture.

    Other work on the machine slows the whole group and cancels out, so it is judged on a shared machine too.
    """
    ratios: Values = {}
    for group in alike:
        costs = {name: values.get(f"{name}: CPU of an operation") for name in group}
        for name in group if len(group) > 1 else ():
            own, others = costs[name], [cost for peer, cost in costs.items() if peer != name and cost is not None]
            ratios[f"{name}: CPU beside its peers"] = own / fmean(others) if own is not None and any(others) else None
    return ratios


def of_client(job: str, window: Window) -> Values:
    """Values of a window of a client's job. A window without operations has a rate but no latency."""
    rate: Values = {f"{job}: rate": window.rate}
    if not window.operations:
        return rate
    return rate | {f"{job}: mean latency": window.mean_s, f"{job}: p99 latency": window.p99_s}


def declare(recorder: Recorder, values: Values, hours: float, *, shared: bool) -> None:
    """Record the limit of each series. shared: whether others may use the machines."""
    for name in values:
        recorder.record("sampled", **kind_of(name).declared(name, hours, shared=shared))
