"""A cluster that exists, attached over ssh: found as it is, used like any other, touched only where the list says."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import pytest

from cephlab.lab.archive.archive import read_archive
from cephlab.lab.base.errors import CephTrouble, SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.attach.guard import Guard, NotPermitted
from cephlab.lab.cluster.own import own
from cephlab.lab.spec.arch import Arch, host_arch
from tests.contract.conftest import FOREIGN
from tests.contract.standing import Standing, attached, buckets_of, serving_s3

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.real]


def everything(stands: Standing) -> dict[str, object]:
    """What a run could have changed, as the lab's own cluster sees it."""
    client = stands.cluster.client
    osd_map = client.mon("osd dump")
    kept = ("fsid", "flags", "pools", "pg_temp", "primary_temp", "erasure_code_profiles")
    # What else a map says of an OSD tells when it last served a PG.
    of_osd = ("osd", "uuid", "up", "in", "weight", "primary_affinity")
    osds = [{key: osd[key] for key in of_osd} for osd in osd_map["osds"]]
    return {
        "map": {"osds": osds, **{key: osd_map[key] for key in kept}},
        "crush": client.mon("osd crush dump"),
        "entities": sorted(entry["entity"] for entry in client.mon("auth ls")["auth_dump"]),
        "config": client.mon("config dump"),
        "changes": list(stands.changes()),
    }


def test_it_is_found_as_it_is(stands: Standing, home: Home) -> None:
    before = everything(stands)
    with attached(stands, home) as cluster:
        labs = stands.cluster
        assert cluster.census.fsid == labs.deployment.fsid
        assert {n: d.host.name for n, d in cluster.daemons.items()} == {n: d.host.name for n, d in labs.daemons.items()}
        assert {name: host.arch for name, host in cluster.hosts.items()} == {n: h.arch for n, h in labs.hosts.items()}
        assert cluster.osd_ids(FOREIGN) == labs.osd_ids(FOREIGN)
        assert cluster.wait_healthy().ok
        assert cluster.client_for(FOREIGN).call("about")["machine"] == FOREIGN.value
        assert cluster.client.call("about")["machine"] == host_arch().value
        folders = {name: host.directory.parent for name, host in cluster.hosts.items()}
        assert all(stands.yard.has(name, folder) for name, folder in folders.items())
    assert not any(stands.yard.has(name, folder) for name, folder in folders.items())
    assert everything(stands) == before


def lab_folder(cluster: AttachedCluster, node: str) -> PurePosixPath:
    return cluster.hosts[node].directory.parent


def refusals(cluster: AttachedCluster) -> Mapping[str, object]:
    """Ways to change the cluster that nothing permits."""
    client, node = cluster.client, cluster.hosts["n0"]
    return {
        "a pool": lambda: pools.create(cluster, "forbidden"),
        "objects": lambda: client.write_full("standing", "o", b"x"),
        "reading objects": lambda: client.read("standing", "o"),
        "an image": lambda: client.rbd_create("standing", "image", 1 << 22),
        "a snapshot": lambda: client.snap_create("standing", "s"),
        "deleting": lambda: pools.delete(cluster, "standing"),
        "settings": lambda: client.mon("osd pool set", pool="standing", var="size", val="2"),
        "a flag": lambda: client.mon("osd set", key="noout"),
        "the configuration": lambda: client.mon("config set", who="osd", name="debug_osd", value="1"),
        "keys": lambda: client.mon("auth get", entity="client.admin"),
        "a new entity": lambda: client.command("mon", "auth import", payload=b"[client.x]\n"),
        "affinity": lambda: client.mon("osd primary-affinity", id=0, weight=0.0),
        "an OSD told": lambda: client.tell("osd.0", "config set", key="debug_osd", value="1"),
        "an OSD out": lambda: client.mon("osd out", ids=["0"]),
        "stopping": lambda: cluster.stop("osd.0"),
        "killing": lambda: cluster.kill("mon.n0"),
        "pausing": lambda: cluster.pause("osd.0"),
        "a program": lambda: node.run(("touch", "/tmp/never")),
        "a daemon": lambda: node.spawn(("sleep", "1"), log=node.directory / "log"),
        "a tool": lambda: cluster.tool("c0", "rados", "rmpool", "standing", "standing", "--yes-i-really-mean-it"),
        "a file elsewhere": lambda: node.push(b"x", node.directory / ".." / ".." / "never"),
        "a key file": lambda: node.read(cluster.hosts["n0"].root / "etc/ceph/ceph.client.admin.keyring"),
        "the lab's keyring": lambda: cluster.hosts["c0"].read(lab_folder(cluster, "c0") / "guarded/keyring"),
        "the lab's agent": lambda: node.push(b"x", lab_folder(cluster, "n0") / "agent.py"),
        "an agent": lambda: node.channel(("python3", str(node.directory / "agent.py"), "conf", "client.admin", "{}")),
        "a disk": lambda: node.disk("osd-0"),
        "the administrator's key": lambda: own(cluster).deployment.admin.key,
        "a machine off": lambda: own(cluster).lab.kill_node("n0"),
        "a machine more": lambda: own(cluster).add_node(cluster.spec.nodes[0]),
    }


