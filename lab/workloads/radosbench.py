"""rados bench on hosts of the lab, one or several at a time: what each did, read once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from lab.cluster import Cluster
from lab.errors import LabBroken
from lab.workers import Workers

_MARGIN_S = 60.0
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
