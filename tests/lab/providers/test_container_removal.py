"""Taking a run out of an engine that fails here and there."""

import io
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

import docker
import docker.errors
import pytest
import requests

from cephlab.lab.base.errors import CleanupFailed, LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import RunId
from cephlab.lab.providers.container import files
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.execs import ContainerRef
from cephlab.lab.providers.container.provider import ContainerProvider
from cephlab.lab.providers.container.removal import ContainerRemoval, runs_present

HOME = Home(Path("/home/of/runs"))
OURS = {"Labels": {"cephlab.run": "mine", "cephlab.home": str(HOME.path)}}

# Podman 4.3 lists volumes that have any one of the labels asked for.
NOT_OURS = (
    {"Labels": {"cephlab.run": "another", "cephlab.home": str(HOME.path)}},
    {"Labels": {"cephlab.run": "mine", "cephlab.home": "/another/home"}},
    {"Labels": None},
)


def refusal(status: int) -> docker.errors.APIError:
    response = requests.Response()
    response.status_code = status
    kind = docker.errors.NotFound if status == 404 else docker.errors.APIError
    return kind("refused", response=response, explanation="device or resource busy")


@dataclass
class FakeApi:
    """An engine's calls as far as removal uses them; it lists things of other runs and homes as well."""

    fails: dict[str, int] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    closed: bool = False

    def _check(self, filters: dict[str, Any]) -> None:
        assert filters == {"label": ["cephlab.run=mine", f"cephlab.home={HOME.path}"]}

    def containers(self, *, filters: dict[str, Any], **options: bool) -> list[dict[str, Any]]:
        assert options == {"all": True}
        self._check(filters)
        strange = [{"Names": ["/strange"], **labels} for labels in NOT_OURS]
        return [{"Names": ["/cephlab-mine.n0"], **OURS}, {"Names": ["/cephlab-mine.n1"], **OURS}, *strange]

    def networks(self, *, filters: dict[str, Any]) -> list[dict[str, Any]]:
        self._check(filters)
        return [{"Name": "cephlab-mine", **OURS}, *({"Name": "strange", **labels} for labels in NOT_OURS)]

    def volumes(self, *, filters: dict[str, Any]) -> dict[str, Any]:
        self._check(filters)
        strange = [{"Name": "strange", "Mountpoint": "/nowhere", **labels} for labels in NOT_OURS]
        return {"Volumes": [*strange, {"Name": "cephlab-mine.disks", "Mountpoint": "/nowhere", **OURS}]}

    def _remove(self, name: str) -> None:
        self.calls.append(name)
        if name in self.fails:
            raise refusal(self.fails[name])

    def remove_container(self, name: str, *, force: bool, v: bool) -> None:
        assert force
        assert v
        self._remove(name)

    def remove_network(self, name: str) -> None:
        self._remove(name)

    def remove_volume(self, name: str, *, force: bool) -> None:
        assert force
        self._remove(name)


@dataclass
class FakeClient:
    """The library's client around the fake calls."""

    api: FakeApi

    def info(self) -> dict[str, Any]:
        return {"KernelVersion": "of another machine", "Architecture": "x86_64"}

    def close(self) -> None:
        self.api.closed = True


def engine(api: FakeApi) -> Engine:
    return Engine("unix:///fake.sock", {}, cast("docker.DockerClient", FakeClient(api)))


def test_everything_with_the_labels_goes_containers_first() -> None:
    api = FakeApi()
    removal = ContainerRemoval(engine(api), HOME, "mine")
    removal.sweep()
    assert set(api.calls[:2]) == {"cephlab-mine.n0", "cephlab-mine.n1"}
    assert api.calls[2:] == ["cephlab-mine", "cephlab-mine.disks"]
    assert removal.clean_up.errors == []
    assert len(removal.removed) == 4


def test_it_goes_on_after_an_error_and_tells_every_one() -> None:
    api = FakeApi(fails={"cephlab-mine.n0": 500, "cephlab-mine": 409})
    removal = ContainerRemoval(engine(api), HOME, "mine")
    removal.sweep()
    assert len(api.calls) == 4
    assert sorted(removal.removed) == ["container cephlab-mine.n1", "volume cephlab-mine.disks"]
    assert len(removal.clean_up.errors) == 2
    assert all("busy" in error for error in removal.clean_up.errors)


