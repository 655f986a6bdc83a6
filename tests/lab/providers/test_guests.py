"""Guests without any machine: what they boot from, their command lines, their network's names, their refusals."""

import ipaddress
import lzma
import os
import socket
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress
from cephlab.lab.base.runs import Runs
from cephlab.lab.images.image import Image
from cephlab.lab.images.kernels import Kernel
from cephlab.lab.images.recipe import read_recipes
from cephlab.lab.images.resolve import include_options
from cephlab.lab.providers.agent.wire import AGENT
from cephlab.lab.providers.guest import boot, network, qemu, uml
from cephlab.lab.providers.guest import provider as guests
from cephlab.lab.providers.guest.lab import GuestLab, claim_subnet
from cephlab.lab.providers.guest.machine import FIRST_DISK, Boot, Interface, Make, Parts
from cephlab.lab.providers.guest.provider import qemu as qemu_provider
from cephlab.lab.providers.guest.provider import uml as uml_provider
from cephlab.lab.providers.host import cpu_time_distortion
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, Node
from cephlab.lab.spec.layout import build_spec

MIB = 1 << 20


@pytest.fixture
def kernel(tmp_path: Path) -> Kernel:
    tree = tmp_path / "root/usr/lib/modules/6.1"
    (tree / "kernel").mkdir(parents=True)
    (tree / "modules.dep").write_text(
        "kernel/rbd.ko.xz: kernel/libceph.ko kernel/dns-resolver.ko\nkernel/libceph.ko: kernel/dns-resolver.ko\n"
        "kernel/dns-resolver.ko:\n"
    )
    (tree / "kernel/rbd.ko.xz").write_bytes(lzma.compress(b"rbd"))
    for name in ("libceph", "dns-resolver"):
        (tree / f"kernel/{name}.ko").write_bytes(name.encode())
    (tmp_path / "root/usr/bin").mkdir()
    (tmp_path / "root/usr/bin/busybox").write_bytes(b"busybox")
    return Kernel("cloud", host_arch(), "k" * 64, tmp_path, tmp_path / "vmlinuz", "6.1", tree)


def order(folder: Path, arch: Arch) -> Boot:
    return Boot(
        name="n0",
        turn=3,
        arch=arch,
        folder=folder,
        executable=folder / "kernel",
        initramfs=folder / "initramfs",
        fixed=((folder / "root", False), (folder / "store", True), (folder / "modules", False)),
        disks={FIRST_DISK: folder / "d0", FIRST_DISK + 2: folder / "d1"},
        interfaces=(Interface("lab0", "02:4c:0a:4e:00:0a"), Interface("control0", "02:4c:a9:fe:4e:00")),
        memory_bytes=1024 * MIB,
        cores=2,
        words={"address": "10.78.0.10/24"},
        console=folder / "console.log",
        inside=("nsenter", "--"),
        marks={},
    )


def test_modules_come_after_what_they_need_and_uncompressed(kernel: Kernel) -> None:
    wanted = [("dns_resolver.ko", b"dns-resolver"), ("libceph.ko", b"libceph"), ("rbd.ko", b"rbd")]
    assert kernel.load_order(["rbd", "libceph", "built-in"]) == wanted


def test_an_initramfs_is_what_the_kernel_unpacks(kernel: Kernel, tmp_path: Path) -> None:
    made = boot.initramfs(Home(tmp_path / "home"), kernel, ["libceph"])
    assert boot.initramfs(Home(tmp_path / "home"), kernel, ["libceph"]) == made
    content = made.read_bytes()
    assert b"modules/order\0" in content
    assert b"dns_resolver.ko\nlibceph.ko\n" in content
    assert (AGENT / "__main__.py").read_bytes() in content


def test_the_archive_names_sizes_and_ends() -> None:
    made = boot.archive(("bin",), {"init": (b"#!\n", 0o755)})
    assert made.startswith(b"070701")
    assert made.count(b"070701") == 3
    assert len(made) % 4 == 0
    assert b"TRAILER!!!" in made[-40:]


def test_a_kernel_is_its_packages_and_nothing_around_them() -> None:
    book = read_recipes()
    uml = book.find_kernel("uml", Arch.X86_64)
    assert uml.bare
    assert not uml.expires, "its suite is not released"
    assert include_options(uml) == ["--include=busybox-static,user-mode-linux"]
    assert not book.find("reef", Arch.X86_64).bare
    with pytest.raises(SpecError, match="aarch64"):
        book.find_kernel("uml", Arch.AARCH64)
    with pytest.raises(SpecError, match="none-such"):
        book.find_kernel("none-such", Arch.X86_64)


