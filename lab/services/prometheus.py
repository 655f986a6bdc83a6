"""Prometheus, which stores the time series of a cluster's node exporters and managers."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.process import start_detached
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.mgr import MGR
from cephlab.lab.services.service import HttpService

EVERY_S = 5
MANAGER_PORT = 9283
"""Default port of the manager's module `prometheus`."""
READY = "/-/ready"
"""Used because the start page needs files under /usr/share, which are not at that path on every host."""
_KEPT = "365d"
_KINDS = (EXPORTER.kind, MGR.kind)


class Prometheus(HttpService):
    """A server that scrapes every exporter and every manager of its cluster."""

    def configure(self, host: Host, ident: str, peers: Mapping[str, Host]) -> None:
        host.push(render(peers), self.data(host, ident) / "prometheus.yml")

    def argv(self, host: Host, ident: str) -> tuple[str, ...]:
        command = server_argv(self.program, self.data(host, ident), f"{host.address}:{self.listens(ident)}")
        return (*command, f"--storage.tsdb.retention.time={_KEPT}", *SCRAPING)

    def tell_managers(self, client: RadosClient) -> None:
        """Make the managers export the counters of OSDs, because Debian has no ceph-exporter to do it."""
        name = "mgr/prometheus/exclude_perf_counters"
        client.mon("config set", who="mgr", name=name, value="false", force=True)


PROMETHEUS = Prometheus(
    "prometheus",
    program="prometheus",
    role_set="metrics",
    port=9090,  # its own default
    follows=EXPORTER.kind,
    ready=READY,
)


SCRAPING = ("--log.level=warn", "--web.enable-admin-api")
"""Options of a server that scrapes: it logs little, and its API makes snapshots."""


def server_argv(program: str, folder: PurePath, listen: str) -> tuple[str, ...]:
    """A server's command. folder: holds `prometheus.yml` and its store `tsdb`; listen: HOST:PORT of its API."""
    return (
        program,
        f"--config.file={folder}/prometheus.yml",
        f"--storage.tsdb.path={folder}/tsdb",
        f"--web.listen-address={listen}",
    )


ENDS_WITH_US = ("setpriv", "--pdeathsig", "KILL")
"""Put before a command, so that the kernel kills it when this process ends for any reason (util-linux)."""
_ASK_S = 60.0
_START_S = 60.0
_END_S = 10.0


@contextmanager
def running_here(argv: Sequence[str], log: Path, port: int) -> Iterator[str]:
    """Run a server on this machine inside the block; yields the address of its API. LabBroken if it ends early."""
    process = start_detached(argv, log=log)
    try:

        def ready() -> bool:
            if not process.alive():
                raise LabBroken(f"{PROMETHEUS.program} ended", log.read_text(errors="replace")[-500:])
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}{READY}", timeout=_ASK_S) as answer:
                    return bool(answer.read())
            except urllib.error.HTTPError as refused:
                refused.close()
                return False
            except OSError:
                return False

        what, late = f"the start of {PROMETHEUS.program}", clock.too_slow
        clock.wait(ready, bool, what=what, timeout_s=_START_S, interval_s=0.2, timed_out=late)
        yield f"http://127.0.0.1:{port}/api/v1"
    finally:
        process.kill()
        process.wait(_END_S)


def render(peers: Mapping[str, Host]) -> bytes:
    """Its configuration file for a cluster that the lab made. peers: daemon -> its host."""
    return configuration({kind: _targets(kind, peers) for kind in _KINDS})


def configuration(jobs: Mapping[str, Sequence[tuple[str, str]]]) -> bytes:
    """Its configuration file: a job for each kind of target, each target labelled with its node. JSON is valid YAML.

    jobs: kind -> (address with port, node) of each target.
    """
    listed = [
        {
            "job_name": kind,
            "honor_labels": True,
            "static_configs": [{"targets": [address], "labels": {"node": node}} for address, node in targets],
        }
        for kind, targets in jobs.items()
    ]
    every = {"scrape_interval": f"{EVERY_S}s", "scrape_timeout": f"{EVERY_S}s"}
    return json.dumps({"global": every, "scrape_configs": listed}, indent=2).encode() + b"\n"


def _targets(kind: str, peers: Mapping[str, Host]) -> list[tuple[str, str]]:
    """(address with port, node) of each daemon of this kind that exports metrics."""
    targets = []
    for name, host in sorted(peers.items()):
        mine, _, ident = name.partition(".")
        if mine == kind:
            port = MANAGER_PORT if kind == MGR.kind else EXPORTER.listens(ident)
            targets.append((f"{host.address}:{port}", host.name))
    return targets
