"""What the object scenarios share: clusters, gateways and balancers, and the checks that every load has to pass."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM, Deadline
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway, speaking_s3
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.haproxy import HAPROXY, Served, served
from cephlab.lab.services.rgw import RGW
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec, Node
from cephlab.lab.telemetry.demand import Role
from cephlab.lab.telemetry.meter import Meter, Metered
from cephlab.lab.workloads import s3load
from cephlab.lab.workloads.s3_load_program import FINAL
from cephlab.lab.workloads.s3load import RunningS3Load, S3Load, S3Result

T = TypeVar("T")

GATEWAYS = Topology(native=2, foreign=1, clients=True, services=(("n0", (RGW.kind,)), ("n2", (RGW.kind,))))
"""A gateway and a client of each architecture."""
BALANCED = replace(GATEWAYS, services=tuple((node, (RGW.kind, HAPROXY.kind)) for node in ("n0", "n2")))
"""The same with a balancer of each architecture, each in front of both gateways."""


@dataclass(frozen=True)
class BalancersApart(Topology):
    """Balancers on machines of their own, b0 of this architecture and b1 of the other: their networks can be cut."""

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        spec = super().lay_out(release, image, in_memory=in_memory)
        apart = (Node(BALANCERS[0], host_arch()), Node(BALANCERS[1], host_arch().other))
        return replace(spec, nodes=(*spec.nodes, *apart))


BALANCERS = ("b0", "b1")
APART = BalancersApart(
    native=2,
    foreign=1,
    clients=True,
    services=(*GATEWAYS.services, *((node, (HAPROXY.kind,)) for node in BALANCERS)),
)
UP, DOWN = "UP", "DOWN"
"""Status of a server, as HAProxy reports it."""
LOAD_S = 120.0
PUNCTUAL = 0.9
"""The least share of operations that must start on time, of those that had an idle worker when they were due."""


def client(cluster: Cluster, arch: Arch) -> Host:
    """The machine without daemons of an architecture."""
    hosts = {node.arch: cluster.hosts[node.name] for node in cluster.spec.nodes if not node.has_daemons}
    return hosts[arch]


def near(cluster: Cluster) -> Host:
    """The client machine whose programs are not emulated."""
    return client(cluster, cluster.client.host.arch)


def gateways(cluster: Cluster) -> dict[Arch, Gateway]:
    """One gateway of each architecture."""
    return {gateway.host.arch: gateway for gateway in speaking_s3(cluster)}


def balancer(cluster: Cluster, arch: Arch | None = None) -> Gateway:
    """The balancer of an architecture, by default the native one. Waits until it reports all gateways up."""
    front = {gateway.host.arch: gateway for gateway in speaking_s3(cluster, HAPROXY.kind)}[arch or host_arch()]
    until_all(cluster, front, UP)
    return front


def until_all(cluster: Cluster, front: Gateway, status: str, of: str = "") -> None:
    """Wait until a balancer reports a status, UP or DOWN, for every gateway, or for the gateway named in `of`."""
    clock.wait(
        lambda: statistics(front),
        lambda rows: {row.status for row in rows if of in ("", row.gateway)} == {status},
        what=f"{front.name}: {of or 'every gateway'} {status}",
        timeout_s=30 * cluster.patience,
        interval_s=0.2,
    )


def now_s(host: Host) -> float:
    """Seconds since the epoch by the clock that a load on this host uses."""
    return float(host.run(["date", "+%s.%N"]).stdout)


def statistics(front: Gateway) -> list[Served]:
    """A balancer's statistics of its gateways."""
    return served(front.host, front.daemon.id)


def loaded(
    stage: Stage, what: str, host: Host, entrances: Sequence[Gateway], load: S3Load, *, tls: bool = False
) -> S3Result:
    """Run a load to its end, and observe that every answer is right and none is an error."""
    result = s3load.run(host, entrances, load, timeout_s=LOAD_S * stage.cluster.patience, tls=tls)
    truthful(stage.recorder, what, result)
    stage.recorder.observe(f"errors of {what}", got=result.errors, wanted={}, of=len(result.operations))
    return result


@contextmanager
def running_load(
    cluster: Cluster, entrances: Sequence[Gateway], load: S3Load, before_s: float
) -> Iterator[RunningS3Load]:
    """A load on the client machine that has run for before_s seconds. It is killed if the block raises."""
    with s3load.start(near(cluster), entrances, load).killed_on_error() as running:
        clock.wait(running.begun, bool, what="the load to begin", timeout_s=LOAD_S * cluster.patience)
        Deadline.after(before_s).pause(before_s)
        yield running


def ended(cluster: Cluster, running: RunningS3Load, after_s: float, *, timeout_s: float = LOAD_S) -> S3Result:
    """Let a load run for after_s more seconds, stop it, and wait for its final phase. timeout_s: before patience."""
    Deadline.after(after_s).pause(after_s)
    running.stop()
    return running.finish(timeout_s=timeout_s * cluster.patience)


def read_back(recorder: Recorder, result: S3Result) -> None:
    """Observe that the final read of all objects of a load had no error."""
    last = [op.code for op in result.of(FINAL) if op.code]
    recorder.observe("errors of the final read", got=last, wanted=[], of=len(result.of(FINAL)))


def truthful(recorder: Recorder, what: str, result: S3Result) -> None:
    """Record a load, and observe that it read what had been put."""
    recorder.record("s3_load", what=what, **result.told())
    count = len(result.operations)
    recorder.witness(f"operations of {what}", got=count, least=1)
    recorder.observe(f"wrong answers of {what}", got=list(result.wrong), wanted=[], of=count)


def spent(
    cluster: Cluster, daemons: Mapping[Role, Sequence[Metered]], work: Callable[[], T]
) -> tuple[dict[Role, float], float, T]:
    """Do some work; returns the CPU seconds of each role's daemons, the seconds that it took, and its result."""
    meter = Meter(cluster, daemons)
    try:
        before, began_s = meter.read().usage, SYSTEM.monotonic()
        result = work()
        took_s, after = SYSTEM.monotonic() - began_s, meter.read().usage
    finally:
        meter.close()
    return {role: after[role].since(before[role]).cpu_s for role in daemons}, took_s, result


def trusted(recorder: Recorder, what: str, result: S3Result) -> None:
    """Witness that the response times of a load come from the cluster and not from a slow client."""
    recorder.witness(
        f"{what}: share of operations started on time when a worker was idle", got=result.punctual, least=PUNCTUAL
    )
    recorder.witness(f"{what}: idle share of the client's CPU", got=1 - result.busy, least=0.1)
