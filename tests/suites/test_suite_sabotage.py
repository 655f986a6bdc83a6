"""Suites on clusters that are wrong on purpose: the verdict is red, names what is wrong, and is green without it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base import runs
from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.home import Home
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.measure import intervals
from cephlab.lab.workloads.gtest import Case, CaseResult, GtestRun
from cephlab.suites.baseline import checksum, network
from cephlab.suites.block import costs
from cephlab.suites.cephtests import programs
from cephlab.suites.cephtests.programs import Known
from cephlab.suites.upgrade import rolling
from tests.fake_stage import stage_of, verdict_of
from tests.lab.telemetry import test_compare

# Baseline: below Ceph


def calculating(value: int = checksum.CHECK_VALUE, *, accelerated: bool = True, size: int = 1 << 30) -> SimpleNamespace:
    """One host of each architecture; what the emulated one's library computes."""

    def host(arch: Arch, said: Mapping[str, Any]) -> SimpleNamespace:
        ran = SimpleNamespace(stdout=json.dumps({"seconds": 0.5, **said}))
        return SimpleNamespace(
            name=f"n-{arch}", arch=arch, emulated=True, root=Path("/"), run=lambda argv, timeout_s: ran
        )

    sound = {"value": checksum.CHECK_VALUE, "accelerated": True, "bytes": 1 << 30}
    hosts = {
        Arch.X86_64: host(Arch.X86_64, sound),
        Arch.AARCH64: host(Arch.AARCH64, {"value": value, "accelerated": accelerated, "bytes": size}),
    }
    spec = SimpleNamespace(archs=tuple(hosts))
    return SimpleNamespace(spec=spec, hosts=hosts, host_with=hosts.__getitem__, patience=1.0)


CRC = next(scenario for scenario in checksum.SCENARIOS if scenario.name == "baseline.checksum-rate")


def test_a_core_that_computes_another_checksum_is_found() -> None:
    assert verdict_of(CRC, calculating()).outcome is Outcome.PASS
    wrong = verdict_of(CRC, calculating(value=checksum.CHECK_VALUE ^ 1))
    assert wrong.outcome is Outcome.FAIL
    assert wrong.reason.startswith("crc32c of the check string on aarch64: got ")
    plain = verdict_of(CRC, calculating(accelerated=False))
    assert plain.outcome is Outcome.FAIL
    assert plain.reason.startswith("aarch64: crc32c uses the processor's own instructions: got False")
    assert verdict_of(CRC, calculating(size=1000)).outcome is Outcome.INCONCLUSIVE


MTU = next(scenario for scenario in network.SCENARIOS if scenario.name == "baseline.network-mtu")


class Node:
    """A host on a network of its own kind: what it says its MTU is, and what of a datagram reaches it."""

    def __init__(self, name: str, mtu: int, passes: Callable[[int], tuple[str, int]], lost: int = 0) -> None:
        self.name = self.address = name
        self.mtu = mtu
        self.passes = passes
        self.lost = lost
        self.arrived: list[int] = []

    def channel(self, argv: list[str]) -> Node:
        return self

    def ask(self, question: bytes, timeout_s: float) -> bytes:
        return b"4711" if question == b"port" else str(self.arrived.pop(0)).encode()

    def close(self) -> None:
        assert self.arrived == []

    def run(self, argv: list[str], timeout_s: float) -> SimpleNamespace:
        if argv[4:5] == ["500"]:
            return SimpleNamespace(stdout="\n".join(str(self.lost) for _ in argv[5::2]))
        words = []
        for address, port, size in zip(*[iter(argv[3:])] * 3, strict=True):
            assert port == "4711"
            word, got = self.passes(int(size))
            words.append(word)
            if word == "sent":
                NODES[address].arrived.append(got)
        return SimpleNamespace(stdout="\n".join(words))


NODES: dict[str, Node] = {}


def networked(monkeypatch: pytest.MonkeyPatch, *nodes: Node) -> Verdict:
    NODES.clear()
    NODES.update({node.name: node for node in nodes})
    monkeypatch.setattr("cephlab.suites.baseline.network.mtu_of", lambda host: host.mtu)
    return verdict_of(MTU, SimpleNamespace(hosts=NODES, patience=1.0))


def whole(size: int) -> tuple[str, int]:
    return "sent", size


def test_a_network_that_does_not_carry_its_mtu_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert networked(monkeypatch, Node("a", 1500, whole), Node("b", 1500, whole)).outcome is Outcome.PASS
    narrow = networked(monkeypatch, Node("a", 1500, whole), Node("b", 1500, lambda _: ("EMSGSIZE", 0)))
    assert narrow.outcome is Outcome.FAIL
    assert narrow.reason.startswith("1472 bytes from b to a, unfragmented: got ['EMSGSIZE', 0]")
    lossy = networked(monkeypatch, Node("a", 1500, lambda size: ("sent", size - 1)), Node("b", 1500, whole))
    assert lossy.reason.startswith("1472 bytes from a to b, unfragmented: got ['sent', 1471]")
    mixed = networked(monkeypatch, Node("a", 1500, whole), Node("b", 9000, whole))
    assert mixed.reason.startswith("MTU of b: got 9000, wanted 1500")


