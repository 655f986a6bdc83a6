"""Guests on a cluster that exists: which machine runs them, with which copies, and what is said if something lacks."""

import errno
import shutil
import subprocess
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.fixtures.attaching import unfit
from cephlab.lab.base.births import boot_id
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.attach.discover import Census
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.guarded import GuardedHost
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.providers.agent.wire import Refused
from cephlab.lab.providers.guest.qemu import PROBED, remembered_kvm
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import ClusterSpec, Disk, Node, Osd
from cephlab.lab.spec.inventory import Inventory, Machine, Role
from cephlab.lab.workloads import image
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites import krbd
from cephlab.suites.hci import SCENARIOS, power, stand
from cephlab.suites.hci.hypervisor.command import CacheMode
from cephlab.suites.hci.load import received_bytes
from tests.fake_stage import stage_of

HERE, OTHER = host_arch(), host_arch().other
QEMU, IMG = f"qemu-system-{HERE}", "qemu-img"
POOL_MISSING = "qemu-img: Could not open 'driver=rbd': Parameter 'pool' is missing\n"
NO_DRIVER = "qemu-img: Could not open 'driver=rbd': Unknown driver 'rbd'\n"


class Reached:
    """A machine with these programs, and what qemu-img says of the rbd driver."""

    root, emulated, address = PurePosixPath("/"), False, "192.0.2.1"

    def __init__(self, name: str, arch: Arch = HERE, programs: tuple[str, ...] = (QEMU, IMG), said: str = "") -> None:
        self.name, self.arch, self.programs, self.said = name, arch, programs, said
        self.directory = PurePosixPath("/var/tmp/cephlab-x") / name
        self.asked: list[str] = []

    def run(self, argv: tuple[str, ...], *, check: bool = True, **_options: Any) -> Result:
        self.asked.append(argv[0])
        if argv[0] not in self.programs:
            refused = Refused(self.name, "run", {"type": "FileNotFoundError", "errno": errno.ENOENT, "message": "no"})
            raise LabBroken(f"{argv[0]} could not be started on {self.name}") from refused
        code, said = (1, self.said) if argv[0] == IMG else (0, "")
        assert not (check and code)
        return Result(tuple(argv), code, b"", said.encode())


def node(name: str, arch: Arch = HERE, *, osd: bool = True) -> Node:
    return Node(name, arch, (Disk(f"disk-{name}"),), (Osd(f"disk-{name}"),)) if osd else Node(name, arch)


def attached(
    *clients: Reached, osds: int = 3, busy: tuple[str, ...] = (), hosts: frozenset[str] | None = None
) -> AttachedCluster:
    """A cluster with that many machines with OSDs. busy: client machines among them; hosts: those on the list."""
    named = [node(f"n{number}") for number in range(osds - len(busy))]
    named += [node(client.name, client.arch, osd=client.name in busy) for client in clients]
    machines = tuple(Machine(c.name, c.name, c.address, c.arch, frozenset({Role.CLIENT})) for c in clients)
    listed = frozenset(client.name for client in clients) if hosts is None else hosts
    guard = Guard(Permit(frozenset({stand.POOL}), hosts=listed), Existing(), dict)
    guarded: dict[str, Host] = {c.name: cast("Host", GuardedHost(cast("Host", c), guard)) for c in clients}
    census = Census("f", "reef", (), {}, frozenset(), frozenset(), frozenset())
    spec = cast("ClusterSpec", SimpleNamespace(nodes=named))
    inventory = Inventory(Path("inventory.toml"), machines)
    run = cast("Any", SimpleNamespace(id="fake"))
    return AttachedCluster(run, spec, SshProvider(), guarded, {}, census, inventory, "client.x", guard)


LAB = cast("Cluster", SimpleNamespace())


def test_guests_run_on_the_first_client_machine_without_daemons() -> None:
    cluster = attached(Reached("a"), Reached("b"), Reached("c"), busy=("a",))
    assert stand.guest_node(cluster) == "b"
    assert stand.guest_node(LAB) == stand.NODE


@pytest.mark.parametrize(
    ("clients", "reader"),
    [
        ((Reached("a"),), "a"),
        ((Reached("a"), Reached("b")), "b"),
        ((Reached("a"), Reached("b"), Reached("c", OTHER)), "c"),
    ],
)
def test_what_a_guest_wrote_is_read_as_far_away_as_possible(clients: tuple[Reached, ...], reader: str) -> None:
    assert power.reader_of(attached(*clients)) == reader


def test_in_a_lab_the_other_architecture_reads() -> None:
    assert power.reader_of(LAB) == power.READER


