"""The guard in front of a cluster that exists: whatever is not known to be harmless, or not on the list, is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.guarded import GuardedHost
from cephlab.lab.cluster.attach.permit import Permit, PermittedDisk
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.inventory import Inventory, Machine, Role

PERMIT = Permit(
    pools=frozenset({"mine"}),
    daemons=frozenset({"osd.3", "mon.b"}),
    hosts=frozenset({"client"}),
    disks=frozenset({PermittedDisk("client", "/dev/sdx")}),
    buckets=frozenset({"my-bucket"}),
)
EXISTING = Existing(pools=frozenset({"theirs", "rbd"}), profiles=frozenset({"old-profile"}), rules=frozenset({"old"}))


def guard(permit: Permit = PERMIT, existing: Existing = EXISTING) -> Guard:
    return Guard(permit, existing, lambda: {1: "theirs", 7: "mine"})


def mon(prefix: str, **arguments: Any) -> dict[str, Any]:
    return {"op": "command", "target": "mon", "command": {"prefix": prefix, **arguments}}


def tell(target: str, prefix: str, **arguments: str) -> dict[str, Any]:
    return {"op": "command", "target": target, "command": {"prefix": prefix, **arguments}}


READS = [
    {"op": "about"},
    {"op": "clock"},
    {"op": "forget_pool", "pool": "theirs"},
    {"op": "pgs", "pgids": ["1.0"]},
    mon("status", format="json"),
    *map(mon, ("df", "features", "fsid", "health", "quorum_status", "time-sync-status", "versions")),
    mon("osd dump"),
    mon("pg ls-by-pool", poolstr="theirs"),
    *(
        tell("osd.0", asked)
        for asked in ("perf dump", "flush_pg_stats", "dump_mempools", "get_mapped_pools", "version")
    ),
    *(tell("osd.0", asked) for asked in ("status", "dump_historic_ops", "dump_ops_in_flight", "dump_watchers")),
    tell("osd.0", "get_latest_osdmap"),
    *(tell("osd.0", "config get", var=option) for option in ("log_file", "log_to_file", "mon_data")),
    *(tell("mon.a", asked) for asked in ("mon_status", "quorum_status")),
    *(tell("pg:1.0", asked) for asked in ("query", "list_unfound")),
]

ON_THE_LIST = [
    mon("osd pool create", pool="mine", pg_num=8),
    mon("osd pool set", pool="mine", var="size", val="2"),
    mon("osd pool delete", pool="mine", pool2="mine"),
    mon("osd erasure-code-profile set", name="mine-profile"),
    mon("osd crush rule rm", name="mine"),
    mon("osd primary-affinity", id=3, weight=0.0),
    mon("osd out", ids=["3"]),
    mon("osd down", ids=["osd.3"]),
    mon("pg deep-scrub", pgid="7.1f"),
    tell("osd.3", "config set"),
    tell("mon.b", "injectargs"),
    tell("pg:7.0", "scrub"),
    {"op": "write_full", "pool": "mine", "name": "o", "data": ""},
    {"op": "rbd_create", "pool": "mine", "image": "i", "size": 1, "data_pool": None},
]

OFF_THE_LIST = [
    mon("osd pool create", pool="other"),
    mon("osd pool delete", pool="theirs", pool2="theirs"),
    mon("osd pool set", pool="rbd", var="size", val="1"),
    mon("osd pool rename", srcpool="mine", destpool="other"),
    mon("osd erasure-code-profile rm", name="old-profile"),
    mon("osd erasure-code-profile set", name="default"),
    mon("osd crush rule rm", name="old"),
    mon("osd primary-affinity", id=0, weight=0.0),
    mon("osd out", ids=["3", "4"]),
    mon("osd out", ids=["any"]),
    mon("osd out"),
    mon("osd out", ids=[]),
    mon("osd set", key="noout"),
    mon("osd purge", id=3),
    mon("osd new", uuid="x", id=3),
    mon("config set", who="osd", name="debug_osd", value="20"),
    mon("config dump"),
    mon("config-key get", key="x"),
    mon("auth get", entity="client.admin"),
    mon("auth get-or-create", entity="client.x"),
    mon("auth rm", entity="client.x"),
    mon("pg repair", pgid="1.0"),
    mon("pg repair", pgid="99.0"),
    mon("pg repair", pgid="x"),
    mon("mgr fail"),
    mon("osd  dump"),
    mon("Osd Dump"),
    mon(""),
    tell("osd.0", "config set"),
    tell("osd.0", "config set", var="log_file"),
    tell("osd.0", "config get", var="key"),
    tell("osd.33", "config set"),
    tell("mon.a", "injectargs"),
    tell("pg:1.0", "scrub"),
    tell("pg:7.0", "mark_unfound_lost"),
    {"op": "write_full", "pool": "theirs", "name": "o", "data": ""},
    {"op": "read", "pool": "theirs", "name": "o"},
    {"op": "rbd_create", "pool": "mine", "image": "i", "size": 1, "data_pool": "theirs"},
    {"op": "shutdown"},
    {},
]


def permits(by: Guard, request: Mapping[str, Any]) -> bool:
    try:
        by.request(request)
    except NotPermitted:
        return False
    return True


@pytest.mark.parametrize("request_", READS, ids=json.dumps)
def test_looking_is_permitted_without_a_list(request_: Mapping[str, Any]) -> None:
    assert permits(guard(Permit()), request_)


@pytest.mark.parametrize("request_", ON_THE_LIST, ids=json.dumps)
def test_what_is_on_the_list_is_permitted_and_nothing_else(request_: Mapping[str, Any]) -> None:
    assert permits(guard(), request_)
    assert not permits(guard(Permit()), request_)


@pytest.mark.parametrize("request_", OFF_THE_LIST, ids=json.dumps)
def test_what_is_not_on_the_list_is_refused(request_: Mapping[str, Any]) -> None:
    with pytest.raises(NotPermitted) as caught:
        guard().request(request_)
    assert "attached cluster" in caught.value.what
    assert isinstance(caught.value, Unavailable)


@pytest.mark.parametrize(
    "command",
    [
        "osd pool application enable",
        "osd pool mksnap",
        "osd pool rm",
        "osd pool rmsnap",
        "osd pool set",
        "osd pool set-quota",
    ],
)
def test_a_command_about_one_pool_is_permitted_by_that_pool(command: str) -> None:
    guard().request(mon(command, pool="mine"))
    with pytest.raises(NotPermitted, match="pool 'other' is not on the list"):
        guard().request(mon(command, pool="other"))


@pytest.mark.parametrize(
    ("command", "argument"),
    [
        ("osd crush reweight", "name"),
        ("osd deep-scrub", "who"),
        ("osd in", "ids"),
        ("osd repair", "who"),
        ("osd reweight", "id"),
        ("osd scrub", "who"),
    ],
)
def test_a_command_about_one_osd_is_permitted_by_that_osd(command: str, argument: str) -> None:
    guard().request(mon(command, **{argument: "osd.3"}))
    with pytest.raises(NotPermitted, match=r"of osd\.0, which is not on the list"):
        guard().request(mon(command, **{argument: "osd.0"}))


@pytest.mark.parametrize("command", ["deep-scrub", "deep_scrub", "repair", "scrub"])
def test_a_pg_is_scrubbed_and_repaired_where_its_pool_is_on_the_list(command: str) -> None:
    guard().request(tell("pg:7.0", command))
    with pytest.raises(NotPermitted, match="pool 'theirs' is not on the list"):
        guard().request(tell("pg:1.0", command))


def test_a_pool_that_was_there_is_never_touched() -> None:
    careless = Permit(pools=frozenset({"theirs"}))
    with pytest.raises(NotPermitted, match="existed before"):
        guard(careless).pool("theirs")


def test_a_refusal_says_how_to_allow_it() -> None:
    with pytest.raises(NotPermitted) as caught:
        guard().daemon("osd.4", "stop")
    assert "--may-break" in caught.value.hint
    assert "daemons = ['osd.4']" in caught.value.hint


class FakeHost:
    """Records what reaches the machine."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.arch = host_arch()
        self.address = "192.0.2.1"
        self.root = PurePosixPath("/")
        self.emulated = False
        self.directory = PurePosixPath("/var/tmp/cephlab-x") / name
        self.did: list[tuple[Any, ...]] = []

    def run(self, argv: Any, **_options: Any) -> Result:
        if argv[0] == "realpath":  # there are no links
            names = [os.path.normpath(path) for path in argv[argv.index("--") + 1 :]]
            return Result(tuple(argv), 0, "".join(f"{name}\0" for name in names).encode(), b"")
        self.did.append(("run", *argv))
        return Result(tuple(argv), 0, b"", b"")

    def push(self, source: bytes, target: PurePosixPath, **_options: Any) -> None:
        self.did.append(("push", target))

    def read(self, source: PurePosixPath) -> bytes:
        self.did.append(("read", source))
        return b""

    def channel(self, argv: Any, **_options: Any) -> FakeChannel:
        self.did.append(("channel", *argv))
        return FakeChannel(self.did)