def test_a_kernel_is_woken_each_second_however_late_it_can_take_it() -> None:
    told = "import signal, time; time.sleep(1.1); print([signal.sigtimedwait([14], 60).si_signo for _ in range(3)])"
    assert kernel_prints(0, told) == "[14, 14, 14]\n"


def kernel_prints(cpu: int, program: str) -> str:
    argv = [sys.executable, "-I", "-S", str(uml.TICKING), str(cpu), "", sys.executable, "-c", program]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_a_kernel_and_its_programs_share_a_cpu() -> None:
    told = "import os; print(os.sched_getaffinity(0))"
    allowed = os.sched_getaffinity(0)
    assert {kernel_prints(cpu, told) for cpu in allowed} == {f"{{{cpu}}}\n" for cpu in allowed}
    assert kernel_prints(1023, told) == f"{allowed}\n", "a processor that is gone"


def test_guests_that_run_at_the_same_time_are_on_different_processors() -> None:
    assert [uml.cpu_of(turn, {5, 1, 9}) for turn in range(4)] == [1, 5, 9, 1]
    subnets = [ipaddress.IPv4Network(f"10.78.{number}.0/24") for number in range(2)]
    assert [network.number_of(subnet) for subnet in subnets] == [0, 1]


def packaged(folder: Path, loader: bytes = b"/lib64/ld-linux-x86-64.so.2") -> Path:
    """A kernel in the root of its package."""
    program = folder / "root/usr/bin/linux.uml"
    program.parent.mkdir(parents=True)
    program.write_bytes(b"\x7fELF" + loader + b"\0libc.so.6\0")
    return program


def parts_of(executable: Path) -> Any:
    return SimpleNamespace(kernel=SimpleNamespace(executable=executable))


def test_uml_uses_the_c_library_of_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.base.process.start_detached", lambda *_rest, **_more: None)
    hypervisor, home = uml.UmlHypervisor(), Home(tmp_path / "home").ensure()
    boot = replace(order(tmp_path, Arch.X86_64), executable=packaged(tmp_path))
    hypervisor.prepare(home, parts_of(boot.executable))
    program = tmp_path / "linux"
    assert program.read_bytes() == b"\x7fELF" + b"ld.so".ljust(27, b"\0") + b"\0libc.so.6\0"
    assert os.access(program, os.X_OK)
    made = program.stat()
    hypervisor.prepare(home, parts_of(boot.executable))
    for _ in range(2):  # as it starts again after a power cut
        hypervisor.start(boot)
    assert program.stat() == made, "a file that is open for writing cannot be executed"
    assert (tmp_path / "ld.so").readlink() == tmp_path / "root/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2"


def test_a_kernel_without_a_loader_is_refused(tmp_path: Path) -> None:
    parts = parts_of(packaged(tmp_path, b"static"))
    with pytest.raises(LabBroken, match="does not name its loader once"):
        uml.UmlHypervisor().prepare(Home(tmp_path / "home").ensure(), parts)


def test_uml_shares_its_root_and_writes_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr("cephlab.lab.base.process.start_detached", lambda argv, **_rest: started.append(list(argv)))
    uml.UmlHypervisor().start(replace(order(tmp_path, Arch.X86_64), executable=packaged(tmp_path)))
    (argv,) = started
    assert argv[:2] == ["nsenter", "--"]
    libraries = tmp_path / "root/usr/lib/x86_64-linux-gnu"
    cpu = str(uml.cpu_of(3, os.sched_getaffinity(0)))
    assert argv[argv.index(str(uml.TICKING)) + 1 :][:3] == [cpu, str(libraries), str(tmp_path / "linux")]
    disks = [word for word in argv if word.startswith("ubd")]
    files = [tmp_path / name for name in ("root", "store", "modules", "d0", "d1")]
    assert disks == [
        f"{name}={path}" for name, path in zip(("ubdarc", "ubdbc", "ubdcrc", "ubddc", "ubdfc"), files, strict=True)
    ]
    assert "mem=1024M" in argv
    assert uml.UmlHypervisor().place(FIRST_DISK + 2) == "ubdf"


