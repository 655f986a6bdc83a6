"""Gateways and initiators of NVMe over TCP, on trees of files in place of the kernel's."""

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.blockstack import nvmet_program
from cephlab.lab.blockstack.initiator import Connecting, Initiator, SeenPath
from cephlab.lab.blockstack.nvmeof import CONTROLLERS, AnaState, Namespace, Pair, Volume, host_nqn, secret_of
from cephlab.lab.blockstack.nvmet import KernelGateway
from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.programs import Programs
from cephlab.lab.spec.arch import Arch

VOLUME = Volume("pool", "image", (host_nqn("c0"), host_nqn("c1")))
WANTED = {
    **VOLUME.identity,
    "number": 1,
    "secrets": {},
    "tls": False,
    "address": "10.0.0.1",
    "port": 4420,
    "controllers": [101, 200],
    "state": "inaccessible",
    "device": "/dev/rbd0",
}


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A target's tree. The kernel removes an item's attributes with it, a file system has to be told."""
    monkeypatch.setattr(Path, "rmdir", shutil.rmtree)
    return tmp_path / "nvmet"


def tree(folder: Path) -> dict[str, str]:
    """Every attribute and link below a folder."""
    paths = sorted(path for path in folder.rglob("*") if path.is_symlink() or path.is_file())
    return {
        str(path.relative_to(folder)): f"-> {path.readlink().name}" if path.is_symlink() else path.read_text()
        for path in paths
    }


def test_a_target_shows_an_image_to_the_hosts_on_its_list_only(target: Path) -> None:
    nvmet_program.serve(target, WANTED)
    subsystem, namespace = f"subsystems/{VOLUME.nqn}", f"subsystems/{VOLUME.nqn}/namespaces/1"
    assert tree(target) == {
        f"{subsystem}/attr_allow_any_host": "0",
        f"{subsystem}/attr_serial": VOLUME.serial,
        f"{subsystem}/attr_cntlid_min": "101",
        f"{subsystem}/attr_cntlid_max": "200",
        **{f"{subsystem}/allowed_hosts/{host}": f"-> {host}" for host in VOLUME.hosts},
        f"{namespace}/device_path": "/dev/rbd0",
        f"{namespace}/device_uuid": VOLUME.uuid,
        f"{namespace}/device_nguid": VOLUME.nguid,
        f"{namespace}/ana_grpid": "1",
        f"{namespace}/enable": "1",
        "ports/1/addr_adrfam": "ipv4",
        "ports/1/addr_trtype": "tcp",
        "ports/1/addr_traddr": "10.0.0.1",
        "ports/1/addr_trsvcid": "4420",
        "ports/1/ana_groups/1/ana_state": "inaccessible",
        f"ports/1/subsystems/{VOLUME.nqn}": f"-> {VOLUME.nqn}",
    }


def test_what_a_target_tells_is_what_its_volume_is(target: Path) -> None:
    nvmet_program.serve(target, WANTED)
    told = nvmet_program.answer({"do": "told", "wanted": WANTED}, target)
    assert {key: told[key] for key in VOLUME.identity} == VOLUME.identity
    assert (told["controllers"], told["state"], told["group"]) == ([101, 200], "inaccessible", "1")


def test_a_turn_changes_the_state_and_nothing_else(target: Path) -> None:
    nvmet_program.serve(target, WANTED)
    before = tree(target)
    assert nvmet_program.answer({"do": "turn", "wanted": {**WANTED, "state": "optimized"}}, target) == {}
    assert tree(target) == {**before, "ports/1/ana_groups/1/ana_state": "optimized"}


def test_a_withdrawn_target_leaves_nothing_and_may_be_withdrawn_again(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvmet_program.serve(target, WANTED)
    asked: list[tuple[str, str]] = []
    put = nvmet_program.put

    def kernel(folder: Path, **attributes: str) -> None:
        asked.extend(attributes.items())
        put(folder, **attributes)

    monkeypatch.setattr(nvmet_program, "put", kernel)
    for device in ("0", "3"):  # the second is somebody else's
        (tmp_path / "rbd/devices" / device).mkdir(parents=True)
    for _ in range(2):
        nvmet_program.answer({"do": "withdraw", "wanted": WANTED}, target, tmp_path / "rbd")
    assert tree(target) == {}
    assert asked == [("enable", "0"), ("remove_single_major", "0 force")]


@pytest.mark.parametrize("do", ["serve", "add"])
def test_an_image_that_cannot_be_shown_is_unmapped_again(
    do: str, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError("the kernel refuses")

    unmapped: list[str] = []
    monkeypatch.setattr(nvmet_program, "map_image", lambda *_: {"device": "/dev/rbd1", "client": "a"})
    monkeypatch.setattr(nvmet_program, "show", refuse)
    monkeypatch.setattr(nvmet_program, "unmap", lambda _bus, device: unmapped.append(device))
    request = {"do": do, "wanted": WANTED, "namespaces": [Namespace("pool", "second", number=2).shown]}
    with pytest.raises(OSError, match="the kernel refuses"):
        nvmet_program.answer(request, target, tmp_path / "rbd")
    assert unmapped == ["/dev/rbd1"]


def test_an_image_is_mapped_by_the_key_of_its_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bus, keyring, asked = tmp_path / "rbd", tmp_path / "keyring", []
    (bus / "devices/0").mkdir(parents=True)
    keyring.write_text("[client.admin]\n\tkey = AQ==\n\tcaps mon = allow *\n")

    def kernel(folder: Path, **attributes: str) -> None:
        asked.append(attributes)
        (folder / "devices/1").mkdir()
        (folder / "devices/1/client_addr").write_text("10.0.0.1:0/77\n")

    monkeypatch.setattr(nvmet_program, "put", kernel)
    wanted = {"user": "admin", "monitors": "10.0.0.9:3300", "keyring": str(keyring)}
    assert nvmet_program.map_image(bus, wanted, {"pool": "p", "image": "i"}) == {
        "device": "/dev/rbd1",
        "client": "10.0.0.1:0/77",
    }
    assert asked == [{"add_single_major": "10.0.0.9:3300 name=admin,secret=AQ==,ms_mode=prefer-crc p i -"}]


def test_a_namespace_comes_grows_and_goes_beside_the_first(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nvmet_program.serve(target, WANTED)
    before = tree(target)
    unmapped: list[str] = []
    monkeypatch.setattr(nvmet_program, "map_image", lambda *_: {"device": "/dev/rbd1", "client": "a"})
    monkeypatch.setattr(nvmet_program, "unmap", lambda _bus, device: unmapped.append(device))
    more = Namespace("pool", "second", number=2)

    def ask(do: str) -> dict[str, str]:
        request = {"do": do, "wanted": WANTED, "namespaces": [more.shown]}
        nvmet_program.answer(request, target, tmp_path / "rbd")
        there = tree(target)
        assert {name: value for name, value in there.items() if name in before} == before
        return {name.rpartition("/")[2]: value for name, value in there.items() if name not in before}

    shown = {"device_path": "/dev/rbd1", "device_uuid": more.uuid, "device_nguid": more.nguid, "ana_grpid": "1"}
    assert ask("add") == {**shown, "enable": "1"}
    assert ask("grow") == {**shown, "enable": "1", "revalidate_size": "1"}
    assert ask("remove") == {}
    assert unmapped == ["/dev/rbd1"]
    assert more.uuid != VOLUME.uuid


def test_several_namespaces_come_at_once_and_tell_each_client(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nvmet_program.serve(target, WANTED)
    mapped = iter("123")

    def map_image(_bus: Path, _wanted: dict[str, Any], namespace: dict[str, Any]) -> dict[str, str]:
        return {"device": f"/dev/rbd{next(mapped)}", "client": f"of {namespace['image']}"}

    monkeypatch.setattr(nvmet_program, "map_image", map_image)
    more = [Namespace("pool", f"image{number}", number=number).shown for number in (2, 3, 4)]
    added = nvmet_program.answer({"do": "add", "wanted": WANTED, "namespaces": more}, target)
    assert added == {"clients": ["of image2", "of image3", "of image4"]}
    folder = target / "subsystems" / VOLUME.nqn / "namespaces"
    shown = {path.name: (path / "device_path").read_text() for path in sorted(folder.iterdir())}
    assert shown == {"1": "/dev/rbd0", "2": "/dev/rbd1", "3": "/dev/rbd2", "4": "/dev/rbd3"}


def test_a_host_with_a_secret_must_prove_its_name(target: Path) -> None:
    secret = secret_of(bytes(32))
    nvmet_program.serve(target, {**WANTED, "secrets": {VOLUME.hosts[0]: secret}})
    keys = {name: value for name, value in tree(target).items() if name.endswith("dhchap_key")}
    assert keys == {f"hosts/{VOLUME.hosts[0]}/dhchap_key": secret}


def test_a_secret_carries_its_checksum() -> None:
    # Of the 32 bytes of zeros: crc32 is 0x190a55ad, little-endian behind them.
    assert secret_of(bytes(32)) == "DHHC-1:00:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAACtVQoZ:"


@dataclass
class Answering:
    """A program on a host that keeps running. answer: what it answers to a request."""

    answer: Callable[[dict[str, Any]], dict[str, Any]]

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        return json.dumps(self.answer(json.loads(line))).encode()

    def alive(self) -> bool:
        return True


@dataclass
class Machine:
    """A host whose programs answer with what a test gives.

    asked: the requests; loaded: other commands; hears: called with each request.
    """

    name: str
    answers: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: list[dict[str, Any]] = field(default_factory=list)
    loaded: list[str] = field(default_factory=list)
    hears: Callable[[dict[str, Any]], object] = dict
    arch: Arch = Arch.X86_64

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/d")

    @property
    def address(self) -> str:
        return f"10.0.0.{self.name[1:]}"

    def exists(self, path: PurePosixPath) -> bool:
        return "mount" in " ".join(self.loaded)

    def up(self) -> bool:
        return True

    def run(self, argv: Sequence[str]) -> Result:
        self.loaded.append(" ".join(argv))
        return Result(tuple(argv), 0, b"", b"")

    def channel(self, argv: Sequence[str]) -> Answering:
        return Answering(self.answer)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        self.asked.append(request)
        self.hears(request)
        return self.answers.get(request["do"], {})


@dataclass
class Monitor:
    """A cluster's client. said: what happened, in order, beside the turns of gateways."""

    said: list[str]

    def mon(self, prefix: str, **arguments: Any) -> dict[str, Any]:
        if prefix == "osd dump":
            return {"epoch": 7, "pools": [{"pool": 1, "pool_name": VOLUME.pool, "pg_num": 1}]}
        self.said.append(f"{prefix} {arguments['addr']}")
        return {}

    def wait_map(self, osds: list[int]) -> int:
        self.said.append(f"map on {osds}")
        return 7

    def pgs(self, pgids: list[str]) -> tuple[Pg, ...]:
        self.said.append(f"PGs {pgids}")
        return tuple(Pg(pgid, "active+clean", 7, (0,), 0) for pgid in pgids)


