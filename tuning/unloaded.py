"""Latency of one operation that has the cluster for itself, stage after stage; shards beside each other count once."""

from __future__ import annotations

from dataclasses import dataclass

from tuning import devices, placement
from tuning.ceilings import askers, goodput
from tuning.daemons import thread_speed
from tuning.derivation import Step
from tuning.placement import Load
from tuning.profile import Machine, Profile
from tuning.units import Kind, show
from tuning.work import Price, Work
from tuning.workload import STRIPE_UNIT, Flow

SOURCE = "sum of the service times on the way of an operation; of shards beside each other the slowest"

_MESSENGER = "msgr-worker"


@dataclass(frozen=True)
class Alone:
    """stages: name -> seconds, in order; step: for the derivation."""

    stages: dict[str, float]

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())

    @property
    def step(self) -> Step:
        how = " + ".join(f"{name} {show(seconds, Kind.TIME)}" for name, seconds in self.stages.items() if seconds)
        return Step("latency of one operation alone, R(1)", how, show(self.seconds, Kind.TIME), SOURCE)


def alone(profile: Profile, work: Work) -> Alone:
    """Mean over who asks and who leads; of the shards beside each other the one on the slowest class of nodes."""
    shape = work.shape
    found = [load for load in placement.loads(profile, shape) if load.primary or load.replica]
    others = shape.awaited - 1
    stages = {
        "client": _mean(_client_parts(profile, work)),
        "round trips": profile.rtt.value * (1 + bool(others) + shape.through_gateway + shape.reads_first),
        "to or from the leader": _front_s(profile, work, found),
        "between OSDs": _back_s(profile, work, found) if others else 0.0,
        "leader": _mean([(load.count * load.primary, _cpu_s(load.machine, work.primary)) for load in found]),
        "shard": max(_shard_s(load.machine, work) for load in found) if others else 0.0,
        "device": max(_device_s(load.machine, work) for load in found),
    }
    if work.gateway:
        stages["gateway"] = _mean([(load.count * load.gateway, _cpu_s(load.machine, work.gateway)) for load in found])
    if work.reread:
        stages["stripe read before"] = max(_cpu_s(load.machine, work.reread) for load in found)
    return Alone(stages)


def _mean(parts: list[tuple[float, float]]) -> float:
    """Of (weight, seconds)."""
    whole = sum(weight for weight, _ in parts)
    return sum(weight * seconds for weight, seconds in parts) / whole if whole else 0.0


def _cpu_s(machine: Machine, price: Price) -> float:
    return price.cpu / thread_speed(machine)


def _client_parts(profile: Profile, work: Work) -> list[tuple[float, float]]:
    if profile.clients_on_nodes:
        return [(machine.count, _cpu_s(machine, work.client)) for machine in profile.nodes]
    return [(one.part, _cpu_s(one.machine, work.client)) for one in askers(profile, work)]


def _shard_s(machine: Machine, work: Work) -> float:
    """What a further shard adds: the leader's own shard is stored or read beside it, so only the message is more.

    Where the demand is not split by thread nothing is known to run beside.
    """
    price = work.replica
    return price.threads.get(_MESSENGER, price.cpu) / thread_speed(machine)


def _device_s(machine: Machine, work: Work) -> float:
    """Longest answer of a node's disks: of data, and of the log or metadata before or after it."""
    data = max((devices.visit(disks, machine, work).alone_s for disks in machine.data_disks), default=0.0)
    return data + max((devices.visit(disks, machine, work).alone_s for disks in machine.metadata_disks), default=0.0)


def _front_s(profile: Profile, work: Work, found: list[Load]) -> float:
    """The payload between client and leader, and by the gateway: each hop at the narrower of its two ends."""
    shape, share = work.shape, goodput(profile.mtu_bytes)
    node = min(load.machine.bandwidth.value for load in found)
    local = sum(load.count * load.primary * (load.gateway if shape.through_gateway else load.client) for load in found)
    hop = shape.block_bytes / (node * share) * max(0.0, 1 - local)
    if profile.clients_on_nodes and not shape.through_gateway:
        return hop
    ends = [machine.bandwidth.value for machine in profile.clients] or [node]
    links = [min(node, *ends), *([profile.uplink.value] if profile.uplink else [])]
    outside = shape.block_bytes / (min(links) * share)
    return outside + hop if shape.through_gateway else outside


def _back_s(profile: Profile, work: Work, found: list[Load]) -> float:
    """Shards between the leader and the others: all of them through the leader's one link."""
    shape = work.shape
    others = shape.awaited - 1
    amount = others * shape.shard_bytes
    if shape.reads_first:
        amount += (shape.k - 1) * STRIPE_UNIT
    if shape.flow is Flow.READ:
        amount = others * shape.shard_bytes
    link = min((load.machine.cluster_bandwidth or load.machine.bandwidth).value for load in found)
    return amount / (link * goodput(profile.mtu_bytes))
