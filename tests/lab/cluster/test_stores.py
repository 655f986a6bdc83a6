"""Kept stores: which cluster they can become, how long they stay, and that nothing half-copied is found."""

import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import CephTrouble, LabBroken, NotReached
from cephlab.lab.base.home import Home
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.conf import STARTING_OSD_OPTIONS
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.deploy import stores
from cephlab.lab.cluster.deploy.stores import LIFE_S, MOST, Restorer, Shelf, name_of, standing_still, unfit
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.cluster.raising import first_healthy, name_of_stores
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import ClusterSpec

SPEC = Topology(native=1, foreign=1).spec("reef")
NAME = "a" * 32


@pytest.fixture
def shelf(tmp_path: Path) -> Shelf:
    return Shelf(Home(tmp_path))


def put(shelf: Shelf, name: str = NAME, *, age_s: float = 0.0) -> Path:
    def fill(folder: Path) -> Mapping[str, Any]:
        (folder / "n0").mkdir()
        return {"fsid": f"of {name}", "release": 18}

    shelf.put(name, fill)
    folder = shelf.folder / name
    record = folder / "stores.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"made_at": time.time() - age_s}))
    return folder


def test_kept_stores_are_found_under_their_name_only(shelf: Shelf) -> None:
    assert shelf.find(NAME) is None
    folder = put(shelf)
    kept = shelf.find(NAME)
    assert kept is not None
    assert (kept.folder, kept.fsid, kept.release) == (folder, f"of {NAME}", 18)
    assert shelf.find("b" * 32) is None
    assert shelf.folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("age_s", [LIFE_S + 1, -60.0])
def test_stores_that_are_too_old_or_of_the_future_are_not_used(shelf: Shelf, age_s: float, tmp_path: Path) -> None:
    put(shelf, age_s=age_s)
    assert shelf.find(NAME) is None
    assert shelf.take(NAME, tmp_path / "own") is None
    assert not (tmp_path / "own").exists()


def test_what_is_taken_stays_when_the_kept_ones_go(shelf: Shelf, tmp_path: Path) -> None:
    put(shelf)
    own = shelf.take(NAME, tmp_path / "own")
    assert own is not None
    assert shelf.thin(0) == [NAME]
    assert own == replace(own, folder=tmp_path / "own", fsid=f"of {NAME}")
    assert (own.folder / "n0").is_dir()


@pytest.mark.parametrize("record", ["", "[]", "{}", '{"fsid": "x", "release": "old", "made_at": 1}'])
def test_stores_without_a_whole_record_are_not_used(shelf: Shelf, record: str) -> None:
    (put(shelf) / "stores.json").write_text(record)
    assert shelf.find(NAME) is None


def test_a_copy_that_fails_leaves_nothing_and_the_earlier_one_alone(shelf: Shelf) -> None:
    put(shelf)

    def fill(folder: Path) -> Mapping[str, Any]:
        (folder / "half").write_text("")
        raise LabBroken("the disk is full")

    with pytest.raises(LabBroken):
        shelf.put(NAME, fill)
    assert shelf.find(NAME) is not None
    assert not list(shelf.folder.rglob("half"))


def test_the_oldest_go_first_and_so_does_what_a_killed_process_left(shelf: Shelf) -> None:
    for name, age_s in (("old", 120.0), ("new", 0.0), ("older", 180.0)):
        put(shelf, name, age_s=age_s)
    (shelf.folder / ".scratch-1").mkdir()
    assert shelf.thin() == []
    assert not (shelf.folder / ".scratch-1").exists()
    assert shelf.thin(1) == ["old", "older"]
    assert shelf.thin(0) == ["new"]


def test_no_more_than_so_many_are_kept(shelf: Shelf) -> None:
    for number in range(MOST + 2):
        put(shelf, f"{number}", age_s=60.0 * number)
    assert len(list(shelf.folder.glob("[!.]*"))) == MOST
    assert shelf.find("0") is not None


def test_a_home_without_stores_has_none_to_remove_and_is_not_written(shelf: Shelf, tmp_path: Path) -> None:
    assert shelf.thin() == []
    assert shelf.take(NAME, tmp_path / "own") is None
    assert not shelf.folder.exists()