def test_nothing_is_touched_without_a_list(stands: Standing, home: Home) -> None:
    pools.create(stands.cluster, "standing")
    try:
        stands.cluster.client.write_full("standing", "o", b"theirs")
        before = everything(stands)
        with attached(stands, home) as cluster:
            let_through = [what for what, attempt in refusals(cluster).items() if not refused(attempt)]
        assert let_through == []
        assert everything(stands) == before
        assert stands.cluster.client.read("standing", "o") == b"theirs"
        assert not stands.yard.has("n0", "/var/tmp/never")
        assert not stands.yard.has("n0", "/tmp/never")
    finally:
        pools.delete(stands.cluster, "standing")


def refused(attempt: object) -> bool:
    try:
        attempt()  # type: ignore[operator]
    except NotPermitted:
        return True
    return False


def test_without_the_guard_it_would_be(stands: Standing, home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """What shows that nothing was touched does see it when something is."""
    before = everything(stands)
    with attached(stands, home) as cluster:
        monkeypatch.setattr(Guard, "request", lambda _self, _request: None)
        pools.create(cluster, "forbidden")
        assert everything(stands) != before
        pools.delete(cluster, "forbidden")


def test_what_is_on_the_list_is_done_and_no_more(stands: Standing, home: Home) -> None:
    pools.create(stands.cluster, "standing")
    before = everything(stands)
    try:
        allowed = attached(stands, home, pools=frozenset({"mine"}), hosts=frozenset({"c0", "c1"}))
        with allowed as cluster, pools.pool(cluster, "mine"):
            for number, arch in enumerate(Arch):
                cluster.client_for(arch).write_full("mine", f"o{number}", arch.value.encode())
            listed = cluster.tool("c0", "rados", "-p", "mine", "ls").split()
            assert sorted(listed) == ["o0", "o1"]
            with pytest.raises(CephTrouble, match="rados"):
                cluster.tool("c0", "rados", "-p", "standing", "put", "theirs", "/etc/hostname")
            with pytest.raises(NotPermitted, match=r"osd\.0"):
                cluster.stop("osd.0")
            with pytest.raises(NotPermitted, match="n0"):
                cluster.hosts["n0"].run(("true",))
            with pytest.raises(NotPermitted, match="standing"):
                cluster.client.write_full("standing", "o", b"x")
        assert stands.cluster.client.list_objects("standing") == []
    finally:
        after = everything(stands)
        pools.delete(stands.cluster, "standing")
    assert after == before


def test_a_daemon_on_the_list_stops_dies_and_starts(stands: Standing, home: Home) -> None:
    with attached(stands, home, daemons=frozenset({"osd.1"})) as cluster:
        cluster.stop("osd.1")
        assert not stands.cluster.daemon("osd.1").alive()
        assert 1 not in cluster.up_osds()
        cluster.start("osd.1")
        cluster.wait(lambda status: status.all_up, what="osd.1 up")
        cluster.kill("osd.1")
        assert not stands.cluster.daemon("osd.1").alive()
        cluster.start("osd.1")
        cluster.wait_healthy()
        with pytest.raises(NotPermitted):
            cluster.stop("osd.0")
    assert {words[-1] for words in stands.changes()} == {"ceph-osd@1.service"}


def test_a_pool_that_exists_cannot_be_on_the_list(stands: Standing, home: Home) -> None:
    pools.create(stands.cluster, "standing")
    try:
        theirs = attached(stands, home, pools=frozenset({"standing"}))
        with pytest.raises(SpecError, match="'standing', which already exists"), theirs:
            pytest.fail("it was attached")
        nobody = attached(stands, home, daemons=frozenset({"osd.77"}))
        with pytest.raises(SpecError, match=r"osd\.77"), nobody:
            pytest.fail("it was attached")
    finally:
        pools.delete(stands.cluster, "standing")


def test_an_inventory_of_other_machines_is_refused(stands: Standing, home: Home) -> None:
    path = stands.inventory.with_name("wrong.toml")
    path.write_text(stands.inventory.read_text().replace('roles = ["osd"]', 'roles = ["client"]'))
    with pytest.raises(SpecError, match="roles of n2"), attached(stands, home, path):
        pytest.fail("it was attached")


def test_a_wrong_key_is_ceph_refusing(stands: Standing, home: Home) -> None:
    """The limited entity's keyring has no other key."""
    with attached(stands, home, pools=frozenset({"mine"}), hosts=frozenset({"c0"})) as cluster:
        host = cluster.hosts["c0"]
        program = host.directory / "program.py"
        host.push(b"import rados,sys; r=rados.Rados(conffile=sys.argv[1]); r.connect(timeout=20)", program)
        done = host.run(("python3", str(program), str(host.directory / "ceph.conf")), check=False)
        assert done.code != 0
        assert "rados" in done.stderr.lower()
    assert issubclass(RadosError, CephTrouble)


CALLS = """
rados -p mine put o "$0" && rados -p mine ls || exit 1
rados -p standing ls && exit 2
ceph auth ls && exit 3
rados --id admin lspools && exit 4
exit 0
"""


def test_a_program_that_calls_ceph_is_the_runs_own_entity(stands: Standing, home: Home) -> None:
    pools.create(stands.cluster, "standing")
    try:
        allowed = attached(stands, home, pools=frozenset({"mine"}), hosts=frozenset({"c0"}))
        with allowed as cluster, pools.pool(cluster, "mine"):
            host = cluster.hosts["c0"]
            script = host.directory / "script"
            host.push(CALLS.encode(), script)
            done = host.run(("sh", str(script)), check=False, timeout_s=120)
            assert (done.code, done.stdout) == (0, "o\n"), done.stderr
            host.run(("ln", "-s", "/", str(host.directory / "link")))
            keys = lab_folder(cluster, "c0") / "guarded/keyring"
            mistakes = (
                lambda: host.run(("ceph", "auth", "ls")),
                lambda: host.run(("ceph", "--id", "admin", "auth", "ls")),
                lambda: host.run(("bash", "-c", "ceph auth ls")),
                lambda: host.run(("cat", str(keys))),
                lambda: host.read(host.directory / "link" / str(keys)[1:]),
            )
            assert [mistake for mistake in mistakes if not refused(mistake)] == []
    finally:
        pools.delete(stands.cluster, "standing")


def gate_argv(inventory: Path, folder: Path, *words: str) -> list[str]:
    program = str(Path(sys.executable).with_name("cephlab"))
    argv = [program, "gate", "--lab", "ssh", "--inventory", str(inventory)]
    return [*argv, "--archive", str(folder), "--seed", "7", *words]


def gate(
    stands: Standing, home: Home, folder: Path, *words: str, inventory: Path | None = None
) -> tuple[int, dict[str, str], str]:
    """Exit code, scenario -> ending, and all that was printed. inventory: another one than its own."""
    argv = gate_argv(inventory or stands.inventory, folder, *words)
    done = subprocess.run(
        argv, cwd=ROOT, env={**os.environ, "CEPHLAB_HOME": str(home.path)}, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    assert (folder / "manifest.json").exists(), said
    return done.returncode, {record.scenario: record.ending.value for record in read_archive(folder).records}, said


def test_a_gate_looks_at_it_without_a_list(stands: Standing, home: Home, tmp_path: Path) -> None:
    before = everything(stands)
    code, endings, said = gate(stands, home, tmp_path / "archive", "--suite", "standing")
    assert code == 0, said
    assert [endings.pop(f"standing.{name}") for name in ("load", "s3-load")] == ["skip"] * 2, said
    assert list(endings.values()) == ["pass"] * 4, said
    assert said.index("read-only") < said.index("attached to")
    assert everything(stands) == before


def test_a_gate_does_what_the_list_allows(stands: Standing, home: Home, tmp_path: Path) -> None:
    allowed = tmp_path / "may-break.toml"
    osds = ", ".join(f'"osd.{osd}"' for osd in stands.cluster.osd_ids())
    allowed.write_text(f'pools = ["objects", "images", "standing-load"]\ndaemons = [{osds}]\nhosts = ["c0", "c1"]\n')
    before = everything(stands)
    which = "(objects and replicated and not walk) or (rbd and not luks) or scrub-clean or (standing and load)"
    words = ("--suite", "interop", "--suite", "standing", "-k", which, "--may-break", str(allowed))
    code, endings, said = gate(stands, home, tmp_path / "archive", *words)
    ran = {name for name, ending in endings.items() if ending == "pass"}
    assert code == 0, said
    assert len([name for name in ran if name.startswith("interop.objects[")]) == 4, said
    assert len([name for name in ran if name.startswith("interop.rbd[")]) == 2, said
    assert "standing.load" in ran, said
    archive = read_archive(tmp_path / "archive")
    stopped = {
        record.scenario: record.reason
        for record in archive.records
        if record.scenario.startswith("interop.scrub-clean")
    }
    assert stopped
    assert all("pool 'scrubbed' is not on the list" in reason for reason in stopped.values())
    loads = [event for event in archive.events if event.kind == "load"]
    assert {event.data["node"] for event in loads} == {"c0", "c1"}
    assert set(endings.values()) == {"pass", "skip"}, said
    assert "objects" in said
    assert said.index("pools that may be made") < said.index("attached to")
    assert {**everything(stands), "map": None} == {**before, "map": None}
    after = everything(stands)["map"]
    assert [osd["primary_affinity"] for osd in after["osds"]] == [1.0, 1.0, 1.0]  # type: ignore[index]
    assert after["pools"] == before["map"]["pools"]  # type: ignore[index]


def test_a_gate_loads_s3_that_stands_from_every_client(stands: Standing, home: Home, tmp_path: Path) -> None:
    made = ["standing-s3-0-0", "standing-s3-1-0"]
    words = ("--suite", "standing", "-k", "s3-load", "--may-break")
    with serving_s3(stands) as (inventory, door):

        def ran(name: str, *buckets: str) -> tuple[int, str, str]:
            allowed = ",".join(["host:c0", "host:c1", *(f"bucket:{bucket}" for bucket in buckets)])
            code, endings, said = gate(stands, home, tmp_path / name, *words, allowed, inventory=inventory)
            return code, endings["standing.s3-load"], said

        code, ending, said = ran("one", made[0])
        assert (ending, buckets_of(stands)) == ("skip", []), said
        assert f"bucket '{made[1]}' is not on the list" in said
        code, ending, said = ran("both", *made)
        assert (code, ending, buckets_of(stands)) == (0, "pass", []), said
        archive = read_archive(tmp_path / "both")
        told = {event.data["what"]: event.data for event in archive.events if event.kind == "s3_load"}
        assert set(told) == {"the client c0", "the client c1", "all clients"}
        assert door.secret_key not in (tmp_path / "both" / "history.jsonl").read_text()
