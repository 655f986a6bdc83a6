"""A made-up source of clusters that is strict about how it is used, and scenarios that end in every way there is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.fixtures.raising import BeforeScenario
from cephlab.lab.base.errors import CephTrouble, LabBroken, LabError, LeftBehind, NotInstalled, SpecError, Unavailable
from cephlab.lab.ceph.logs import Allowed, LogMarks
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability

CLEAN: Mapping[str, Any] = {
    "crashes": [],
    "dead": [],
    "complaints": [],
    "allowed": {},
    "healthy": True,
    "health": "HEALTH_OK",
}
KEY = "AQBzyAFnAAAAABAAnWZ0J8T1s2Cw0vK5m3n4pQ=="
KEY_LINE = f"key = {KEY}"


@dataclass
class FakeRaised:
    """One made-up cluster. broken: what the next look at its health raises; unseen: what one at its remains does."""

    raiser: FakeRaiser
    name: str
    open: bool = True
    broken: LabError | None = None
    left: dict[str, Any] = field(default_factory=dict)
    unseen: LabError | None = None

    @property
    def cluster(self) -> Cluster:
        return cast("Cluster", SimpleNamespace(daemons={}, name=self.name, fake=self))

    @property
    def facts(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "provider": "fake",
            "why": "it is a test",
            "spec": {"release": self.raiser.release},
            "hosts": {
                "n0": {"arch": "x86_64", "emulated": False},
                "n1": {"arch": "aarch64", "emulated": True},
            },
            "daemons": {"mon.n0": "n0", "osd.0": "n0", "osd.1": "n1"},
            "patience": 4.0,
            "raise_s": 1.5,
            "images": {
                "x86_64": {
                    "release": "reef",
                    "key": "c" * 64,
                    "reference": None,
                    "ceph_version": "18.2.7+ds-1",
                    "packages": {"ceph-osd": "18.2.7+ds-1"},
                }
            },
        }

    def wait_healthy(self) -> None:
        assert self.open, f"{self.name} was used after it was closed"
        if self.broken is not None:
            raise self.broken

    def before(self) -> BeforeScenario:
        assert self.open
        self.left = {}
        return BeforeScenario(LogMarks({}), frozenset(), {})

    def aftermath(self, before: BeforeScenario, allowed: tuple[Allowed, ...], *, settle: bool) -> dict[str, Any]:
        assert self.open
        if self.unseen is not None:
            raise self.unseen
        return {**CLEAN, **self.left}

    def logs(self) -> dict[str, bytes]:
        assert self.open, f"the logs of {self.name} were asked for after it was closed"
        return {"n0-osd.0.log": f"all is well\n{KEY_LINE}\n".encode()}

    def keep(self) -> None:
        assert self.open
        self.raiser.did.append(f"keep {self.name}")
        if self.raiser.keep_error is not None:
            raise self.raiser.keep_error

    def close(self) -> None:
        assert self.open, f"{self.name} was closed twice"
        self.open = False
        self.raiser.did.append(f"close {self.name}")
        if self.raiser.close_error is not None:
            raise self.raiser.close_error


@dataclass
class FakeRaiser:
    """Also a pytest plugin. did: what was raised, kept and closed, in order."""

    raise_error: BaseException | None = None
    health_error: LabError | None = None
    close_error: LabError | None = None
    keep_error: LabError | None = None
    lacking: frozenset[Capability] = frozenset()
    refused: LabError | None = None
    absent: Sequence[NotInstalled] = ()
    release: str = "reef"
    did: list[str] = field(default_factory=list)
    asked: list[Topology] = field(default_factory=list)
    up: FakeRaised | None = None
    _count: int = 0

    def pytest_cephlab_raiser(self, config: object) -> FakeRaiser:
        return self

    def refuse(self, topology: Topology) -> None:
        assert not self.did, "refusals come before anything starts"
        self.asked.append(topology)
        if self.refused is not None:
            raise self.refused
        if len(self.asked) <= len(self.absent):
            raise self.absent[len(self.asked) - 1]

    def provider_for(self, topology: Topology, needs: frozenset[Capability]) -> str:
        if self.lacking & needs:
            lacks = ", ".join(sorted(self.lacking & needs))
            raise Unavailable("no provider can do this here", f"lacks {lacks}", "install an engine")
        return "fake"

    def raise_one(self, topology: Topology, needs: frozenset[Capability]) -> FakeRaised:
        assert self.up is None or not self.up.open, "a second cluster was raised beside the first"
        if self.raise_error is not None:
            raise self.raise_error
        self._count += 1
        self.up = FakeRaised(self, f"c{self._count}", broken=self.health_error)
        self.did.append(f"raise c{self._count} with {topology.mons} mons")
        return self.up


def fake_of(stage: Stage) -> FakeRaised:
    """The made-up cluster behind a stage."""
    return cast("Any", stage.cluster).fake  # type: ignore[no-any-return]


def good(stage: Stage) -> None:
    stage.recorder.observe("one and one", got=sum((1, 1)), wanted=2)
    stage.recorder.observe("cluster", got=bool(stage.cluster.name), wanted=True)


def asking_in_vain(_tier: Tier) -> int:
    """A setting of the environment that cannot be used."""
    raise SpecError("MOONS is not a number")


def wrong(stage: Stage) -> None:
    stage.recorder.observe("sha256 of object-3", got=bytes((0xBE, 0xEF)).hex(), wanted="cafe")


def silent(stage: Stage) -> None:
    assert list(stage.scratch.iterdir()) == []


def ceph_trouble(stage: Stage) -> None:
    raise CephTrouble("osd.0 lost an object", "object-3")


def ceph_trouble_on_a_lost_node(stage: Stage) -> None:
    fake_of(stage).unseen = LabBroken("n1 is down")
    ceph_trouble(stage)


def blinding(stage: Stage) -> None:
    """Holds, but what it leaves behind cannot be looked at."""
    good(stage)
    fake_of(stage).unseen = LabBroken("n1 does not answer", "timed out")


def blinding_by_ceph(stage: Stage) -> None:
    good(stage)
    fake_of(stage).unseen = CephTrouble("osd.0 refuses to tell")


def lab_trouble(stage: Stage) -> None:
    raise LabBroken("the disk is full", "0 bytes free")


def lacking(stage: Stage) -> None:
    raise Unavailable("this image has no ceph-dencoder types", "", "use another release")


def mistaken(stage: Stage) -> None:
    raise ZeroDivisionError("a mistake of the scenario's own")


def crashing(stage: Stage) -> None:
    good(stage)
    fake_of(stage).left = {"crashes": ["osd.0: assert failed"]}


def crashing_in_silence(stage: Stage) -> None:
    """Shows nothing itself, and what it leaves behind is worse than that."""
    fake_of(stage).left = {"crashes": ["osd.0: assert failed"]}


def asserting(stage: Stage) -> None:
    raise AssertionError("an assertion of the scenario's own")


def skipping(stage: Stage) -> None:
    pytest.skip("not on this machine")


def sickening(stage: Stage) -> None:
    good(stage)
    fake_of(stage).left = {"healthy": False, "health": "HEALTH_WARN: 1 pg stale"}


def grumbling(stage: Stage) -> None:
    good(stage)
    fake_of(stage).left = {"complaints": [{"daemon": "osd.0", "level": "error", "text": "bad crc in data"}]}


def breaking_later(stage: Stage) -> None:
    """Leaves nothing that can be seen, but the cluster is not healthy when the next one wants it."""
    good(stage)
    fake_of(stage).broken = CephTrouble("not healthy", "1 pg peering")


INTERRUPTIONS: list[int] = []
"""One for each time that a scenario is still to be interrupted."""


def interrupted_once(stage: Stage) -> None:
    if INTERRUPTIONS:
        INTERRUPTIONS.clear()
        raise KeyboardInterrupt
    good(stage)


def interrupted(stage: Stage) -> None:
    raise KeyboardInterrupt


def interrupted_untidily(stage: Stage) -> None:
    """Its clean-up fails, and the error of that is what comes out."""
    try:
        raise KeyboardInterrupt
    finally:
        raise LabBroken("the client is gone")


def interrupted_and_left(stage: Stage) -> None:
    """Its clean-up leaves something on a cluster that stays."""
    try:
        raise KeyboardInterrupt
    finally:
        raise LeftBehind("could not remove 1 bucket", "b0: c0 is lost", "radosgw-admin bucket rm --bucket=b0")


def interrupted_half_way(stage: Stage) -> None:
    """Leaves a folder open that it was reading, and nobody to close it."""
    listing = os.scandir(stage.scratch.parent)
    next(listing)
    del listing
    raise KeyboardInterrupt


def killed(stage: Stage) -> None:
    """As by the kernel when memory runs out."""
    stage.recorder.observe("one and one", got=sum((1, 1)), wanted=2)
    os.kill(os.getpid(), signal.SIGKILL)


def endless(stage: Stage) -> None:
    """Goes on until a signal comes."""
    signal.pause()


def drawing(stage: Stage) -> None:
    stage.recorder.observe("drawn", got=stage.rng.randrange(10**9), wanted=0)


def scenario(name: str, run: Callable[[Stage], None], **fields: Any) -> Scenario:
    """A scenario of the demo suite."""
    return Scenario(name, f"Shows {name}.", "By hand.", run, **fields)
