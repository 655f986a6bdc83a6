"""Runs OLTP transactions of sysbench against a MariaDB server on the same host, and parses the report."""

import re
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.host import Host

_MARGIN_S = 120.0
_SAMPLE = re.compile(
    r"^\[ *(?P<at>\d+)s ] thds: (?P<threads>\d+) tps: (?P<tps>[\d.]+) .*lat \(ms,95%\): (?P<p95>[\d.]+)"
)
_REPORT = {
    "transactions": r"transactions: +(\d+) +\(",
    "tps": r"transactions: +\d+ +\(([\d.]+) per sec",
    "errors": r"ignored errors: +(\d+)",
    "reconnects": r"reconnects: +(\d+)",
    "seconds": r"total time: +([\d.]+)s",
    "mean_ms": r"avg: +([\d.]+)",
    "p95_ms": r"95th percentile: +([\d.]+)",
}


@dataclass(frozen=True)
class Sample:
    """One second of a run. at_s: since the run began; tps: transactions in it; p95_ms: 95th percentile latency."""

    at_s: int
    tps: float
    p95_ms: float


@dataclass(frozen=True)
class SysbenchResult:
    """Result of a run. errors: refused statements that sysbench repeated, mostly deadlocks."""

    transactions: int
    tps: float
    seconds: float
    mean_ms: float
    p95_ms: float
    errors: int
    reconnects: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True)
class Oltp:
    """oltp_read_write on its own tables. rows: of each table; seed: for all random choices."""

    socket: PurePosixPath
    database: str
    rows: int
    tables: int = 1
    threads: int = 8
    runtime_s: int = 10
    seed: int = 1

    def argv(self, command: str) -> list[str]:
        """The command line. command: prepare, run or cleanup."""
        return [
            "sysbench",
            "oltp_read_write",
            "--db-driver=mysql",
            f"--mysql-socket={self.socket}",
            "--mysql-user=root",
            f"--mysql-db={self.database}",
            f"--tables={self.tables}",
            f"--table-size={self.rows}",
            f"--threads={self.threads}",
            f"--time={self.runtime_s}",
            "--events=0",
            "--report-interval=1",
            "--percentile=95",
            f"--rand-seed={self.seed}",
            command,
        ]


def prepare(host: Host, job: Oltp) -> None:
    """Create and fill the tables."""
    host.run(job.argv("prepare"), timeout_s=_MARGIN_S + job.rows * job.tables / 500)


def run(host: Host, job: Oltp) -> SysbenchResult:
    """Run the transactions; CommandFailed if a statement fails for any reason other than a conflict."""
    return parse(host.run(job.argv("run"), timeout_s=job.runtime_s + _MARGIN_S).stdout)


def parse(text: str) -> SysbenchResult:
    """Parse the report of sysbench 1.0; LabBroken if it is incomplete."""
    matches = {key: re.search(f"^ *{pattern}", text, re.MULTILINE) for key, pattern in _REPORT.items()}
    figures = {key: float(match[1]) for key, match in matches.items() if match}
    if len(figures) < len(_REPORT):
        raise LabBroken("the report of sysbench is incomplete", text[-2000:])
    return SysbenchResult(
        transactions=int(figures["transactions"]),
        tps=figures["tps"],
        seconds=figures["seconds"],
        mean_ms=figures["mean_ms"],
        p95_ms=figures["p95_ms"],
        errors=int(figures["errors"]),
        reconnects=int(figures["reconnects"]),
        samples=samples(text),
    )


def samples(text: str) -> tuple[Sample, ...]:
    """One sample for each second that a run has reported so far."""
    matches = [match for line in text.splitlines() if (match := _SAMPLE.match(line))]
    return tuple(Sample(int(match["at"]), float(match["tps"]), float(match["p95"])) for match in matches)
