"""Registering an emulator with the kernel changes the whole machine, so whoever looks at the lab is told."""

import os
import platform
import shutil
import socket
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import quiet
from cephlab.lab.base.runs import Runs
from cephlab.lab.cluster.raising import raise_cluster
from cephlab.lab.images.image import Image
from cephlab.lab.providers import binfmt
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.provider import ContainerProvider
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.layout import build_spec
from tests.fake_provider import FOREIGN
from tests.lab.providers.test_container_engine import ENABLED
from tests.lab.providers.test_container_images import Api, Client


class Empty(Api):
    """An engine in which there is nothing to remove."""

    def remove_network(self, name: str) -> None:
        raise AssertionError(f"nobody made network {name}")

    def remove_volume(self, name: str) -> None:
        raise AssertionError(f"nobody made volume {name}")


@pytest.fixture
def mount(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where an empty binfmt_misc is mounted, on a machine where the emulator is installed and this user is root."""
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    (tmp_path / "register").write_text("")
    return tmp_path


def test_a_registration_is_told_before_it_is_done(mount: Path) -> None:
    said: list[str] = []

    def hear(line: str) -> None:
        assert (mount / "register").read_text() == "", "it was done before it was said"
        said.append(line)

    # What is written to a plain file registers nothing, which is found out afterwards.
    with pytest.raises(LabBroken, match="was registered but does not work"):
        binfmt.ensure(Arch.AARCH64, hear, mount)
    (line,) = said
    assert line.startswith("registering qemu-aarch64-static with this machine's kernel, for containers of aarch64")
    assert line.endswith((mount / "register").read_text())


def test_nothing_is_said_where_a_handler_serves(mount: Path) -> None:
    (mount / "qemu-aarch64").write_text(ENABLED)
    binfmt.ensure(Arch.AARCH64, pytest.fail, mount)
    assert (mount / "register").read_text() == ""


@pytest.mark.parametrize("entry", [ENABLED, ""], ids=["by another process", "without the flag F"])
def test_a_name_that_is_registered_meanwhile_is_an_error_only_if_it_does_not_serve(
    mount: Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    def register(_path: Path, _line: str) -> int:
        (mount / "qemu-aarch64").write_bytes(entry.encode())
        raise FileExistsError

    monkeypatch.setattr(Path, "write_text", register)
    with nullcontext() if entry else pytest.raises(LabBroken, match="does not work in containers"):
        binfmt.ensure(Arch.AARCH64, quiet, mount)


def test_what_a_launch_changes_reaches_whoever_raises_a_cluster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(arch: Arch, progress: Callable[[str], None]) -> None:
        progress(f"registering for {arch}")
        raise Unavailable("this is far enough")

    monkeypatch.setattr(binfmt, "ensure", refuse)
    monkeypatch.setattr(binfmt, "obstacle", lambda arch: None)
    facts: dict[str, Any] = {
        "Architecture": host_arch().value,
        "KernelVersion": platform.release(),
        "Name": socket.gethostname(),
    }
    engine = Engine("unix:///fake.sock", {}, cast("docker.DockerClient", Client(Empty())))
    engine.__dict__["info"] = facts
    run = Runs(Home(tmp_path)).create("container", "mine")
    images = {arch: Image("reef", arch, "a" * 64, tmp_path) for arch in Arch}
    said: list[str] = []
    spec = build_spec([(host_arch(), 1), (FOREIGN, 1)])
    with (
        pytest.raises(Unavailable, match="far enough"),
        raise_cluster(ContainerProvider(find=lambda: engine), spec, images, run, progress=said.append),
    ):
        pytest.fail("it must not get here")
    assert said == [f"registering for {FOREIGN}"]
