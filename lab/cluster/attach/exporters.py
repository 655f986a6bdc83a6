"""A Prometheus on this machine for an existing cluster: it scrapes the exporters that run there, and starts none."""

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
"""Default port of the ceph-exporter that cephadm starts on each machine; it exports the counters of OSDs."""
_ASK_S = 5.0
_AT_ONCE = 16


@dataclass(frozen=True)
class Candidate:
    """A possible exporter. addresses: where to try it, in this order, each with the port."""

    kind: str
    node: str
    addresses: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.kind} of {self.node} at {' or '.join(self.addresses)}"


@dataclass(frozen=True)
class Watcher:
    """A Prometheus that runs on this machine. api: address of its API; data: the folder with its store `tsdb`."""

    api: str
    data: PurePosixPath


def candidates(machines: Iterable[Machine], placed: Mapping[str, str]) -> tuple[Candidate, ...]:
    """All possible exporters, at their usual ports. placed: daemon -> name of its machine."""
    managers = {where for daemon, where in placed.items() if daemon.partition(".")[0] == MGR.kind}
    with_daemons = set(placed.values())
    exporters = []
    for machine in machines:
        exporters.append(_candidate(EXPORTER.kind, machine, machine.exporter))
        if machine.name in managers:
            exporters.append(_candidate(MGR.kind, machine, MANAGER_PORT))
        if machine.name in with_daemons:
            exporters.append(_candidate("ceph-exporter", machine, CEPH_EXPORTER_PORT))
    return tuple(exporters)


def _candidate(kind: str, machine: Machine, port: int) -> Candidate:
    addresses = dict.fromkeys((machine.address, machine.cluster_address))
    return Candidate(kind, machine.name, tuple(with_port(address, port) for address in addresses))


def tells(address: str) -> bool:
    """Whether `/metrics` at this address answers with plain text, as an exporter does."""
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
    """(kind -> (address, node) of each exporter that answers, candidates that do not answer)."""
    every = tuple(asked)
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        answering = list(pool.map(lambda candidate: next(filter(ask, candidate.addresses), ""), every))
    jobs: dict[str, list[tuple[str, str]]] = {}
    for candidate, address in zip(every, answering, strict=True):
        if address:
            jobs.setdefault(candidate.kind, []).append((address, candidate.node))
    return jobs, [candidate for candidate, address in zip(every, answering, strict=True) if not address]


@contextmanager
def watching(asked: Iterable[Candidate], program: str, folder: Path, progress: Progress) -> Iterator[Watcher]:
    """Scrape the exporters that answer, inside the block. SpecError if no exporter answers.

    program: the Prometheus program of this machine; folder: where it keeps everything.
    """
    jobs, silent = there(asked)
    if not jobs:
        raise SpecError(
            "--metrics: no machine of the cluster has an exporter",
            f"no answer from {', '.join(map(str, silent))}",
            "start prometheus-node-exporter there, or enable the manager module prometheus; cephlab starts neither",
        )
    scraped = sorted(f"{kind} of {node}" for kind, targets in jobs.items() for _, node in targets)
    missing = f"; no answer from {', '.join(map(str, silent))}" if silent else ""
    progress(f"scraping {', '.join(scraped)}{missing}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_bytes(configuration(jobs))
    port = free_port()
    argv = (*ENDS_WITH_US, *server_argv(program, folder, f"127.0.0.1:{port}"), *SCRAPING)
    with running_here(argv, folder / "prometheus.log", port) as api:
        yield Watcher(api, PurePosixPath(folder))
