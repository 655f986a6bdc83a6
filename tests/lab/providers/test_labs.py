"""What labs of several providers share: names that are taken, steps that fail, and what is raised in the end."""

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import Mock

import docker
import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import CephTrouble, CleanupFailed, LabBroken, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, Runs
from cephlab.lab.images.image import Image
from cephlab.lab.providers import base
from cephlab.lab.providers.container import lab as containers
from cephlab.lab.providers.container import names
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.engine import lab as engines
from cephlab.lab.providers.guest import network
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.providers.local import provider as local
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Disk, Node
from cephlab.lab.spec.layout import build_spec


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A run, with a temporary folder of a short name, and without the packet filter of the whole machine."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr("cephlab.lab.providers.packets.obstacle", lambda: "not here")
        yield Runs(Home(tmp_path)).create("local")


@pytest.fixture
def image(tmp_path: Path) -> Image:
    return Image("reef", host_arch(), "k" * 64, tmp_path / "root")


def test_a_disk_of_a_name_that_is_taken_is_refused_and_the_other_keeps_its_content(run: Run, image: Image) -> None:
    lab = local.LocalLab(run, {host_arch(): image}, 1)
    host = lab.add_node(Node("n0", host_arch(), (Disk("d0", size_bytes=4096),)))
    Path(host.disk("d0")).write_bytes(b"data")
    with pytest.raises(SpecError, match="a disk 'd0' already exists"):
        lab.add_node(Node("n1", host_arch(), (Disk("d0", size_bytes=1),)))
    assert Path(host.disk("d0")).read_bytes() == b"data"
    assert list(lab.hosts) == ["n0"]


def test_a_killed_node_keeps_no_process_that_began_meanwhile(
    run: Run, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = local.LocalLab(run, {host_arch(): image}, 1)
    host = lab.add_node(Node("n0", host_arch()))
    killed: list[int] = []

    def look(marks: Mapping[str, str]) -> list[Any]:
        assert marks == {"CEPHLAB_NODE": f"{run.id}/n0", "CEPHLAB_RUN_HOME": str(run.home.path)}
        pids = [pid for pid in (7, 8) if pid not in killed][:1]
        return [SimpleNamespace(pid=pid, kill=lambda pid=pid: killed.append(pid), wait=lambda _: True) for pid in pids]

    monkeypatch.setattr(process, "find_marked", look)
    lab.kill_node("n0")
    assert killed == [7, 8]
    assert not host.up()


def refuse_removal(*_arguments: object) -> list[str]:
    raise CleanupFailed(["a process does not die"])


def test_an_error_is_raised_although_the_clean_up_after_it_fails_too(
    run: Run, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cluster that did something wrong is no broken lab."""
    monkeypatch.setattr(local, "remove_run", refuse_removal)
    launched = LocalProvider().launch(build_spec([(host_arch(), 1)]), {host_arch(): image}, run)
    with pytest.raises(CephTrouble, match="wrong data") as caught, launched:
        raise CephTrouble("wrong data")
    (note,) = caught.value.__notes__
    assert "the clean-up failed" in note
    assert "a process does not die" in note


def test_without_another_error_that_of_the_clean_up_is_raised(
    run: Run, image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "remove_run", refuse_removal)
    launched = LocalProvider().launch(build_spec([(host_arch(), 1)]), {host_arch(): image}, run)
    with pytest.raises(CleanupFailed, match="a process does not die"), launched:
        pass


def test_links_are_mended_on_every_node_although_one_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    cleared: list[str] = []

    def links(host: Any) -> Any:
        if host.name == "n0":
            raise LabBroken("n0 is down")
        return SimpleNamespace(clear=lambda: cleared.append(host.name))

    monkeypatch.setattr(engines, "_links", links)
    hosts = {name: SimpleNamespace(name=name, up=lambda: True) for name in ("n0", "n1", "n2")}
    with pytest.raises(CleanupFailed, match="n0: n0 is down"):
        engines.EngineLab.mend_links(cast("Any", SimpleNamespace(_hosts=hosts)))
    assert cleared == ["n1", "n2"]


# What the lab does not do in time is no trouble of Ceph.


def test_a_container_that_does_not_end_is_a_broken_lab(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "_DOWN_S", 0.01)
    labels = {**names.labels(run.id, run.home), names.NODE_LABEL: "n0"}
    running = [{"Names": ["/c0"], "State": "running", "Labels": labels}]
    client = SimpleNamespace(api=SimpleNamespace(kill=lambda _name, _signal: None, containers=lambda **_: running))
    engine = Engine("unix:///fake.sock", {}, cast("docker.DockerClient", client))
    lab = containers.ContainerLab(engine, run, "10.0.0.0/24", {})
    lab._hosts["n0"] = cast("Any", SimpleNamespace(name="n0"))
    with pytest.raises(LabBroken, match="the shutdown of n0 took more than"):
        lab.kill_node("n0")


def test_a_keeper_that_does_not_get_ready_is_a_broken_lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def start(_argv: object, *, log: Path, env: object) -> Any:
        log.write_text("unshare: it takes its time\n")
        return SimpleNamespace(ref={}, alive=lambda: True)

    monkeypatch.setattr(network, "_READY_S", 0.01)
    monkeypatch.setattr(process, "start_detached", start)
    with pytest.raises(LabBroken, match="the network's keeper took more than") as caught:
        network.Network(tmp_path / "network", "10.78.0.0/24", {}).make()
    assert "it takes its time" in caught.value.detail


def test_folders_go_though_the_rest_failed_and_everything_that_stays_is_told(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = {"disks": ["disks/d0: busy"], "nodes": ["nodes/n0: busy"]}
    asked: list[str] = []

    def remove_tree(folder: Path) -> list[str]:
        asked.append(folder.name)
        return stays[folder.name]

    monkeypatch.setattr(base, "remove_tree", remove_tree)
    with pytest.raises(CleanupFailed) as caught:
        base.remove_with_folders(run, Mock(side_effect=LabBroken("a process stays")), "disks", "nodes")
    assert asked == ["disks", "nodes"]
    assert caught.value.errors == ("a process stays", "disks/d0: busy", "nodes/n0: busy")
