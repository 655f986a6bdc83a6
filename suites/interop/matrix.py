"""The two architectures as a matrix: the other one, and which one an OSD belongs to."""

from __future__ import annotations

from lab import pools
from lab.arch import Arch
from lab.cluster import Cluster
from lab.scenario import Stage


def other(arch: Arch) -> Arch:
    """The architecture that this one is not."""
    return next(each for each in Arch if each is not arch)


def arch_of(cluster: Cluster, osd: int) -> Arch:
    """Architecture of the host that an OSD runs on."""
    return cluster.host_of(f"osd.{osd}").arch


def observe_primaries(stage: Stage, pool: str, primary: Arch) -> None:
    """Observe that the pool's primaries really are on that architecture."""
    leading = {arch_of(stage.cluster, osd).value for osd in pools.primaries(stage.cluster, pool).values()}
    stage.recorder.observe("architecture of the primaries", got=sorted(leading), wanted=[primary.value])


def observe_client(stage: Stage, client: Arch) -> None:
    """Observe that the client for an architecture really runs as a program of it."""
    machine = stage.cluster.client_for(client).call("about")["machine"]
    stage.recorder.observe("architecture of the writing client", got=machine, wanted=client.value)
