"""Virtual machines of LXD without an LXD: what it is asked for, why it has none, and what must not be mixed up."""

import email
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import HOME_VARIABLE, Home
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.cluster.doctor import provider_needs
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.providers.guest import qemu
from cephlab.lab.providers.lxd import LxdProvider, imported, machines, names, nodes
from cephlab.lab.providers.lxd.host import LxdHost
from cephlab.lab.providers.lxd.kind import Supply
from cephlab.lab.providers.lxd.lab import LxdLab, _copy_request
from cephlab.lab.providers.lxd.machineimage import MachineImage
from cephlab.lab.providers.lxd.machines import VirtualMachines
from cephlab.lab.providers.lxd.server import Server, connect
from cephlab.lab.providers.lxd.transport import Address
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB, MIB, Capability, ClusterSpec, Disk, DiskLimits, Node
from tests.fake_lxd import FakeLxd, server_info, serving

POOL = "storage-pools/default"
PROJECT = "cephlab-r1"
NOT_OPERATIONAL = {"type": "Instance type not operational", "last_message": "KVM support is missing (no /dev/kvm)"}


@pytest.fixture
def lxd() -> FakeLxd:
    """One that makes virtual machines; its agent answers, and commands end well."""
    made = FakeLxd(server_info(driver="lxc | qemu", instance_types=["container", "virtual-machine"]))
    made.add(POOL, driver="dir", config={})
    made.add("profiles/default", devices={})
    made.add("resources", cpu={"total": 8}, memory={"total": 64 * GIB, "used": 0})
    for name in ("n0", "n1"):
        made.add(f"instances/{name}", PROJECT, status_code=103, devices={})
        made.add(f"instances/{name}/state", PROJECT, status_code=103, processes=9)
        made.answers[f"instances/{name}/exec"] = {"id": "op"}
    made.add("operations/op/wait", PROJECT, status_code=200, metadata={"return": 0, "output": {"1": "", "2": ""}})
    return made