def cluster_of(*machines: Machine, said: list[str] | None = None) -> Cluster:
    daemons = {"mon.n9": SimpleNamespace(kind="mon", host=Machine("n9"))}
    monitor = Monitor(said if said is not None else [])
    cluster = SimpleNamespace(
        hosts={machine.name: machine for machine in machines},
        daemons=daemons,
        programs=Programs(),
        patience=1.0,
        client_name="client.admin",
        client=monitor,
        up_osds=lambda: [0],
        wait_map=monitor.wait_map,
    )
    return cast("Cluster", cluster)


def pair_of(said: list[str], *, fenced: bool = True) -> tuple[Pair, Machine, Machine]:
    answers = {"serve": {"device": "/dev/rbd0", "client": "10.0.0.1:0/7"}}
    first, second = Machine("c1", answers), Machine("c2", answers)
    cluster = cluster_of(first, second, said=said)
    serving, waiting = (KernelGateway(cluster, name, CONTROLLERS[at]) for at, name in enumerate(("c1", "c2")))
    return Pair(cluster, VOLUME, serving, waiting, fenced), first, second


def test_a_pair_shows_the_same_but_for_numbers_and_state() -> None:
    pair, first, second = pair_of([])
    pair.serve()
    at_first, at_second = first.asked[0]["wanted"], second.asked[0]["wanted"]
    apart = {key for key in at_first if at_first[key] != at_second[key]}
    assert apart == {"address", "controllers", "state"}
    assert {key: at_first[key] for key in VOLUME.identity} == VOLUME.identity
    assert (at_first["controllers"], at_second["controllers"]) == ([1, 100], [101, 200])
    assert (at_first["state"], at_second["state"]) == ("optimized", "inaccessible")
    assert at_first["monitors"] == "10.0.0.9:3300"
    assert [line.split()[0] for line in first.loaded] == ["modprobe", "mount"]
    pair.serve()
    assert len(first.loaded) == 2