def test_qemu_emulates_what_this_machine_is_not(tmp_path: Path) -> None:
    hypervisor = qemu.QemuHypervisor()
    foreign = next(arch for arch in Arch if arch is not host_arch())
    words = hypervisor.command(order(tmp_path, foreign))
    assert words[0] == f"qemu-system-{foreign}"
    assert words[words.index("-accel") + 1] == "tcg,thread=multi"
    assert sum("scsi-hd" in word for word in words) == 2
    assert hypervisor.emulated(foreign)
    assert hypervisor.cores(1.5) == 2


def test_without_a_kvm_that_boots_there_is_none(
    kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = Parts(kernel, tmp_path / "initramfs", tmp_path / "root")
    home = Home(tmp_path / "home").ensure()
    monkeypatch.setattr("os.access", lambda *_arguments: False)
    assert not qemu.kvm_boots(home, parts)
    assert qemu.known_kvm(home) is None, "who may not open it yet has not tried it"
    monkeypatch.setattr("os.access", lambda *_arguments: True)
    said = ["nothing"]
    monkeypatch.setattr(
        "cephlab.lab.base.process.run", lambda argv, **_rest: subprocess.CompletedProcess(argv, 0, said[0], "")
    )
    hypervisor = qemu.QemuHypervisor()
    hypervisor.prepare(home, parts)
    assert hypervisor.emulated(host_arch())
    said[0] = "cephlab: the kernel runs\n"
    hypervisor.prepare(home, parts)
    assert hypervisor.emulated(host_arch()), "it is remembered until the next boot of this machine"
    hypervisor.prepare(Home(tmp_path / "other").ensure(), parts)
    assert not hypervisor.emulated(host_arch())


@pytest.mark.slow
def test_a_machine_that_ends_while_its_monitor_is_asked_is_a_broken_lab(tmp_path: Path) -> None:
    """The library raises what ended the connection once more when it is closed."""

    def serve(server: socket.socket) -> None:
        link, _ = server.accept()
        with link:
            for said in (b'{"QMP": {"version": {}, "capabilities": []}}\n', b'{"return": {}}\n'):
                link.sendall(said)
                link.recv(4096)

    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "qmp"))
        server.listen()
        threading.Thread(target=serve, args=(server,), daemon=True).start()
        with pytest.raises(LabBroken, match="monitor failed"), qemu.monitor(tmp_path) as qmp:
            qemu.ask(qmp, "device_del", {"id": "disk3"})
    folders = [path for path in Path("/proc/self/fd").iterdir() if path.exists() and path.samefile(tmp_path)]
    assert folders == []


@pytest.mark.slow
def test_a_monitor_that_says_nothing_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qemu, "_ANSWER_S", 0.1)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "qmp"))
        server.listen()
        with pytest.raises(LabBroken, match="monitor failed"), qemu.monitor(tmp_path):
            pytest.fail("it never greeted")


def test_runs_of_a_home_have_subnets_of_their_own(tmp_path: Path) -> None:
    runs = Runs(Home(tmp_path))
    first, second = runs.create("uml"), runs.create("uml")
    assert (claim_subnet(first), claim_subnet(second)) == ("10.78.0.0/24", "10.78.1.0/24")
    runs.forget(first)
    assert claim_subnet(runs.create("uml")) == "10.78.0.0/24"
    with pytest.raises(LabBroken, match="no subnet"):
        network.free_subnet([str(net) for net in network.POOL.subnets(new_prefix=24)])


def test_paths_that_no_command_line_can_hold_are_refused(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="comma"):
        boot.refuse_odd_path(tmp_path / "a,b")
    boot.refuse_odd_path(tmp_path)


def test_a_provider_names_what_it_cannot_do_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.images.tools.SystemTools.locate", lambda _self, _name: None)
    monkeypatch.setattr("cephlab.lab.providers.guest.provider.host_arch", lambda: Arch.X86_64)
    for provider in (uml_provider(), qemu_provider()):
        lacking = provider.unavailable(build_spec([(Arch.X86_64, 1), (Arch.AARCH64, 1)]))
        assert lacking is not None
        assert "qemu-system" in lacking.hint
        assert Capability.FOREIGN_ARCH not in provider.capabilities()
        assert {Capability.OWN_KERNEL, Capability.POWER_CUT} <= provider.capabilities()
    monkeypatch.setattr("cephlab.lab.providers.guest.provider.host_arch", lambda: Arch.AARCH64)
    elsewhere = uml_provider().unavailable()
    assert elsewhere is not None
    assert "x86_64" in elsewhere.what