@pytest.fixture
def endpoint(lxd: FakeLxd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    with serving(lxd, tmp_path / "unix.socket") as address:
        yield address


@pytest.fixture
def server(endpoint: str) -> Iterator[Server]:
    connected = connect(Address(endpoint))
    yield connected
    connected.close()


@pytest.fixture
def lab(server: Server, tmp_path: Path) -> LxdLab:
    run = Run(RunId("r1"), tmp_path / "runs" / "r1")
    supply = Supply({(server.address.url, host_arch()): "f1"}, frozenset())
    made = LxdLab(VirtualMachines(), [server], run, "10.77.5.0/24", supply)
    made.add_nodes([node("n0", Disk("d0", 64 * MIB)), node("n1")])
    return made


def node(name: str, *disks: Disk, **limits: Any) -> Node:
    return Node(name, host_arch(), disks, mon=name == "n0", mgr=name == "n0", **limits)


def test_a_machine_is_ordered_with_its_limits_and_a_block_volume(lxd: FakeLxd, server: Server) -> None:
    disk = Disk("d0", 64 * MIB)
    wanted = node("n0", disk, cores=1.5, memory_bytes=GIB)
    host = LxdHost(wanted, "10.77.5.10", {"d0": disk}, server, PROJECT, VirtualMachines())
    nodes.make(host, "r1", "f1", 24)
    assert lxd.orders(f"{POOL}/volumes/custom") == [
        {"name": "d0", "content_type": "block", "config": {"size": f"{64 * MIB}B"}}
    ]
    [order] = lxd.orders("instances")
    assert (order["type"], order["source"]) == ("virtual-machine", {"type": "image", "fingerprint": "f1"})
    assert order["config"] == {
        "environment.CEPHLAB_RUN": "r1",
        "boot.autostart": "false",
        "security.secureboot": "false",
        "limits.cpu": "2",
        "limits.memory": str(GIB),
    }
    assert order["devices"] == {
        "root": {"type": "disk", "path": "/", "pool": "default"},
        "eth0": {
            "type": "nic",
            "name": "eth0",
            "network": names.bridge_name("r1"),
            "hwaddr": "02:42:0a:4d:05:0a",
        },
        names.machine_device("d0"): {"type": "disk", "pool": "default", "source": "d0"},
    }


def test_a_machine_gets_two_cores_and_two_gib_where_the_spec_says_nothing(lxd: FakeLxd, lab: LxdLab) -> None:
    config = lxd.orders("instances")[0]["config"]
    assert (config["limits.cpu"], config["limits.memory"]) == ("2", str(2 * GIB))
    assert lab.hosts["n0"].arch is host_arch()


def test_what_replaced_the_secure_boot_setting_is_used_where_it_is_known(lxd: FakeLxd, endpoint: str) -> None:
    lxd.info["api_extensions"] = [*lxd.info["api_extensions"], "instance_boot_mode"]
    connected = connect(Address(endpoint))
    host = LxdHost(node("n0"), "10.77.5.10", {}, connected, PROJECT, VirtualMachines())
    nodes.make(host, "r1", "f1", 24)
    config = lxd.orders("instances")[0]["config"]
    assert config["boot.mode"] == "uefi-nosecureboot"
    assert "security.secureboot" not in config
    connected.close()


def test_a_machine_that_is_on_gets_its_name_and_its_disks(lxd: FakeLxd, lab: LxdLab) -> None:
    command = next(order["command"] for order in lxd.orders("instances/n0/exec"))
    assert command[3:] == ["bash", "n0", "", "/cephlab/node", "/cephlab/disks", "d0", names.machine_serial("d0")]
    assert str(lab.hosts["n0"].disk("d0")) == "/cephlab/disks/d0/block"


@pytest.mark.parametrize("disk", ["d0", "n0-block0", "x" * 60])
def test_a_disks_serial_number_is_one_that_any_kind_of_device_holds(disk: str) -> None:
    assert len(names.machine_serial(disk)) == 20
    assert names.machine_device(disk).isalnum()  # LXD writes a hyphen as two


def test_a_power_cut_is_a_forced_stop_and_the_machine_settles_again(lxd: FakeLxd, lab: LxdLab) -> None:
    lab.kill_node("n0")
    assert lxd.orders("instances/n0/state")[-1] == {"action": "stop", "force": True, "timeout": 30}
    lxd.add("instances/n0", PROJECT, status_code=102, devices={})
    before = len(lxd.orders("instances/n0/exec"))
    lab.start_node("n0")
    assert lxd.orders("instances/n0/state")[-1]["action"] == "start"
    assert len(lxd.orders("instances/n0/exec")) == before + 1


def test_a_disk_moves_between_machines_that_find_theirs_again(lxd: FakeLxd, lab: LxdLab) -> None:
    device = names.machine_device("d0")
    lxd.add("instances/n0", PROJECT, status_code=103, devices={device: {}})
    lab.move_disk("d0", "n1")
    assert lxd.orders("instances/n0")[-1]["devices"] == {}
    assert lxd.orders("instances/n1")[-1]["devices"] == {device: {"type": "disk", "pool": "default", "source": "d0"}}
    assert lxd.orders("instances/n0/exec")[-1]["command"][6:] == ["/cephlab/node", "/cephlab/disks"]
    assert lxd.orders("instances/n1/exec")[-1]["command"][8:] == ["d0", names.machine_serial("d0")]


def test_a_second_process_finds_machines_as_machines(lab: LxdLab, tmp_path: Path) -> None:
    attached = LxdProvider(VirtualMachines()).attach(Run(RunId("r1"), tmp_path / "runs" / "r1"), lab.state)
    host = attached.hosts["n0"]
    assert isinstance(host, LxdHost)
    assert host.kind.own_kernel
    assert not host.instance_ref.sees_processes
    assert list(host.disks) == ["d0"]
    host.server.close()


def test_a_machine_that_went_down_is_not_waited_for(lxd: FakeLxd, server: Server) -> None:
    lxd.add("instances/n0/state", PROJECT, status_code=102, processes=-1)
    host = LxdHost(node("n0"), "10.77.5.10", {}, server, PROJECT, VirtualMachines())
    with pytest.raises(LabBroken, match="ended while it was starting"):
        nodes.start(host)


def test_what_a_machine_says_of_itself_are_its_facts(monkeypatch: pytest.MonkeyPatch, lab: LxdLab) -> None:
    monkeypatch.setattr("cephlab.lab.providers.lxd.execs._fetch", lambda _where, _path: b"6.12-amd64\n2\n1000000\n")
    facts = lab.hosts["n0"].facts()
    assert (facts.kernel, facts.cores, facts.memory_bytes) == ("6.12-amd64", 2.0, 1000000 << 10)


def test_tunnels_leave_less_room_for_packets_inside_too(lxd: FakeLxd, server: Server) -> None:
    nodes.make(LxdHost(node("n0"), "10.77.5.10", {}, server, PROJECT, VirtualMachines(), 1400), "r1", "f1", 24)
    assert lxd.orders("instances/n0/exec")[0]["command"][5] == "1400"


def test_a_carried_volume_stays_a_block_device() -> None:
    order = _copy_request("d0", {"content_type": "block", "config": {"size": "1"}})
    assert order == {"name": "d0", "type": "custom", "content_type": "block", "config": {"size": "1"}}


def test_a_killed_run_of_machines_is_found_and_removed(lxd: FakeLxd, endpoint: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    lxd.add(f"projects/{PROJECT}", config=names.labels("r1", home))
    lxd.add(POOL, PROJECT)
    lxd.add(f"{POOL}/volumes/custom/d0", PROJECT, content_type="block")
    lxd.add("profiles/default", PROJECT)
    provider = LxdProvider(VirtualMachines(), lambda: [connect(Address(endpoint))])
    assert provider.leftovers(home) == {"r1"}
    removed = provider.prune(home, RunId("r1"))
    assert removed == ["instance n0", "instance n1", "volume d0", f"project {PROJECT}"]
    assert provider.leftovers(home) == frozenset()


# Images


def machine_image(tmp_path: Path) -> MachineImage:
    disk = tmp_path / "disk.qcow2"
    disk.write_bytes(b"QFI\xfb" + bytes(range(256)))
    image = Image("reef", host_arch(), "k" * 64, tmp_path / "root")
    kernel = Kernel("machine", host_arch(), "key", tmp_path, tmp_path, "6.12", tmp_path)
    return MachineImage(image, "0123abcd", disk, kernel, tmp_path)


def listed(made: MachineImage, kind: str, **properties: str) -> dict[str, Any]:
    stamped = {"cephlab.key": made.image.key, **properties}
    return {"type": kind, "architecture": host_arch().value, "properties": stamped}


def test_an_image_is_sent_as_metadata_and_a_disk_and_a_containers_is_not_taken_for_it(
    lxd: FakeLxd, server: Server, tmp_path: Path
) -> None:
    made = machine_image(tmp_path)
    lxd.add("images/c", fingerprint="c", **listed(made, "container"))
    lxd.add("images/old", fingerprint="old", **listed(made, "virtual-machine", **{"cephlab.machine": "older"}))
    with pytest.raises(LabBroken, match="not the image"):  # this LXD keeps nothing that it is sent
        imported.ensure_machine(server, made)
    [(_, body)] = [sent for sent in lxd.sent if sent[0] == "images"]
    message = email.message_from_bytes(b"Content-Type: multipart/form-data; boundary=cephlab-0123abcd\r\n\r\n" + body)
    parts = {part.get_param("name", header="content-disposition"): part for part in message.walk()}
    assert list(parts) == [None, "metadata", "rootfs.img"]
    assert parts["rootfs.img"].get_payload(decode=True) == made.disk.read_bytes()
    packed = parts["metadata"].get_payload(decode=True)
    assert isinstance(packed, bytes)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        content = archive.extractfile("metadata.yaml")
        assert content is not None
        metadata = json.load(content)
    assert metadata["architecture"] == host_arch().value
    assert metadata["properties"]["cephlab.machine"] == made.stamp
    lxd.add("images/m", fingerprint="m", **listed(made, "virtual-machine", **{"cephlab.machine": made.stamp}))
    assert imported.ensure_machine(server, made) == "m"


def test_each_provider_forgets_images_of_its_own_kind_alone(lxd: FakeLxd, server: Server, tmp_path: Path) -> None:
    made = machine_image(tmp_path)
    lxd.add("images/c", fingerprint="c", **listed(made, "container"))
    lxd.add("images/m", fingerprint="m", **listed(made, "virtual-machine"))
    assert len(imported.others(server, [], "container")) == 1
    assert len(imported.forget(server, made.image, "virtual-machine")) == 1
    assert [path for _, path in lxd.things if path.startswith("images/")] == ["images/c"]


# Refusals


def reason_of(endpoint: str, spec: ClusterSpec | None = None) -> Unavailable:
    reason = LxdProvider(VirtualMachines(), lambda: [connect(Address(endpoint))]).unavailable(spec)
    assert reason is not None
    return reason


@pytest.fixture
def tools(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.images.tools.SystemTools.locate", lambda _self, name: f"/usr/bin/{name}")


@pytest.mark.usefixtures("tools")
def test_an_lxd_that_makes_machines_is_no_obstacle(endpoint: str) -> None:
    assert LxdProvider(VirtualMachines(), lambda: [connect(Address(endpoint))]).unavailable() is None


def test_an_lxd_without_the_driver_says_why_in_its_own_words(
    lxd: FakeLxd, endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lxd.info["environment"] |= {"driver": "lxc"}
    lxd.add("warnings/w", **NOT_OPERATIONAL)
    monkeypatch.setattr(machines, "KVM", tmp_path / "kvm")
    monkeypatch.setattr(machines, "VSOCK", tmp_path / "vhost-vsock")
    reason = reason_of(endpoint)
    assert "cannot make virtual machines" in reason.what
    assert f"this machine has no {tmp_path}/kvm" in reason.detail
    assert f"this machine has no {tmp_path}/vhost-vsock" in reason.detail
    assert "LXD warns: KVM support is missing (no /dev/kvm)" in reason.detail
    assert "--lab qemu" in reason.hint


def test_doctor_names_the_reason_in_one_line(
    lxd: FakeLxd, endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lxd.info["environment"] |= {"driver": "lxc"}
    monkeypatch.setattr(machines, "KVM", tmp_path)
    monkeypatch.setattr(machines, "VSOCK", tmp_path / "absent")
    [need] = provider_needs([LxdProvider(VirtualMachines(), lambda: [connect(Address(endpoint))])])
    assert (need.name, need.present) == ("provider lxd-vm", False)
    assert need.detail.endswith(f"cannot make virtual machines: this machine has no {tmp_path}/absent")
    assert "\n" not in need.detail


def test_a_missing_instance_type_is_named(lxd: FakeLxd, endpoint: str) -> None:
    lxd.info["environment"] |= {"instance_types": ["container"]}
    assert reason_of(endpoint).detail == "its instance types: container"


@pytest.mark.slow
def test_a_kvm_that_was_tried_in_vain_is_none(lxd: FakeLxd, endpoint: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert qemu.known_kvm(home) is None
    home.images.mkdir(parents=True)
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    (home.images / f"kvm-{boot_id}-0123456789ab.json").write_text('{"boots": false}')
    (home.images / "kvm-earlier-0123456789ab.json").write_text('{"boots": true}')
    assert qemu.known_kvm(home) is False
    assert reason_of(endpoint).what == "KVM on this machine boots no kernel"
    lxd.info["environment"] |= {"driver": "lxc"}
    assert "KVM on this machine boots no kernel" in reason_of(endpoint).detail


def test_a_missing_tool_is_named_with_its_package(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cephlab.lab.images.tools.SystemTools.locate",
        lambda _self, name: None if name == "mformat" else f"/usr/bin/{name}",
    )
    reason = reason_of(endpoint)
    assert reason.what == "mformat is not installed"
    assert "mtools" in reason.hint


@pytest.mark.usefixtures("tools")
def test_a_foreign_architecture_is_not_emulated(endpoint: str) -> None:
    foreign = next(arch for arch in Arch if arch is not host_arch())
    reason = reason_of(endpoint, ClusterSpec((Node("n0", foreign, mon=True, mgr=True),)))
    assert f"which is {foreign}" in reason.what


def test_a_disks_limit_is_its_devices(server: Server) -> None:
    limited = Disk("d0", MIB, limits=DiskLimits(write_iops=100))
    assert VirtualMachines().device(server, limited)["limits.write"] == "100iops"


def test_disks_have_limits_where_lxd_gives_them_to_machines(lxd: FakeLxd, endpoint: str) -> None:
    provider = LxdProvider(VirtualMachines(), lambda: [connect(Address(endpoint))])
    assert provider.capabilities() >= {Capability.OWN_KERNEL, Capability.POWER_CUT, Capability.MOVE_DISK}
    assert Capability.DISK_LIMIT not in provider.capabilities()
    lxd.info["api_extensions"] = [*lxd.info["api_extensions"], "vm_disk_io_limits"]
    assert Capability.DISK_LIMIT in provider.capabilities()


def test_what_can_be_had_otherwise_is_not_had_from_it() -> None:
    cost = {name: PROVIDERS[name]().cost for name in PROVIDERS}
    assert max(cost[name] for name in ("local", "container", "lxd", "uml", "qemu")) < cost["lxd-vm"] < cost["ssh"]
