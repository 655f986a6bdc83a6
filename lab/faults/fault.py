"""What a fault is, and the one way to inflict it: broken inside a block, healed on every way out."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from random import Random
from typing import Any, ClassVar, Protocol, Self, TypeVar, runtime_checkable

from cephlab.lab.base.clock import Deadline, watched
from cephlab.lab.base.errors import Unavailable
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
    """Where the daemons of a cluster are. A target is chosen by this alone. nodes: node -> daemons."""

    nodes: Mapping[str, tuple[str, ...]]
    client_node: str = ""

    def daemons(self, kind: str) -> list[str]:
        """Names of the daemons of a kind, in order."""
        return sorted(name for names in self.nodes.values() for name in names if name.startswith(f"{kind}."))

    def node_of(self, daemon: str) -> str:
        return next(node for node, names in self.nodes.items() if daemon in names)


@dataclass(frozen=True)
class Sign:
    """What shows that a fault happened. got: how much of it was seen; least: how much proves the fault."""

    what: str
    got: float
    least: float = 1


@dataclass(frozen=True)
class Aftermath:
    """What a healed fault left, next to what it must be. of: as in `Recorder.observe`."""

    what: str
    got: Any
    wanted: Any
    of: int | None = None


class Fault(Protocol):
    """One way to break a target in a cluster. A frozen value that can be inflicted many times."""

    name: ClassVar[str]
    needs: ClassVar[frozenset[Capability]] = frozenset()
    """What the provider must be able to do."""

    @property
    def target(self) -> str:
        """What is struck, for a reader."""
        ...

    @classmethod
    def aim(cls, layout: Layout, rng: Random) -> Self | None:
        """Choose a target by `rng` alone; None where the layout has none."""
        ...

    def nodes(self, layout: Layout) -> frozenset[str]:
        """The failure domains that it strikes."""
        ...

    def broken(self, cluster: Cluster) -> AbstractContextManager[str | None]:
        """Broken inside the block. Leaving it undoes the cause, and does not wait for Ceph to recover.

        The block gets what Ceph did wrong at being struck, if anything: the history has it as a defect.
        """
        ...

    def sign(self, cluster: Cluster) -> Sign:
        """Look for proof of the fault, for a while. Called inside `broken`."""
        ...


@runtime_checkable
class Examined(Protocol):
    """A fault whose harm outlives its cause, until Ceph has mended it.

    Its prey exists before the fault and until it was examined. If it went with the fault, so would damage that was not
    mended.
    """

    def prey(self, cluster: Cluster) -> AbstractContextManager[bytes]:
        """What is struck, with its content."""
        ...

    def aftermath(self, cluster: Cluster, before: bytes) -> Iterable[Aftermath]:
        """Examine the prey once the fault is healed. before: its content before the fault."""
        ...


@dataclass(frozen=True)
class Window:
    """A fault that holds. began_s: when it was first seen, in seconds since the history began."""

    fault: str
    target: str
    began_s: float
    sign: Sign


def layout_of(cluster: Cluster) -> Layout:
    """The layout of a cluster as it is now."""
    nodes: dict[str, tuple[str, ...]] = dict.fromkeys(cluster.hosts, ())
    for daemon in sorted(cluster.daemons.values(), key=lambda daemon: daemon.name):
        nodes[daemon.host.name] = (*nodes[daemon.host.name], daemon.name)
    return Layout(nodes, cluster.load_nodes()[0])


def obstacle(fault: Fault | type[Fault], capabilities: frozenset[Capability], provider_name: str) -> Unavailable | None:
    """Why a fault cannot be inflicted on a provider's hosts, or None."""
    lacking = sorted(fault.needs - capabilities)
    if not lacking:
        return None
    return Unavailable(
        f"the {provider_name} provider cannot do {fault.name}: it has no {', '.join(lacking)}",
        f"it can: {', '.join(sorted(capabilities)) or 'nothing beyond the basics'}",
        "choose another --lab, or leave it at auto",
    )


@contextmanager
def inflict(fault: Fault, cluster: Cluster, recorder: Recorder) -> Iterator[Window]:
    """Inflict a fault for the length of the block; the history says when, on what, and what proved it.

    The proof is a witness: a fault that was not seen leaves its scenario inconclusive. The aftermath is recorded as
    observations. Raises Unavailable, before anything is broken, where the provider cannot inflict it.
    """
    reason = obstacle(fault, cluster.provider.capabilities(), cluster.provider_name)
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
                seen = recorder.record(EVENT, **about, phase="seen")
                yield Window(fault.name, fault.target, seen.at_s, sign)
            finally:
                recorder.record(EVENT, **about, phase="healing")
        recorder.record(EVENT, **about, phase="healed")
        for left in examined.aftermath(cluster, before) if examined else ():
            recorder.observe(f"{fault.name}: {left.what}", got=left.got, wanted=left.wanted, of=left.of)


@contextmanager
def until_healed(strike: Callable[[], T], heal: Callable[[], object]) -> Iterator[T]:
    """Strike, and heal on every way out of the block, also where striking failed halfway. Gives what striking gave."""
    try:
        yield strike()
    finally:
        heal()


def health_sign(cluster: Cluster, check: str) -> Sign:
    """Proof by a health check of Ceph."""
    return look_for(f"health check {check}", lambda: int(cluster.status().has(check)), patience=cluster.patience)


def look_for(
    what: str, probe: Callable[[], float], *, least: float = 1, timeout_s: float = SIGN_S, patience: float = 1.0
) -> Sign:
    """Probe until `least` is seen or the time is over. Gives the last value either way, for the check to judge."""
    deadline = Deadline.after(timeout_s * patience)
    while True:
        last_chance = deadline.passed()
        got = float(probe())
        if got >= least or last_chance:
            return Sign(what, got, least)
        deadline.pause(_LOOK_S)