def test_whoever_raises_the_first_guests_hears_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def get(name: str, arch: Arch, *, progress: Progress) -> Any:
        progress(f"downloading {name}")

    def export(*given: Any) -> Path:
        given[-1](f"making a disk of {given[-3].release}")
        raise Unavailable("this is far enough")

    monkeypatch.setattr(guests, "KernelStore", lambda _home: SimpleNamespace(get=get))
    monkeypatch.setattr(guests, "export_image", export)
    provider = replace(qemu_provider(), missing=lambda _archs: None)
    image = Image("reef", host_arch(), "k" * 64, tmp_path)
    said: list[str] = []
    launched = provider.launch(
        build_spec([(host_arch(), 1)]), {host_arch(): image}, Runs(Home(tmp_path)).create("qemu"), progress=said.append
    )
    with pytest.raises(Unavailable, match="far enough"), launched:
        pytest.fail("it must not get here")
    assert said == ["downloading cloud", "making a disk of reef"]


def test_the_cpu_time_of_user_mode_linux_says_nothing_of_hardware(tmp_path: Path) -> None:
    run = Runs(Home(tmp_path / "home")).create("uml")
    lab = GuestLab(run, uml_provider().kinds, {}, "10.78.0.0/24", 1.0)
    state = {"address": "10.78.0.10", "index": 0, "slots": {}}
    others = {"n1": {**state, "arch": "aarch64"}, "n2": {**state, "arch": "x86_64", "fabrics": True}}
    lab.restore({"nodes": {"n0": {**state, "arch": "x86_64"}, **others}})
    assert "User-Mode Linux" in cpu_time_distortion(lab.hosts["n0"])
    for name in others:
        assert lab.hosts[name].emulated is ("emulated" in cpu_time_distortion(lab.hosts[name]))


@pytest.mark.parametrize(
    ("node", "kernel"),
    [
        (Node("n0", Arch.X86_64), ""),
        (Node("n0", Arch.X86_64, cores=2.0), "cloud"),
        (Node("n0", Arch.X86_64, fabrics=True), "cloud"),
        (Node("n0", Arch.X86_64, page_bytes=4096, fabrics=True), "cloud"),
        (Node("n0", Arch.AARCH64, fabrics=True), "cloud"),
    ],
)
def test_a_node_that_asks_for_what_user_mode_linux_lacks_is_a_whole_machine(node: Node, kernel: str) -> None:
    kinds = uml_provider().kinds
    make = kinds.make_of(node)
    kind = kinds.of(make)
    assert kind.kernel == (kernel or "uml")
    assert isinstance(kind.hypervisor, uml.UmlHypervisor) is (kernel == "")
    assert Make.parse(str(make)) == make
    assert qemu_provider().kinds.make_of(node) == Make(node.arch, node.page_bytes), "all of its machines are whole"


def test_whole_machines_beside_user_mode_linux_need_qemu(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {Capability.CPU_LIMIT, Capability.FABRICS}
    places: dict[str, str] = {}
    monkeypatch.setattr("cephlab.lab.images.tools.SystemTools.locate", lambda _self, name: places.get(name))
    assert asked.isdisjoint(uml_provider().capabilities())
    places["qemu-system-x86_64"] = "/usr/bin/qemu-system-x86_64"
    assert asked <= uml_provider().capabilities()


def test_a_lab_without_whole_machines_refuses_a_node_that_asks_for_one(tmp_path: Path) -> None:
    kernel = Kernel("uml", Arch.X86_64, "k", tmp_path, tmp_path / "linux", "6.1", tmp_path, 4096)
    parts = {Make(Arch.X86_64): Parts(kernel, tmp_path / "initramfs", tmp_path / "root")}
    run = Runs(Home(tmp_path / "home")).create("uml")
    lab = GuestLab(run, uml_provider().kinds, parts, "10.78.0.0/24", 1.0)
    with pytest.raises(SpecError, match="n1 asks for a number of CPUs or NVMe over TCP"):
        lab.add_node(Node("n1", Arch.X86_64, fabrics=True))


def test_a_user_who_may_not_open_tun_is_not_told_to_load_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tun = tmp_path / "tun"
    monkeypatch.setattr(network, "TUN", tun)
    monkeypatch.setattr(os, "access", lambda *_: False)
    for hint in ("load the module tun: modprobe tun", f"let this user open it (as root: chmod 666 {tun})"):
        refused = network.obstacle()
        assert refused is not None
        assert f"{tun} cannot be opened" in refused.what
        assert refused.hint.startswith(hint)
        tun.touch()