@pytest.mark.parametrize(("lost", "outcome"), [(1, Outcome.PASS), (2, Outcome.FAIL)])
def test_a_link_that_loses_packets_is_found(monkeypatch: pytest.MonkeyPatch, lost: int, outcome: Outcome) -> None:
    assert networked(monkeypatch, Node("a", 1500, whole, lost), Node("b", 1500, whole)).outcome is outcome


# Block and regression: what an operation costs

DISK = 9000.0


def measurement(seed: int, factor: float = 1.0, operations: int = 14_000) -> Measurement:
    """Fourteen batches whose replicas and disks took what a write has to move."""
    measured = test_compare.measured(seed, factor=factor)

    def with_disk(costs: Mapping[Role, Mapping[Resource, float]]) -> dict[Role, dict[Resource, float]]:
        return {
            role: {**by_resource, **({Resource.DEVICE_WRITE_BYTES: DISK} if role is not Role.CLIENT else {})}
            for role, by_resource in costs.items()
        }

    batches = tuple(replace(batch, costs=with_disk(batch.costs)) for batch in measured.batches)
    demand = replace(measured.demand, costs=intervals(batches))
    conditions = {**measured.conditions, "operations": str(operations), "harness_share": "0.01"}
    return replace(measured, demand=demand, batches=batches, conditions=conditions)


def cost(monkeypatch: pytest.MonkeyPatch, home: Path, measured: Measurement) -> Verdict:
    monkeypatch.setattr("cephlab.suites.block.costs.measure", lambda *_, **__: measured)
    monkeypatch.setattr("cephlab.suites.block.costs.require_metered", lambda *_: None)
    monkeypatch.setattr("cephlab.suites.block.costs.image_key", lambda _: "key")
    monkeypatch.setattr("cephlab.suites.block.costs.machine", dict)
    return verdict_of(costs.SCENARIOS[0], SimpleNamespace(run=runs.Run(runs.RunId("r1"), home / "runs" / "r1")))


def test_a_write_that_became_dearer_than_its_baseline_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    demandfile.store_baseline(Home(tmp_path), measurement(1))
    assert cost(monkeypatch, tmp_path, measurement(2)).outcome is Outcome.PASS
    dearer = cost(monkeypatch, tmp_path, measurement(2, factor=1.3))
    assert dearer.outcome is Outcome.FAIL
    assert dearer.reason.startswith("CPU of ")


def test_a_cost_of_hardly_any_operations_is_doubt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cost(monkeypatch, tmp_path, measurement(2)).outcome is Outcome.PASS
    assert cost(monkeypatch, tmp_path, measurement(2, operations=100)).outcome is Outcome.INCONCLUSIVE


def test_a_harness_that_takes_too_much_itself_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = measurement(2)
    greedy = replace(measured, conditions={**measured.conditions, "harness_share": "0.06"})
    verdict = cost(monkeypatch, tmp_path, greedy)
    assert verdict.outcome is Outcome.FAIL
    assert verdict.reason.startswith("CPU of cephlab beside that of the cluster: 0.06")


# Upgrade: one daemon after the other

BEFORE: Mapping[str, tuple[int, ...]] = {"1.0": (0, 1), "1.1": (1, 0)}


def upgraded(
    monkeypatch: pytest.MonkeyPatch, mix: dict[str, int], required: str = "reef", missing: str = ""
) -> Verdict:
    """One release of an upgrade of five daemons, which end as `mix` says. Two that look on are not upgraded."""
    done = 0

    def all_daemons(cluster: Any, release: str, images: object, after: Callable[[rolling.Step], None]) -> None:
        after(rolling.Step("osd.0", "n0", {"pacific": 4, "reef": 1}))

    def wait(ready: Callable[[object], bool], *, what: str, timeout_s: float) -> None:
        nonlocal done
        assert not ready(None), "clients have to get something done with each mix"
        done += rolling.LEAST_A_MIX
        assert ready(None)

    def kind(name: str) -> SimpleNamespace:
        return SimpleNamespace(kind=name)

    monkeypatch.setattr("cephlab.suites.upgrade.rolling.upgrade", all_daemons)
    monkeypatch.setattr("cephlab.suites.upgrade.rolling.mix", lambda _: mix)
    monkeypatch.setattr("cephlab.suites.upgrade.rolling.hosts_of", lambda *_: {})
    monkeypatch.setattr("cephlab.suites.upgrade.rolling.images_of", lambda *_: {})
    monkeypatch.setattr("cephlab.suites.upgrade.rolling.missing_metrics", lambda _: missing)
    stage = stage_of(
        SimpleNamespace(
            hosts={"n0": SimpleNamespace(arch=Arch.X86_64)},
            daemons=dict(enumerate(map(kind, ("mon", "mgr", "osd", "osd", "osd", "exporter", "prometheus")))),
            client=SimpleNamespace(mon=lambda _: {"require_osd_release": required}),
            wait=wait,
            patience=0.001,
        )
    )
    rolling.one_release(stage, "reef", cast("Any", SimpleNamespace(completed=lambda: done)))
    return CHECKS["observations"](stage.recorder.events())


