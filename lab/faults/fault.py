"""Defines faults and the one way to inflict them: broken inside a block, healed however the block ends."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from cephlab.lab.base.clock import Deadline, watched
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.spec.clusterspec import Capability

EVENT = "fault"
"""Kind of a fault's events: {fault, target, nodes, phase}; phase: inflicting, broken, seen, healing, healed."""

SIGN_S = 60.0
_LOOK_S = 0.1
T = TypeVar("T")


@dataclass(frozen=True)
class Layout:
    """Where the daemons of a cluster are. Faults choose their target from this alone. nodes: node -> daemons."""

    nodes: Mapping[str, tuple[str, ...]]
    client_node: str = ""

    def daemons(self, kind: str) -> list[str]:
        """Names of the daemons of a kind, in order."""
        return sorted(name for names in self.nodes.values() for name in names if name.startswith(f"{kind}."))

    def node_of(self, daemon: str) -> str:
        return next(node for node, names in self.nodes.items() if daemon in names)


@dataclass(frozen=True)
class Sign:
    """Evidence that a fault happened. got: how much was seen; least: how much proves the fault."""

    what: str
    got: float
    least: float = 1


@dataclass(frozen=True)
class Aftermath:
    """A state after a healed fault, together with the wanted state. of: as in `Recorder.observe`."""

    what: str
    got: Any
    wanted: Any
    of: int | None = None


class Fault(Protocol):
    """One way to break a target in a cluster: a frozen value that can be inflicted many times."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()
    """What the provider must be able to do."""
    in_labs: ClassVar[bool] = False
    """Whether it reaches for machines, disks, stores or settings that only the lab's own clusters lend it."""

    @property
    def target(self) -> str:
        """The target, for display."""
        ...

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        """Choose a target with `rng` alone; None if the layout has none."""
        ...

    def nodes(self, layout: Layout) -> frozenset[str]:
        """The failure domains that it affects."""
        ...

    def broken(self, cluster: Cluster) -> AbstractContextManager[str | None]:
        """Break the target inside the block. Leaving it undoes the cause, and does not wait for Ceph to recover.

        Yields what Ceph did wrong when the fault was inflicted, if anything. The history records it as a defect.
        """
        ...

    def sign(self, cluster: Cluster) -> Sign:
        """Look for proof of the fault for a limited time. Called inside `broken`."""
        ...


F = TypeVar("F", bound=Fault)


@runtime_checkable
class Examined(Protocol):
    """A fault whose damage remains after its cause is gone, until Ceph repairs it.

    Its prey exists before the fault and until it has been examined. If the prey were removed when the fault is healed,
    damage that Ceph did not repair would be removed too.
    """

    def prey(self, cluster: Cluster) -> AbstractContextManager[bytes]:
        """Provide what the fault damages; yields its content."""
        ...

    def aftermath(self, cluster: Cluster, before: bytes) -> Iterable[Aftermath]:
        """Examine the prey once the fault is healed. before: its content before the fault."""
        ...


def layout_of(cluster: Cluster) -> Layout:
    """The current layout of a cluster."""
    nodes: dict[str, tuple[str, ...]] = dict.fromkeys(cluster.hosts, ())
    for daemon in sorted(cluster.daemons.values(), key=lambda daemon: daemon.name):
        nodes[daemon.host.name] = (*nodes[daemon.host.name], daemon.name)
    return Layout(nodes, cluster.load_nodes()[0])


def aimed(kind: type[F], cluster: Cluster, rng: Random) -> F:
    """A fault of a kind, at a target chosen with `rng`; LabBroken if the cluster has none."""
    layout = layout_of(cluster)
    fault = kind.aim(layout, rng)
    if fault is None:
        raise LabBroken(f"there is no target for {kind.name} in this cluster", f"layout: {layout.nodes}")
    return fault


def obstacle(fault: Fault | type[Fault], capabilities: frozenset[Capability], provider_name: str) -> Unavailable | None:
    """Why a fault cannot be inflicted on a provider's hosts, or None."""
    lacking = sorted(fault.needs - capabilities)
    if not lacking:
        return None
    return Unavailable(
        f"the {provider_name} provider cannot do {fault.name}: it has no {', '.join(lacking)}",
        f"it has: {', '.join(sorted(capabilities)) or 'no extra capabilities'}",
        "choose another --lab, or leave it at auto",
    )


def refusal(fault: Fault | type[Fault], cluster: Cluster) -> Unavailable | None:
    """Why a fault cannot be inflicted on a cluster, or None."""
    if fault.in_labs and isinstance(cluster, AttachedCluster):
        return NotPermitted(f"{fault.name}, which reaches for machines, disks, stores or settings of the whole cluster")
    return obstacle(fault, cluster.provider.capabilities(), cluster.provider_name)


@contextmanager
def inflict(fault: Fault, cluster: Cluster, recorder: Recorder) -> Iterator[Sign]:
    """Inflict a fault inside the block; yields what proved it. The history records when, on what, and the proof.

    The proof is a witness, so a fault that was not seen makes its scenario inconclusive. The aftermath is recorded as
    observations. Raises Unavailable, before anything is broken, if it cannot be inflicted on the cluster.
    """
    reason = refusal(fault, cluster)
    if reason is not None:
        raise reason
    about = {"fault": fault.name, "target": fault.target, "nodes": sorted(fault.nodes(layout_of(cluster)))}
    examined = fault if isinstance(fault, Examined) else None
    with examined.prey(cluster) if examined else nullcontext(b"") as before:
        recorder.record(EVENT, **about, phase="inflicting")
        with watched(), fault.broken(cluster) as defect:
            recorder.record(EVENT, **about, phase="broken")
            if defect:
                recorder.record("defect", **about, seen=defect)
            try:
                sign = fault.sign(cluster)
                recorder.witness(f"{fault.name} of {fault.target}: {sign.what}", got=sign.got, least=sign.least)
                recorder.record(EVENT, **about, phase="seen")
                yield sign
            finally:
                recorder.record(EVENT, **about, phase="healing")
        recorder.record(EVENT, **about, phase="healed")
        for left in examined.aftermath(cluster, before) if examined else ():
            recorder.observe(f"{fault.name}: {left.what}", got=left.got, wanted=left.wanted, of=left.of)


@contextmanager
def until_healed(strike: Callable[[], T], heal: Callable[[], object]) -> Iterator[T]:
    """Strike, and heal however the block ends, even if striking failed halfway. Yields the result of `strike`."""
    try:
        yield strike()
    finally:
        heal()


def health_sign(cluster: Cluster, check: str) -> Sign:
    """Proof that Ceph raises a health check."""
    return look_for(f"health check {check}", lambda: int(cluster.status().has(check)), patience=cluster.patience)


def look_for(
    what: str, probe: Callable[[], float], *, least: float = 1, timeout_s: float = SIGN_S, patience: float = 1.0
) -> Sign:
    """Probe until `least` is seen or the time is over. Returns the last value in both cases, for the check to judge."""
    deadline = Deadline.after(timeout_s * patience)
    while True:
        last_chance = deadline.passed()
        got = float(probe())
        if got >= least or last_chance:
            return Sign(what, got, least)
        deadline.pause(_LOOK_S)
