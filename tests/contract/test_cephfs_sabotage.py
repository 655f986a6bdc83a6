"""CephFS that is wrong on purpose: a client that loses renames, and a metadata server that loses its journal."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.ceph import conf
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.daemons import kill_at_once, start_at_once
from cephlab.lab.history.history import History, Recorder
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import FILE_SYSTEM
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.cephfs import across
from cephlab.suites.cephfs.stand import wait_active
from cephlab.suites.cephfs.topics import TOPICS
from cephlab.suites.interop.walks.live import Line, lines
from cephlab.suites.resilience.trial import under_way
from tests.contract.raising import raised

pytestmark = pytest.mark.real

PAIR = Topology(native=2, foreign=0, services=(("n0", ("mds",)), ("n1", ("mds",))))
"""Within one architecture, which is quicker."""
SERVERS = ("mds.n0", "mds.n1")


class Forgetful(Line):
    """A client that says that it renamed, and did not."""

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        return None if operation == "rename" else super().ask(operation, arguments)


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    with raised(LocalProvider(), PAIR, home) as raised_cluster:
        yield raised_cluster


def judged(cluster: Cluster, sides: dict[str, Line], scratch: Path) -> tuple[Outcome, list[str]]:
    """How `renames` and `links` end, and which of them went wrong."""
    recorder = History().recorder("cephfs.across")
    first, second = sides
    across.take_topics(Stage(cluster, recorder, Random(6), scratch), sides, first, second)
    observed = [event.data for event in recorder.events() if event.kind == "observation"]
    wrong = [name for name in ("links", "renames") if any(name in each["what"] and each["got"] for each in observed)]
    return CHECKS["observations"](recorder.events()).outcome, wrong


def test_a_client_that_loses_renames_is_found(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(across, "TOPICS", {name: TOPICS[name] for name in ("links", "renames")})
    hosts = {"one": cluster.hosts["n0"], "other": cluster.hosts["n1"]}
    on = {
        side: (host, {"conf": str(conf.conf_path(host)), "name": cluster.client_name}) for side, host in hosts.items()
    }
    with lines("cephfs", on, cluster.patience) as sides:
        assert judged(cluster, sides, tmp_path) == (Outcome.PASS, [])
        broken = {**sides, "other": Forgetful(sides["other"].channel, sides["other"].patience)}
        assert judged(cluster, broken, tmp_path) == (Outcome.FAIL, ["links", "renames"])


def survived(cluster: Cluster, recorder: Recorder, *, journal: bool) -> Outcome:
    """How a load of files ends whose metadata servers are killed. journal: whether they find their journal again."""
    load = Load(FILE_SYSTEM, ("n0",), 5, name=f"files{journal}", kind="files", keys=8, workers=2, sizes=(4096,))
    recorded = RecordedLoad(cluster, recorder, load)
    recorded.prepare()
    with recorded.running():
        under_way(recorded)
    kill_at_once(cluster, SERVERS)
    if not journal:
        cluster.client.mon("fs fail", fs_name=FILE_SYSTEM)
        sure = ("--force", "--yes-i-really-really-mean-it")
        cluster.tool("n0", "cephfs-journal-tool", "--rank", f"{FILE_SYSTEM}:0", "journal", "reset", *sure)
        cluster.client.mon("fs set", fs_name=FILE_SYSTEM, var="joinable", val="true")
    start_at_once(cluster, SERVERS)
    wait_active(cluster)
    recorded.verify()
    return CHECKS["survival"](recorder.events()).outcome


@pytest.mark.parametrize(("journal", "outcome"), [(True, Outcome.PASS), (False, Outcome.FAIL)], ids=["kept", "lost"])
def test_a_metadata_server_that_loses_its_journal_is_found(cluster: Cluster, journal: bool, outcome: Outcome) -> None:
    """The renames of the load were acknowledged, and synced; of a journal that is reset nothing is left."""
    assert survived(cluster, History().recorder("cephfs.failover"), journal=journal) is outcome