def test_a_daemon_that_was_left_out_of_the_upgrade_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert upgraded(monkeypatch, {"reef": 5}).outcome is Outcome.PASS
    left = upgraded(monkeypatch, {"reef": 4, "pacific": 1})
    assert left.outcome is Outcome.FAIL
    assert left.reason.startswith(
        "daemons after the upgrade to reef: got {'reef': 4, 'pacific': 1}, wanted {'reef': 5}"
    )
    unfinished = upgraded(monkeypatch, {"reef": 5}, required="pacific")
    assert unfinished.reason.startswith("release that OSDs must have: got 'pacific', wanted 'reef'")
    with pytest.raises(NotReached, match="metrics of the active manager after the upgrade to reef") as caught:
        upgraded(monkeypatch, {"reef": 5}, missing="the active manager does not answer HTTP")
    assert "does not answer HTTP" in str(caught.value.detail)


def placed(monkeypatch: pytest.MonkeyPatch, **elsewhere: Mapping[str, tuple[int, ...]]) -> Verdict:
    """Where each side's tool puts the PGs of the older map; `real`: where the cluster has them."""
    sides = {f"{age}_{arch.value}": BEFORE for age in ("older", "newer") for arch in Arch}
    placements: dict[str, Mapping[str, tuple[int, ...]]] = {**sides, "real": BEFORE, **elsewhere}

    def replay_map(cluster: object, osdmap: bytes, host: Any) -> str:
        assert osdmap in {b"old", b"new"}
        return str(host.name if osdmap == b"old" else "now")

    monkeypatch.setattr("cephlab.suites.upgrade.rolling.replay_map", replay_map)
    monkeypatch.setattr(
        "cephlab.suites.upgrade.rolling.movement.parse_mappings", lambda dump: placements.get(dump, BEFORE)
    )
    acting = [SimpleNamespace(pgid=pgid, acting=acting) for pgid, acting in placements["real"].items()]
    monkeypatch.setattr("cephlab.suites.upgrade.rolling.pools.pgs_of", lambda *_: acting)
    monkeypatch.setattr("cephlab.suites.upgrade.rolling.PG_NUM", 1)
    client = SimpleNamespace(command=lambda *_: b"new")
    stage = stage_of(SimpleNamespace(spec=SimpleNamespace(archs=tuple(Arch)), client=client))

    def hosts(age: str) -> Mapping[str, Host]:
        return {arch: cast("Host", SimpleNamespace(name=f"{age}_{arch.value}", arch=arch)) for arch in Arch}

    rolling.same_placement(stage, b"old", hosts("older"), hosts("newer"))
    return CHECKS["witnessed"](stage.recorder.events())


MOVED: Mapping[str, tuple[int, ...]] = {**BEFORE, "1.1": (0, 1)}


def test_a_release_that_places_data_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert placed(monkeypatch).outcome is Outcome.PASS
    newer = placed(monkeypatch, newer_aarch64=MOVED)
    assert newer.outcome is Outcome.FAIL
    wanted = "PGs of the older map that the {} release on aarch64 places elsewhere: got ['1.1'], wanted []"
    assert newer.reason == wanted.format("newer")
    lost = placed(monkeypatch, older_aarch64={"1.0": (0, 1)})
    assert lost.reason == wanted.format("older")
    real = placed(monkeypatch, real=MOVED)
    begins = "PGs that the newer release on x86_64 places elsewhere than the cluster: got ['1.1']"
    assert real.reason.startswith(begins)
    nothing: dict[str, Mapping[str, tuple[int, ...]]] = {
        f"{age}_{arch.value}": {} for age in ("older", "newer") for arch in Arch
    }
    assert placed(monkeypatch, **nothing).outcome is not Outcome.PASS


# Interoperability: Ceph's own test programs


def ran(*results: tuple[str, str], code: int = 0, known: tuple[Known, ...] = ()) -> Verdict:
    """What the suite says of a program whose cases ended so."""
    recorder = History().recorder("cephtests.core")
    cases = tuple(Case(name, CaseResult(result), message="expected 0, got -95") for name, result in results)
    programs.record_run(recorder, GtestRun("ceph_test_rados_api_lock", cases, code, "the tail"), known)
    recorder.observe("client on", got=Arch.AARCH64.value, wanted="aarch64")
    recorder.witness("operations of primaries", got=9, least=1)
    return CHECKS["gtest"](recorder.events())


def test_a_case_that_fails_does_not_finish_or_never_begins_is_found() -> None:
    assert ran(("Lock.A", "pass"), ("Lock.B", "skip")).outcome is Outcome.PASS
    for result in ("fail", "unfinished", "missing"):
        verdict = ran(("Lock.A", "pass"), ("Lock.B", result), code=1)
        assert verdict.outcome is Outcome.FAIL
        assert verdict.reason == "ceph_test_rados_api_lock: Lock.B: expected 0, got -95"
    assert ran(("Lock.A", "pass"), code=139).outcome is Outcome.FAIL
    assert ran(("Lock.A", "missing")).outcome is Outcome.INCONCLUSIVE
