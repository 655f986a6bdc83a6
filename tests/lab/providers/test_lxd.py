"""Provider `lxd` without an LXD: which one is meant, why it is of no use, placement, names, and removal by label."""

import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.providers.lxd import LxdProvider, files, imported, names, networks
from cephlab.lab.providers.lxd.host import LxdHost
from cephlab.lab.providers.lxd.kind import ServerCapacity, disk_limits, place_nodes
from cephlab.lab.providers.lxd.removal import InstanceRemoval, runs_present
from cephlab.lab.providers.lxd.server import InstanceRef, Server, addresses, connect, find_servers
from cephlab.lab.providers.lxd.transport import Address
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB, MIB, ClusterSpec, Disk, DiskLimits, Node
from tests.fake_lxd import FakeLxd, server_info, serving

X86, ARM = Arch.X86_64, Arch.AARCH64
POOL = "storage-pools/default"


@pytest.fixture
def lxd() -> FakeLxd:
    """One that is set up: a pool, a default profile, no projects but its own."""
    made = FakeLxd()
    made.add(POOL, driver="dir", config={})
    made.add("profiles/default", devices={})
    made.add("projects/default", config={})
    return made


@pytest.fixture
def endpoint(lxd: FakeLxd, tmp_path: Path) -> Iterator[str]:
    with serving(lxd, tmp_path / "unix.socket") as address:
        yield address


@pytest.fixture
def server(endpoint: str) -> Iterator[Server]:
    connected = connect(Address(endpoint))
    yield connected
    connected.close()


def test_the_machines_named_are_meant_before_any_socket_here() -> None:
    chosen = addresses({"CEPHLAB_LXD": "unix:///a/unix.socket, unix:///b/unix.socket", "LXD_DIR": "/c"})
    assert [address.url for address in chosen] == ["unix:///a/unix.socket", "unix:///b/unix.socket"]


def test_lxds_own_variable_names_a_folder() -> None:
    assert [address.url for address in addresses({"LXD_DIR": "/c"})] == ["unix:///c/unix.socket"]


@pytest.mark.parametrize("url", ["arm1", "http://arm1:8443", "https://", "unix://relative"])
def test_what_is_no_endpoint_is_refused(url: str) -> None:
    with pytest.raises(Unavailable, match="CEPHLAB_LXD"):
        addresses({"CEPHLAB_LXD": url})


def test_a_machine_that_lxc_does_not_know_is_named_with_the_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Unavailable) as caught:
        addresses({"CEPHLAB_LXD": "https://arm1:8443"})
    assert caught.value.hint == "lxc remote add arm1 https://arm1:8443"


def test_lxcs_certificates_are_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config/lxc"
    (folder / "servercerts").mkdir(parents=True)
    for name in ("client.crt", "client.key", "servercerts/arm1.crt"):
        (folder / name).write_text("pem")
    [address] = addresses({"CEPHLAB_LXD": "https://arm1:9443"})
    assert (address.host, address.port, address.server) == ("arm1", 9443, folder / "servercerts/arm1.crt")


def test_an_lxd_that_is_not_there_is_unavailable_with_a_remedy(tmp_path: Path) -> None:
    reason = LxdProvider(find=lambda: find_servers({"LXD_DIR": str(tmp_path)})).unavailable()
    assert reason is not None
    assert reason.what == "no LXD is running"
    assert "ci/lxd" in reason.hint


def test_a_socket_that_nobody_answers_is_unavailable(tmp_path: Path, lxd: FakeLxd) -> None:
    with serving(lxd, tmp_path / "unix.socket") as endpoint:
        pass
    with pytest.raises(Unavailable, match="does not answer"):
        connect(Address(endpoint))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"auth": "untrusted"}, "does not trust"),
        ({"api_extensions": ["projects"]}, "too old"),
        ({"environment": server_info(server_clustered=True)["environment"]}, "member of a cluster"),
    ],
)
def test_an_lxd_of_no_use_says_why(lxd: FakeLxd, endpoint: str, change: dict[str, object], said: str) -> None:
    lxd.info |= change
    with pytest.raises(Unavailable, match=said):
        connect(Address(endpoint))


def test_an_lxd_without_storage_is_not_set_up(lxd: FakeLxd, endpoint: str) -> None:
    del lxd.things["default", POOL]
    with pytest.raises(Unavailable, match="no storage pool"):
        connect(Address(endpoint))


