"""Runs rados bench on hosts of the lab, one or several at a time, and parses its summary."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult, Progress, RunningProgram, configure, folder

_MARGIN_S = 60.0
_END_S = 60.0
_FIGURE = re.compile(r"^([A-Z][^:\n]*):\s+(-?[\d.]+(?:e[+-]?\d+)?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class BenchJob:
    """A job of rados bench. mode: write, seq or rand; threads: operations in flight; run: name of its objects.

    most_bytes: writing ends after this amount; 0: no limit.
    """

    pool: str
    mode: str
    seconds: int
    threads: int = 16
    block_bytes: int = 4 << 20
    run: str = "bench"
    most_bytes: int = 0

    def arguments(self) -> list[str]:
        """Arguments for the program `rados`."""
        arguments = ["-p", self.pool, "bench", str(self.seconds), self.mode]
        arguments += ["-t", str(self.threads), "--run-name", self.run]
        if self.mode != "write":
            return arguments
        if self.most_bytes:
            arguments += ["--max-objects", str(max(1, self.most_bytes // self.block_bytes))]
        return [*arguments, "-b", str(self.block_bytes), "--no-cleanup"]


@dataclass(frozen=True)
class BenchResult:
    """Operations that ended, and the seconds they took. iops_stddev: of IOPS samples over one second each."""

    operations: int
    seconds: float
    block_bytes: int
    latency_mean_s: float
    iops_stddev: float

    @property
    def iops(self) -> float:
        return self.operations / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_s(self) -> float:
        return self.iops * self.block_bytes


def parse(text: str) -> BenchResult:
    """Parse the summary that rados bench prints at its end; LabBroken if it is incomplete."""
    figures = {name.lower(): float(value) for name, value in _FIGURE.findall(text)}
    try:
        operations = figures["total writes made"] if "total writes made" in figures else figures["total reads made"]
        size = figures["write size"] if "write size" in figures else figures["read size"]
        spread = figures.get("stddev iops", 0.0)
        return BenchResult(int(operations), figures["total time run"], int(size), figures["average latency(s)"], spread)
    except KeyError as error:
        raise LabBroken("rados bench printed no summary", f"{error} is missing:\n{text[-1000:]}") from None


def run(cluster: Cluster, node: str, job: BenchJob) -> BenchResult:
    """Run a job to its end on a node."""
    return parse(cluster.tool(node, "rados", *job.arguments(), timeout_s=job.seconds + _MARGIN_S))


def run_all(cluster: Cluster, jobs: Sequence[tuple[str, BenchJob]]) -> list[BenchResult]:
    """Run all (node, job) at the same time; results in the same order."""
    with Workers(max_workers=len(jobs), thread_name_prefix="rados-bench") as pool:
        return list(pool.map(lambda pair: run(cluster, pair[0], pair[1]), jobs))


@dataclass(frozen=True)
class RunningBench(RunningProgram):
    """rados bench with a job. socket: its admin socket."""

    job: BenchJob
    socket: PurePosixPath

    def finish(self, *, timeout_s: float = _END_S) -> FioResult:
        """Wait until it ends by itself, and read its summary; LabBroken if it printed none."""
        self.await_end(timeout_s, "rados bench")
        result = parse(self.host.read(self.log).decode(errors="replace"))
        summary = Done(
            operations=result.operations,
            bytes=result.operations * result.block_bytes,
            seconds=result.seconds,
            iops=result.iops,
            latency_mean_s=result.latency_mean_s,
        )
        return FioResult(NOTHING, summary) if self.job.mode == "write" else FioResult(summary, NOTHING)

    def progress(self) -> Progress:
        """Empty: rados bench keeps no log of single operations."""
        return Progress(())


def start(host: Host, job: BenchJob) -> RunningBench:
    """Start a job on a host, with its own ceph.conf and admin socket."""
    base = folder(host, "rados", job.run)
    socket, log = base / "s", base / "words"
    env = configure(host, base, {"admin_socket": str(socket)})
    process = host.spawn(["rados", *job.arguments()], log=log, env=env)
    return RunningBench(host, process, log, job, socket)
