"""A cluster of one architecture that exists: failures strike it, and what is about two architectures is refused."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from cephlab.lab.archive.archive import read_archive
from cephlab.lab.base.home import Home
from cephlab.lab.images.store import ImageStore
from cephlab.lab.report.page import limits_of
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.telemetry.daemons import read_daemons, require_read
from tests.contract.standing import Standing, attached, standing
from tests.contract.test_attach import gate
from tests.contract.yard import SSH_VARIABLE, Kind

pytestmark = [pytest.mark.real]

ALIKE = Topology(native=3, foreign=0, mons=3, lone_client=True)
CRASH, KILL = "resilience.crash-everything", "resilience.fault[kill-daemon]"


@pytest.fixture(scope="module", params=list(Kind))
def alike(request: pytest.FixtureRequest, home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """It was there before, on machines of either kind, all of this machine's architecture."""
    if os.environ.get(SSH_VARIABLE) != "1":
        pytest.skip(f"attaching is tried where {SSH_VARIABLE}=1, as `tox -e lab` has it: minutes")
    images = {host_arch(): ImageStore(home).get(DEFAULT_RELEASE, host_arch())}
    with standing(request.param, home, images, tmp_path_factory.mktemp("alike"), ALIKE) as stand:
        yield stand


def may_break(path: Path, *daemons: str) -> str:
    listed = ", ".join(f'"{name}"' for name in sorted(daemons))
    path.write_text(f'pools = ["resilient"]\ndaemons = [{listed}]\nhosts = ["c0"]\n')
    return str(path)


def test_failures_strike_it_and_what_is_about_two_is_refused(alike: Standing, home: Home, tmp_path: Path) -> None:
    everything = may_break(tmp_path / "all.toml", *alike.cluster.daemons)
    which = "crash-everything or kill-daemon or roles or moved"
    words = ("--suite", "resilience", "--suite", "interop", "-k", which, "--may-break", everything)
    code, endings, said = gate(alike, home, tmp_path / "archive", *words)
    assert code == 0, said
    assert {name for name, ending in endings.items() if ending == "pass"} == {CRASH, KILL}, said
    archive = read_archive(tmp_path / "archive")
    reasons = {record.scenario: record.reason for record in archive.records if record.suite == "interop"}
    assert reasons["interop.roles"].startswith(f"not on the attached cluster: it has no {host_arch().other} machine")
    assert all(reason.startswith("not on the attached cluster") for reason in reasons.values())
    ran = f"2 scenarios that a lab runs on mixed architectures ran on {host_arch()} alone: {CRASH}, {KILL}."
    assert ran in limits_of(archive)


def test_nothing_dies_together_if_one_of_them_is_not_on_the_list(alike: Standing, home: Home, tmp_path: Path) -> None:
    before = alike.changes()
    osds = may_break(tmp_path / "osds.toml", *(f"osd.{osd}" for osd in alike.cluster.osd_ids()))
    words = ("--suite", "resilience", "-k", "crash-everything", "--may-break", osds)
    code, endings, said = gate(alike, home, tmp_path / "archive", *words)
    assert (code, endings) == (6, {CRASH: "skip"}), said  # nothing has reached a verdict
    assert "kill of mgr.n0, which is not on the list" in said
    assert alike.changes() == before


def test_daemons_of_a_cluster_that_exists_are_looked_at_as_the_labs_own(alike: Standing, home: Home) -> None:
    """Their processes are units of systemd, and their logs and stores lie where they say themselves."""
    everywhere = frozenset(alike.cluster.hosts)
    with attached(alike, home, hosts=everywhere) as cluster:
        require_read(cluster, cluster.daemons.values())
        seen, own = read_daemons(cluster), read_daemons(alike.cluster)
    assert set(seen) == set(own) == set(alike.cluster.daemons)
    for name, reading in seen.items():
        assert reading.footprint.resident == pytest.approx(own[name].footprint.resident, rel=0.2)
        assert reading.cpu_s == pytest.approx(own[name].cpu_s, abs=5.0)
        assert 0 < reading.log_bytes <= own[name].log_bytes
        assert (reading.store_bytes > 0) is name.startswith("mon.")
