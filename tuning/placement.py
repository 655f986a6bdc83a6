"""Placement: which share of operations, shards and bytes falls on each machine, as CRUSH and the protocol have it."""

from __future__ import annotations

from dataclasses import dataclass

from tuning.profile import Machine, Profile
from tuning.work import Work
from tuning.workload import Flow, Shape

SOURCE = "CRUSH: data in proportion to capacity, copies on different hosts (Weil et al., SC 2006)"


@dataclass(frozen=True)
class Load:
    """What one client operation, on average, puts on ONE machine of a class.

    primary: chance that its OSDs lead the operation. replica: expected number of further shards there.
    gateway: chance that its gateways serve it. client: chance that it comes from this machine.
    """

    machine: Machine
    primary: float
    replica: float
    gateway: float
    client: float


def loads(profile: Profile, shape: Shape) -> tuple[Load, ...]:
    """One entry per class of nodes that carry data or gateways."""
    total = profile.weight
    gateways = sum(machine.count * machine.gateways for machine in profile.nodes) or 0
    found = []
    for machine in profile.nodes:
        share = machine.weight / total
        # A host holds at most one copy of an object, unless there are more copies than hosts.
        hosts = profile.node_count
        held = min(1.0, shape.copies * share) if shape.copies <= hosts else shape.copies * share
        found.append(
            Load(
                machine=machine,
                primary=share,
                replica=max(0.0, held - share),
                gateway=machine.gateways / gateways if gateways and shape.through_gateway else 0.0,
                client=1 / hosts if profile.clients_on_nodes else 0.0,
            )
        )
    return tuple(found)


def shards_read(shape: Shape) -> int:
    """OSDs that a read asks: one copy, or k shards."""
    return shape.k or 1


def replica_share(load: Load, shape: Shape) -> float:
    """Further shards that an operation touches on this machine: all on a write, k - 1 of them on a read."""
    if shape.flow is Flow.WRITE:
        return load.replica
    return load.replica * (shards_read(shape) - 1) / max(1, shape.copies - 1)


@dataclass(frozen=True)
class Wire:
    """Bytes of one client operation through one machine's links. Front: with clients and gateways; back: OSD to OSD."""

    front_in: float
    front_out: float
    back_in: float
    back_out: float


def wire(load: Load, work: Work) -> Wire:
    """Structural traffic: each hop carries the payload once, plus the measured bytes beyond it.

    A hop between two parts on one machine does not reach the wire.
    """
    shape = work.shape
    payload, extra = float(shape.block_bytes), work.client.wire
    lead = load.primary
    asks = load.gateway if shape.through_gateway else load.client
    # The asker of the primary is a gateway, a client on a node, or a client elsewhere (asks = 0).
    remote_lead, remote_ask = lead * (1 - asks), asks * (1 - lead)
    data_in, data_out = remote_lead * payload, remote_ask * payload
    front_in, front_out = (data_in, data_out) if shape.flow is Flow.WRITE else (data_out, data_in)
    if shape.through_gateway:
        to_gateway = load.gateway * payload
        front_in += to_gateway if shape.flow is Flow.WRITE else 0.0
        front_out += to_gateway if shape.flow is Flow.READ else 0.0
    others = shape.copies - 1 if shape.flow is Flow.WRITE else shards_read(shape) - 1
    sent = lead * others * shape.shard_bytes
    taken = replica_share(load, shape) * shape.shard_bytes
    back_in, back_out = (taken, sent) if shape.flow is Flow.WRITE else (sent, taken)
    beyond = extra * (remote_lead + remote_ask) / 2
    return Wire(front_in + beyond, front_out + beyond, back_in, back_out)
