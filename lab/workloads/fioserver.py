"""Runs several fio jobs at the same time: with fio's client/server if the hosts reach each other's sockets, else apart.

One fio, the client, starts the jobs on several hosts at the same moment, and gathers the results of each and of all.

A fio server obeys everybody who can connect. So each listens on a UNIX socket below the run's folder on its host, which
only its user can enter, and the one client connects through ssh. A server ends with this process.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Protocol, runtime_checkable

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, output_of
from cephlab.lab.base.workers import Workers
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob, FioResult

Jobs = Sequence[tuple[Host, FioJob]]

_EVERYONE = "All clients"
_SHORT_S = 60.0
_STARTED_S = 60.0  # long enough for an emulated fio on a busy machine
_WORDS = 2000
_ENDED = re.compile(r"client <s(\d+)>: exited with|client: host=s(\d+) disconnected|client s(\d+) timed out")


@runtime_checkable
class Reaching(Protocol):
    """A host from which UNIX sockets of other hosts can be reached."""

    def reaching(self, other: Host, path: PurePosixPath, near: PurePosixPath) -> AbstractContextManager[None]:
        """While the block lasts, `near` on this host is a socket that leads to `path` on the other one."""
        ...


@dataclass(frozen=True)
class ClientReport:
    """The report of a fio client: result of each job by its index, and of all jobs together."""

    results: Mapping[int, FioResult]
    failed: Mapping[int, str]
    everyone: FioResult | None


def serves(hosts: Sequence[Host]) -> bool:
    """Whether one client can run jobs on these hosts: they reach each other's sockets and have the same fio version.

    A client and a server of different versions refuse each other.
    """
    if not all(isinstance(host, Reaching) for host in hosts):
        return False
    different = {host.name: host for host in hosts}.values()
    with Workers(max_workers=len(different)) as workers:
        results = workers.map(lambda host: host.run(("fio", "--version"), timeout_s=_SHORT_S), different)
        versions = {result.stdout.strip() for result in results}
    return len(versions) == 1


def _by_client(jobs: Jobs, timeout_s: float) -> ClientReport:
    """Run each job on its host, started by one client on the first host, and wait for the last to end."""
    lead = jobs[0][0]
    with ExitStack() as undo:
        base = fio.folder(lead, "fio", "client")
        sockets = _serve(jobs, undo)
        for place, (host, job) in enumerate(jobs):
            assert isinstance(lead, Reaching)
            undo.enter_context(lead.reaching(host, sockets[place], base / f"s{place}"))
            lead.push(job.file().encode(), base / f"j{place}")
        output = base / "out.json"
        result = lead.run(client_argv(len(jobs), output), cwd=base, timeout_s=timeout_s, check=False)
        written = lead.read(output).decode(errors="replace") if lead.exists(output) else ""
    return parse(result.stdout + result.stderr + written, len(jobs))


def client_argv(count: int, output: PurePosixPath) -> list[str]:
    """The command line of the client: servers are s0, s1 ... in its working directory, their jobs j0, j1 ...

    It never asks for their progress, since it would give up on a server that takes five seconds to answer.
    """
    clients = [word for place in range(count) for word in (f"--client=sock:s{place}", f"j{place}")]
    return ["fio", "--eta=never", "--output-format=json", f"--output={output}", *clients]


def server_argv(socket: PurePosixPath) -> list[str]:
    """The command line of a server: without `sock:` it would listen on every address of its host."""
    return ["fio", f"--server=sock:{socket}"]


def _serve(jobs: Jobs, undo: ExitStack) -> list[PurePosixPath]:
    """Start a server for each job; returns their sockets."""
    # A server ignores the end of its input and is killed after a while, so close all servers at the same time.
    channels = undo.enter_context(_closing())
    sockets = []
    for place, (host, job) in enumerate(jobs):
        base = fio.folder(host, "fio", f"server{place}")
        env = fio.configure(host, base, {"admin_socket": "", **job.options})
        sockets.append(base / "s")
        channels.append(host.channel(server_argv(sockets[place]), env=env))
    for (host, _), socket, channel in zip(jobs, sockets, channels, strict=True):
        _wait_listening(host, socket, channel)
    return sockets


@contextmanager
def _closing() -> Iterator[list[Channel]]:
    channels: list[Channel] = []
    try:
        yield channels
    finally:
        if channels:
            with Workers(max_workers=len(channels)) as workers:
                list(workers.map(lambda channel: channel.close(), channels))


def _wait_listening(host: Host, socket: PurePosixPath, channel: Channel) -> None:
    def listens() -> bool:
        if not channel.alive():
            raise LabBroken(f"the fio server on {host.name} ended", str(socket))
        return host.exists(socket)

    what, late = f"the start of the fio server on {host.name}", clock.too_slow
    clock.wait(listens, bool, what=what, timeout_s=_STARTED_S, interval_s=0.05, timed_out=late)


@output_of("the fio client")
def parse(text: str, count: int) -> ClientReport:
    """Parse the output of a client for `count` jobs: messages of all programs, then JSON; LabBroken without JSON."""
    start = text.find("{\n")
    try:
        stats: Sequence[Mapping[str, Any]] = json.JSONDecoder().raw_decode(text[max(start, 0) :])[0]["client_stats"]
    except (json.JSONDecodeError, KeyError) as error:
        raise LabBroken("the fio client wrote no result", text[-_WORDS:]) from error
    complaint = text[:start].strip()
    words = complaint[-_WORDS:]
    ended = {int(number) for match in _ENDED.finditer(complaint) for number in match.groups() if number is not None}
    results, everyone = {}, None
    for entry in stats:
        if entry["jobname"] == _EVERYONE:
            everyone = fio.result_of(entry)
        elif int(entry["error"]) == 0 and (place := int(str(entry["hostname"]).removeprefix("s"))) not in ended:
            results[place] = fio.result_of(entry)
    failed = {place: words or "fio gives no reason" for place in range(count) if place not in results}
    return ClientReport(results, failed, None if failed else everyone)


@dataclass(frozen=True)
class Together:
    """Results of jobs that ran at the same time, each by its index.

    failed: why a job has no result; everyone: the sum of all jobs as reported by fio, None if they ran without a fio
    server or if one failed.
    """

    jobs: Jobs
    results: Mapping[int, FioResult]
    failed: Mapping[int, str] = field(default_factory=dict)
    everyone: FioResult | None = None

    def on(self, place: int) -> str:
        """Name of the host of a job."""
        return self.jobs[place][0].name

    def require(self) -> list[FioResult]:
        """All results in the order of the jobs; LabBroken names the hosts whose job failed."""
        if self.failed:
            names = ", ".join(self.on(place) for place in self.failed)
            words = "\n".join(f"{self.on(place)}: {reason}" for place, reason in self.failed.items())
            raise LabBroken(f"fio failed on {names}", words)
        return [self.results[place] for place in range(len(self.jobs))]


def run(jobs: Jobs, *, timeout_s: float) -> Together:
    """Run each job on its host, all at the same time, and wait for the last to end."""
    if len(jobs) > 1 and serves([host for host, _ in jobs]):
        report = _by_client(jobs, timeout_s)
        return Together(jobs, report.results, report.failed, report.everyone)
    return _side_by_side(jobs, timeout_s)


def _side_by_side(jobs: Jobs, timeout_s: float) -> Together:
    def run_one(pair: tuple[Host, FioJob]) -> FioResult | str:
        try:
            return fio.run(*pair, timeout_s=timeout_s)
        except LabBroken as error:
            return str(error)

    with Workers(max_workers=len(jobs), thread_name_prefix="fio") as workers:
        by_job = dict(enumerate(workers.map(run_one, jobs)))
    results = {place: ended for place, ended in by_job.items() if isinstance(ended, FioResult)}
    failed = {place: ended for place, ended in by_job.items() if isinstance(ended, str)}
    return Together(jobs, results, failed)