def test_what_somebody_else_removed_meanwhile_is_no_error() -> None:
    removal = ContainerRemoval(engine(FakeApi(fails={"cephlab-mine.n1": 404})), HOME, "mine")
    removal.sweep()
    assert removal.clean_up.errors == []
    assert "container cephlab-mine.n1" not in removal.removed


class LabelledApi:
    """What two homes have in one engine: the filter that a query must carry, and its answers."""

    def _answer(self, filters: dict[str, Any], *runs: str) -> list[dict[str, Any]]:
        assert filters == {"label": [f"cephlab.home={HOME.path}"]}
        ours = {"cephlab.home": str(HOME.path)}
        return [{"Labels": {"cephlab.run": run, **ours}} for run in runs] + [{"Labels": ours}]

    def containers(self, *, filters: dict[str, Any], **options: bool) -> list[dict[str, Any]]:
        assert options == {"all": True}
        return self._answer(filters, "one", "one")

    def networks(self, *, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return self._answer(filters, "two")

    def volumes(self, *, filters: dict[str, Any]) -> dict[str, Any]:
        return {"Volumes": self._answer(filters, "three")}


def test_runs_with_anything_in_the_engine_are_found() -> None:
    fake = cast("FakeApi", LabelledApi())
    assert runs_present(engine(fake), HOME) == {"one", "two", "three"}


def test_pruning_reports_what_is_left_and_lets_the_engine_go() -> None:
    api = FakeApi(fails={"cephlab-mine.disks": 409})
    with pytest.raises(CleanupFailed, match=r"cephlab-mine\.disks"):
        ContainerProvider(find=lambda: engine(api)).prune(HOME, RunId("mine"))
    assert api.closed


class ArchiveApi:
    """The archive calls, over one regular file and links to it."""

    def __init__(self, content: bytes) -> None:
        self.content = content
        self.links = {"/a/link": "target", "/loop": "/loop"}

    def get_archive(self, container: str, path: str, *, chunk_size: int) -> tuple[Iterator[bytes], dict[str, Any]]:
        assert container == "c"
        assert chunk_size > 0
        if path in self.links:
            return iter([b"never read"]), {"mode": 1 << 27, "linkTarget": self.links[path]}
        if path == "/a":
            return iter([b"never read"]), {"mode": 1 << 31 | 0o755, "linkTarget": ""}
        if path != "/a/target":
            raise refusal(404)
        sink = io.BytesIO()
        with tarfile.open(fileobj=sink, mode="w") as archive:
            info = tarfile.TarInfo("target")
            info.size = len(self.content)
            archive.addfile(info, io.BytesIO(self.content))
        raw = sink.getvalue()
        return iter([raw[at : at + 1000] for at in range(0, len(raw), 1000)]), {"mode": 0o644, "linkTarget": ""}

    def put_archive(self, container: str, path: str, data: Iterator[bytes]) -> bool:
        assert (container, path) == ("c", "/")
        with tarfile.open(fileobj=io.BytesIO(b"".join(data))) as archive:
            (member,) = archive.getmembers()
            content = archive.extractfile(member)
            assert content is not None
            self.put = (member.name, member.mode, content.read())
        return True


@dataclass
class ArchiveClient:
    """The library's client around the archive calls."""

    api: ArchiveApi


def node(api: ArchiveApi) -> ContainerRef:
    return ContainerRef(cast("docker.DockerClient", ArchiveClient(api)), "c", "n0", local=False)


@pytest.mark.parametrize("path", ["/a/target", "/a/link"])
@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 5000])
def test_a_file_is_read_through_links(path: str, size: int) -> None:
    sink = io.BytesIO()
    files.get(node(ArchiveApi(b"x" * size)), PurePosixPath(path), sink)
    assert sink.getvalue() == b"x" * size


@pytest.mark.parametrize("path", ["/loop", "/a", "/missing"])
def test_what_is_no_file_is_named(path: str) -> None:
    with pytest.raises(LabBroken, match=f"{path}.*n0"):
        files.get(node(ArchiveApi(b"")), PurePosixPath(path), io.BytesIO())


@pytest.mark.parametrize("size", [0, 1, 512, 3000])
def test_a_file_is_written_as_one_member(size: int) -> None:
    api = ArchiveApi(b"")
    files.put(node(api), b"y" * size, PurePosixPath("/deep/er/file"), 0o600)
    assert api.put == ("deep/er/file", 0o600, b"y" * size)
