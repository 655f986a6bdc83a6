"""A scenario is a record: what it shows, on which cluster, what it does, which check judges what it left."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from lab.arch import Arch, host_arch
from lab.checks import CHECKS, Outcome, Verdict, merge
from lab.checks.aftermath import aftermath
from lab.cluster import Cluster
from lab.errors import CephTrouble, LabError
from lab.history import Event, Recorder
from lab.spec import Capability, ClusterSpec, Disk, Node, build_spec
from lab.telemetry.place import measuring_spec
from lab.tierspec import TierLayout, tiered_spec


class Tier(StrEnum):
    """How much time a run may take. The full tier holds everything of the quick one."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Topology:
    """A cluster relative to the machine it is raised on: native nodes, and nodes of the other architecture.

    clients: whether it has a machine of each architecture beside, without daemons; lone_client: only one of this
    machine's own. release: Ceph's, whatever the run's is. measured: number of client machines of a cluster laid out
    for measuring (lab/telemetry/place.py), 0 for any other. cache_tier: nodes as one wants them (lab/tierspec.py), in
    place of native and foreign ones. page_bytes: of the kernels of aarch64 nodes, None for whatever the provider gives.
    anywhere: a `measured` one is wanted for its client machines alone, so a cluster
    that exists serves as well. role_sets: what the nodes' image is made of; client_disks: those of c0, the first
    machine without daemons. Two scenarios with equal topologies may share a cluster.
    """

    native: int = 2
    foreign: int = 1
    mons: int = 1
    osds_per_node: int = 1
    separate_db: bool = False
    clients: bool = False
    lone_client: bool = False
    release: str | None = None
    options: tuple[tuple[str, str], ...] = ()
    measured: int = 0
    cache_tier: TierLayout | None = None
    role_sets: tuple[str, ...] = ("ceph",)
    client_disks: tuple[Disk, ...] = ()
    page_bytes: int | None = None
    anywhere: bool = field(default=False, compare=False)

    def spec(self, release: str, image: str | None = None, *, in_memory: bool = False) -> ClusterSpec:
        """The cluster on this machine. in_memory: the disks of one that is `measured`."""
        here = host_arch()
        if self.measured:
            return measuring_spec(
                here,
                osds=self.native,
                clients=self.measured,
                release=self.release or release,
                image=image,
                options=dict(self.options),
                in_memory=in_memory,
            )
        other = next(arch for arch in Arch if arch is not here)
        bare = (here, other) if self.clients else (here,) if self.lone_client else ()
        if self.cache_tier is not None:
            release = self.release or release
            spec = tiered_spec(
                self.cache_tier, here, other, release=release, image=image, bare=bare, options=dict(self.options)
            )
            return self._with_client_disks(spec)
        groups = [(arch, count) for arch, count in ((here, self.native), (other, self.foreign)) if count]
        spec = build_spec(
            groups,
            release=self.release or release,
            mons=self.mons,
            osds_per_node=self.osds_per_node,
            separate_db=self.separate_db,
            bare=bare,
            image=image,
            options=dict(self.options),
        )
        return self._with_pages(self._with_client_disks(spec))

    def _with_pages(self, spec: ClusterSpec) -> ClusterSpec:
        if self.page_bytes is None:
            return spec
        return replace(spec, nodes=tuple(replace(node, page_bytes=self._pages_of(node)) for node in spec.nodes))

    def _pages_of(self, node: Node) -> int | None:
        return self.page_bytes if node.arch is Arch.AARCH64 else None

    def _with_client_disks(self, spec: ClusterSpec) -> ClusterSpec:
        if not self.client_disks:
            return spec
        nodes = [replace(node, disks=self.client_disks) if node.name == "c0" else node for node in spec.nodes]
        return replace(spec, nodes=tuple(nodes))


@dataclass(frozen=True)
class Stage:
    """What a scenario works with. rng: its own, from the run's seed and its name; scratch: an empty directory.

    profile: name or file of the hardware that the run is held against; empty for none.
    """

    cluster: Cluster
    recorder: Recorder
    rng: random.Random
    scratch: Path
    tier: Tier = Tier.QUICK
    profile: str = ""


@dataclass(frozen=True)
class Scenario:
    """name: `suite.topic[-variant]`. goal, method: one sentence each, shown in the report.

    spoils: the cluster is not reused after it. releases: where it applies; empty is everywhere, otherwise the value
    is why not elsewhere. expects: error lines that its own doing puts into daemon logs, as regular expression -> why.
    """

    name: str
    goal: str
    method: str
    run: Callable[[Stage], None]
    check: str = "observations"
    tier: Tier = Tier.QUICK
    topology: Topology = Topology()
    needs: frozenset[Capability] = frozenset()
    spoils: bool = False
    only_releases: Mapping[str, str] = field(default_factory=dict)
    expects: Mapping[str, str] = field(default_factory=dict)

    @property
    def suite(self) -> str:
        return self.name.partition(".")[0]


def run_scenario(scenario: Scenario, stage: Stage) -> Verdict:
    """Do it, then judge what it recorded. A LabError that the scenario raises passes through."""
    stage.recorder.record("began", goal=scenario.goal, cluster=stage.cluster.name, check=scenario.check)
    try:
        scenario.run(stage)
    except LabError as error:
        record_raised(stage.recorder, error)
        raise
    stage.recorder.record("ended")
    return judge(scenario.check, stage.recorder)


def judge(check: str, recorder: Recorder) -> Verdict:
    """The verdict of a named check over a scenario's own events."""
    return CHECKS[check](recorder.events())


def record_raised(recorder: Recorder, error: LabError) -> None:
    """Put an error that ends a scenario into its history."""
    _record_trouble(recorder, "raised", error)


def record_unseen(recorder: Recorder, error: LabError) -> None:
    """Put into its history that what a scenario left behind could not be looked at."""
    _record_trouble(recorder, "unseen", error)


def _record_trouble(recorder: Recorder, kind: str, error: LabError) -> None:
    blame = "ceph" if isinstance(error, CephTrouble) else "lab"
    recorder.record(kind, error=type(error).__name__, blame=blame, what=error.what, detail=error.detail)


def verdict_of(events: Sequence[Event]) -> Verdict:
    """The whole verdict over one scenario's events: what it raised or its check says, and what it left behind."""
    left = aftermath(events)
    return merge([_own_verdict(events), *([left] if left else [])])


def _own_verdict(events: Sequence[Event]) -> Verdict:
    kinds = {event.kind: event.data for event in events}
    raised = kinds.get("raised")
    if raised is not None and raised["blame"] == "ceph":
        return Verdict(Outcome.FAIL, raised["what"], tuple(raised["detail"].splitlines()))
    if raised is not None:
        return Verdict(Outcome.INCONCLUSIVE, f"the lab broke: {raised['what']}", tuple(raised["detail"].splitlines()))
    if "began" not in kinds:
        return Verdict(Outcome.INCONCLUSIVE, "it never began")
    if "ended" not in kinds:
        return Verdict(Outcome.INCONCLUSIVE, "it was interrupted")
    check = kinds["began"]["check"]
    if check not in CHECKS:
        return Verdict(Outcome.INCONCLUSIVE, f"there is no check called {check!r}")
    return CHECKS[check](events)


def seeded(seed: int, name: str) -> random.Random:
    """The random source of one scenario: the same for the same seed, whatever else runs."""
    return random.Random(f"{seed}/{name}")
