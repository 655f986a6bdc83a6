"""Runs an S3 load on a host against a gateway of the lab: one operation, one object size, many requests in flight."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base.errors import CephTrouble, LabBroken, output_of
from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3_program
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult, Progress, RunningProgram, folder

PROGRAM = Path(str(s3_program.__file__))
DELETE, LIST = "delete", "list"
OPERATIONS = ("put", "get", DELETE, LIST)
PAGE_KEYS = 1000
"""Keys requested by one LIST: the largest page that S3 returns."""

_END_S = 60.0
_ANSWER_S = 60.0
_SLOWEST_BYTES_S = 1 << 20  # slower than this, filling the bucket runs into its deadline


@dataclass(frozen=True)
class S3Job:
    """operation: put new objects, get or delete existing ones, or list a page of their names.

    objects: how many exist beforehand; depth: requests in flight.
    """

    operation: str
    bucket: str
    objects: int
    object_bytes: int
    depth: int
    runtime_s: float
    seed: int = 1


@dataclass(frozen=True)
class RunningS3(RunningProgram):
    """An S3 client with a job. It is not a Ceph client, so it has no admin socket."""

    job: S3Job
    output: PurePosixPath
    times: PurePosixPath
    socket: PurePosixPath | None = None

    def finish(self, *, timeout_s: float = _END_S) -> FioResult:
        """Wait for it to end and read its result; CephTrouble if the gateway refused or failed a request."""
        self.await_end(timeout_s, "the S3 client")
        if not self.host.exists(self.output):
            raise LabBroken(f"the S3 client on {self.host.name} left no result", self.words())
        return parse(self.host.read(self.output), self.job)

    def progress(self) -> Progress:
        """When each operation ended. Call this only after the client has ended."""
        return Progress(sorted(map(float, self.host.read(self.times).split())))


@output_of("the S3 client")
def parse(text: bytes, job: S3Job) -> FioResult:
    """Convert the report of the program to a fio result, in one direction. CephTrouble if a request failed."""
    report: dict[str, Any] = json.loads(text)
    if report["errors"]:
        raise CephTrouble(f"the gateway failed {how_many(report['errors'], 'request')} of the S3 load", report["words"])
    operations, seconds = int(report["operations"]), float(report["seconds"])
    summary = Done(
        operations=operations,
        bytes=operations * job.object_bytes,
        seconds=seconds,
        iops=operations / seconds,
        latency_mean_s=float(report["waited_s"]) / max(1, operations),
    )
    return FioResult(NOTHING, summary) if job.operation in ("put", DELETE) else FioResult(summary, NOTHING)


def fill(host: Host, gateway: Gateway, job: S3Job, *, patience: float) -> None:
    """Create the bucket and put every object once; CephTrouble if the gateway refuses."""
    base = _prepared(host, gateway, job, "fill")
    timeout_s = _END_S + job.objects * job.object_bytes / _SLOWEST_BYTES_S
    ended = host.run(_argv(base), timeout_s=timeout_s * patience, env=_keys(gateway), check=False)
    host.remove(base)
    if ended.code:
        raise CephTrouble("the gateway does not accept objects", ended.stderr[-2000:])


def start(host: Host, gateway: Gateway, job: S3Job) -> RunningS3:
    """Start a client on a host. Every object must exist (`fill`)."""
    base = _prepared(host, gateway, job, job.operation)
    log = base / "words"
    process = host.spawn(_argv(base), log=log, env=_keys(gateway))
    return RunningS3(host, process, log, job, base / "out.json", base / "times")


def _prepared(host: Host, gateway: Gateway, job: S3Job, operation: str) -> PurePosixPath:
    """A folder with the program and its configuration, without the access keys."""
    base = folder(host, "s3")
    host.push(PROGRAM, base / PROGRAM.name)
    config = {
        **asdict(job),
        "operation": operation,
        "page": PAGE_KEYS,
        "address": gateway.address,
        "timeout_s": _ANSWER_S,
        "log": str(base / "times"),
        "output": str(base / "out.json"),
    }
    host.push(json.dumps(config).encode(), base / "config")
    return base


def _keys(gateway: Gateway) -> dict[str, str]:
    return s3_program.environment(gateway.access_key, gateway.secret_key)


def _argv(base: PurePosixPath) -> list[str]:
    return ["python3", str(base / PROGRAM.name), str(base / "config")]
