"""Placement: the share of operations, shards and bytes of each machine, by CRUSH and Ceph's protocol."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.tuning.derivation import DerivationStep
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.units import terabytes
from cephlab.tuning.work import OperationWork
from cephlab.tuning.workload import Flow, Shape

SOURCE = "CRUSH: primary OSDs in proportion to capacity, copies on different hosts (Weil et al., SC 2006)"


@dataclass(frozen=True)
class MachineLoad:
    """The average load of one client operation on ONE machine of a class.

    count: machines with this load; with fewer clients than nodes, nodes with a client differ from others. primary:
    chance that the primary OSD is there. replica: expected number of further shards there. gateway: chance that its
    gateways serve it. client: chance that it comes from this machine.
    """

    machine: MachineClass
    count: float
    primary: float
    replica: float
    gateway: float
    client: float
    name: str


def loads(profile: Profile, shape: Shape) -> tuple[MachineLoad, ...]:
    """One entry for each class of nodes, two where only some of the class have a client.

    A machine is primary in proportion to its capacity, as CRUSH draws the first OSD. SpecError where the cluster has
    fewer OSDs than the shape has copies, or no gateway for objects.
    """
    refuse_impossible(profile, shape)
    total = profile.weight
    gateways = sum(machine.count * machine.gateways for machine in profile.nodes)
    parties: list[MachineLoad] = []
    for machine, copies in zip(profile.nodes, copies_held(profile, shape.copies), strict=True):
        lead = machine.weight / total
        for name, count, client in _parties(profile, machine, shape.clients):
            parties.append(
                MachineLoad(
                    machine=machine,
                    count=count,
                    primary=lead,
                    replica=max(0.0, copies - lead),
                    gateway=machine.gateways / gateways if gateways and shape.through_gateway else 0.0,
                    client=client,
                    name=name,
                )
            )
    return tuple(parties)


def refuse_impossible(profile: Profile, shape: Shape) -> None:
    """SpecError where the cluster has too few OSDs for the copies, no gateway for objects, or no room for the data."""
    if shape.copies > profile.osds:
        raise SpecError(
            f"{shape.protection} cannot be placed on {profile.name}",
            f"got {shape.copies} shards of each object, wanted: at most {profile.osds}, one on each OSD",
            "choose a protection that fits, with --replicas or --ec",
        )
    if shape.through_gateway and not any(machine.gateways for machine in profile.nodes):
        raise SpecError(
            f"{shape.operation} needs a gateway, and {profile.name} has none",
            "gateways: got none on any of its nodes",
            "give the nodes `gateways = N`, or ask for read and write",
        )
    room = profile.weight * (shape.k or 1) / shape.copies
    if shape.data_bytes > room:
        raise SpecError(
            f"{profile.name} cannot hold that much data",
            f"got {terabytes(shape.data_bytes)}, wanted: at most {terabytes(room)}, its data disks with "
            f"{shape.protection}",
            "give less with --data, or add nodes or disks",
        )


def _parties(profile: Profile, machine: MachineClass, clients: int) -> Iterator[tuple[str, float, float]]:
    """(name, machines, chance that an operation comes from one of them) of nodes with and without a client."""
    if not profile.clients_on_nodes:
        yield machine.name, machine.count, 0.0
        return
    asking = min(clients, profile.node_count)
    carry = machine.count * asking / profile.node_count
    yield (machine.name if carry == machine.count else f"{machine.name} with a client"), carry, 1 / asking
    if carry < machine.count:
        yield f"{machine.name} without a client", machine.count - carry, 0.0


def copies_held(profile: Profile, copies: int) -> list[float]:
    """Expected copies of an object on ONE machine of each class: by capacity, up to what a machine may hold.

    CRUSH puts copies on different hosts: a machine holds at most one, or one on each OSD if there are more copies than
    machines. What a machine cannot hold goes to the others by their capacity, until all fits (water-filling).
    """
    nodes = profile.nodes
    most = [float(machine.osds) if copies > hosts(profile) else float(bool(machine.osds)) for machine in nodes]
    full: set[int] = set()
    while True:
        left = copies - sum(nodes[i].count * most[i] for i in full)
        weight = sum(machine.count * machine.weight for i, machine in enumerate(nodes) if i not in full)
        level = left / weight if weight else 0.0
        over = {i for i, machine in enumerate(nodes) if i not in full and level * machine.weight > most[i]}
        if not over:
            return [most[i] if i in full else level * machine.weight for i, machine in enumerate(nodes)]
        full |= over


def hosts(profile: Profile) -> int:
    """Machines with OSDs: the failure domains of CRUSH's default rule."""
    return sum(machine.count for machine in profile.nodes if machine.osds)