class FakeChannel:
    def __init__(self, did: list[tuple[Any, ...]]) -> None:
        self.did = did

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        self.did.append(("ask", line))
        return b"{}"


def machines(permit: Permit = PERMIT) -> tuple[FakeHost, GuardedHost, FakeHost, GuardedHost]:
    listed, other = FakeHost("client"), FakeHost("osds")
    return (
        listed,
        GuardedHost(cast("Host", listed), guard(permit)),
        other,
        GuardedHost(cast("Host", other), guard(permit)),
    )


def test_programs_run_only_on_machines_of_the_list() -> None:
    reached, listed, other, guarded = machines()
    listed.run(("true",))
    assert reached.did == [("run", "true")]
    for attempt in (
        lambda: guarded.run(("true",)),
        lambda: guarded.spawn(("true",), log=guarded.directory / "log"),
        lambda: guarded.interactive(("sh",)),
        lambda: guarded.channel(("python3", "/elsewhere/agent.py")),
    ):
        with pytest.raises(NotPermitted):
            attempt()
    assert other.did == []


@pytest.mark.parametrize(
    "argv",
    [("fio", "--name=x", "--clientname=admin"), ("python3", "load", "client.admin"), ("rados", "--id=admin", "ls")],
)
def test_no_program_is_the_administrator(argv: tuple[str, ...]) -> None:
    reached, listed, _, _ = machines()
    with pytest.raises(NotPermitted, match=r"client\.admin"):
        listed.run(argv)
    with pytest.raises(NotPermitted, match=r"client\.admin"):
        listed.run(("ceph_test", "x"), env={"CEPH_CLIENT_ID": "admin"})
    assert reached.did == []


