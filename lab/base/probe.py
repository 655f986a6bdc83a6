"""Measures the figures of a machine profile on this machine: core speed, memory, checksums, a disk, the network."""

import fcntl
import json
import os
import re
import socket
import stat
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from shutil import disk_usage, which

import psutil

from cephlab.lab.base import clock, process
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import CommandFailed, LabBroken, NotInstalled, SpecError, Unavailable, output_of
from cephlab.lab.base.precondition import until_steady

Run = Callable[[Sequence[str], float], str]
"""Runs a command with a timeout in seconds and returns its standard output."""

SEVEN_ZIP = ("7z", "7zz", "7za")
MIPS_PER_POINT = 816.0
"""7-Zip's total rating per core for one point of SPECrate2017_int_base per core; docs/model-steps.md derives it."""

_FIO_OVERHEAD_S = 120.0
_SLOWEST_BYTES_S = 10e6
_PASSES = 2
_RTT_ROUNDS = 2000
_HANDSHAKES = 11
_CONNECT_S = 5.0
_STARTED_S = 30.0
_TCP_INFO = struct.Struct("60xIII")
"""tcpi_pmtu, tcpi_rcv_ssthresh and tcpi_rtt (microseconds), after eight bytes and thirteen numbers."""
IPERF_PORT = 5201
_COPY_BYTES = 64 << 20
_COPIES = 20


@dataclass(frozen=True)
class DiskFigures:
    """Figures of a disk, or of a file on it: IOPS of 4 KiB blocks, bytes per second of 1 MiB blocks, latency in s.

    before: how it was preconditioned for small writes, as text for the source of their rate; empty if it was not.
    """

    read_iops: float
    write_iops: float
    seq_read: float
    seq_write: float
    sync_latency_s: float
    read_latency_s: float
    before: str = ""


def run_here(argv: Sequence[str], timeout_s: float) -> str:
    """`Run` on this machine."""
    return process.run(argv, timeout_s=timeout_s).stdout


def require_programs() -> str:
    """The name of the 7-Zip program here; NotInstalled names every program that is missing, with its package."""
    return require_seven_zip("fio", "iperf3")


def require_seven_zip(*beside: str) -> str:
    """The name of the 7-Zip program here; NotInstalled names it and the other given programs if they are missing."""
    missing = {name: name for name in beside if not which(name)}
    seven_zip = next((name for name in SEVEN_ZIP if which(name)), "")
    if not seven_zip:
        missing[SEVEN_ZIP[0]] = "7zip"
    if missing:
        raise NotInstalled(missing, "needed to measure this machine")
    return seven_zip


def cpu_rating(program: str) -> float:
    """7-Zip's total rating in MIPS of all CPUs together: its LZMA benchmark, compression and decompression."""
    return parse_rating(run_here([program, "b"], 600), psutil.cpu_count() or 1)


OWN = 0.9
"""Share of the CPUs that 7-Zip gets at least on an idle machine. With less, other processes used the CPUs too."""


def parse_rating(text: str, cpus: int) -> float:
    """From the line `Tot:` with CPU usage in percent, rating at 100 % usage, and rating; LabBroken without it.

    If other processes used the CPUs too, the rating is only that of the share that 7-Zip got, so it is scaled up.
    """
    total = re.search(r"^Tot:\s+([0-9]+)\s+[0-9]+\s+([0-9]+)\s*$", text, re.MULTILINE)
    if not total or min(float(total[1]), float(total[2])) <= 0:
        raise LabBroken("7-Zip printed no total rating", text[-500:])
    share, rating = float(total[1]) / 100 / cpus, float(total[2])
    return rating if share >= OWN else rating / share


def crc32c_bytes_s() -> float:
    """Bytes per second of fio's CRC-32C on one core; fio uses the CPU's instruction if there is one."""
    return parse_crc(run_here(["fio", "--crctest=crc32c"], 60))


def parse_crc(text: str) -> float:
    """Bytes per second, from fio's line `crc32c: 8181.53 MiB/sec`; LabBroken if there is none."""
    rate = re.search(r"crc32c:\s*([0-9.]+) MiB/sec", text)
    if not rate or float(rate[1]) <= 0:
        raise LabBroken("fio printed no CRC-32C rate", text[-500:])
    return float(rate[1]) * (1 << 20)


def memory_copy_bytes_s() -> float:
    """Bytes per second that one core copies between two buffers larger than its caches."""
    source, target = bytearray(_COPY_BYTES), bytearray(_COPY_BYTES)
    target[:] = source
    began = SYSTEM.monotonic()
    for _ in range(_COPIES):
        target[:] = source
    return _COPIES * _COPY_BYTES / (SYSTEM.monotonic() - began)


