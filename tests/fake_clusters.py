"""Made-up clusters for tests of the fixture that other projects use; strict about how they are used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from cephlab.fixtures.raising import BeforeScenario
from cephlab.lab.base.errors import LabError
from cephlab.lab.ceph.logs import Allowed
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import ClusterSpec

SAID: Mapping[tuple[str, ...], str] = {
    ("ceph", "--format", "json", "osd", "tree"): json.dumps({"nodes": [{"name": "osd.0"}]}),
    ("ceph", "--format", "json", "osd", "pool", "create", "p"): "",
    ("rados", "-p", "p", "get", "o", "-"): "what was put",
}
"""Command line -> what the program prints."""


@dataclass
class FakeDaemon:
    """One daemon."""

    runs: bool = True

    def alive(self) -> bool:
        return self.runs


@dataclass
class FakeCluster:
    """What CephCluster uses of a cluster. up_error: what waiting for its OSDs raises."""

    name: str
    spec: ClusterSpec
    folder: Path
    daemons: dict[str, FakeDaemon] = field(default_factory=lambda: {"osd.0": FakeDaemon()})
    up_error: LabError | None = None

    @property
    def deployer(self) -> Any:
        return SimpleNamespace(client_host=lambda: SimpleNamespace(name="n0"))

    @property
    def client_files(self) -> tuple[Path, Path]:
        return self.folder / f"{self.name}.conf", self.folder / f"{self.name}.keyring"

    def write_client_files(self) -> None:
        for path in self.client_files:
            path.write_text(self.name)

    def tool(self, node: str, program: str, *arguments: str, stdin: bytes = b"") -> str:
        assert node == "n0"
        return SAID[program, *arguments]

    def wait(self, ready: object, *, what: str, timeout_s: float) -> None:
        if self.up_error is not None:
            raise self.up_error


@dataclass
class FakeRaised:
    """One made-up cluster that stands."""

    owner: FakeClusters
    fake: FakeCluster
    open: bool = True

    @property
    def cluster(self) -> Cluster:
        assert self.open, f"{self.fake.name} was used after it was closed"
        return cast("Cluster", self.fake)

    @property
    def facts(self) -> dict[str, Any]:
        return {"name": self.fake.name, "raise_s": 1.5}

    def wait_healthy(self) -> None:
        if self.owner.health_error is not None:
            raise self.owner.health_error

    def close(self) -> None:
        assert self.open, f"{self.fake.name} was closed twice"
        self.open = False
        self.owner.did.append(f"close {self.fake.name}")
        if self.owner.close_error is not None:
            raise self.owner.close_error

    def before(self) -> BeforeScenario:
        raise AssertionError("nothing compares")

    def aftermath(self, before: BeforeScenario, allowed: tuple[Allowed, ...], *, settle: bool) -> dict[str, Any]:
        raise AssertionError("nothing judges")

    def logs(self) -> dict[str, bytes]:
        raise AssertionError("nothing reads logs")

    def keep(self) -> None:
        raise AssertionError("nothing is kept")


@dataclass
class FakeClusters:
    """Raises them. did: what was raised, served and closed, in order."""

    folder: Path
    raise_error: BaseException | None = None
    health_error: LabError | None = None
    close_error: LabError | None = None
    did: list[str] = field(default_factory=list)
    count: int = 0

    def default_nodes(self) -> Sequence[tuple[Arch, int]]:
        return ((Arch.X86_64, 2), (Arch.AARCH64, 1))

    def raise_spec(self, spec: ClusterSpec) -> FakeRaised:
        self.count += 1
        self.did.append(f"raise c{self.count}: {len(spec.nodes)} nodes of {spec.release}")
        if self.raise_error is not None:
            raise self.raise_error
        return FakeRaised(self, FakeCluster(f"c{self.count}", spec, self.folder))

    def serve(self, cluster: FakeCluster, node: str, data: PoolKind) -> Gateway:
        """In place of lasting_gateway."""
        self.did.append(f"serve {cluster.name} from {node}, {data.size} copies")
        daemon: Any = SimpleNamespace(name=f"rgw.{node}", host=SimpleNamespace(name=node, address="127.0.0.9"))
        return Gateway(daemon, "access", "secret")
