"""The container engine: where its socket is, whether it answers, what it can do, and what its errors mean."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import docker
import docker.errors
import requests.exceptions
import urllib3.exceptions

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.providers.base import Silent, nobody_listens
from cephlab.lab.providers.engine.answers import NoSocket, NotThere, refuse_socket
from cephlab.lab.spec.arch import Arch, parse_arch

_PATIENCE_S = 10.0  # systemd starts Podman at the first call: more than 3 s in an emulated machine
_ANSWER_S = 10  # an engine may answer a ping and then hang when asked about its containers
_CALL_TIMEOUT_S = 300  # loading an image is one call
_POOL = 32  # calls at once: every node's daemons start in parallel
_START_IT = "start one (as root: ci/engine, or `systemctl start docker`), or set DOCKER_HOST, or use --lab local"
ENGINE_ERRORS = (
    docker.errors.DockerException,
    requests.exceptions.RequestException,
    urllib3.exceptions.HTTPError,  # of an answer that the library reads as a stream
    OSError,
)
"""What the docker library raises."""


def candidates(environment: Mapping[str, str], uid: int) -> list[str]:
    """Endpoints to try: only DOCKER_HOST if it is set; else Docker's sockets, then Podman's."""
    chosen = environment.get("DOCKER_HOST")
    if chosen:
        return [chosen]
    runtime = environment.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    return [
        "unix:///var/run/docker.sock",
        f"unix://{runtime}/docker.sock",
        f"unix://{runtime}/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]


def find_engine(environment: Mapping[str, str] = os.environ) -> Engine:
    """The first engine that answers. Unavailable says in one sentence why no engine answers, and what to do."""
    tried = []
    for endpoint in candidates(environment, os.getuid()):
        try:
            return connect(endpoint, environment)
        except Unavailable as reason:
            tried.append(reason)
    present = [reason for reason in tried if not isinstance(reason, NoSocket)]
    if present:
        raise next((reason for reason in present if isinstance(reason, Silent)), present[0])
    raise Unavailable("no container engine is running", "; ".join(reason.detail for reason in tried), _START_IT)


def connect(endpoint: str, environment: Mapping[str, str] = os.environ, *, patience_s: float = _PATIENCE_S) -> Engine:
    """The engine at an endpoint. Unavailable when it is absent or forbidden, Silent after patience_s seconds."""
    path = Path(endpoint.removeprefix("unix://")) if endpoint.startswith("unix://") else None
    if path is not None:
        absent = f"there is no container engine at {path}"
        refuse_socket(path, "container engine", absent, group="docker", start_it=_START_IT)
    settings = {**environment, "DOCKER_HOST": endpoint}
    try:
        if path is not None:
            _probe_socket(path, patience_s)
        _ping(settings, patience_s)
        client = docker.DockerClient.from_env(environment=settings, timeout=_CALL_TIMEOUT_S, max_pool_size=_POOL)
    except ENGINE_ERRORS as error:
        kind = Unavailable if nobody_listens(error) else Silent
        raise kind(f"the container engine at {endpoint} does not answer", str(error), _START_IT) from error
    return Engine(endpoint, settings, client)


def _probe_socket(path: Path, patience_s: float) -> None:
    # The docker library leaves its socket open when the connection is refused or not answered.
    with socket.socket(socket.AF_UNIX) as knock:
        knock.settimeout(patience_s)
        knock.connect(str(path))
        knock.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
        knock.recv(1)


def _ping(settings: dict[str, str], patience_s: float) -> None:
    options: Any = {"environment": settings, "timeout": patience_s}  # the library's annotation lacks fractions
    probe = docker.DockerClient.from_env(**options)
    try:
        probe.ping()
    finally:
        probe.close()


@contextmanager
def engine_errors(doing: str) -> Iterator[None]:
    """Turn errors of the docker library into LabBroken, or NotThere, with what was being done."""
    try:
        yield
    except docker.errors.APIError as error:
        kind = NotThere if isinstance(error, docker.errors.NotFound) else LabBroken
        raise kind(f"the engine failed while {doing}", str(error.explanation or error)) from error
    except ENGINE_ERRORS as error:
        raise LabBroken(f"the engine failed while {doing}", str(error), "is the engine still running?") from error


@dataclass(frozen=True)
class Engine:
    """An engine that answered. settings: the environment that the docker library connects with."""

    endpoint: str
    settings: Mapping[str, str]
    client: docker.DockerClient

    @cached_property
    def info(self) -> dict[str, Any]:
        with engine_errors("asking for its facts"):
            return dict(self.client.info())

    @cached_property
    def kind(self) -> str:
        """`docker` or `podman`; also the name of its command."""
        with engine_errors("asking for its version"):
            names = [str(part.get("Name", "")) for part in self.client.version().get("Components", [])]
        return "podman" if any("podman" in name.lower() for name in names) else "docker"

    @property
    def arch(self) -> Arch:
        return parse_arch(str(self.info["Architecture"]))

    @property
    def local(self) -> bool:
        """Whether the engine runs on this kernel, so that its processes are in our /proc."""
        return (
            self.endpoint.startswith("unix://")
            and self.info.get("KernelVersion") == platform.release()
            and (self.info.get("Name") == socket.gethostname())
        )

    @property
    def rootless(self) -> bool:
        """Whether it runs as an ordinary user. Docker lists that as an option, Podman has a field for it."""
        options = self.info.get("SecurityOptions") or []
        return bool(self.info.get("Rootless")) or any("rootless" in option for option in options)

    @property
    def limits_machines(self) -> bool:
        """Whether it may limit CPU and memory. Podman claims so even if version 1 of cgroups forbids it."""
        return not (self.rootless and str(self.info.get("CgroupVersion")) == "1")

    @property
    def root_directory(self) -> Path:
        """The folder of the engine's volumes, on the engine's machine."""
        return Path(str(self.info.get("DockerRootDir") or "/var/lib/docker"))

    @contextmanager
    def asked(self) -> Iterator[None]:
        """Inside the block, every call has a short timeout."""
        self.client.api.timeout = _ANSWER_S
        try:
            yield
        finally:
            self.client.api.timeout = _CALL_TIMEOUT_S

    def close(self) -> None:
        self.client.close()
