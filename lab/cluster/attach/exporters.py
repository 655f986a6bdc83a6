"""A Prometheus on this machine for a cluster that exists: it scrapes exporters that are there, and starts none."""

import http.client
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.probe import free_port
from cephlab.lab.base.progress import Progress
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.mgr import MGR
from cephlab.lab.services.prometheus import (
    ENDS_WITH_US,
    MANAGER_PORT,
    SCRAPING,
    configuration,
    running_here,
    server_argv,
)
from cephlab.lab.spec.inventory import Machine, with_port

CEPH_EXPORTER_PORT = 9926
"""Of the ceph-exporter that cephadm starts on each machine, which tells what OSDs count; its own default."""
_ASK_S = 5.0
_AT_ONCE = 16


@dataclass(frozen=True)
class Candidate:
    """Something that may tell series. addresses: where it is asked for, in this order, with the port."""

    kind: str
    node: str
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} of {self.node} at {' or '.join(self.addresses)}"


@dataclass(frozen=True)
class Watcher:
    """A Prometheus that runs here. api: address of its API; data: the folder with its store `tsdb`."""

    api: str
    data: PurePosixPath


def candidates(machines: Iterable[Machine], placed: Mapping[str, str]) -> tuple[Candidate, ...]:
    """All that may tell series, at their usual ports. placed: daemon -> name of its machine."""
    managers = {where for daemon, where in placed.items() if daemon.partition(".")[0] == MGR.kind}
    with_daemons = set(placed.values())
    found = []
    for machine in machines:
        found.append(_candidate(EXPORTER.kind, machine, machine.exporter))
        if machine.name in managers:
            found.append(_candidate(MGR.kind, machine, MANAGER_PORT))
        if machine.name in with_daemons:
            found.append(_candidate("ceph-exporter", machine, CEPH_EXPORTER_PORT))
    return tuple(found)


def _candidate(kind: str, machine: Machine, port: int) -> Candidate:
    addresses = dict.fromkeys((machine.address, machine.cluster_address))
    return Candidate(kind, machine.name, tuple(with_port(address, port) for address in addresses))


def tells(address: str) -> bool:
    """Whether something there answers as an exporter does: plain text, below `/metrics`."""
    try:
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=_ASK_S) as answer:
            return str(answer.headers.get_content_type()) == "text/plain"
    except urllib.error.HTTPError as refused:
        refused.close()
        return False
    except (OSError, http.client.HTTPException, ValueError):
        return False


def there(
    asked: Iterable[Candidate], ask: Callable[[str], bool] = tells
) -> tuple[dict[str, list[tuple[str, str]]], list[Candidate]]:
    """(kind -> (address, node) of each that answers, those that do not)."""
    every = tuple(asked)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = list(pool.map(lambda each: next(filter(ask, each.addresses), ""), every))
    jobs: dict[str, list[tuple[str, str]]] = {}
    for each, address in zip(every, found, strict=True):
        if address:
            jobs.setdefault(each.kind, []).append((address, each.node))
    return jobs, [each for each, address in zip(every, found, strict=True) if not address]


@contextmanager
def watching(asked: Iterable[Candidate], program: str, folder: Path, progress: Progress) -> Iterator[Watcher]:
    """Scrape what answers while the block lasts. program: a Prometheus of this machine; folder: for all that it keeps.

    SpecError where nothing answers.
    """
    jobs, silent = there(asked)
    if not jobs:
        raise SpecError(
            "--metrics: no machine of the cluster has an exporter",
            f"none answers: {', '.join(map(str, silent))}",
            "start prometheus-node-exporter there, or the manager's module prometheus; nothing is started for you",
        )
    told = sorted(f"{kind} of {node}" for kind, targets in jobs.items() for _, node in targets)
    progress(f"series from {', '.join(told)}; none from {', '.join(map(str, silent)) or 'nothing else'}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_bytes(configuration(jobs))
    port = free_port()
    argv = (*ENDS_WITH_US, *server_argv(program, folder, f"127.0.0.1:{port}"), *SCRAPING)
    with running_here(argv, folder / "prometheus.log", port) as api:
        yield Watcher(api, PurePosixPath(folder))