def test_the_default_profiles_pool_is_taken(lxd: FakeLxd, endpoint: str) -> None:
    lxd.add("profiles/default", devices={"root": {"type": "disk", "path": "/", "pool": "fast"}})
    connected = connect(Address(endpoint))
    assert connected.pool == "fast"
    assert connected.local
    connected.close()


# Placement


def machine(name: str, arch: Arch, gib: int, *emulates: Arch) -> ServerCapacity:
    return ServerCapacity(name, arch, gib * GIB, frozenset(emulates))


def node(name: str, arch: Arch = X86, memory_bytes: int | None = None) -> Node:
    return Node(name, arch, memory_bytes=memory_bytes)


def test_a_node_goes_to_a_machine_of_its_architecture_even_a_fuller_one() -> None:
    machines = [machine("big", X86, 64, ARM), machine("small", ARM, 4)]
    assert place_nodes([node("n0"), node("n1", ARM)], machines) == {"n0": 0, "n1": 1}


def test_nodes_go_where_memory_is_left_as_it_is_taken() -> None:
    machines = [machine("a", X86, 4), machine("b", X86, 6)]
    wanted = [node("n0", memory_bytes=4 * GIB), node("n1", memory_bytes=GIB), node("n2"), node("n3")]
    assert place_nodes(wanted, machines) == {"n0": 1, "n1": 0, "n2": 0, "n3": 0}


def test_without_its_architecture_a_node_is_emulated_where_that_can_be() -> None:
    machines = [machine("a", X86, 64), machine("b", X86, 4, ARM)]
    assert place_nodes([node("n0", ARM)], machines) == {"n0": 1}


def test_an_architecture_that_nobody_has_is_named() -> None:
    with pytest.raises(Unavailable, match="n1, which is aarch64") as caught:
        place_nodes([node("n0"), node("n1", ARM)], [machine("a", X86, 64)])
    assert "a (x86_64)" in caught.value.detail


# Names and settings


@pytest.mark.parametrize("name", ["n0", "N-1", "a"])
def test_a_node_keeps_its_name_as_host_name(name: str) -> None:
    assert names.instance_name(name) == name


def test_names_that_cannot_be_host_names_get_others_that_differ() -> None:
    odd = ["0n", "n_0", "n-", "n_1"]
    made = [names.instance_name(name) for name in odd]
    assert len(set(made)) == len(odd)
    assert all(name.startswith("n-") and len(name) == 14 for name in made)


@pytest.mark.parametrize(
    ("refusal", "said", "tries"),
    [
        ('Failed to run: dnsmasq --version: exec: "dnsmasq": executable file not found in $PATH', Unavailable, 1),
        ("Address already in use", LabBroken, 16),
    ],
)
def test_a_network_that_no_subnet_would_help_is_tried_once(
    refusal: str, said: type[Exception], tries: int, server: Server, lxd: FakeLxd, tmp_path: Path
) -> None:
    lxd.refuse, lxd.refusal = {"networks"}, refusal
    with pytest.raises(said, match="dnsmasq, which is not installed" if tries == 1 else "no network"):
        networks.make_network([server], "cephlab-0-1", Home(tmp_path))
    assert len(lxd.orders("networks")) == tries


def test_a_networks_name_leaves_room_for_that_of_a_tunnel() -> None:
    assert len(names.bridge_name("r" * 31)) + len("-t99") <= 15


def test_disk_limits_in_lxds_spelling() -> None:
    assert disk_limits(DiskLimits(write_iops=300, read_bytes_s=5 * MIB)) == {
        "limits.write": "300iops",
        "limits.read": "5242880B",
    }
    with pytest.raises(SpecError, match="either in number or in bytes"):
        disk_limits(DiskLimits(read_iops=1, read_bytes_s=1))


def test_two_limited_disks_on_a_node_are_refused_before_anything_starts(endpoint: str) -> None:
    disks = tuple(Disk(name, MIB, limits=DiskLimits(write_iops=100)) for name in ("a", "b"))
    spec = ClusterSpec((Node("n0", host_arch(), disks, mon=True, mgr=True),))
    reason = LxdProvider(find=lambda: [connect(Address(endpoint))]).unavailable(spec)
    assert reason is not None
    assert "2 disks with limits" in reason.what


