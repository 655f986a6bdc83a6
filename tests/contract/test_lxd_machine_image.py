"""The disk of LXD's virtual machines, booted by plain QEMU with a share like LXD's, up to the agent."""

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.addresses import mac_address
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.guest import qemu
from cephlab.lab.providers.lxd import machineimage, machines, names
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, MIB
from tests.contract.raising import skip_guests

pytestmark = [pytest.mark.real]

ADDRESS = "10.77.5.10"
SERIAL_PORTS = ("com.canonical.lxd", "org.linuxcontainers.lxd")
"""Of LXD's current releases, and of 5.0."""
DISK_BYTES = 64 * MIB
MEMORY = "640M"
BOOT_S = 600.0
"""An emulated machine took half a minute where nothing else ran, and two and a half beside other work."""

FIRMWARE = {
    Arch.X86_64: [Path("/usr/share/OVMF") / name for name in ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd")],
    Arch.AARCH64: [Path("/usr/share/AAVMF") / name for name in ("AAVMF_CODE.fd", "AAVMF_VARS.fd")],
}
VIRTIOFSD = next(
    (path for path in map(Path, ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd")) if path.exists()), None
)

# It ends once, as an agent may, and says in its second life what it sees.
AGENT = """#!/bin/sh
if mkdir /run/lived 2>/dev/null; then exit 7; fi
bash ./settle n-1 1400 "$@" NODE DISKS d0 SERIAL
echo "said: parent $PPID, folder $PWD, name $(cat /proc/sys/kernel/hostname)"
echo "said: address $(ip -4 -o addr show eth0 | tr -s ' ' | cut -d' ' -f4), mtu $(cat /sys/class/net/eth0/mtu)"
echo "said: port $(readlink /dev/virtio-ports/PORT | tr -d 0-9), vsock $(ls /dev/vsock), link $(ls DISKS)"
echo "said: disk $(cat /sys/class/block/$(basename $(readlink -f DISKS/d0/block))/size)"
printf written | dd of=DISKS/d0/block conv=fsync,notrunc 2>/dev/null
echo "said: modules $(modprobe rbd && grep -c ^rbd /proc/modules), shell $(modprobe dm-cache-smq && echo loads)"
echo "said: facts $(bash -c "$(cat facts)" | tr '\\n' ' ')"
echo "said: root $(df -B1 --output=size / | tail -n 1) $(stat -c %U /usr/bin/ceph-osd)"
exec /run/cephlab/busybox poweroff -f
"""


@dataclass(frozen=True)
class Bench:
    """What a machine is started with here."""

    folder: Path
    arch: Arch
    made: machineimage.MachineImage

    @property
    def share(self) -> Path:
        return self.folder / "share"

    @property
    def disk(self) -> Path:
        return self.folder / "d0.raw"


@pytest.fixture(params=list(Arch))
def bench(request: pytest.FixtureRequest, home: Home, tmp_path: Path) -> Bench:
    arch: Arch = request.param
    skip_guests("qemu")
    if shutil.which(qemu.program(arch)) is None or not all(path.exists() for path in FIRMWARE[arch]):
        pytest.skip(f"{qemu.program(arch)} or {FIRMWARE[arch][0]} is not installed")
    made = machineimage.get(home, ImageStore(home).get(DEFAULT_RELEASE, arch), print)
    new_bench = Bench(tmp_path, arch, made)
    with new_bench.disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    fill_share(new_bench.share)
    return new_bench


def fill_share(share: Path) -> None:
    share.mkdir()
    words = {"NODE": places.NODE_DIRECTORY, "DISKS": places.DISKS_DIRECTORY, "PORT": SERIAL_PORTS[0]}
    text = AGENT.replace("SERIAL", names.machine_serial("d0"))
    for word, value in words.items():
        text = text.replace(word, str(value))
    (share / "lxd-agent").write_text(text)
    (share / "lxd-agent").chmod(0o755)
    (share / "settle").write_text(machines.SETTLE)
    (share / "facts").write_text(machines.FACTS)


def command(bench: Bench, share: Sequence[str]) -> list[str]:
    """Devices as LXD attaches them: SCSI disks with serial numbers, a serial port of its name, a share `config`."""
    root, variables = bench.folder / "root.qcow2", bench.folder / "variables.fd"
    make = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", str(bench.made.disk), "-F", "qcow2", str(root)]
    subprocess.run(make, check=True)
    code, initial = FIRMWARE[bench.arch]
    shutil.copyfile(initial, variables)
    disk = "scsi-hd,bus=scsi.0,channel=0,lun=1"
    argv = [qemu.program(bench.arch), "-accel", "tcg,thread=multi", "-cpu", qemu.CPU[bench.arch], "-smp", "2"]
    argv += ["-nodefaults", "-no-user-config", "-display", "none", "-serial", "stdio", "-no-reboot"]
    argv += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={code}"]
    argv += ["-drive", f"if=pflash,unit=1,format=raw,file={variables}"]
    argv += ["-device", "virtio-scsi-pci,id=scsi"]
    argv += ["-blockdev", f"driver=qcow2,node-name=root,file.driver=file,file.filename={root}"]
    argv += ["-device", f"{disk},drive=root,serial=lxd_root,bootindex=0"]
    argv += ["-blockdev", f"driver=file,node-name=d0,filename={bench.disk}"]
    argv += ["-device", f"{disk},drive=d0,serial={names.machine_serial('d0')}"]
    argv += ["-netdev", "user,id=net,restrict=on"]
    argv += ["-device", f"virtio-net-pci,netdev=net,mac={mac_address(ADDRESS)},romfile="]
    argv += ["-device", "virtio-serial-pci"]
    for port in SERIAL_PORTS:
        argv += ["-chardev", f"file,id={port},path={bench.folder / port}"]
        argv += ["-device", f"virtserialport,chardev={port},name={port}"]
    return [*argv, *share]


def by_9p(bench: Bench) -> list[str]:
    share = f"local,id=config,path={bench.share},security_model=none,readonly=on"
    machine = ["-M", qemu.BOARD[bench.arch], "-m", MEMORY]
    return [*machine, "-fsdev", share, "-device", "virtio-9p-pci,mount_tag=config,fsdev=config"]


def boot(bench: Bench, share: Sequence[str]) -> tuple[str, dict[str, str]]:
    """Everything that a machine wrote to its console, and what the agent's stand-in said, by its first word."""
    argv = command(bench, share)
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=BOOT_S, check=False)
    console = ended.stdout.decode(errors="replace")
    assert ended.returncode == 0, console + ended.stderr.decode()
    said = [line.strip().partition("said: ")[2] for line in console.splitlines() if "said: " in line]
    return console, {line.partition(" ")[0]: line.partition(" ")[2] for line in said}


def check(bench: Bench, console: str, said: dict[str, str]) -> None:
    assert console.count(machineimage.STARTED) == 2
    assert "ended with status 7" in console
    assert said["parent"] == "1, folder /run/lxd_agent, name n-1"
    assert said["address"] == f"{ADDRESS}/24, mtu 1400"
    assert said["port"] == "../vportp, vsock /dev/vsock, link d0"
    assert said["disk"] == str(DISK_BYTES // 512)
    assert bench.disk.read_bytes()[:7] == b"written"
    assert said["modules"] == "1, shell loads"
    kernel, cores, memory_kib = said["facts"].split()
    assert (kernel, cores) == (bench.made.kernel.version, "2")
    assert 0.8 < int(memory_kib) / (640 << 10) <= 1
    size, owner = said["root"].split()
    assert int(size) > machineimage.DISK_BYTES * 0.9
    assert owner == "root"


def test_a_machine_gets_as_far_as_lxds_agent(bench: Bench) -> None:
    check(bench, *boot(bench, by_9p(bench)))


@contextmanager
def by_virtiofs(bench: Bench, daemon: Path) -> Iterator[list[str]]:
    """What LXD prefers where it finds its daemon."""
    socket = bench.folder / "fs"
    argv = [str(daemon), f"--socket-path={socket}", "-o", f"source={bench.share}", "-o", "sandbox=chroot"]
    with (bench.folder / "virtiofsd.log").open("wb") as log:
        serving = subprocess.Popen(argv, stdout=log, stderr=log)
    try:
        until(socket.exists)
        memory = ["-object", f"memory-backend-memfd,id=mem,size={MEMORY},share=on"]
        machine = ["-M", f"{qemu.BOARD[bench.arch]},memory-backend=mem", "-m", MEMORY]
        yield [
            *memory,
            *machine,
            "-chardev",
            f"socket,id=fs,path={socket}",
            "-device",
            "vhost-user-fs-pci,chardev=fs,tag=config",
        ]
    finally:
        serving.kill()
        serving.wait()


AGENTS = (shutil.which("lxd-agent"), "/snap/lxd/current/bin/lxd-agent")

# The real agent, asked over the machine's own vsock by who has the key that LXD would have.
ASKED = """#!/bin/sh
modprobe vsock_loopback
python3 ask &
exec ./agent
"""
ASK = """
import http.client, json, socket, ssl, subprocess, time
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
context.load_cert_chain("server.crt", "server.key")
def ask(path):
    plain = socket.socket(socket.AF_VSOCK)
    plain.connect((1, 8443))
    connection = http.client.HTTPConnection("lxd")
    connection.sock = context.wrap_socket(plain)
    connection.request("GET", path)
    return json.load(connection.getresponse())["metadata"]
end = time.monotonic() + 60
while True:
    try:
        told = ask("/1.0/state")
        break
    except OSError as error:
        if time.monotonic() > end:
            told = {"processes": str(error), "network": {}}
            break
        time.sleep(0.5)
addresses = [a["address"] for a in told["network"].get("eth0", {}).get("addresses", []) if a["family"] == "inet"]
print("said: processes", told["processes"], flush=True)
print("said: addresses", *addresses, flush=True)
time.sleep(6)
subprocess.run(["/run/cephlab/busybox", "poweroff", "-f"])
"""


def certificate(folder: Path, name: str) -> None:
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-384", "-nodes", "-keyout", str(folder / f"{name}.key")]
    argv = ["openssl", "req", "-x509", *key, "-out", str(folder / f"{name}.crt"), "-subj", f"/CN={name}", "-days", "2"]
    subprocess.run(argv, check=True, capture_output=True)


def test_lxds_own_agent_starts_and_answers(bench: Bench) -> None:
    agent = next((Path(path) for path in AGENTS if path and Path(path).exists()), None)
    if agent is None or bench.arch is not host_arch():
        pytest.skip("LXD's agent is not installed, or of another architecture")
    shutil.copy(agent, bench.share / "agent")
    (bench.share / "lxd-agent").write_text(ASKED)
    (bench.share / "ask").write_text(ASK)
    for name in ("agent", "server"):
        certificate(bench.share, name)
    console, said = boot(bench, by_9p(bench))
    assert int(said["processes"]) > 0, console  # by which the lab knows that an agent answers
    assert said["addresses"] == ADDRESS, console
    assert any("STARTED" in (bench.folder / port).read_text() for port in SERIAL_PORTS), console


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_machine_takes_its_share_by_virtiofs(bench: Bench) -> None:
    if VIRTIOFSD is None or os.geteuid() != 0 or bench.arch is not host_arch():
        pytest.skip("virtiofs is tried as root, with virtiofsd, on this machine's architecture")
    with by_virtiofs(bench, VIRTIOFSD) as share:
        check(bench, *boot(bench, share))
