"""The clients of a measurement: fio on images, S3 clients at a gateway, or rados bench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import DATA_POOL as OBJECT_POOL
from cephlab.lab.cluster.gateway import Gateway, emptied
from cephlab.lab.providers.host import Host
from cephlab.lab.telemetry.demand import Role
from cephlab.lab.telemetry.meter import LoadClient, Metered
from cephlab.lab.telemetry.plan import MIX, Plan
from cephlab.lab.workloads import fio, radosbench, s3
from cephlab.lab.workloads.fio import FioJob
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.radosbench import BenchJob
from cephlab.lab.workloads.s3 import S3Job

BUCKET = "measured"
WHOLE_POOL = "measured"
PUT = "put"
LEFT = 0.25
"""Deleting ends when less than this share of the objects is left: Ceph's object count lags by seconds."""

FULL_PERCENT = 60.0
"""How full an OSD may become by puts: Ceph warns at 85 (mon_osd_nearfull_ratio)."""


class Clients(Protocol):
    """The clients of a plan's load. By default they use no new space and connect to the OSDs directly."""

    def start(self, number: int, depth: int, runtime_s: float) -> LoadClient:
        """Start one client, with `depth` requests in flight, for runtime_s unless it is stopped earlier."""
        ...

    def ready(self) -> None:
        """Make room for one more load."""
        return

    def enough(self) -> str | None:
        """Why the running load must end, or None."""
        return None

    def serving(self) -> Mapping[Role, Sequence[Metered]]:
        """Daemons between the clients and the OSDs, by role."""
        return {}

    def lent(self, lenders: Mapping[str, Host] | None) -> Clients:
        """The same clients, running the programs of other hosts; SpecError if that is impossible."""
        ...


@dataclass(frozen=True)
class BlockClients(Clients):
    """fio through librbd, an image for each client. lenders: hosts of another cluster whose programs it runs."""

    cluster: Cluster
    plan: Plan
    images: tuple[BlockImage, ...]
    lenders: Mapping[str, Host] | None = None

    def start(self, number: int, depth: int, runtime_s: float) -> LoadClient:
        host, job = self.cluster.hosts[self.plan.nodes[number]], self._job(number, depth, runtime_s)
        if self.lenders is None:
            return fio.start(host, job)
        return fio.start(self.lenders[host.name], job, cluster_of=host)

    def lent(self, lenders: Mapping[str, Host] | None) -> Clients:
        return replace(self, lenders=lenders)

    def _job(self, client: int, depth: int, runtime_s: float) -> FioJob:
        plan, image = self.plan, self.images[client]
        name, mix = plan.operation.name, MIX.fullmatch(plan.operation.name)
        return FioJob(
            name="measured",
            pool=image.pool,
            target=image.name,
            pattern="randrw" if mix else name,
            block_bytes=plan.operation.block_bytes,
            depth=depth,
            size_bytes=image.size_bytes,
            runtime_s=runtime_s,
            seed=plan.seed + client,
            options=plan.client_options,
            timed=True,
            more={
                **({"norandommap": "1"} if name.startswith("rand") else {}),
                **({"rwmixread": mix[1]} if mix else {}),
            },
        )


@dataclass(frozen=True)
class ObjectClients(Clients):
    """S3 clients of one gateway, all on the objects of one bucket."""

    cluster: Cluster
    plan: Plan
    gateway: Gateway

    def start(self, number: int, depth: int, runtime_s: float) -> LoadClient:
        host = self.cluster.hosts[self.plan.nodes[number]]
        return s3.start(host, self.gateway, replace(job_of(self.plan), depth=depth, runtime_s=runtime_s))

    def ready(self) -> None:
        if self.plan.operation.name == PUT:
            emptied(self.cluster, self.plan.gateway)
        if self.plan.operation.name == s3.DELETE:
            s3.fill(
                self.cluster.hosts[self.plan.nodes[0]],
                self.gateway,
                job_of(self.plan),
                patience=self.cluster.patience,
            )

    def enough(self) -> str | None:
        """New objects fill the disks, which get slower and finally refuse writes. Objects to delete run out."""
        if self.plan.operation.name == s3.DELETE:
            known = {pool["name"]: pool["stats"] for pool in self.cluster.client.mon("df")["pools"]}
            left = int(known[OBJECT_POOL]["objects"])
            return f"{left} objects are left" if left < LEFT * job_of(self.plan).objects else None
        fullest = max(float(osd["utilization"]) for osd in self.cluster.client.mon("osd df")["nodes"])
        return f"an OSD is {fullest:.0f} % full" if fullest >= FULL_PERCENT else None

    def serving(self) -> Mapping[Role, Sequence[Metered]]:
        return {Role.GATEWAY: (self.gateway,)}

    def lent(self, lenders: Mapping[str, Host] | None) -> Clients:
        if lenders is not None:
            raise SpecError(
                "the clients of a gateway run no programs of Ceph",
                "so the two sides cannot run the same Ceph client, whose cost would be the yardstick",
                "measure each image alone, then `cephlab compare` the two",
            )
        return self


@dataclass(frozen=True)
class PassClients(Clients):
    """rados bench clients: each reads its own objects of one pool from first to last, then ends."""

    cluster: Cluster
    plan: Plan

    def start(self, number: int, depth: int, runtime_s: float) -> LoadClient:
        return radosbench.start(self.cluster.hosts[self.plan.nodes[number]], self.job(number, "seq", depth, runtime_s))

    def lent(self, lenders: Mapping[str, Host] | None) -> Clients:
        raise SpecError(
            "whole objects are read in passes, which do not run side by side",
            "each pass of rados bench ends by itself",
            "measure each image alone, then `cephlab compare` the two",
        )

    def job(self, number: int, mode: str, depth: int, seconds: float) -> BenchJob:
        """The rados bench job of a client, to write its objects or to read them."""
        plan = self.plan
        return BenchJob(
            pool=WHOLE_POOL,
            mode=mode,
            seconds=round(seconds),
            threads=depth,
            block_bytes=plan.operation.block_bytes,
            run=f"measured{number}",
            most_bytes=plan.image_bytes,
        )


def job_of(plan: Plan) -> S3Job:
    """The job of a plan. Its bucket has as many objects as fit image_bytes, at least those in flight; for puts 0."""
    operation = plan.operation
    fitting = plan.image_bytes // operation.block_bytes
    if operation.name != s3.DELETE:
        fitting = min(plan.most_objects, fitting)
    objects = 0 if operation.name == PUT else max(plan.load.in_flight, fitting)
    return S3Job(operation.name, BUCKET, objects, operation.block_bytes, operation.depth, 0.0, plan.seed)