@pytest.mark.parametrize("fenced", [True, False])
def test_a_twin_serves_only_after_every_osd_refuses_the_dead_ones_client(*, fenced: bool) -> None:
    said: list[str] = []
    pair, first, second = pair_of(said, fenced=fenced)
    pair.serve()
    before = len(first.asked)
    second.hears = lambda request: said.append(request["wanted"]["state"])
    pair.take_over()
    refusing = ["osd blocklist 10.0.0.1:0/7", "map on [0]", "PGs ['1.0']"]
    assert said == [*(refusing if fenced else []), "optimized"]
    assert len(first.asked) == before
    assert (pair.serving.name, pair.waiting.name) == ("c2", "c1")


def test_one_that_comes_back_waits_and_a_volume_is_handed_back() -> None:
    pair, first, second = pair_of([])
    pair.serve()
    pair.take_over()
    pair.rejoin()
    assert [(asked["do"], asked["wanted"]["state"]) for asked in first.asked[1:]] == [
        ("withdraw", "optimized"),
        ("serve", "inaccessible"),
    ]
    pair.hand_over()
    assert second.asked[-1]["wanted"]["state"] == "inaccessible"
    assert first.asked[-1]["wanted"]["state"] == "optimized"
    assert pair.serving.name == "c1"


def test_an_initiator_asks_with_digests_and_its_own_name() -> None:
    machine = Machine("c0", {"connect": {"refused": ""}, "look": {"device": "/dev/nvme0n1", "paths": []}})
    cluster = cluster_of(machine, Machine("c1"))
    initiator = Initiator(cluster, "c0", Connecting(keep_alive_s=4, queues=3))
    device = initiator.connect(VOLUME, [KernelGateway(cluster, "c1", CONTROLLERS[0])])
    options = machine.asked[0]["options"]
    assert str(device) == "/dev/nvme0n1"
    assert (options["traddr"], options["hostnqn"], options["nqn"]) == ("10.0.0.1", host_nqn("c0"), VOLUME.nqn)
    assert (options["keep_alive_tmo"], options["hdr_digest"], options["data_digest"]) == (4, True, True)
    assert (options["hostid"], options["nr_io_queues"]) == (host_nqn("c0").rpartition(":")[2], 3)
    assert initiator.connecting.noticed_s == pytest.approx(6.0)


