"""Runs fio jobs on a host of the lab, against an RBD image, a RADOS pool or a device, and parses their results."""

import json
import re
import signal
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Self

from cephlab.lab.base.errors import LabBroken, Unavailable, output_of
from cephlab.lab.ceph import conf
from cephlab.lab.providers.host import Host, HostProcess

_END_S = 60.0
_LACKS = re.compile(r"fio: engine (\w+) not loadable")
LOG = "log"


@dataclass(frozen=True)
class FioJob:
    """A job of fio. pattern: fio's `rw`; runtime_s: 0 ends the job after size_bytes.

    target: the image for the engine `rbd`; for engines that do not use Ceph the path of a device (direct I/O).

    options: ceph options of this client only (`rbd_cache`); more: further options of fio; timed: log when each
    operation ends (`RunningFio.progress`); client: its name in Ceph.
    """

    name: str
    pool: str
    target: str
    pattern: str
    block_bytes: int
    depth: int
    size_bytes: int
    runtime_s: float = 0.0
    jobs: int = 1
    seed: int = 1
    engine: str = "rbd"
    options: Mapping[str, str] = field(default_factory=dict)
    more: Mapping[str, str] = field(default_factory=dict)
    timed: bool = False
    client: str = "client.admin"

    def settings(self) -> dict[str, str]:
        """fio's options, without the job name and the output file."""
        ceph = {"clientname": self.client.removeprefix("client."), "pool": self.pool}
        device = {"filename": self.target, "direct": "1"}
        settings: dict[str, str] = {
            "ioengine": self.engine,
            **(ceph if self.engine in ("rbd", "rados") else device),
            "rw": self.pattern,
            "bs": str(self.block_bytes),
            "iodepth": str(self.depth),
            "size": str(self.size_bytes),
            "numjobs": str(self.jobs),
            "randseed": str(self.seed),
            "group_reporting": "1",
        }
        if self.engine == "rbd":
            settings["rbdname"] = self.target
        if self.runtime_s:
            settings |= {"time_based": "1", "runtime": f"{self.runtime_s:g}"}
        return {**settings, **self.more}

    def argv(self, output: PurePosixPath) -> list[str]:
        """fio's command line."""
        options = {"name": self.name, **self.settings(), "output-format": "json", "output": str(output)}
        if self.timed:
            # One line for each operation: averages would be only as fine as their interval.
            options |= {"write_iops_log": str(output.with_name(LOG)), "per_job_logs": "0", "log_unix_epoch": "1"}
        return ["fio", *(f"--{key}={value}" for key, value in options.items())]

    def file(self) -> str:
        """The job as a file for fio, without a log."""
        # Threads, because a process forked by fio would leave the session of its server and outlive it.
        options = {**self.settings(), "thread": "1"}
        return "\n".join([f"[{self.name}]", *(f"{key}={value}" for key, value in options.items())]) + "\n"


@dataclass(frozen=True)
class Done:
    """The result of one direction of a job. latency_mean_s: total latency, from submission to completion.

    iops_stddev, iops_samples: of IOPS samples over half a second each. latency_p99_s: None if fio does not report it.
    """

    operations: int
    bytes: int
    seconds: float
    iops: float
    latency_mean_s: float
    errors: int = 0
    iops_stddev: float = 0.0
    iops_samples: int = 0
    latency_p99_s: float | None = None

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0


NOTHING = Done(0, 0, 0.0, 0.0, 0.0)
"""The result of a direction that did nothing."""


@dataclass(frozen=True)
class FioResult:
    """Both directions of a job; one that did nothing has zero operations.

    began_s: when it began, by the clock of its host, in seconds since the epoch; 0 if fio does not report it (before
    3.36).
    """

    read: Done
    write: Done
    began_s: float = 0.0

    @property
    def operations(self) -> int:
        return self.read.operations + self.write.operations

    @property
    def iops(self) -> float:
        return self.read.iops + self.write.iops

    @property
    def latency_mean_s(self) -> float:
        """Mean latency of the operations of both directions together; 0 without any."""
        both = sum(side.latency_mean_s * side.operations for side in (self.read, self.write))
        return both / self.operations if self.operations else 0.0

    @property
    def main(self) -> Done:
        """The direction with more operations."""
        return max(self.read, self.write, key=lambda side: side.operations)


