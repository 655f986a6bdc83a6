"""The migration suite as records: what runs in which tier, and what a replaced node becomes."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.service import service
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import History, Recorder, data_of
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability, Node
from cephlab.suites.interop.recovery import SHORT_LOGS, note_cut_logs, short_logs
from cephlab.suites.migration import SCENARIOS, trial
from cephlab.suites.migration.budget import SWAP
from cephlab.suites.migration.movement import Movement, PlacedPg
from cephlab.suites.migration.swap import NATIVE_3, PAIRS, note_went_to, successor
from cephlab.suites.migration.trial import Trial, note_scale

FOREIGN = next(arch for arch in Arch if arch is not host_arch())
QUICK_AT_MOST = 3
"""Each raises and spoils a cluster: about a minute on two cores."""


def test_the_quick_tier_is_short_and_has_both_of_the_papers_ways() -> None:
    quick = [scenario.name for scenario in SCENARIOS if scenario.tier is Tier.QUICK]
    assert len(quick) <= QUICK_AT_MOST
    assert any(name.startswith("migration.swap[") for name in quick)
    assert any(name.startswith("migration.reuse[") for name in quick)


def test_a_cluster_that_changes_its_machines_is_used_by_nobody_else() -> None:
    assert all(scenario.spoils for scenario in SCENARIOS)
    assert all(Capability.FOREIGN_ARCH in scenario.needs for scenario in SCENARIOS)


def test_clients_have_machines_of_their_own_of_both_architectures() -> None:
    spec = NATIVE_3.spec(DEFAULT_RELEASE)
    bare = [node for node in spec.nodes if not (node.osds or node.mon or node.mgr)]
    assert [(node.name, node.arch, node.disks) for node in bare] == [("c0", host_arch(), ()), ("c1", FOREIGN, ())]
    assert all(scenario.topology.clients for scenario in SCENARIOS)


def test_a_successor_has_as_many_disks_of_the_same_sizes_under_names_of_its_own() -> None:
    old = Topology(native=3, foreign=0, separate_db=True).spec(DEFAULT_RELEASE).nodes[2]
    new = successor(old, FOREIGN, "m0")
    assert [disk.size_bytes for disk in new.disks] == [disk.size_bytes for disk in old.disks]
    assert [disk.name for disk in new.disks] == ["m0-block0", "m0-db0"]
    assert (new.osds[0].block, new.osds[0].db) == ("m0-block0", "m0-db0")
    assert (new.arch, new.mon, new.mgr) == (FOREIGN, False, False)


def test_the_profile_is_that_of_the_run(tmp_path: Path) -> None:
    for profile, figures_of in (("", 1), ("rhcs-10b-6n", 2)):
        recorder = History().recorder("s")
        cluster = SimpleNamespace(run=SimpleNamespace(home=SimpleNamespace(profiles=tmp_path)))
        stage = SimpleNamespace(profile=profile, changes=(), cluster=cluster, recorder=recorder)
        running = SimpleNamespace(stage=stage, recorder=recorder, replaced_bytes=1e6, moved_bytes=1e6)
        note_scale(cast("Trial", running), SWAP)
        noted = data_of(recorder.events(), "figure")
        names = ["paper_recovery_s", "recovery_s[rhcs-10b-6n]"]
        assert [data["metric"] for data in noted] == names[:figures_of]
        assert (noted[0]["most"], noted[0]["basis"]) == (75 * 60, "shape"), "the paper's time, whatever the profile"


def test_nodes_that_held_nothing_decide_nothing() -> None:
    recorder = History().recorder("s")
    note_scale(cast("Trial", SimpleNamespace(recorder=recorder, replaced_bytes=0.0, moved_bytes=0.0)), SWAP)
    assert witnesses(recorder.events()).outcome is Outcome.INCONCLUSIVE


def movement_of(monkeypatch: pytest.MonkeyPatch, recovered: int, least: int, of_load: int = 0) -> Recorder:
    """What a migration records that had to move so many bytes, if Ceph counted so many. of_load: in the other pool."""
    counted = {trial.STILL: 50 + recovered, trial.LIVE: of_load}
    monkeypatch.setattr(trial, "recovered_bytes", lambda _cluster, pool: counted[pool])
    recorder = History().recorder("s")
    running = SimpleNamespace(
        cluster=SimpleNamespace(settle=lambda: None),
        recorder=recorder,
        legs=[Movement(least, 2, counted_bytes=least)],
        before=[PlacedPg("1.0", ("a", "b"), 5000, 0)],
        recovered_before=50,
        kind=PAIRS,
    )
    trial.note_movement(cast("Trial", running))
    return recorder


@pytest.mark.parametrize(
    ("recovered", "outcome"), [(0, Outcome.INCONCLUSIVE), (249, Outcome.INCONCLUSIVE), (250, Outcome.PASS)]
)
def test_a_counter_that_shows_too_little_keeps_no_limit(
    monkeypatch: pytest.MonkeyPatch, recovered: int, outcome: Outcome
) -> None:
    assert witnesses(movement_of(monkeypatch, recovered, least=1000).events()).outcome is outcome


@pytest.mark.parametrize(("of_load", "outcome"), [(0, Outcome.INCONCLUSIVE), (1, Outcome.PASS)])
def test_a_migration_that_has_nothing_to_move_shows_that_ceph_counts(
    monkeypatch: pytest.MonkeyPatch, of_load: int, outcome: Outcome
) -> None:
    recorder = movement_of(monkeypatch, 0, least=0, of_load=of_load)
    assert service(recorder.events()).outcome is Outcome.PASS
    assert witnesses(recorder.events()).outcome is outcome


@pytest.mark.parametrize(("recovered", "outcome"), [(1000, Outcome.PASS), (1020, Outcome.PASS), (1021, Outcome.FAIL)])
def test_moved_bytes_are_held_to_the_least_that_the_maps_allow(
    monkeypatch: pytest.MonkeyPatch, recovered: int, outcome: Outcome
) -> None:
    recorder = movement_of(monkeypatch, recovered, least=1000)
    assert service(recorder.events()).outcome is outcome
    assert witnesses(recorder.events()).outcome is Outcome.PASS
    [figure] = data_of(recorder.events(), "figure")
    assert (figure["metric"], figure["most"], figure["basis"]) == ("moved_bytes", 1020.0, "correctness")
    assert figure["why"].startswith("1.02 times 1000 of 5000 bytes: ")


POOLS = {"pools": [{"pool_name": "still"}]}


@pytest.mark.parametrize(
    ("objects", "start", "outcome"),
    [(2, "4'2", Outcome.PASS), (2, "0'0", Outcome.FAIL), (0, "0'0", Outcome.INCONCLUSIVE)],
)
def test_a_log_that_could_replace_a_backfill_is_found(objects: int, start: str, outcome: Outcome) -> None:
    recorder = History().recorder("s")
    note_cut_logs(recorder, [{"pgid": "2.0", "log_start": start, "stat_sum": {"num_objects": objects}}])
    assert observations(recorder.events()).outcome is outcome


def test_every_osd_gets_its_own_log_length_back() -> None:
    told: dict[tuple[str, str], str] = {}

    def tell(osd: str, prefix: str, *, var: str, val: list[str] | None = None) -> None:
        if prefix == "config unset":
            del told[osd, var]
        else:
            [told[osd, var]] = val or []

    cluster = SimpleNamespace(osd_ids=lambda: [0, 2], client=SimpleNamespace(tell=tell))
    with short_logs(cast("Any", cluster)):
        assert told == {(osd, key): value for osd in ("osd.0", "osd.2") for key, value in SHORT_LOGS}
    assert not told


@pytest.mark.parametrize(
    ("reported", "acting", "outcome"),
    [
        (FOREIGN, (0, 7), Outcome.PASS),
        (host_arch(), (0, 7), Outcome.FAIL),
        (FOREIGN, (0, 1), Outcome.FAIL),
    ],
    ids=["it is there", "it never left", "it has no weight"],
)
def test_where_a_node_went_is_ceph_s_own_word(
    monkeypatch: pytest.MonkeyPatch, reported: Arch, acting: tuple[int, ...], outcome: Outcome
) -> None:
    """The lab's host objects have no say: an OSD that never left tells of its old machine, and an idle one of none."""
    monkeypatch.setattr(pools, "pgs_of", lambda *_: [SimpleNamespace(acting=acting)])
    metadata = [{"id": 0, "arch": host_arch().value}, {"id": 7, "arch": reported.value}]
    moved = SimpleNamespace(name="osd.7", kind="osd", id="7", host=SimpleNamespace(name="m0", arch=FOREIGN))
    stays = SimpleNamespace(name="osd.0", kind="osd", id="0", host=SimpleNamespace(name="n0", arch=host_arch()))
    cluster = SimpleNamespace(
        client=SimpleNamespace(mon=lambda prefix: {"osd metadata": metadata, "osd dump": POOLS}[prefix]),
        daemons={"osd.0": stays, "osd.7": moved},
    )
    told = History().recorder("migration.demo")
    note_went_to(cast("Trial", SimpleNamespace(cluster=cluster, recorder=told)), Node("m0", FOREIGN))
    assert observations(told.events()).outcome is outcome


def test_a_node_without_an_osd_of_its_own_went_nowhere() -> None:
    mon = {"osd metadata": [], "osd dump": {"pools": []}}.__getitem__
    cluster = SimpleNamespace(client=SimpleNamespace(mon=mon), daemons={})
    told = History().recorder("migration.demo")
    note_went_to(cast("Trial", SimpleNamespace(cluster=cluster, recorder=told)), Node("m0", FOREIGN))
    assert observations(told.events()).outcome is Outcome.FAIL