def test_a_refusal_has_the_kernels_words() -> None:
    machine = Machine("c0", {"connect": {"refused": "Input/output error"}})
    cluster = cluster_of(machine, Machine("c1"))
    with pytest.raises(LabBroken, match="c1 refuses c0"):
        Initiator(cluster, "c0").connect(VOLUME, [KernelGateway(cluster, "c1", CONTROLLERS[0])])


def test_devices_are_waited_for_until_all_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine("c0")
    initiator = Initiator(cluster_of(machine), "c0")
    names = {"2": {"device": "/dev/nvme0n2"}, "3": {"device": "/dev/nvme0n9"}}
    answers = iter([{"2": names["2"]}, names])
    monkeypatch.setattr(Initiator, "_namespaces", lambda *_: next(answers))
    namespaces = [Namespace("pool", f"image{number}", number=number) for number in (3, 2)]
    assert initiator.devices(VOLUME, namespaces) == [PurePosixPath("/dev/nvme0n9"), PurePosixPath("/dev/nvme0n2")]


def test_a_way_has_all_that_the_program_tells() -> None:
    path = {"address": "a", "state": "live", "controller": 1, "ana": "optimized", "queues": 4}
    machine = Machine("c0", {"look": {"device": "", "paths": [path]}})
    assert Initiator(cluster_of(machine), "c0").look(VOLUME) == ("", (SeenPath("a", "live", 1, AnaState.OPTIMIZED, 4),))