@output_of("fio")
def parse(text: bytes) -> FioResult:
    """Parse the output of `--output-format=json`; LabBroken if it is not JSON, or if fio reports an error."""
    words, job = split_output(text)
    if int(job["error"]) != 0:
        raise LabBroken(f"fio ended with error {job['error']}", words)
    return result_of(job)


@output_of("fio")
def parse_each(text: bytes) -> dict[str, FioResult]:
    """As `parse`, for several jobs that fio reports separately: job name -> result."""
    words, jobs = _split(text)
    if failed := [f"{job['jobname']} ended with error {job['error']}" for job in jobs if int(job["error"]) != 0]:
        raise LabBroken(f"{len(failed)} of {len(jobs)} jobs of fio failed", "\n".join([*failed, words]))
    return {str(job["jobname"]): result_of(job) for job in jobs}


def split_output(text: bytes) -> tuple[str, Mapping[str, Any]]:
    """(warnings of librados and fio, the job) from the output of `--output-format=json`; LabBroken without a job."""
    words, jobs = _split(text)
    return words, jobs[0]


def _split(text: bytes) -> tuple[str, Sequence[Mapping[str, Any]]]:
    words, brace, json_text = text.partition(b"{\n")
    try:
        jobs: Sequence[Mapping[str, Any]] = json.loads(brace + json_text)["jobs"]
    except (json.JSONDecodeError, KeyError) as error:
        raise LabBroken("fio wrote no result", text[-2000:].decode(errors="replace")) from error
    if not jobs:
        raise LabBroken("fio wrote no result", text[-2000:].decode(errors="replace"))
    return words.decode(errors="replace"), jobs


def result_of(job: Mapping[str, Any]) -> FioResult:
    """The result of a job in fio's JSON."""
    return FioResult(_direction(job, "read"), _direction(job, "write"), float(job.get("job_start", 0)) / 1000)


def _direction(job: Mapping[str, Any], name: str) -> Done:
    side = job[name]
    return Done(
        operations=int(side["total_ios"]),
        bytes=int(side["io_bytes"]),
        seconds=float(side["runtime"]) / 1000,
        iops=float(side["iops"]),
        latency_mean_s=float(side["lat_ns"]["mean"]) / 1e9,
        errors=int(job.get("total_err", 0)),
        iops_stddev=float(side.get("iops_stddev", 0.0)),
        iops_samples=int(side.get("iops_samples", 0)),
        latency_p99_s=float(p99) / 1e9 if (p99 := _percentiles(side).get("99.000000")) else None,
    )


def _percentiles(side: Mapping[str, Any]) -> Mapping[str, Any]:
    """fio's percentiles of completion latency: "99.000000" -> nanoseconds."""
    return dict(side.get("clat_ns", {}).get("percentile", {}))


@dataclass(frozen=True)
class Progress:
    """When each operation ended, in seconds since the epoch, in order."""

    times_s: Sequence[float]

    def between(self, began_s: float, ended_s: float) -> float:
        """Operations that ended within a period; LabBroken if the log does not cover it."""
        if not len(self.times_s) or began_s < self.times_s[0] or ended_s > self.times_s[-1]:
            raise LabBroken(
                "the log of fio does not cover the measured period",
                f"wanted {began_s:.1f} to {ended_s:.1f}, logged {self.times_s[:1]} to {self.times_s[-1:]}",
            )
        return float(bisect_right(self.times_s, ended_s) - bisect_right(self.times_s, began_s))


@output_of("fio")
def parse_progress(text: str) -> Progress:
    """Parse fio's log of single operations: one line `time in ms, ...` for each, of all directions and jobs."""
    return Progress(sorted(int(line.partition(",")[0]) / 1000 for line in text.splitlines()))


