"""Reads the watts of the machines of a cluster while it runs, from their kernels and management controllers."""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError, SpecError
from cephlab.lab.base.workers import repeated
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host, has_own_kernel
from cephlab.lab.telemetry.bmc import MACHINE, Bmc, bmc_watts
from cephlab.lab.telemetry.power import Counted, Energy, Reading, Scope, Source, energy, rapl_watts

PROGRAM = Path(__file__).with_name("watts_program.py")
EVERY_S = 2.0
_ASK_S = 30.0

PLUG_CHIP = "power_meter/"
"""Chip of the ACPI power meter, which measures the whole machine (Linux, Documentation/hwmon/acpi_power_meter.rst)."""
CPU_LABEL = "cpu"
"""Labels of the sensors of a processor begin with this (Linux, Documentation/hwmon/smpro-hwmon.rst and xgene-hwmon)."""
AT_THE_PLUG = (Source.METER, Source.BMC, Source.SENSORS)
"""Sources for a whole machine, in order of preference: the first that all machines have is used."""


@dataclass
class WattMeter:
    """Readings of the machines of one cluster. unread: what could not be read, in sentences.

    Nodes that share a kernel are one machine, called `machine`.
    """

    hosts: Mapping[str, Host]
    bmcs: Sequence[Bmc] = ()
    readings: list[Reading] = field(default_factory=list)
    unread: set[str] = field(default_factory=set)
    _counters: dict[str, tuple[float, dict[str, Counted]]] = field(default_factory=dict)

    def look(self) -> list[Reading]:
        """The watts of every machine now. The first look at energy counters gives no reading yet."""
        readings: list[Reading] = []
        for name, host in self.hosts.items():
            try:
                output = host.run(["python3", "-c", PROGRAM.read_text()], timeout_s=_ASK_S).stdout
                readings += self._of_kernel(name, json.loads(output))
            except (LabError, ValueError) as error:
                self.unread.add(f"{name}: {error.what if isinstance(error, LabError) else error}")
        for bmc in self.bmcs:
            began_s = time.time()
            try:
                watts = bmc_watts(bmc)
            except LabError as error:
                self.unread.add(f"{error.what}: {error.detail}".strip(": "))
                continue
            readings.append(Reading((began_s + time.time()) / 2, watts, Source.BMC, Scope.MACHINE, bmc.node))
        self.readings += readings
        return readings

    def _of_kernel(self, node: str, answer: Mapping[str, Any]) -> Iterator[Reading]:
        self.unread |= {f"{node}: {sentence}" for sentence in answer["unread"]}
        at_s, scopes = float(answer["at_s"]), defaultdict[Scope, float](float)
        for label, watts in answer["sensors"].items():
            scope = scope_of(label)
            if scope is None:
                self.unread.add(f"{node}: it is not known what the sensor {label} measures")
            else:
                scopes[scope] += float(watts)
        yield from (Reading(at_s, watts, Source.SENSORS, scope, node) for scope, watts in scopes.items())
        now = {zone: Counted(*counted) for zone, counted in answer["rapl"].items()}
        before_s, before = self._counters.get(node, (at_s, {}))
        if now and before and at_s > before_s:
            yield Reading(at_s, rapl_watts(before, now, at_s - before_s), Source.RAPL, Scope.CPU, node)
        self._counters[node] = at_s, now

    @contextmanager
    def looking(self, every_s: float = EVERY_S) -> Iterator[None]:
        """Look regularly while the block runs, and once at its end."""
        self.look()
        try:
            with repeated(self.look, every_s):
                yield
        finally:
            self.look()

    def energies(self, window: tuple[float, float], idle: tuple[float, float] | None = None) -> list[Energy]:
        """The energy of each machine by each source, over a window of load; idle: a window before it. Readings that do
        not cover the windows are left out and named in `unread`.
        """
        groups: dict[tuple[str, Source, Scope], list[Reading]] = {}
        for reading in self.readings:
            groups.setdefault((reading.node, reading.source, reading.scope), []).append(reading)
        energies = []
        for (node, source, scope), readings in groups.items():
            try:
                energies.append(energy(readings, window, idle))
            except LabBroken as error:
                self.unread.add(f"{node}: {scope} by {source}: {error.what}: {error.detail}")
        return energies


def meter_of(cluster: Cluster, bmcs: Sequence[Bmc]) -> WattMeter:
    """A meter of the machines of a cluster that have daemons; SpecError for a controller of an unknown machine."""
    working = {node.name for node in cluster.spec.nodes if node.has_daemons}
    hosts = {name: host for name, host in cluster.hosts.items() if name in working}
    machines = {name: host for name, host in hosts.items() if has_own_kernel(host)}
    if shared := [host for name, host in hosts.items() if name not in machines]:
        machines[MACHINE] = next((host for host in shared if not host.emulated), shared[0])
    if unknown := sorted({bmc.node for bmc in bmcs} - machines.keys()):
        known = ", ".join(sorted(machines))
        raise SpecError(
            "management controllers of unknown machines", f"node: got {', '.join(unknown)}", f"known: {known}"
        )
    return WattMeter(machines, bmcs)


def scope_of(label: str) -> Scope | None:
    """What a sensor of the kernel, `chip/label`, measures; None if that is not known."""
    if label.startswith(PLUG_CHIP):
        return Scope.MACHINE
    return Scope.CPU if label.partition("/")[2].lower().startswith(CPU_LABEL) else None


def at_the_plug(energies: Sequence[Energy], machines: Sequence[str]) -> list[Energy]:
    """One sound measurement of each whole machine, all from one source; empty if a machine has none."""
    for source in AT_THE_PLUG:
        own = {item.node: item for item in energies if item.source is source and item.scope is Scope.MACHINE}
        if machines and all(name in own and own[name].measured for name in machines):
            return [own[name] for name in machines]
    return []