@pytest.mark.parametrize(("osds", "copies"), [(2, 2), (3, 3), (7, 3)])
def test_a_pool_has_the_usual_copies_there(osds: int, copies: int) -> None:
    cluster = attached(Reached("a"), osds=osds)
    kind = stand.copies_on(cluster)
    assert (kind.name, kind.size) == ("replicated", copies)
    assert stand.words_on(cluster, "so") == f"so, with replication to {copies} copies"


def test_a_cluster_that_can_have_one_copy_alone_is_refused() -> None:
    with pytest.raises(Unavailable, match="the attached cluster cannot have two copies"):
        stand.copies_on(attached(Reached("a"), osds=1))


def test_a_lab_measures_without_replication() -> None:
    assert stand.copies_on(LAB).size == 1
    assert (stand.words_on(LAB, "so"), stand.words_on(LAB)) == ("so", "")


def lacking(client: Reached, hosts: frozenset[str] | None = None) -> Unavailable:
    """Why guests do not run there, before a pool is made."""
    with pytest.raises(Unavailable) as refused, stand.images(attached(client, hosts=hosts), 1):
        pytest.fail("a pool was made")
    return refused.value


def test_what_a_machine_lacks_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "pool", lambda *_, **__: pytest.fail("a pool was made"))
    assert lacking(Reached("a", programs=(IMG,))).what == f"a of the attached cluster has no program {QEMU}"
    assert lacking(Reached("a", programs=(QEMU,))).what == f"a of the attached cluster has no program {IMG}"
    driver = lacking(Reached("a", said=NO_DRIVER))
    assert driver.what == "the QEMU on a of the attached cluster has no rbd driver"
    assert "qemu-block-extra" in driver.hint
    refused = lacking(Reached("a"), hosts=frozenset())
    assert isinstance(refused, NotPermitted)
    assert "hosts = ['a']" in refused.hint


def test_a_machine_with_all_of_it_is_used() -> None:
    machine = Reached("a", said=POOL_MISSING)
    stand.require_qemu(attached(machine))
    assert machine.asked == [QEMU, IMG]


def test_a_reader_that_is_not_on_the_list_is_refused_before_a_guest_is_booted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(power, "images", lambda *_, **__: pytest.fail("a pool was made"))
    cluster = attached(Reached("a"), Reached("b"), hosts=frozenset({"a"}))
    with pytest.raises(NotPermitted, match="rbd on b, which is not on the list"):
        power.cut_power(stage_of(cluster), CacheMode.NONE)


def test_a_policy_in_the_configuration_of_that_cluster_does_not_change_what_is_compared() -> None:
    first = BlockImage(stand.POOL, "disk0", 1)
    assert stand.disk(first, CacheMode.WRITEBACK).options == {"rbd_cache_policy": "writearound"}
    assert stand.disk(first, CacheMode.WRITEBACK, **power.HOLDS_BACK).options == power.HOLDS_BACK
    name = stand.through_librbd(attached(Reached("a")), first)
    assert name.startswith(f"rbd:{stand.POOL}/disk0:id=x:conf=/var/tmp/cephlab-x/a/own/ceph.conf:")
    assert name.endswith(":rbd_cache_policy=writearound")


@pytest.mark.parametrize("more", [(), ("--image-feature", "layering")])
def test_no_image_has_a_journal_whatever_that_cluster_gives_to_new_ones(
    more: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, ...]] = []
    monkeypatch.setattr(pools, "pool", lambda *_, **__: nullcontext(stand.POOL))
    monkeypatch.setattr(image, "create", lambda _cluster, _node, _image, *options: made.append(options))
    with stand.images(attached(Reached("a")), 1, *more, written=False):
        [(option, features)] = made
    assert (option, "journaling" in features) == ("--image-feature", False)
    assert ("exclusive-lock" in features) is (not more)


def existing(archs: tuple[Arch, ...], clients: tuple[Arch, ...]) -> tuple[ClusterSpec, Inventory]:
    nodes = [node(f"n{number}", arch) for number, arch in enumerate(archs)]
    spec = ClusterSpec((Node("m", HERE, mon=True, mgr=True), *nodes))
    machines = [
        Machine(f"c{number}", "", f"192.0.2.{number}", arch, frozenset({Role.CLIENT}))
        for number, arch in enumerate(clients)
    ]
    return spec, Inventory(Path("inventory.toml"), tuple(machines))