@contextmanager
def scratch(target: Path, size_bytes: int, *, destroy: bool) -> Iterator[Path]:
    """The file or device that fio may write to inside the block. A file is made in a folder and removed afterwards.

    Raises SpecError for a device without `destroy`, a file in use, a folder that cannot be written or lacks room.
    """
    if target.exists() and stat.S_ISBLK(target.stat().st_mode):
        if not destroy:
            raise SpecError(
                f"{target} is a device",
                "measuring it destroys all data on it",
                "allow that with --destroy-data, or name a folder",
            )
        yield target
        return
    if not target.is_dir():
        what = "is neither a folder nor a device" if target.exists() else "does not exist"
        raise SpecError(f"--disk: {target} {what}", "wanted: a folder on the disk to measure, or a device")
    free = disk_usage(target).free
    if free < size_bytes * 1.1:
        raise SpecError(
            "too little disk space to measure the disk",
            f"{target}: free {free / 1e9:.1f} GB, wanted {size_bytes * 1.1 / 1e9:.1f} GB",
            "choose a smaller --size",
        )
    path = target / ".cephlab-probe"
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise SpecError(
            f"--disk: {target} cannot be written", error.strerror or "", "name a folder of yours"
        ) from error
    try:
        # The lock ends with the probe, so the file of a killed probe is used again.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise SpecError(f"{path} is in use", "another probe runs in this folder", "wait until it ends") from None
    try:
        yield path
    finally:
        with suppress(FileNotFoundError):
            path.unlink()
        os.close(handle)


@dataclass(frozen=True)
class DiskRun:
    """size_bytes: used part of the disk; seconds: of each run; precondition: first write small blocks until steady."""

    size_bytes: int
    seconds: float
    precondition: bool = False


def disk(path: Path, wanted: DiskRun, say: Callable[[str], None], run: Run = run_here) -> DiskFigures:
    """Measure a disk through a file or device.

    The synchronous write is the Proxmox paper's command for choosing disks. The others are what data sheets rate:
    4 KiB random at queue depth 64 and 1 MiB sequential at queue depth 16. New flash writes faster than it ever will
    again. With `precondition`, the whole size is first written twice, then small blocks until their rate is steady.
    """
    seconds = wanted.seconds

    def fio(pattern: str, block: str, depth: int, *more: str) -> dict[str, float]:
        say(f"disk: {pattern} of {block}, queue depth {depth}")
        argv = ["fio", "--name=fio", "--ioengine=libaio", f"--filename={path}", "--direct=1", f"--rw={pattern}"]
        argv += [
            f"--bs={block}",
            f"--iodepth={depth}",
            "--numjobs=1",
            f"--size={wanted.size_bytes}",
            "--output-format=json",
        ]
        # A whole pass has no time limit of its own, and a disk may be slow.
        timeout_s = seconds + _FIO_OVERHEAD_S if more else wanted.size_bytes / _SLOWEST_BYTES_S + _FIO_OVERHEAD_S
        return parse_fio(run([*argv, *more], timeout_s), "read" in pattern)

    timed = (f"--runtime={seconds:g}", "--time_based")
    # The whole file is written first: reading blocks that were never written measures nothing.
    for _ in range(_PASSES if wanted.precondition else 1):
        fio("write", "1M", 16)
    write, read = fio("write", "1M", 16, *timed), fio("read", "1M", 16, *timed)
    sync = fio("write", "4K", 1, "--sync=1", *timed)
    read_iops = fio("randread", "4K", 64, *timed)["iops"]

    def small_writes() -> float:
        return fio("randwrite", "4K", 64, *timed)["iops"]

    written = until_steady(small_writes) if wanted.precondition else None
    return DiskFigures(
        read_iops=read_iops,
        write_iops=written.rate if written else small_writes(),
        seq_read=read["bytes_s"],
        seq_write=write["bytes_s"],
        sync_latency_s=sync["latency_s"],
        read_latency_s=fio("randread", "4K", 1, *timed)["latency_s"],
        before=written.words if written else "",
    )


@output_of("fio")
def parse_fio(text: str, reads: bool) -> dict[str, float]:
    """iops, bytes_s and latency_s from fio's JSON; LabBroken when fio did no I/O."""
    job = json.loads(text[text.index("{") :])["jobs"][0]["read" if reads else "write"]
    figures = {
        "iops": float(job["iops"]),
        "bytes_s": float(job["bw_bytes"]),
        "latency_s": float(job["lat_ns"]["mean"]) / 1e9,
    }
    if not all(value > 0 for value in figures.values()):
        raise LabBroken("fio did no I/O", text[-500:])
    return figures


