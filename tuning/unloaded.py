"""Latency of one operation alone on the cluster, stage by stage; parallel shards count once."""

from dataclasses import dataclass

from cephlab.tuning import devices, placement
from cephlab.tuning.ceilings import askers, goodput
from cephlab.tuning.daemons import thread_speed
from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.placement import MachineLoad
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.units import Measure, show
from cephlab.tuning.work import OperationWork, Price

SOURCE = "sum of the service times along the path of an operation; of parallel shards the slowest"

_MESSENGER = "msgr-worker"


@dataclass(frozen=True)
class Alone:
    """stages: name -> seconds, in order; step: for the derivation."""

    stages: dict[str, float]

    @property
    def seconds(self) -> float:
        return sum(self.stages.values())

    @property
    def step(self) -> DerivationStep:
        how = " + ".join(f"{name} {show(seconds, Measure.TIME)}" for name, seconds in self.stages.items() if seconds)
        return DerivationStep("latency of one operation alone, R(1)", how, show(self.seconds, Measure.TIME), SOURCE)


def alone(profile: Profile, work: OperationWork) -> Alone:
    """Latency by stage: the mean over clients and primary OSDs; of parallel shards the one on the slowest nodes."""
    shape = work.shape
    loads = [load for load in placement.loads(profile, shape) if load.primary or load.replica]
    others = shape.awaited - 1
    stages = {
        "client": _mean(_client_parts(profile, work)),
        "round trips": profile.rtt.value * (1 + bool(others) + shape.through_gateway + shape.reads_first),
        "to or from the primary": _front_s(profile, work, loads),
        "between OSDs": _back_s(profile, work, loads) if others else 0.0,
        "primary": _mean([(load.count * load.primary, _cpu_s(load.machine, work.primary)) for load in loads]),
        "shard": max(_shard_s(load.machine, work) for load in loads) if others else 0.0,
        "device": max(_device_s(load.machine, work) for load in loads),
    }
    if work.gateway:
        stages["gateway"] = _mean([(load.count * load.gateway, _cpu_s(load.machine, work.gateway)) for load in loads])
    if work.reread:
        stages["stripe read before"] = max(_cpu_s(load.machine, work.reread) for load in loads)
    return Alone(stages)


def _mean(parts: list[tuple[float, float]]) -> float:
    """Of (weight, seconds)."""
    whole = sum(weight for weight, _ in parts)
    return sum(weight * seconds for weight, seconds in parts) / whole if whole else 0.0


def _cpu_s(machine: MachineClass, price: Price) -> float:
    return price.cpu / thread_speed(machine)


def _client_parts(profile: Profile, work: OperationWork) -> list[tuple[float, float]]:
    if profile.clients_on_nodes:
        return [(machine.count, _cpu_s(machine, work.client)) for machine in profile.nodes]
    return [(asker.part, _cpu_s(asker.machine, work.client)) for asker in askers(profile, work)]


def _shard_s(machine: MachineClass, work: OperationWork) -> float:
    """What another shard adds to the latency: its message, as the primary handles its own shard in the meantime.

    A demand without CPU by thread does not show what runs in parallel: then all of its CPU counts.
    """
    price = work.replica
    return price.threads.get(_MESSENGER, price.cpu) / thread_speed(machine)


def _device_s(machine: MachineClass, work: OperationWork) -> float:
    """The slowest of a node's data disks, plus the slowest of its disks for log or metadata."""
    data = max((devices.visit(disks, machine, work).alone_s for disks in machine.data_disks), default=0.0)
    return data + max((devices.visit(disks, machine, work).alone_s for disks in machine.metadata_disks), default=0.0)


def _front_s(profile: Profile, work: OperationWork, loads: list[MachineLoad]) -> float:
    """The payload between client, gateway and primary: each hop at the slower of its two ends."""
    shape, share = work.shape, goodput(profile.mtu_bytes)
    node = min(load.machine.bandwidth.value for load in loads)
    local = sum(load.count * load.primary * (load.gateway if shape.through_gateway else load.client) for load in loads)
    hop = shape.payload_bytes / (node * share) * max(0.0, 1 - local)
    if profile.clients_on_nodes and not shape.through_gateway:
        return hop
    ends = [machine.bandwidth.value for machine in profile.clients] or [node]
    links = [min(node, *ends), *([profile.uplink.value] if profile.uplink else [])]
    outside = shape.payload_bytes / (min(links) * share)
    return outside + hop if shape.through_gateway else outside


def _back_s(profile: Profile, work: OperationWork, loads: list[MachineLoad]) -> float:
    """Shards between the primary and the others, all through the primary's link."""
    shape = work.shape
    others = shape.awaited - 1
    amount = others * shape.shard_bytes
    if shape.reads_first:
        amount += (shape.k - 1) * shape.stripe_unit
    link = min((load.machine.cluster_bandwidth or load.machine.bandwidth).value for load in loads)
    return amount / (link * goodput(profile.mtu_bytes))