def test_an_image_for_a_machine_of_another_architecture_is_relabelled(tmp_path: Path) -> None:
    archive = tmp_path / "lxd.tar"
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as made:
        for name, text in (("metadata.yaml", json.dumps({"architecture": "x86_64"})), ("rootfs/file", "content")):
            info = tarfile.TarInfo(name)
            info.size = len(text)
            made.addfile(info, io.BytesIO(text.encode()))
    with archive.open("rb") as whole:
        data = b"".join(imported._relabelled(ARM, archive, whole))
    with tarfile.open(fileobj=io.BytesIO(data)) as relabelled:
        metadata, content = relabelled.extractfile("metadata.yaml"), relabelled.extractfile("rootfs/file")
        assert metadata is not None
        assert content is not None
        assert json.load(metadata) == {"architecture": "aarch64"}
        assert content.read() == b"content"


# Removal


def with_run(lxd: FakeLxd, run_id: str, home: Home) -> None:
    marks = names.labels(run_id, home)
    project = names.project_name(run_id)
    lxd.add(f"projects/{project}", config=marks)
    lxd.add(f"networks/{names.bridge_name(run_id)}", config=marks)
    lxd.add("instances/n0", project)
    lxd.add("storage-pools/default/volumes/custom/d0", project)
    lxd.add("profiles/default", project)
    lxd.add(POOL, project)


def test_a_run_is_removed_whole_and_nothing_else(lxd: FakeLxd, server: Server, tmp_path: Path) -> None:
    home, other = Home(tmp_path / "a"), Home(tmp_path / "b")
    with_run(lxd, "r1", home)
    with_run(lxd, "r2", home)
    lxd.add("networks/lxdbr0", config={})
    lxd.add("instances/mine")
    before = dict(lxd.things)
    assert InstanceRemoval([server], other, "r1").everything() == []
    assert lxd.things == before
    removal = InstanceRemoval([server], home, "r1")
    removal.sweep()
    assert removal.clean_up.errors == []
    assert removal.removed == ["instance n0", "volume d0", "project cephlab-r1", f"network {names.bridge_name('r1')}"]
    assert runs_present([server], home) == {"r2"}
    assert ("default", "instances/mine") in lxd.things
    assert ("default", "networks/lxdbr0") in lxd.things


def test_removal_goes_on_after_an_error_and_tells_it(lxd: FakeLxd, server: Server, tmp_path: Path) -> None:
    home = Home(tmp_path)
    with_run(lxd, "r1", home)
    lxd.refuse.add("storage-pools/default/volumes/custom/d0")
    removal = InstanceRemoval([server], home, "r1")
    removal.sweep()
    assert "volume d0" in "".join(removal.clean_up.errors)
    assert f"network {names.bridge_name('r1')}" in removal.removed


def test_an_instance_that_is_still_being_made_is_waited_for(lxd: FakeLxd, server: Server, tmp_path: Path) -> None:
    with_run(lxd, "r1", Home(tmp_path))
    lxd.busy["instances/n0"] = 1
    removal = InstanceRemoval([server], Home(tmp_path), "r1")
    removal.sweep()
    assert removal.clean_up.errors == []
    assert lxd.requests.count("DELETE instances/n0") == 2


def test_a_name_that_another_home_has_counts_as_taken(lxd: FakeLxd, server: Server, tmp_path: Path) -> None:
    with_run(lxd, "r1", Home(tmp_path / "a"))
    assert InstanceRemoval([server], Home(tmp_path / "b"), "r1").present()
    assert not InstanceRemoval([server], Home(tmp_path / "b"), "r2").present()


def test_a_terminal_is_opened_on_this_machine_whatever_remote_its_user_prefers(server: Server) -> None:
    host = LxdHost(server=server, project="cephlab-r1", node=Node("n0", X86), address="10.77.0.10", disks={})
    socket = server.address.socket
    assert socket is not None
    at, argv = host.interactive(("ceph", "-s"))[:7], host.interactive(("ceph", "-s"))[7:]
    assert at == ("env", f"LXD_DIR={socket.parent}", "lxc", "--force-local", "--project", "cephlab-r1", "exec")
    assert argv == ("--mode", "interactive", "n0", "--", "ceph", "-s")


def test_a_file_call_that_met_the_helper_as_it_left_is_made_again(lxd: FakeLxd, server: Server) -> None:
    where, path = InstanceRef(server, "cephlab-r1", "n0", "n0"), PurePosixPath("/cephlab/node/file")
    lxd.gone["instances/n0/files"] = 2
    files.put(where, b"content", path, 0o644)
    assert lxd.requests == ["DELETE instances/n0/files", "POST instances/n0/files"]
    lxd.gone["instances/n0/files"] = 1
    with pytest.raises(LabBroken, match="is not a file"):
        files.get(where, path, io.BytesIO())
