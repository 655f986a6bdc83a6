"""fio's client/server: one fio starts jobs on several hosts at one moment, and gathers the results of each and all.

A server of fio obeys everybody who reaches it. So each listens on a UNIX socket below the run's folder on its host,
which only its user can enter, and the one client reaches it through ssh. A server ends with this process.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Protocol, runtime_checkable

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.workers import Workers
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob, FioResult

_EVERYONE = "All clients"
_SHORT_S = 60.0
_STARTED_S = 60.0  # of an emulated fio on a busy machine
_WORDS = 2000
_ENDED = re.compile(r"client <s(\d+)>: exited with|client: host=s(\d+) disconnected|client s(\d+) timed out")


@runtime_checkable
class Reaching(Protocol):
    """A host from which UNIX sockets of others can be reached."""

    def reaching(self, other: Host, path: PurePosixPath, near: PurePosixPath) -> AbstractContextManager[None]:
        """While the block lasts, `near` on this host is a socket that leads to `path` on the other one."""
        ...


@dataclass(frozen=True)
class ClientReport:
    """What a client of fio reported: of each job by its place among them, and of all together."""

    results: Mapping[int, FioResult]
    failed: Mapping[int, str]
    everyone: FioResult | None


def serves(hosts: Sequence[Host]) -> bool:
    """Whether one client can run jobs on these hosts: they reach each other's sockets, and have one version of fio.

    A client and a server of different versions refuse each other.
    """
    if not all(isinstance(host, Reaching) for host in hosts):
        return False
    different = {host.name: host for host in hosts}.values()
    with Workers(max_workers=len(different)) as workers:
        results = workers.map(lambda host: host.run(("fio", "--version"), timeout_s=_SHORT_S), different)
        versions = {result.stdout.strip() for result in results}
    return len(versions) == 1


def run(jobs: Sequence[tuple[Host, FioJob]], *, timeout_s: float) -> ClientReport:
    """Run each job on its host, started together, to the end of the last. The client runs on the first host."""
    lead = jobs[0][0]
    with ExitStack() as undo:
        base = fio.folder(lead, "fio", "client")
        sockets = _serve(jobs, undo)
        for place, (host, job) in enumerate(jobs):
            assert isinstance(lead, Reaching)
            undo.enter_context(lead.reaching(host, sockets[place], base / f"s{place}"))
            lead.push(job.file().encode(), base / f"j{place}")
        output = base / "out.json"
        done = lead.run(client_argv(len(jobs), output), cwd=base, timeout_s=timeout_s, check=False)
        said = lead.read(output).decode(errors="replace") if lead.exists(output) else ""
    return parse(done.stdout + done.stderr + said, len(jobs))


def client_argv(count: int, output: PurePosixPath) -> list[str]:
    """The client's command line: servers are s0, s1 ... in its working directory, their jobs j0, j1 ...

    It never asks for their progress: it would give up on a server that takes five seconds to answer.
    """
    each = [word for place in range(count) for word in (f"--client=sock:s{place}", f"j{place}")]
    return ["fio", "--eta=never", "--output-format=json", f"--output={output}", *each]


def server_argv(socket: PurePosixPath) -> list[str]:
    """A server's command line: without `sock:` it would listen on every address of its host."""
    return ["fio", f"--server=sock:{socket}"]


def _serve(jobs: Sequence[tuple[Host, FioJob]], undo: ExitStack) -> list[PurePosixPath]:
    """Start a server for each job; returns their sockets."""
    # A server ignores the end of its input and is killed after a while: so close all of them at the same time.
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
            raise LabBroken(f"fio's server on {host.name} ended", str(socket))
        return host.exists(socket)

    clock.wait(listens, bool, what=f"fio's server on {host.name}", timeout_s=_STARTED_S, interval_s=0.05)


def parse(text: str, count: int) -> ClientReport:
    """Read what a client wrote for `count` jobs: messages of all programs, then JSON; LabBroken without it."""
    start = text.find("{\n")
    try:
        stats: Sequence[Mapping[str, Any]] = json.JSONDecoder().raw_decode(text[max(start, 0) :])[0]["client_stats"]
    except (json.JSONDecodeError, KeyError) as error:
        raise LabBroken("fio's client wrote no result", text[-_WORDS:]) from error
    words = text[:start].strip()[-_WORDS:]
    ended = {int(number) for match in _ENDED.finditer(words) for number in match.groups() if number is not None}
    results, everyone = {}, None
    for entry in stats:
        if entry["jobname"] == _EVERYONE:
            everyone = fio.result_of(entry)
        elif int(entry["error"]) == 0 and (place := int(str(entry["hostname"]).removeprefix("s"))) not in ended:
            results[place] = fio.result_of(entry)
    failed = {place: words or "fio gives no reason" for place in range(count) if place not in results}
    return ClientReport(results, failed, None if failed else everyone)
