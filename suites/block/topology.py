"""Clusters for measuring: OSDs of one architecture, everything else on other nodes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec
from cephlab.lab.spec.layout import CephSetup
from cephlab.lab.telemetry.place import MeasuringLayout, measuring_spec


@dataclass(frozen=True)
class MeasuredTopology(Topology):
    """native: nodes with an OSD; machines: client machines; anywhere: an existing cluster will do as well."""

    native: int = 3
    foreign: int = 0
    machines: int = 1
    anywhere: bool = field(default=False, compare=False)

    memory_disks: ClassVar[bool] = True
    unused: ClassVar[frozenset[str]] = frozenset(
        {"foreign", "mons", "osds_per_node", "separate_db", "clients", "lone_client", "role_sets"}
    )

    @property
    def client_machines(self) -> int:
        return self.machines

    @property
    def made(self) -> str:
        return "" if self.anywhere else "measured"

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        return measuring_spec(
            host_arch(),
            MeasuringLayout(osds=self.native, clients=self.machines, in_memory=in_memory),
            CephSetup(release, image, dict(self.options)),
        )
