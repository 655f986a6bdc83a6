"""rados bench on hosts of the lab, one or several at a time: what each did, read once."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from lab.cluster import Cluster
from lab.errors import LabBroken
from lab.host import Host, HostProcess
from lab.workers import Workers
from lab.workloads.fio import NOTHING, Done, FioResult, Progress, configure, said

_MARGIN_S = 60.0
_END_S = 60.0
_FIGURE = re.compile(r"^([A-Z][^:\n]*):\s+(-?[\d.]+(?:e[+-]?\d+)?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class BenchJob:
    """mode: write, seq or rand; threads: operations in flight; run: name that a later read finds its objects by.

    most_bytes: writing ends when so much was written, 0 for no such end.
    """

    pool: str
    mode: str
    seconds: int
    threads: int = 16
    block_bytes: int = 4 << 20
    run: str = "bench"
    most_bytes: int = 0

    def arguments(self) -> list[str]:
        """For the program `rados`."""
        given = [
            "-p",
            self.pool,
            "bench",
            str(self.seconds),
            self.mode,
            "-t",
            str(self.threads),
            "--run-name",
            self.run,
        ]
        if self.mode != "write":
            return given
        if self.most_bytes:
            given += ["--max-objects", str(max(1, self.most_bytes // self.block_bytes))]
        return [*given, "-b", str(self.block_bytes), "--no-cleanup"]


@dataclass(frozen=True)
class BenchResult:
    """operations: ended; seconds: they took; latency_mean_s: of one; iops_stddev: of its rates over a second each."""

    operations: int
    seconds: float
    block_bytes: int
    latency_mean_s: float
    iops_stddev: float = 0.0

    @property
    def iops(self) -> float:
        return self.operations / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.iops * self.block_bytes


def parse(text: str) -> BenchResult:
    """Read the summary that rados bench prints at its end; LabBroken where it is not one."""
    found = {name.lower(): float(value) for name, value in _FIGURE.findall(text)}
    try:
        operations = found["total writes made"] if "total writes made" in found else found["total reads made"]
        size = found["write size"] if "write size" in found else found["read size"]
        spread = found.get("stddev iops", 0.0)
        return BenchResult(int(operations), found["total time run"], int(size), found["average latency(s)"], spread)
    except KeyError as error:
        raise LabBroken("rados bench printed no summary", f"without {error}:\n{text[-1000:]}") from None


def run(cluster: Cluster, node: str, job: BenchJob) -> BenchResult:
    """Run one to its end on a node."""
    return parse(cluster.tool(node, "rados", *job.arguments(), timeout_s=job.seconds + _MARGIN_S))


def run_all(cluster: Cluster, jobs: Sequence[tuple[str, BenchJob]]) -> list[BenchResult]:
    """Run (node, job) at the same time; results in their order."""
    with Workers(max_workers=len(jobs), thread_name_prefix="rados-bench") as pool:
        return list(pool.map(lambda pair: run(cluster, pair[0], pair[1]), jobs))


@dataclass(frozen=True)
class RunningBench:
    """One that runs; `process` is what its cost is accounted to, `socket` its admin socket."""

    job: BenchJob
    host: Host
    process: HostProcess
    log: PurePosixPath
    socket: PurePosixPath

    def finish(self, *, timeout_s: float = _END_S) -> FioResult:
        """Wait for its end, which comes by itself, and read what it did; LabBroken when it printed no summary."""
        if not self.process.wait(timeout_s):
            self.kill()
            raise LabBroken(f"rados bench did not end within {timeout_s:g} s on {self.host.name}", self.words())
        found = parse(self.host.read(self.log).decode(errors="replace"))
        done = Done(
            operations=found.operations,
            bytes=found.operations * found.block_bytes,
            seconds=found.seconds,
            iops=found.iops,
            latency_mean_s=found.latency_mean_s,
        )
        return FioResult(NOTHING, done) if self.job.mode == "write" else FioResult(done, NOTHING)

    def progress(self) -> Progress:
        """It keeps no log of single operations."""
        return Progress(())

    def kill(self) -> None:
        """End it without a result; nothing happens when it has ended."""
        self.process.signal(signal.SIGKILL)

    def words(self) -> str:
        """The end of what it printed."""
        return said(self.host, self.log)


def start(host: Host, job: BenchJob) -> RunningBench:
    """Start one on a host, with a ceph.conf and an admin socket of its own."""
    base = host.directory / "rados" / job.run
    host.remove(base)
    host.make_directory(base)
    socket, log = base / "s", base / "words"
    env = configure(host, base, {"admin_socket": str(socket)})
    process = host.spawn(["rados", *job.arguments()], log=log, env=env)
    return RunningBench(job, host, process, log, socket)