def test_stores_of_another_user_are_not_this_users(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, me = put(shelf), os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert shelf.thin(0) == []
    assert folder.is_dir()


def test_stores_of_what_does_not_run_are_removed_and_the_error_says_so(shelf: Shelf) -> None:
    put(shelf)
    with pytest.raises(LabBroken) as caught, shelf.doubting(NAME):
        raise CephTrouble("osd.0 has died", "its last line")
    assert shelf.find(NAME) is None
    assert "built from scratch" in caught.value.hint
    assert "osd.0 has died\nits last line" in caught.value.detail


def test_stores_stay_where_the_machine_is_to_blame(shelf: Shelf) -> None:
    put(shelf)
    with pytest.raises(LabBroken, match="no memory"), shelf.doubting(NAME):
        raise LabBroken("there is no memory left")
    assert shelf.find(NAME) is not None


# Which clusters


def images(key: str = "0") -> Images:
    return {arch: Image("reef", arch, f"{arch}{key}", Path("/image"), {}) for arch in Arch}


OPTIONS = {"osd_pool_default_size": "2"}


@pytest.mark.parametrize(
    ("provider", "spec", "key", "options"),
    [
        ("container", SPEC, "0", OPTIONS),
        ("local", Topology(native=2, foreign=0).spec("reef"), "0", OPTIONS),
        ("local", SPEC, "1", OPTIONS),
        ("local", SPEC, "0", {"osd_pool_default_size": "3"}),
    ],
)
def test_another_provider_spec_image_or_option_takes_other_stores(
    provider: str, spec: ClusterSpec, key: str, options: Mapping[str, str]
) -> None:
    name = name_of("local", SPEC, images(), OPTIONS)
    assert name == name_of("local", SPEC, images(), dict(OPTIONS))
    assert name != name_of(provider, spec, images(key), options)


def hosts(*, here: bool = True) -> list[Host]:
    return [cast("Host", SimpleNamespace(files_here=here))]


def test_only_what_is_all_in_files_of_this_machine_comes_from_stores() -> None:
    first, *rest = SPEC.nodes
    assert unfit(SPEC, hosts()) == ""
    assert "no files" not in unfit(SPEC, hosts())
    assert "not on this machine" in unfit(SPEC, hosts(here=False))
    assert "not on this machine" in unfit(SPEC, [cast("Host", object())])
    assert "pulled" in unfit(replace(SPEC, image="ceph:v18"), hosts())
    assert "beyond the core" in unfit(replace(SPEC, nodes=(replace(first, services=("rgw",)), *rest)), hosts())
    memory = tuple(replace(disk, in_memory=True) for disk in first.disks)
    assert "in memory" in unfit(replace(SPEC, nodes=(replace(first, disks=memory), *rest)), hosts())


@pytest.mark.parametrize("here", [True, False])
def test_a_cluster_that_cannot_come_from_stores_says_why(*, here: bool) -> None:
    lines: list[str] = []
    cluster = SimpleNamespace(
        spec=SPEC,
        hosts=dict(enumerate(hosts(here=here))),
        provider=SimpleNamespace(name="local"),
        deployment=SimpleNamespace(options=OPTIONS),
        deployer=SimpleNamespace(progress=lines.append),
    )
    name = name_of_stores(cast("OwnCluster", cluster), images())
    assert name == (name_of("local", SPEC, images(), OPTIONS) if here else "")
    reason = "the cluster is built from scratch, not from kept stores: the files of its nodes are not on this machine"
    assert lines == ([] if here else [reason])


# While they are copied


@dataclass
class FakeDaemon:
    kind: str
    said: list[str]
    fails: bool = False

    def pause(self) -> None:
        self.said.append(f"pause {self.kind}")
        if self.fails:
            raise LabBroken(f"{self.kind} was never started")

    def resume(self) -> None:
        self.said.append(f"resume {self.kind}")

    @property
    def name(self) -> str:
        return self.kind


@pytest.fixture(autouse=True)
def all_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "stopped", lambda _daemon: True)


def test_monitors_stand_still_last_and_go_on_first() -> None:
    said: list[str] = []
    with standing_still(
        cast("list[Daemon]", [FakeDaemon(kind, said) for kind in ("mon", "osd", "mgr")]), Deadline.after(60.0)
    ):
        said.append("copy")
    assert said == ["pause osd", "pause mgr", "pause mon", "copy", "resume mon", "resume mgr", "resume osd"]


def test_daemons_go_on_when_one_cannot_be_held() -> None:
    said: list[str] = []
    daemons = [FakeDaemon("osd", said), FakeDaemon("mgr", said, fails=True), FakeDaemon("mon", said)]
    with pytest.raises(LabBroken), standing_still(cast("list[Daemon]", daemons), Deadline.after(60.0)):
        said.append("copy")
    assert said == ["pause osd", "pause mgr", "resume mgr", "resume osd"]