def test_files_are_those_of_the_run() -> None:
    _, _, other, guarded = machines()
    guarded.push(b"x", guarded.directory / "below" / "file")
    guarded.read(guarded.directory / "file")
    assert len(other.did) == 2
    for path in (PurePosixPath("/etc/ceph/ceph.conf"), guarded.directory / ".." / "other", guarded.directory.parent):
        with pytest.raises(NotPermitted):
            guarded.push(b"x", path)
        with pytest.raises(NotPermitted):
            guarded.read(path)
    assert len(other.did) == 2


def test_the_clients_agent_is_judged_line_by_line() -> None:
    _, _, other, guarded = machines()
    _, channel = guarded.start_agent(("conf", "client.admin", "{}"))
    channel.ask(json.dumps(mon("status")).encode(), timeout_s=1)
    assert [did[0] for did in other.did] == ["push", "channel", "ask"]
    with pytest.raises(NotPermitted):
        channel.ask(json.dumps(mon("osd pool delete", pool="theirs")).encode(), timeout_s=1)
    assert [did[0] for did in other.did] == ["push", "channel", "ask"]


def test_disks_are_those_of_the_list() -> None:
    _, listed, _, guarded = machines()
    assert listed.disk("sdx") == PurePosixPath("/dev/sdx")
    for host, name in ((listed, "sda"), (guarded, "sdx")):
        with pytest.raises(NotPermitted):
            host.disk(name)


# The list itself

INVENTORY = Inventory(
    Path("/x/inventory.toml"),
    (Machine("client", "192.0.2.1", "192.0.2.1", host_arch(), frozenset({Role.CLIENT})),),
)


def test_a_bucket_that_is_not_on_the_list_is_refused() -> None:
    guard().bucket("my-bucket")
    with pytest.raises(NotPermitted, match="bucket 'theirs' is not on the list"):
        guard().bucket("theirs")
    with pytest.raises(NotPermitted):
        guard(Permit()).bucket("my-bucket")


def test_sockets_reach_between_machines_of_the_list_alone() -> None:
    _, listed, _, other = machines()
    socket = listed.directory / "s"
    for near, far in ((listed, other), (other, listed)):
        with pytest.raises(NotPermitted, match=r"a socket at .* on osds"), near.reaching(far, socket, socket):
            pytest.fail("it was reached")
