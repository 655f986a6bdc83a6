"""A cluster as it stands: green when it is sound, red by name for each thing that is wrong with it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.ceph.status import parse_status
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import Arch
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult
from cephlab.lab.workloads.fioserver import Together
from cephlab.lab.workloads.s3fleet import Fleet
from cephlab.lab.workloads.s3load import S3Operation, S3Result
from cephlab.suites.standing import load, looks, s3load
from tests.fake_stage import verdict_of

KINDS = {"mon.a": "n0", "mon.b": "n1", "mgr.a": "n0", "osd.0": "n0", "osd.1": "n1"}
ANSWERS: dict[str, Any] = {
    "quorum_status": {"quorum_names": ["b", "a"]},
    "time-sync-status": {"time_skew_status": {"a": {"skew": 0.0}, "b": {"skew": -0.04}}},
    "versions": {"overall": {"ceph version 18.2.7": 5}},
    "osd metadata": [{"id": 0, "arch": "x86_64"}, {"id": 1, "arch": "aarch64"}],
    "mon metadata": [{"name": "a", "arch": "x86_64"}, {"name": "b", "arch": "aarch64"}],
    "mgr metadata": [{"name": "a", "arch": "x86_64"}],
    "osd dump": {"pools": [{"pool": 1, "pg_num": 2, "size": 2}]},
}
STATUS: dict[str, Any] = {
    "health": {"status": "HEALTH_OK"},
    "mgrmap": {"available": True},
    "osdmap": {"num_osds": 2, "num_up_osds": 2, "num_in_osds": 2},
    "pgmap": {"num_pgs": 2, "pgs_by_state": [{"state_name": "active+clean", "count": 2}]},
}
MUTED = {"severity": "HEALTH_WARN", "summary": {"message": "noout flag(s) set", "count": 1}, "muted": True}


def standing(
    answers: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    acting: tuple[int, ...] = (0, 1),
    both_on: str = "",
) -> SimpleNamespace:
    """A cluster of two machines that answers so; both_on: the machine that both OSDs are on."""
    archs = {"n0": Arch.X86_64, "n1": Arch.AARCH64}
    daemons = {
        name: SimpleNamespace(
            id=name.partition(".")[2], kind=name.partition(".")[0], host=SimpleNamespace(name=node, arch=archs[node])
        )
        for name, node in KINDS.items()
    }

    def host_of(name: str) -> SimpleNamespace:
        return SimpleNamespace(name=both_on) if both_on else cast("SimpleNamespace", daemons[name].host)

    said = {**ANSWERS, **(answers or {})}
    client = SimpleNamespace(
        mon=lambda command: said[command],
        pgs=lambda ids: [Pg(pgid, "active+clean", 1, acting, acting[0]) for pgid in ids],
    )
    reported = parse_status({**STATUS, **(status or {})})
    return SimpleNamespace(
        client=client, daemons=daemons, daemon=daemons.__getitem__, host_of=host_of, status=lambda: reported
    )


LOOKS = {scenario.name.removeprefix("standing."): scenario for scenario in looks.SCENARIOS}


@pytest.mark.parametrize("name", LOOKS)
def test_a_sound_cluster_stands(name: str) -> None:
    assert verdict_of(LOOKS[name], standing()).outcome is Outcome.PASS


def osdmap(**counts: int) -> dict[str, Any]:
    return {"osdmap": {**STATUS["osdmap"], **counts}}


@pytest.mark.parametrize(
    ("name", "cluster", "said"),
    [
        ("health", standing(status={"health": {"status": "HEALTH_WARN"}}), "health: got 'HEALTH_WARN'"),
        (
            "health",
            standing(status={"health": {"status": "HEALTH_OK", "checks": {"OSDMAP_FLAGS": MUTED}}}),
            "health checks that are raised and muted: got {'OSDMAP_FLAGS': 'noout flag(s) set'}",
        ),
        ("health", standing(status=osdmap(num_up_osds=1)), "OSDs up and in: got [1, 2], wanted [2, 2]"),
        ("health", standing(status=osdmap(num_in_osds=1)), "OSDs up and in: got [2, 1], wanted [2, 2]"),
        ("health", standing(status={"mgrmap": {}}), "a manager is available: got False"),
        (
            "health",
            standing(status={"pgmap": {"num_pgs": 1, "pgs_by_state": [{"state_name": "active", "count": 1}]}}),
            "every PG active+clean: got False",
        ),
        ("quorum", standing({"quorum_status": {"quorum_names": ["a"]}}), "monitors in quorum: got ['a']"),
        (
            "quorum",
            standing({"time-sync-status": {"time_skew_status": {"b": {"skew": -0.06}}}}),
            "monitors whose clock is off by more than 0.05 s: got {'b': -0.06}",
        ),
        (
            "versions",
            standing({"versions": {"overall": {"one": 4, "two": 1}}}),
            "number of versions among all daemons: got 2",
        ),
        (
            "versions",
            standing({"osd metadata": [{"id": 1, "arch": "x86_64"}]}),
            "architecture that osd.1 reports: got 'x86_64', wanted 'aarch64'",
        ),
        ("replicas", standing(acting=(1,)), "PGs without all their copies: got 2"),
        ("replicas", standing(acting=(1, 2147483647)), "PGs without all their copies: got 2"),
        ("replicas", standing(both_on="n0"), "PGs with two copies on one machine: got 2"),
    ],
)
def test_what_is_wrong_with_a_standing_cluster_is_found(name: str, cluster: SimpleNamespace, said: str) -> None:
    verdict = verdict_of(LOOKS[name], cluster)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith(said)


@pytest.mark.parametrize(
    ("name", "cluster"),
    [
        ("health", standing(status={"pgmap": {"num_pgs": 0, "pgs_by_state": []}, "health": {"status": "HEALTH_OK"}})),
        ("versions", standing({f"{kind} metadata": [] for kind in ("osd", "mon", "mgr")})),
        ("versions", standing({"osd metadata": [{"id": 0, "arch": "x86_64"}]})),
        ("quorum", standing({"time-sync-status": {}})),
        ("quorum", standing({"time-sync-status": {"time_skew_status": {"a": {"skew": 0.0}}}})),
        ("replicas", standing({"osd dump": {"pools": []}})),
    ],
)
def test_a_look_at_nothing_or_at_a_part_is_no_pass(name: str, cluster: SimpleNamespace) -> None:
    assert verdict_of(LOOKS[name], cluster).outcome is not Outcome.PASS


def written(operations: int = 1000, seconds: float = 5.0, errors: int = 0) -> FioResult:
    return FioResult(NOTHING, Done(operations, operations * 4096, seconds, 200.0, 0.01, errors=errors))


@pytest.mark.parametrize(
    ("second", "outcome"),
    [
        (written(), Outcome.PASS),
        (written(errors=1), Outcome.FAIL),
    ],
)
def test_an_error_of_one_client_fails_the_load_of_all(
    monkeypatch: pytest.MonkeyPatch, second: FioResult, outcome: Outcome
) -> None:
    assert loaded(monkeypatch, second).outcome is outcome


@pytest.mark.parametrize("second", [written(operations=0), written(seconds=2.0)])
def test_a_client_that_did_not_write_its_time_is_named(monkeypatch: pytest.MonkeyPatch, second: FioResult) -> None:
    verdict = loaded(monkeypatch, second)
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "writes from c1" in verdict.reason


def loaded(monkeypatch: pytest.MonkeyPatch, second: FioResult) -> Verdict:
    @contextmanager
    def pool(cluster: object, name: str, kind: object, *, pg_num: int) -> Iterator[str]:
        yield name

    def run(jobs: Any, *, timeout_s: float) -> Together:
        assert [job.target for _, job in jobs] == ["c0", "c1"]
        return Together(jobs, {0: written(), 1: second})

    monkeypatch.setattr("cephlab.suites.standing.load.pools.pool", pool)
    monkeypatch.setattr("cephlab.suites.standing.load.fioserver.run", run)
    client = SimpleNamespace(rbd_create=lambda *_: None, rbd_remove=lambda *_: None)
    cluster = SimpleNamespace(
        load_nodes=lambda: ("c0", "c1"),
        client=client,
        client_name="client.admin",
        patience=1.0,
        hosts={name: SimpleNamespace(name=name) for name in ("c0", "c1")},
    )
    return verdict_of(load.SCENARIOS[0], cluster)


def result(code: str = "", wrong: tuple[str, ...] = ()) -> S3Result:
    return S3Result(
        (S3Operation("run", "get", 0, "/b/o", 1, 1, 0.0, 0.0, 0.1, True, code),), wrong, len(wrong), 5.0, 0.1
    )


@pytest.mark.parametrize(
    ("second", "lost", "late_s", "outcome"),
    [
        (result(), {}, 0.1, Outcome.PASS),
        (result(code="503"), {}, 0.1, Outcome.FAIL),
        (result(wrong=("get of /b/o: 9 bytes",)), {}, 0.1, Outcome.FAIL),
        (None, {"c1": "the S3 load on c1 left no result"}, 0.1, Outcome.FAIL),
        (result(), {}, 4.0, Outcome.INCONCLUSIVE),
        (S3Result((), (), 0, 5.0, 0.1), {}, 0.1, Outcome.INCONCLUSIVE),
    ],
    ids=["sound", "an error", "a wrong body", "one lost", "one too late", "one that did nothing"],
)
def test_what_is_wrong_with_s3_that_stands_is_found(
    second: S3Result | None, lost: dict[str, str], late_s: float, outcome: Outcome
) -> None:
    results = {"c0": result()} | ({"c1": second} if second else {})
    fleet = Fleet(results, lost, dict.fromkeys(results, 0.0), dict.fromkeys(results, late_s))
    recorder = History().recorder("standing.s3-load")
    s3load.judge(recorder, fleet, 2, seconds=5.0)
    assert CHECKS["witnessed"](recorder.events()).outcome is outcome