def test_nothing_is_copied_while_a_daemon_does_not_stand_still(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    monkeypatch.setattr(stores, "stopped", lambda daemon: daemon.kind == "osd")
    daemons = [FakeDaemon(kind, said) for kind in ("osd", "mon")]
    with pytest.raises(NotReached), standing_still(cast("list[Daemon]", daemons), Deadline.after(0.0)):
        said.append("copy")
    assert said == ["pause osd", "pause mon", "resume mon", "resume osd"]


# What their monitors still know


class Monitors:
    """Monitors that call two OSDs and three managers up, and promote a manager where the active one fails."""

    def __init__(self) -> None:
        self.up, self.managers = {0, 2}, ["n1", "n2", "n0"]
        self.said: list[str] = []

    def mon(self, prefix: str, *, ids: Sequence[str] = (), who: str = "") -> Any:
        if prefix in ("osd down", "mgr fail"):
            self.said.append(f"{prefix} {who or ' '.join(ids)}")
            self.up -= set(map(int, ids))
            self.managers = [name for name in self.managers if name != who]
        *standbys, active = self.managers or [""]
        return {
            "osds": [{"osd": number, "up": int(number in self.up)} for number in range(3)],
            "num_up_osds": len(self.up),
            "active_name": active,
            "standbys": [{"name": name} for name in standbys],
        }


def test_no_map_names_a_daemon_of_the_first_cluster_before_any_starts() -> None:
    monitors = Monitors()
    Restorer.forget_addresses(cast("Restorer", SimpleNamespace(patience=1.0)), cast("RadosClient", monitors))
    assert monitors.said == ["osd down 0 2", "mgr fail n1", "mgr fail n2", "mgr fail n0"]


# The first time that a cluster is healthy


@dataclass
class FakeCluster:
    run: Any
    stores: str = NAME
    raised_from: str = ""
    sick: bool = False
    waits: int = 0
    said: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    spec = SimpleNamespace(release="nautilus")

    def wait_healthy(self, _timeout_s: float) -> None:
        self.waits += 1
        if self.sick:
            raise CephTrouble("not healthy", "1 OSD is down")

    @property
    def deployer(self) -> Any:
        return SimpleNamespace(progress=self.said.append)

    def up_osds(self) -> list[int]:
        assert self.waits, "an OSD that starts closes its disk"
        return [0, 2]

    @property
    def client(self) -> Any:
        return SimpleNamespace(tell=lambda *words, **arguments: self.said.append(f"{words} {arguments}"))

    @property
    def deployment(self) -> Any:
        return SimpleNamespace(options=self.options)


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(SimpleNamespace(home=Home(tmp_path)))


def healthy(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    names: list[str] = []
    monkeypatch.setattr(stores, "keep", lambda _shelf, name, *_rest: names.append(name))
    first_healthy(cast("OwnCluster", cluster))
    return names


def test_a_cluster_with_new_stores_leaves_them(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    assert healthy(cluster, monkeypatch) == [NAME]
    assert cluster.waits == 2, "its daemons stood still in between"


@pytest.mark.parametrize(
    ("options", "told"), [(STARTING_OSD_OPTIONS, [0, 2]), ({"bdev_aio_poll_ms": "40"}, [])], ids=["ours", "a user's"]
)
def test_osds_that_started_wake_as_seldom_as_ceph_has_it(
    cluster: FakeCluster, options: dict[str, str], told: list[int]
) -> None:
    first_healthy(cast("OwnCluster", replace(cluster, stores="", options=options)))
    assert cluster.said == [
        f"('osd.{osd}', 'config set') {{'var': 'bdev_aio_poll_ms', 'val': ['250']}}" for osd in told
    ]


def test_one_that_came_from_stores_or_may_leave_none_does_not(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert healthy(replace(cluster, stores=""), monkeypatch) == []
    assert healthy(replace(cluster, raised_from="the stores of one like it"), monkeypatch) == []


def test_stores_that_cannot_be_copied_are_no_trouble_of_the_cluster(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(*_arguments: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(stores, "keep", keep)
    first_healthy(cast("OwnCluster", cluster))
    assert ["no space left" in line for line in cluster.said] == [True]


@pytest.mark.parametrize(("raised_from", "left"), [("", True), ("the stores of one like it", False)])
def test_a_cluster_that_does_not_become_healthy_takes_its_stores_along(
    cluster: FakeCluster, shelf: Shelf, raised_from: str, *, left: bool
) -> None:
    put(shelf)
    with pytest.raises(LabBroken if raised_from else CephTrouble):
        first_healthy(cast("OwnCluster", replace(cluster, raised_from=raised_from, sick=True)))
    assert (shelf.find(NAME) is not None) is left


def test_a_copy_that_takes_too_long_says_how_long_daemons_may_stand_still(tmp_path: Path) -> None:
    """On a busy machine nothing may be left of the time for the last of the copies."""
    (tmp_path / "osd.1").write_bytes(b"store")
    with pytest.raises(LabBroken) as caught:
        stores._copy(tmp_path / "osd.1", tmp_path / "kept" / "osd.1", Deadline.after(0.0))
    assert str(caught.value) == "copying takes longer than the 1.5 s for which daemons may stand still"
