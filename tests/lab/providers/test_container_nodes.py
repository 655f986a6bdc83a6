"""A node may have several containers, one for each image of its daemons: they are made again and asked together."""

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import docker
import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.container import lab as containers
from cephlab.lab.providers.container import names, nodes
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.host import ContainerHost
from cephlab.lab.providers.container.imported import EngineImage
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Node

OWN, OTHER = "cephlab-r.n0", "cephlab-r.n0.1234"
GONE = [f"remove {OTHER}", f"remove {OWN}"]
AGAIN = [f"make {OWN} of old", f"make {OTHER} of new beside {OWN}"]


class Node0:
    """The engine and a lab on it, with a node that has its own container and one of another image."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        run = Runs(Home(folder)).create("container")
        engine = Engine("unix:///fake.sock", {}, cast("docker.DockerClient", SimpleNamespace(api=self)))
        self.lab = containers.ContainerLab(engine, run, "10.0.0.0/24", {host_arch(): EngineImage("old", ())})
        self.host = ContainerHost(Node("n0", host_arch()), "10.0.0.2", {}, engine, OWN)
        self.lab._hosts["n0"] = self.host
        self.running = True
        self.execs: dict[str, Sequence[str]] = {}
        self.images = {OTHER: "new", OWN: "old"}
        self.steps: list[str] = []
        self._labels = {**names.labels(run.id, run.home), names.NODE_LABEL: "n0"}
        monkeypatch.setattr(nodes, "raise_container", self._make)

    def containers(self, *, filters: Any = None, **_: Any) -> list[dict[str, Any]]:
        wanted = [name for name in self.images if "name" not in (filters or {}) or name == OWN]
        state = "running" if self.running else "exited"
        return [
            {"Names": [f"/{name}"], "State": state, "Image": self.images[name], "Labels": self._labels}
            for name in wanted
        ]

    def inspect_container(self, name: str) -> dict[str, Any]:
        return {"State": {"Running": self.running}, "ExecIDs": self.execs.get(name)}

    def exec_inspect(self, _exec: str) -> dict[str, Any]:
        return {"Running": True}

    def remove_container(self, name: str, *, force: bool) -> None:
        assert force
        del self.images[name]
        self.steps.append(f"remove {name}")

    def _make(self, host: ContainerHost, _run: str, _home: object, image: str, *, beside: str = "") -> None:
        self.images[host.container] = image
        self.steps.append(f"make {host.container} of {image}" + (f" beside {beside}" if beside else ""))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node0:
    return Node0(tmp_path, monkeypatch)


def test_all_containers_of_a_node_are_made_again_its_own_first(node: Node0) -> None:
    node.lab._renew(node.host)
    assert node.steps == [*GONE, *AGAIN]


def test_those_of_a_node_that_is_down_are_made_when_it_is_started_and_once(node: Node0) -> None:
    node.running = False
    for _ in range(2):
        node.steps.clear()
        node.lab._renew(node.host)
        assert node.steps == GONE
        node.lab.start_node("n0")
        assert node.steps == [*GONE, *AGAIN]


def test_a_node_is_busy_by_a_command_in_any_of_its_containers(node: Node0) -> None:
    assert node.lab._commands(node.host) == 0
    node.execs = {OTHER: ["e0"]}
    assert node.lab._commands(node.host) == 1