@pytest.mark.parametrize("arch", list(Arch))
def test_all_but_krbd_fits_a_cluster_of_one_architecture_with_one_client(arch: Arch) -> None:
    spec, inventory = existing((arch, arch), (arch,))
    listed = (*SCENARIOS, *krbd.SCENARIOS)
    reasons = {scenario.name: unfit(scenario.topology, scenario.needs, spec, inventory) for scenario in listed}
    refused = {name: reason for name, reason in reasons.items() if reason}
    assert refused == {scenario.name: "it has no own-kernel" for scenario in krbd.SCENARIOS}
    assert {name.partition("[")[0] for name in reasons.keys() - refused.keys()} == {
        *("hci.writeback", "hci.vm-linux", "hci.multi-vm-linux", "hci.power-cut", "hci.both-sides")
    }


def test_guests_need_a_client_machine_without_daemons() -> None:
    spec, inventory = existing((HERE, HERE), ())
    busy = Inventory(inventory.source, (Machine("n0", "", "192.0.2.1", HERE, frozenset({Role.CLIENT, Role.OSD})),))
    for scenario in SCENARIOS:
        if not scenario.needs:
            assert unfit(scenario.topology, scenario.needs, spec, busy) == "every client machine has daemons"


class Elsewhere:
    """A machine that has only the files that were sent to it."""

    def __init__(self, folder: Path) -> None:
        self.name, self.directory = "a", PurePosixPath(folder)
        self.sent: list[int] = []
        self.full = False

    def exists(self, path: PurePosixPath) -> bool:
        return path.is_relative_to(self.directory) and Path(path).exists()

    def push(self, source: Path, target: PurePosixPath) -> None:
        self.sent.append(source.stat().st_size)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)

    def run(self, argv: list[str], **_options: float) -> None:
        subprocess.run(argv, check=True)
        if self.full and argv[0] == "tar":
            raise CommandFailed(argv, 2, "", "no space left", self.name)

    def remove(self, path: PurePosixPath) -> None:
        shutil.rmtree(path)


def test_a_roots_disk_is_sent_once_and_without_its_holes(tmp_path: Path) -> None:
    home, disk = Home(tmp_path / "home"), tmp_path / "root.ext4"
    home.images.mkdir(parents=True)
    with disk.open("wb") as file:
        file.write(b"first")
        file.seek(8 << 20)
        file.write(b"last")
    there = Elsewhere(tmp_path / "there")
    held, again = (Path(stand.held(home, cast("Host", there), disk)) for _ in range(2))
    assert held.read_bytes() == disk.read_bytes()
    assert (again, len(there.sent)) == (held, 1)
    assert there.sent[0] < 1 << 20
    assert held.stat().st_blocks * 512 < 1 << 20
    assert [path.name for path in held.parent.iterdir()] == [disk.name]


def test_a_disk_that_was_sent_in_part_is_sent_again(tmp_path: Path) -> None:
    home, disk = Home(tmp_path / "home"), tmp_path / "root.ext4"
    home.images.mkdir(parents=True)
    disk.write_bytes(b"all")
    there = Elsewhere(tmp_path / "there")
    there.full = True
    with pytest.raises(CommandFailed):
        stand.held(home, cast("Host", there), disk)
    there.full = False
    assert Path(stand.held(home, cast("Host", there), disk)).read_bytes() == b"all"
    assert len(there.sent) == 2


@pytest.mark.parametrize("boots", [True, False])
def test_each_machine_is_asked_by_itself_whether_kvm_boots_there(tmp_path: Path, *, boots: bool) -> None:
    home, kernel = Home(tmp_path), cast("Kernel", SimpleNamespace(key="0123456789abcdef"))
    home.images.mkdir(parents=True)
    asked: list[str] = []

    def attempt(name: str, *, works: bool) -> Result:
        asked.append(name)
        if not works:
            raise CommandTimedOut(("qemu",), 1.0, "", "", name)
        return Result(("qemu",), 0, PROBED.encode(), b"")

    for _ in range(2):
        assert remembered_kvm(home, kernel, lambda: attempt("here", works=boots)) is boots
        there = remembered_kvm(home, kernel, lambda: attempt("there", works=not boots), boot_id="another")
        assert there is not boots
    assert asked == ["here", "there"]
    assert (home.images / f"kvm-{boot_id()}-0123456789ab.json").is_file()


def test_only_bytes_of_the_guests_pool_count() -> None:
    settled: list[bool] = []

    def mon(prefix: str, **arguments: str) -> Mapping[str, Any]:
        assert (prefix, arguments, settled) == ("df", {"detail": "detail"}, [True])
        return {"pools": [{"name": name, "stats": {"wr_bytes": many}} for name, many in (("theirs", 7), ("hci", 4096))]}

    cluster = SimpleNamespace(settle=lambda: settled.append(True), client=SimpleNamespace(mon=mon))
    assert received_bytes(cast("Cluster", cluster), "hci") == 4096.0
