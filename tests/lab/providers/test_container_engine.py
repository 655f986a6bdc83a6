"""Finding an engine, and the sentences that say why there is none."""

import os
import socket
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast

import docker
import docker.errors
import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.providers import binfmt
from cephlab.lab.providers.container.engine import Engine, candidates, connect, engine_errors, find_engine
from cephlab.lab.providers.container.provider import ContainerProvider
from cephlab.lab.providers.engine.answers import NoSocket
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose sockets have short names."""
    with TemporaryDirectory() as name:
        yield Path(name)


def test_docker_host_alone_counts() -> None:
    assert candidates({"DOCKER_HOST": "tcp://engine:2375"}, 1000) == ["tcp://engine:2375"]


def test_docker_comes_before_podman() -> None:
    addresses = candidates({"XDG_RUNTIME_DIR": "/run/user/7"}, 1000)
    assert addresses[0] == "unix:///var/run/docker.sock"
    assert addresses.index("unix:///run/user/7/docker.sock") < addresses.index("unix:///run/user/7/podman/podman.sock")
    assert "unix:///run/user/1000/podman/podman.sock" in candidates({}, 1000)


def test_a_missing_socket_is_named(tmp_path: Path) -> None:
    with pytest.raises(NoSocket, match=r"engine\.sock") as caught:
        connect(f"unix://{tmp_path}/engine.sock", {})
    assert "DOCKER_HOST" in caught.value.hint


@pytest.fixture
def unserved(short: Path) -> Path:
    path = short / "engine.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


def test_a_socket_that_nobody_serves_does_not_answer(unserved: Path) -> None:
    with pytest.raises(Unavailable, match="does not answer") as caught:
        find_engine({"DOCKER_HOST": f"unix://{unserved}"})
    assert "ci/engine" in caught.value.hint


def test_an_engine_that_is_silent_does_not_answer(short: Path) -> None:
    path = short / "engine.sock"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)
        began = time.monotonic()
        with pytest.raises(Unavailable, match="does not answer"):
            connect(f"unix://{path}", {}, patience_s=0.2)
        assert time.monotonic() - began < 5


class StartingEngine(BaseHTTPRequestHandler):
    """What systemd starts at the first call: whoever calls first waits until it has come up."""

    coming_up_s: ClassVar = [4.0]

    def do_GET(self) -> None:
        time.sleep(self.coming_up_s.pop() if self.coming_up_s else 0)
        body = b'{"ApiVersion": "1.41"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        with suppress(BrokenPipeError):
            self.wfile.write(body)

    def address_string(self) -> str:
        return "a socket"

    def log_request(self, _code: object = "-", _size: object = "-") -> None:
        """Nothing is logged."""


@pytest.mark.slow
def test_an_engine_that_systemd_starts_at_the_first_call_is_waited_for(short: Path) -> None:
    path = short / "engine.sock"
    with socketserver.ThreadingUnixStreamServer(str(path), StartingEngine) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            connect(f"unix://{path}", {}).close()
            assert not StartingEngine.coming_up_s, "nobody waited for it"
        finally:
            server.shutdown()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use every socket")
def test_a_forbidden_socket_is_said_to_be(unserved: Path) -> None:
    unserved.chmod(0)
    with pytest.raises(Unavailable, match="may not use") as caught:
        connect(f"unix://{unserved}", {})
    assert "group" in caught.value.hint


def test_without_an_engine_the_provider_says_why_and_what_it_would_do() -> None:
    def absent() -> Engine:
        raise Unavailable("no container engine is running", "", "start one")

    provider = ContainerProvider(find=absent)
    reason = provider.unavailable()
    assert reason is not None
    assert reason.hint == "start one"
    assert Capability.PARTITION in provider.capabilities()
    assert Capability.FOREIGN_ARCH not in provider.capabilities()


@dataclass
class FakeClient:
    """An engine that tells its facts and nothing else."""

    facts: dict[str, Any]

    def info(self) -> dict[str, Any]:
        return self.facts

    def close(self) -> None:
        """Nothing is open."""


@pytest.mark.parametrize(
    ("facts", "limits"),
    [
        ({"Rootless": False, "CgroupVersion": "1"}, True),
        ({"Rootless": True, "CgroupVersion": "2"}, True),
        ({"Rootless": True, "CgroupVersion": "1"}, False),
        ({"SecurityOptions": ["name=rootless"], "CgroupVersion": "1"}, False),
    ],
)
def test_an_ordinary_users_engine_limits_nothing_under_the_first_cgroups(facts: dict[str, Any], limits: bool) -> None:
    known = {"Architecture": "amd64", "MemoryLimit": True, "CpuCfsQuota": True, "KernelVersion": "another's"}
    client = cast("docker.DockerClient", FakeClient({**known, **facts}))
    provider = ContainerProvider(find=lambda: Engine("unix:///fake.sock", {}, client))
    supported = provider.capabilities() & {Capability.CPU_LIMIT, Capability.MEMORY_LIMIT}
    assert len(supported) == (2 if limits else 0)


def test_the_librarys_errors_become_the_labs() -> None:
    with pytest.raises(LabBroken, match="making a thing") as caught, engine_errors("making a thing"):
        raise docker.errors.APIError("no", explanation="out of things")
    assert "out of things" in caught.value.detail
    with pytest.raises(LabBroken, match="asking"), engine_errors("asking"):
        raise ConnectionRefusedError("gone")


ENABLED = """enabled
interpreter /usr/libexec/qemu-binfmt/aarch64-binfmt-P
flags: POF
offset 0
magic 7f454c460201010000000000000000000200b700
mask ffffffffffffff00fffffffffffffffffeffffff
"""


def test_a_handler_serves_its_architecture_only() -> None:
    handler = binfmt.parse_handler(ENABLED)
    assert handler.serves(Arch.AARCH64)
    assert not handler.serves(Arch.X86_64)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("enabled", "disabled"),  # switched off
        ("POF", "PO"),  # its interpreter would have to be in the container
        ("7f454c46", "cafebabe"),  # not ELF
        ("b700", "2800"),  # 32-bit Arm
    ],
)
def test_a_handler_that_does_not_work_in_containers_does_not_count(old: str, new: str) -> None:
    assert not binfmt.parse_handler(ENABLED.replace(old, new, 1)).serves(Arch.AARCH64)


def test_handlers_are_read_from_the_mount(tmp_path: Path) -> None:
    (tmp_path / "register").write_text("")
    (tmp_path / "status").write_text("enabled\n")
    (tmp_path / "qemu-aarch64").write_text(ENABLED)
    assert binfmt.served(Arch.AARCH64, tmp_path)
    assert not binfmt.served(Arch.X86_64, tmp_path)
    assert binfmt.handlers(tmp_path / "absent") == []


@pytest.mark.parametrize(("arch", "machine"), [(Arch.AARCH64, r"\xb7"), (Arch.X86_64, r"\x3e")])
def test_our_own_registration_matches_the_architecture(tmp_path: Path, arch: Arch, machine: str) -> None:
    fields = binfmt.registration(arch, tmp_path).split(":")
    assert fields[1:4] == [f"qemu-{arch}", "M", ""]
    magic, mask = fields[4], fields[5]
    assert magic.count(r"\x") == mask.count(r"\x") == 20
    assert magic.endswith(machine + r"\x00")
    assert fields[6].endswith(arch.qemu_user)
    assert fields[7] == "F"


def test_the_distributions_registration_is_preferred_if_it_works_in_containers(tmp_path: Path) -> None:
    path = tmp_path / "qemu-aarch64.conf"
    path.write_text(":qemu-aarch64:M::magic:mask:/shipped:OPF\n")
    assert binfmt.registration(Arch.AARCH64, tmp_path) == ":qemu-aarch64:M::magic:mask:/shipped:OPF"
    path.write_text(":qemu-aarch64:M::magic:mask:/shipped:OP\n")
    assert "/shipped" not in binfmt.registration(Arch.AARCH64, tmp_path)