@dataclass(frozen=True)
class RunningProgram:
    """The running program of a load. process: the process that is metered; log: the file with its output."""

    host: Host
    process: HostProcess
    log: PurePosixPath

    def await_end(self, timeout_s: float, program: str) -> None:
        """Wait for it to end. If it does not end in time, LabBroken has its output; it is killed after any error."""
        with self.killed_on_error():
            if not self.process.wait(timeout_s):
                raise LabBroken(f"{program} did not end within {timeout_s:g} s on {self.host.name}", self.words())

    def kill(self) -> None:
        """End it without a result; does nothing if it has ended."""
        self.process.signal(signal.SIGKILL)

    @contextmanager
    def killed_on_error(self) -> Iterator[Self]:
        """Kill it if the block raises."""
        try:
            yield self
        except BaseException:
            self.kill()
            raise

    def words(self) -> str:
        """The last 2000 characters of its output."""
        return self.host.read(self.log).decode(errors="replace")[-2000:] if self.host.exists(self.log) else ""


@dataclass(frozen=True)
class RunningFio(RunningProgram):
    """fio with a job."""

    output: PurePosixPath
    socket: PurePosixPath

    def finish(self, *, timeout_s: float = _END_S) -> FioResult:
        """Wait for it to end and read its result; LabBroken, with its output, if it failed.

        Unavailable if it lacks an engine, which some distributions have in packages of their own.
        """
        self.await_end(timeout_s, "fio")
        try:
            if not self.host.exists(self.output):
                raise LabBroken(f"fio left no result on {self.host.name}", self.words())
            return parse(self.host.read(self.output))
        except LabBroken as error:
            if lacks := _LACKS.search(f"{error}\n{self.words()}"):
                what, hint = f"fio on {self.host.name} has no engine {lacks[1]}", f"in Fedora: fio-engine-{lacks[1]}"
                raise Unavailable(what, lacks[0], f"install it there; {hint}") from error
            raise

    def progress(self) -> Progress:
        """The log of a timed job that has ended."""
        path = self.output.with_name(f"{LOG}_iops.log")
        if not self.host.exists(path):
            raise LabBroken(f"fio left no log on {self.host.name}", self.words())
        return parse_progress(self.host.read(path).decode())


def start(host: Host, job: FioJob, *, cluster_of: Host | None = None) -> RunningFio:
    """Start a job on a host, with its own ceph.conf and admin socket.

    cluster_of: a host of another cluster, which is loaded instead of the cluster of this host.
    """
    base = folder(host, "fio", job.name if cluster_of is None else "beside")
    socket = base / "s"
    options = {"admin_socket": str(socket), **job.options}
    if cluster_of is not None:
        options |= _reaching(cluster_of, host, base)
    env = configure(host, base, options)
    output, log = base / "out.json", base / "words"
    process = host.spawn(job.argv(output), log=log, env=env)
    return RunningFio(host, process, log, output, socket)


def folder(host: Host, *parts: str) -> PurePosixPath:
    """Make an empty folder for a job on a host."""
    base = host.directory.joinpath(*parts)
    host.remove(base)
    host.make_directory(base)
    return base


def configure(host: Host, base: PurePosixPath, options: Mapping[str, str]) -> dict[str, str]:
    """Write a copy of the host's ceph.conf with these client options; returns the environment that selects it."""
    lines = [
        host.read(conf.conf_path(host)).decode(),
        "[client]",
        *(f"{key} = {value}" for key, value in options.items()),
    ]
    own = base / "ceph.conf"
    host.push(("\n".join(lines) + "\n").encode(), own)
    return {"CEPH_CONF": str(own)}


def _reaching(other: Host, host: Host, base: PurePosixPath) -> dict[str, str]:
    """Options with which a client on one host reaches the cluster of another host."""
    text = other.read(conf.conf_path(other)).decode()
    settings = dict(line.split(" = ", 1) for line in text.splitlines() if line.startswith(("fsid = ", "mon_host = ")))
    keyring = base / "keyring"
    host.push(other.read(conf.conf_path(other).with_name("keyring")), keyring, mode=0o600)
    return {**settings, "keyring": str(keyring)}


def run(host: Host, job: FioJob, *, timeout_s: float) -> FioResult:
    """Run a job to its end."""
    with start(host, job).killed_on_error() as running:
        return running.finish(timeout_s=timeout_s)
