"""What a raised cluster's scenarios answer for: every line of its daemons and every crash, from the first on."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.fixtures import raising
from cephlab.fixtures.raising import LabCluster
from cephlab.lab.base.alarms import HEARD
from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.ceph import memory
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.logs import Allowed, When
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.cluster.raising import make_mgr_pool, managers_serving
from tests.lab.ceph.test_log_lines import STAMP, FakeHost


@dataclass
class FakeDaemon:
    """A daemon that lives on a host and writes to two files there."""

    name: str
    host: FakeHost
    wanted: str = "running"
    process: None = None
    kind: str = "osd"

    @property
    def log(self) -> PurePosixPath:
        return self.host.directory / f"{self.name}.log"

    @property
    def output(self) -> PurePosixPath:
        return self.host.directory / f"{self.name}.out"

    def alive(self) -> bool:
        return True

    def says(self, text: str) -> None:
        path = str(self.log)
        self.host.files[path] = self.host.files.get(path, b"") + f"{STAMP} -1 {text}\n".encode()


@dataclass
class FakeCluster:
    """A healthy cluster of one daemon."""

    daemons: Mapping[str, FakeDaemon]
    hosts: Mapping[str, FakeHost]
    archs: dict[int, str] = field(default_factory=dict)
    run: Any = field(default_factory=lambda: SimpleNamespace(id="r0"))
    spec: Any = field(default_factory=lambda: SimpleNamespace(release="pacific"))
    used: int = 0
    tell: Any = None
    clean: bool = True
    waits: int = 0
    stores: str = ""
    raised_from: str = ""
    commands: list[str] = field(default_factory=list)
    deployment: Any = field(default_factory=lambda: SimpleNamespace(options={}))

    @property
    def client(self) -> Any:
        return self

    def mon(self, prefix: str) -> Any:
        """What Ceph knows of its daemons."""
        if prefix == "osd tree":
            return {"nodes": []}
        if prefix == "osd metadata":
            return [{"id": osd, "arch": arch} for osd, arch in self.archs.items()]
        return [{"name": "n0", "arch": "x86_64"}]

    def mgr(self, _prefix: str) -> Any:
        """Of `osd df`; used: KiB of osd.0."""
        return {"nodes": [{"id": 0, "kb_used": self.used}]}

    def command(self, target: str, prefix: str, heapcmd: str) -> None:
        self.commands.append(f"{target} {prefix} {heapcmd}")

    def wait_healthy(self, timeout_s: float = 0) -> Any:
        self.waits += 1
        self.clean = True
        return self.status()

    def status(self) -> Any:
        return SimpleNamespace(ok=True, clean=self.clean, all_up=True)


@dataclass
class Stand:
    """A raised cluster, and what crashes there."""

    raised: LabCluster
    daemon: FakeDaemon
    crashed: list[str] = field(default_factory=list)

    def left(self) -> tuple[list[str], list[str]]:
        """One scenario that does nothing: the lines and crashes that it answers for."""
        aftermath = self.raised.aftermath(self.raised.before(), (), settle=True)
        return [complaint["text"] for complaint in aftermath["complaints"]], aftermath["crashes"]


@pytest.fixture
def stand(monkeypatch: pytest.MonkeyPatch) -> Stand:
    host = FakeHost()
    daemon = FakeDaemon("osd.0", host)
    cluster = cast("OwnCluster", FakeCluster({"osd.0": daemon}, {"n0": host}))
    made = Stand(LabCluster(cluster, {"raise_s": None}, ExitStack(), 0.0), daemon)
    records = lambda _host: [{"crash_id": crash_id, "entity_name": "osd.0"} for crash_id in made.crashed]  # noqa: E731
    monkeypatch.setattr(raising, "crash_records", records)
    monkeypatch.setattr(raising, "look_at_kernels", lambda *_: {})
    monkeypatch.setattr(raising, "crash_cause", lambda record: str(record["crash_id"]))
    return made


def test_the_first_scenario_answers_for_how_the_cluster_was_made(stand: Stand) -> None:
    stand.daemon.says("mkfs failed twice")
    stand.crashed.append("at-boot")
    assert stand.left() == (["mkfs failed twice"], ["osd.0: at-boot"])
    assert stand.left() == ([], [])


DOWN = Allowed(pattern="1 osds down", reason="somebody stopped it", when=When.AFTER_STOP)


@pytest.mark.parametrize(("raised_from", "early"), [("", ["1 osds down"]), ("the stores of one like it", [])])
def test_only_while_it_came_up_from_stores_daemons_count_as_stopped(
    stand: Stand, raised_from: str, early: list[str]
) -> None:
    cast("FakeCluster", stand.raised.cluster).raised_from = raised_from
    stand.daemon.says("1 osds down")
    stand.daemon.says("a wrong checksum") if raised_from else None
    stand.raised.wait_healthy()
    before = stand.raised.before()
    told = stand.raised.aftermath(before, (DOWN,), settle=True)
    assert [line["text"] for line in told["complaints"]] == early + (["a wrong checksum"] if raised_from else [])
    assert told["allowed"] == ({} if early else {DOWN.reason: 1})
    before = stand.raised.before()
    stand.daemon.says("1 osds down")
    later = stand.raised.aftermath(before, (DOWN,), settle=True)
    assert [line["text"] for line in later["complaints"]] == ["1 osds down"]


@pytest.mark.parametrize(
    "line",
    [
        "Health check failed: 3 osds down (OSD_DOWN)",
        "Health detail: HEALTH_WARN 3 osds down; 3 hosts (3 osds) down; 1 root (3 osds) down",
        "[WRN] OSD_ROOT_DOWN: 1 root (3 osds) down",
        "    host n1 (root=default) (1 osds) is down",
    ],
)
@pytest.mark.parametrize("raised_from", ["", "the stores of one like it"])
def test_what_monitors_tell_of_health_on_the_way_up_from_stores_is_no_complaint(
    stand: Stand, raised_from: str, line: str
) -> None:
    cast("FakeCluster", stand.raised.cluster).raised_from = raised_from
    stand.daemon.says(f"log_channel(cluster) log [WRN] : {line}")
    stand.raised.wait_healthy()
    assert bool(stand.left()[0]) is not bool(raised_from)
    stand.daemon.says(f"log_channel(cluster) log [WRN] : {line}")
    assert stand.left()[0] == [f"log_channel(cluster) log [WRN] : {line}"]


@dataclass
class Managed:
    """A cluster with one manager, which names its metrics at the third look if `serves`, and never otherwise."""

    enabled: bool = True
    serves: bool = True
    patience: float = 0.01
    process: Any = field(default_factory=lambda: SimpleNamespace(ref={"pid": 7}))
    asked: list[str] = field(default_factory=list)

    @property
    def client(self) -> Any:
        return self

    @property
    def daemons(self) -> Any:
        return {"mgr.n0": SimpleNamespace(kind="mgr", host=SimpleNamespace(name="n0"), process=self.process)}

    def mon(self, prefix: str) -> Any:
        self.asked.append(prefix)
        if prefix == "mgr module ls":
            return {"enabled_modules": ["prometheus"] if self.enabled else []}
        return {"prometheus": "http://n0:9283/"} if self.serves and self.asked.count(prefix) >= 3 else {}


def test_a_scenario_begins_once_the_manager_serves_its_metrics() -> None:
    cluster = Managed(patience=1)
    known = managers_serving(cast("Cluster", cluster))
    assert cluster.asked == ["mgr module ls", *["mgr services"] * 3]
    assert managers_serving(cast("Cluster", cluster), known) == known
    assert len(cluster.asked) == 4, "a manager that served once is not waited for again"
    cluster.process = SimpleNamespace(ref={"pid": 8})
    assert managers_serving(cast("Cluster", cluster), known) != known
    assert len(cluster.asked) > 4


@pytest.mark.parametrize(("enabled", "asked"), [(False, {"mgr module ls"}), (True, {"mgr module ls", "mgr services"})])
def test_a_manager_that_never_serves_metrics_holds_nothing_up(*, enabled: bool, asked: set[str]) -> None:
    cluster = Managed(enabled, serves=False)
    managers_serving(cast("Cluster", cluster))
    assert set(cluster.asked) == asked


def test_a_daemon_of_another_architecture_than_its_machine_is_named(stand: Stand) -> None:
    cluster = cast("FakeCluster", stand.raised.cluster)
    for arch, said in (
        ("x86_64", []),
        ("aarch64", ["osd.0 reports that it runs as aarch64, on an x86_64 machine"]),
    ):
        cluster.archs = {0: arch, 7: "riscv64"}
        assert stand.raised.aftermath(stand.raised.before(), (), settle=True)["strangers"] == said


def test_a_cluster_that_has_just_been_seen_healthy_is_asked_once_more_and_not_waited_for(stand: Stand) -> None:
    cluster = cast("FakeCluster", stand.raised.cluster)
    stand.raised.wait_healthy()
    assert (cluster.waits, stand.raised.facts["raise_s"] is not None) == (1, True)
    stand.left()
    stand.raised.wait_healthy()
    assert cluster.waits == 2  # that of the look around the scenario
    cluster.clean = False
    stand.raised.wait_healthy()
    assert cluster.waits == 3
    stand.left()
    stand.raised.before()  # the next scenario has begun
    stand.raised.wait_healthy()
    assert cluster.waits == 5


def test_what_did_not_end_well_is_waited_for(stand: Stand) -> None:
    cluster = cast("FakeCluster", stand.raised.cluster)
    stand.raised.aftermath(stand.raised.before(), (), settle=False)
    assert cluster.waits == 0
    stand.raised.wait_healthy()
    assert cluster.waits == 1


def test_what_a_disk_took_meanwhile_is_told(stand: Stand) -> None:
    cluster, before = cast("FakeCluster", stand.raised.cluster), stand.raised.before()
    cluster.used = 3
    assert stand.raised.aftermath(before, (), settle=True)["held"] == {"osd.0": {"stored": [0, 3072]}}
    cluster.mgr = no_answer  # type: ignore[method-assign]
    assert stand.raised.aftermath(stand.raised.before(), (), settle=True)["held"] == {}


def test_an_osd_that_grew_gives_back_what_it_does_not_use_and_tells_its_caches(
    stand: Stand, monkeypatch: pytest.MonkeyPatch
) -> None:
    """tcmalloc keeps what large writes took while they were in flight, which is no growth of the OSD."""
    cluster = cast("FakeCluster", stand.raised.cluster)
    cluster.tell = lambda *_: {"mempool": {"by_pool": {"data": {"bytes": 7}, "meta": {"bytes": 3}}}}
    for more, wanted in ((0, 0), (1, 1)):
        sizes = [5, 5 + raising.CACHES_BYTES + more]
        cluster.commands.clear()
        monkeypatch.setattr(memory, "grown", lambda *_, sizes=sizes: {"osd.0": {"resident": used(cluster, sizes)}})
        told = stand.raised.aftermath(stand.raised.before(), (), settle=True)["held"]["osd.0"]
        assert cluster.commands == ["osd.0 heap release"] * wanted
        cached = {"cached": [0, 10]} if wanted else {}
        assert told == {"resident": used(cluster, sizes), **cached, "stored": [0, 0]}


def used(cluster: FakeCluster, sizes: Sequence[int]) -> list[int]:
    """Memory before, and now: 9 bytes once the OSD was told to give back the rest."""
    return [sizes[0], 9 if cluster.commands else sizes[1]]


def test_an_osd_with_another_allocator_tells_its_caches_all_the_same(stand: Stand) -> None:
    cluster = cast("FakeCluster", stand.raised.cluster)
    cluster.tell = lambda *_: {"mempool": {"by_pool": {"data": {"bytes": 7}}}}
    cluster.command = no_answer  # type: ignore[method-assign]
    assert memory.settled(cast("RadosClient", cluster), "osd.0") == 7
    cluster.tell = no_answer
    assert memory.settled(cast("RadosClient", cluster), "osd.0") == 0


def no_answer(*_asked: str, **_options: str) -> Any:
    raise CephTrouble("no manager answers")


def test_a_command_that_broke_is_answered_for_once(stand: Stand) -> None:
    before = stand.raised.before()
    HEARD.listen(["/usr/bin/rados", "ls"], "free(): invalid pointer")
    left = stand.raised.aftermath(before, (), settle=True)
    assert left["complaints"] == [{"daemon": "rados", "level": "tool", "text": "free(): invalid pointer"}]
    assert stand.left() == ([], [])


def test_what_is_said_between_two_scenarios_is_the_laters(stand: Stand) -> None:
    assert stand.left() == ([], [])
    stand.daemon.says("in between")
    stand.crashed.append("in-between")
    assert stand.left() == (["in between"], ["osd.0: in-between"])


def test_a_node_that_is_down_takes_back_nothing_that_was_answered_for(stand: Stand) -> None:
    stand.daemon.says("first")
    assert stand.left()[0] == ["first"]
    stand.daemon.host.alive = False
    assert stand.left()[0] == []
    stand.daemon.host.alive = True
    stand.daemon.says("second")
    assert stand.left()[0] == ["second"]


def test_a_daemon_that_moved_is_heard_at_both_places_once(stand: Stand) -> None:
    stand.daemon.says("at home")
    assert stand.left()[0] == ["at home"]
    home, away = stand.daemon.host, FakeHost("n1", PurePosixPath("/n1"))
    stand.daemon.says("leaving")
    stand.daemon.host = away
    stand.daemon.says("arrived")
    assert sorted(stand.left()[0]) == ["arrived", "leaving"]
    assert home.files
    assert stand.left()[0] == []


@pytest.mark.parametrize(
    ("release", "osds", "options", "pools"),
    [
        ("reef", 3, {"osd_pool_default_size": "3"}, ["osd pool create .mgr", "osd pool application enable .mgr"]),
        ("quincy", 3, {}, ["osd pool create .mgr", "osd pool application enable .mgr"]),
        ("reef", 2, {"osd_pool_default_size": "3"}, []),
        ("pacific", 3, {"osd_pool_default_size": "3"}, []),
        ("", 3, {"osd_pool_default_size": "3"}, []),
    ],
    ids=["enough OSDs", "Ceph's own number of copies", "too few OSDs", "an older release", "an unknown release"],
)
def test_the_managers_pool_is_made_where_a_manager_would_make_it(
    release: str, osds: int, options: dict[str, str], pools: list[str]
) -> None:
    said: list[str] = []
    waited: list[str] = []
    cluster = SimpleNamespace(
        spec=SimpleNamespace(release=release),
        wait=lambda _ready, what, timeout_s: waited.append(f"{what} {timeout_s:g}"),
        up_osds=lambda: list(range(osds)),
        deployment=SimpleNamespace(options=options),
        client=SimpleNamespace(mon=lambda command, pool, **_: said.append(f"{command} {pool}")),
    )
    make_mgr_pool(cast("Any", cluster), 60.0)
    assert said == pools
    assert not pools or waited == ["every OSD up 60"]