def without_largest(profile: Profile, lost: int) -> Profile:
    """The profile when so many of its machines with most disk space are gone; of equally large ones the best linked."""
    left = {machine.name: machine.count for machine in profile.nodes}
    for machine in sorted(profile.nodes, key=lambda m: (m.weight, m.bandwidth.value, m.name), reverse=True):
        failed = min(left[machine.name], lost)
        left[machine.name], lost = left[machine.name] - failed, lost - failed
    kept = tuple(replace(machine, count=left[machine.name]) for machine in profile.nodes if left[machine.name])
    return replace(profile, nodes=kept)


def doubts(profile: Profile, shape: Shape) -> list[str]:
    """What CRUSH's default rule cannot do, as sentences."""
    if shape.copies <= hosts(profile):
        return []
    return [
        f"{shape.protection} on {how_many(hosts(profile), 'host')}: CRUSH's default rule puts each shard on a "
        "different host and leaves such a pool's PGs undersized; the prediction assumes OSDs as failure domain."
    ]


def shards_read(shape: Shape) -> int:
    """OSDs that a read asks: the one with a copy, or those of k shards. A bucket's index is replicated."""
    return 1 if shape.bare else shape.k or 1


def replica_share(load: MachineLoad, shape: Shape) -> float:
    """Further shards that an operation touches on this machine: all on a write, k - 1 of them on a read."""
    if shape.flow is Flow.WRITE:
        return load.replica
    return load.replica * (shards_read(shape) - 1) / max(1, shape.copies - 1)


def reread_share(load: MachineLoad, shape: Shape) -> float:
    """Chunks read on this machine before part of a stripe can be written: k for each such operation."""
    return (load.primary + load.replica) * shape.k / shape.copies if shape.reads_first else 0.0


@dataclass(frozen=True)
class Wire:
    """Bytes of one client operation through one machine's links. Front: with clients and gateways; back: OSD to OSD.

    fork_in, fork_out: the part of `back` that parallel shards take in or send.
    """

    front_in: float
    front_out: float
    back_in: float
    back_out: float
    fork_in: float
    fork_out: float


def wire(load: MachineLoad, work: OperationWork) -> Wire:
    """Traffic of one operation: each hop between machines carries the payload once, plus the measured extra bytes."""
    shape = work.shape
    payload, extra = float(shape.payload_bytes), work.client.wire
    lead = load.primary
    asks = load.gateway if shape.through_gateway else load.client
    # The request comes from a gateway, a client on a node, or a client elsewhere (asks = 0).
    remote_lead, remote_ask = lead * (1 - asks), asks * (1 - lead)
    data_in, data_out = remote_lead * payload, remote_ask * payload
    front_in, front_out = (data_in, data_out) if shape.flow is Flow.WRITE else (data_out, data_in)
    if shape.through_gateway:
        # Between a gateway and a client, which may be on a node too.
        served, requested = load.gateway * (1 - load.client) * payload, load.client * (1 - load.gateway) * payload
        front_in += served if shape.flow is Flow.WRITE else requested
        front_out += served if shape.flow is Flow.READ else requested
    others = shape.copies - 1 if shape.flow is Flow.WRITE else shards_read(shape) - 1
    sent = lead * others * shape.shard_bytes
    replicated = replica_share(load, shape) * shape.shard_bytes
    back_in, back_out = (replicated, sent) if shape.flow is Flow.WRITE else (sent, replicated)
    fork_in, fork_out = (replicated, 0.0) if shape.flow is Flow.WRITE else (0.0, replicated)
    if shape.reads_first:
        # Before the write, the OSDs of k - 1 other shards send the primary their chunk of the stripe.
        back_in += lead * (shape.k - 1) * shape.stripe_unit
        fork_out += load.replica * (shape.k - 1) / (shape.copies - 1) * shape.stripe_unit
        back_out += fork_out
    # Measured extra bytes are of both directions: half goes in and half out, where the hop is on the wire at all.
    beyond = extra * (remote_lead + remote_ask) / 2
    return Wire(front_in + beyond, front_out + beyond, back_in, back_out, fork_in, fork_out)


def steps(parties: Sequence[MachineLoad], shape: Shape) -> Iterator[DerivationStep]:
    """The arithmetic of the shares."""
    total = sum(load.count * load.machine.weight for load in parties)
    for load in parties:
        copies = load.primary + load.replica
        how = (
            f"primary for {terabytes(load.machine.weight)} of {terabytes(total)}; holds {copies:.4g} of "
            f"{how_many(shape.copies, 'shard')}, at most one where there are enough hosts"
        )
        value = f"{load.primary:.4f} as primary + {load.replica:.4f} more"
        if load.client or load.gateway:
            value += f", {load.client:.4f} from its client, {load.gateway:.4f} through its gateways"
        yield DerivationStep(f"placement on each of {load.count:g} {load.name}", how, value, SOURCE)