def free_port() -> int:
    """A loopback port that nobody uses now."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def loopback_bytes_s(seconds: float) -> float:
    """Bytes per second of one TCP stream over loopback, measured by iperf3."""
    port = free_port()
    server = threading.Thread(
        target=process.run,
        args=(["iperf3", "-s", "-1", "-B", "127.0.0.1", "-p", str(port)],),
        kwargs={"timeout_s": seconds + 30, "check": False},
        daemon=True,
    )
    server.start()
    _await_port(port)
    text = run_here(["iperf3", "-c", "127.0.0.1", "-p", str(port), "-t", f"{seconds:g}", "-J"], seconds + 30)
    server.join(10)
    return parse_iperf(text)


@dataclass(frozen=True)
class NetworkFigures:
    """The network to another machine: bytes per second of four TCP streams, round trip of a handshake, path MTU."""

    bytes_s: float
    rtt_s: float
    mtu_bytes: int


def line_to(peer: str, seconds: float, run: Run = run_here, port: int = IPERF_PORT) -> NetworkFigures:
    """Measure the network to a machine on which `iperf3 -s` runs; Unavailable if it does not answer."""
    argv = ["iperf3", "-c", peer, "-p", str(port), "--connect-timeout", f"{_CONNECT_S * 1000:g}"]
    argv += ["-t", f"{seconds:g}", "-P", "4", "-J"]
    try:
        text = run(argv, seconds + 30)
    except CommandFailed as error:
        text = error.stdout
    refused = iperf_error(text)
    if refused:
        raise Unavailable(f"iperf3 does not answer on {peer}", refused, f"run `iperf3 -s` there, and open port {port}")
    # Handshakes come after the run, because a server that is busy with one refuses the run.
    rtt, mtu = zip(*(_handshake(peer, port) for _ in range(_HANDSHAKES)), strict=True)
    return NetworkFigures(parse_iperf(text), sorted(rtt)[_HANDSHAKES // 2], min(mtu))


def _handshake(peer: str, port: int) -> tuple[float, int]:
    """(round trip of a handshake in s, path MTU), as the kernel reports them: tcp(7), TCP_INFO, linux/tcp.h."""

    def answered() -> bytes:
        # Between two clients iperf3 closes its port for a moment.
        with suppress(ConnectionError), socket.create_connection((peer, port), timeout=_CONNECT_S) as line:
            return line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
        return b""

    what, late = f"a handshake with {peer}", clock.too_slow
    answer = clock.wait(answered, bool, what=what, timeout_s=_CONNECT_S, interval_s=0.05, timed_out=late)
    mtu, _, rtt_us = _TCP_INFO.unpack(answer)
    return rtt_us / 1e6, int(mtu)


def iperf_error(text: str) -> str:
    """iperf3's own error message, else empty. Its exit status may be 0 even then, e.g. in 3.12."""
    try:
        return str(json.loads(text).get("error", ""))
    except (ValueError, AttributeError):
        return ""


@output_of("iperf3")
def parse_iperf(text: str) -> float:
    """Bytes per second that arrived; LabBroken if iperf3 printed no such figure."""
    rate = float(json.loads(text)["end"]["sum_received"]["bits_per_second"]) / 8
    if rate <= 0:
        raise LabBroken("iperf3 transferred nothing", text[-500:])
    return rate


def _await_port(port: int) -> None:
    """Wait until something listens on a port, without connecting: `iperf3 -s -1` ends after one connection."""
    line = f":{port:04X} 00000000:0000 0A"

    def listens() -> bool:
        return line in Path("/proc/net/tcp").read_text()

    what, late = "the start of iperf3", clock.too_slow
    clock.wait(listens, bool, what=what, timeout_s=_STARTED_S, interval_s=0.05, timed_out=late)


def loopback_rtt_s() -> float:
    """Median round trip of one byte over TCP on loopback, in s."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        echo = threading.Thread(target=_echo, args=(server,), daemon=True)
        echo.start()
        with socket.create_connection(server.getsockname()) as line:
            line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            times_s = []
            for _ in range(_RTT_ROUNDS):
                began = SYSTEM.monotonic()
                line.sendall(b"x")
                line.recv(1)
                times_s.append(SYSTEM.monotonic() - began)
        echo.join(5)
    return sorted(times_s)[len(times_s) // 2]


def _echo(server: socket.socket) -> None:
    line, _ = server.accept()
    with line:
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while byte := line.recv(1):
            line.sendall(byte)
