"""krbd compared with librbd: by rates on a machine like the paper's, else by CPU, and not by one batch of each."""

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.workloads.fio import Progress
from cephlab.suites.hci.claims import EMULATED
from cephlab.suites.hci.stand import NODE
from cephlab.suites.krbd import beside, claims
from tests.suites.test_hci_claims import SAID, new_recorder, noted, rate
from tests.suites.test_hci_suite import stage


@pytest.mark.parametrize(
    ("kernel", "outcome"),
    [
        ((10.0, 10.5, 9.8), Outcome.PASS),
        ((18.0, 22.0, 19.0), Outcome.INCONCLUSIVE),
        ((40.0, 41.0, 39.0), Outcome.FAIL),
    ],
    ids=["cheaper", "alike", "dearer"],
)
def test_krbd_is_judged_by_the_whole_interval(tmp_path: Path, kernel: tuple[float, ...], outcome: Outcome) -> None:
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    beside.judge(on, {"krbd": list(kernel), "librbd": [20.0, 20.5, 19.0]})
    assert CHECKS["figures"](on.recorder.events()).outcome is outcome


def test_a_turn_is_counted_by_what_was_answered_between_its_looks() -> None:
    looks = [
        beside.MachineLook(0.0, 0.0, 0),
        beside.MachineLook(2.0, 0.5, 100),
        beside.MachineLook(4.0, 0.6, 101),
        beside.MachineLook(6.0, 1.2, 151),
    ]
    turn = beside.turn_of(looks, lambda before, after: float(after.operations - before.operations), idle=0.05)
    assert turn.operations == 150
    assert turn.costs == pytest.approx([0.004, 0.01])
    assert turn.rates == pytest.approx([50.0, 25.0])


def test_looks_before_fio_is_at_work_do_not_count() -> None:
    looks = [beside.MachineLook(at, 0.0, 0) for at in (1.0, 3.0, 5.0, 7.0)]
    assert beside.covered(looks, Progress([2.0, 2.5, 6.0])) == looks[1:3]
    assert beside.covered(looks, Progress([])) == []


@pytest.mark.parametrize("batches", [{"krbd": [1.0], "librbd": [9.0]}, {"krbd": [], "librbd": []}])
def test_one_batch_says_nothing_of_a_ratio(batches: dict[str, list[float]]) -> None:
    assert not beside.narrow(batches)
    assert not beside.clear(batches)


@pytest.mark.parametrize(
    ("kernel", "beyond_doubt"),
    [
        ([4.0, 5.0, 6.0], True),
        ([30.0, 40.0, 50.0], False),  # as likely below as above what librbd costs
        ([12.0, 13.0, 14.0], False),  # below, but not by far
        ([60.0, 65.0, 70.0], True),
    ],
)
def test_a_verdict_is_beyond_doubt_where_the_whole_interval_is_far_from_even(
    kernel: list[float], beyond_doubt: bool
) -> None:
    assert beside.clear({"krbd": kernel, "librbd": [20.0, 21.0, 19.0]}) is beyond_doubt


def test_turns_end_when_the_ratio_is_narrow() -> None:
    assert beside.narrow({"krbd": [10.0, 10.01, 9.99], "librbd": [20.0, 20.01, 19.99]})
    assert not beside.narrow({"krbd": [10.0, 15.0, 9.0], "librbd": [20.0, 25.0, 19.0]})


@pytest.mark.parametrize(
    ("writes", "why_not", "outcome"),
    [
        (True, "", Outcome.PASS),
        (False, "", Outcome.FAIL),
        (True, claims.OTHER_KERNEL, Outcome.FAIL),
        (True, EMULATED, Outcome.FAIL),
    ],
    ids=["writes under KVM", "reads, of which the paper says nothing", "another kernel", "emulated"],
)
def test_cpu_is_judged_where_rates_are_not(tmp_path: Path, writes: bool, why_not: str, outcome: Outcome) -> None:
    """Writes through krbd that are as the paper has them, and cost the machine twice as much."""
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    slower, faster = Interval(80.0, 79.0, 81.0, 20), Interval(100.0, 99.0, 101.0, 20)
    claims.note_krbd(on.recorder, {"krbd": slower, "librbd": faster}, writes=writes, why_not=why_not)
    costs = {"krbd": [40.0, 41.0, 39.0], "librbd": [20.0, 20.5, 19.0]}
    beside.note_small(on, costs, by_rate=claims.judges_krbd(writes=writes, why_not=why_not))
    assert CHECKS["figures"](on.recorder.events()).outcome is outcome


def test_large_blocks_are_written_down_with_what_sums_their_bytes(tmp_path: Path) -> None:
    on = stage(tmp_path)
    on.recorder.witness("operations", got=100, least=1)
    costs = {"krbd": [40.0, 41.0, 39.0], "librbd": [20.0, 20.5, 19.0]}
    beside.write_down(on, costs, beside.of_bytes("crc32c-generic"))
    verdict = CHECKS["figures"](on.recorder.events())
    assert verdict.outcome is Outcome.PASS
    assert any("krbd over librbd" in line and "crc32c-generic" in line for line in verdict.derivation)


def crypto(*drivers: tuple[str, str, int]) -> str:
    """A /proc/crypto of these (name, driver, priority)."""
    parts = [f"name         : {name}\ndriver       : {driver}\npriority     : {at}\n" for name, driver, at in drivers]
    return "\n".join(parts)


def test_the_kernels_first_driver_is_the_one_that_sums() -> None:
    listed = crypto(("crc32c", "crc32c-generic", 100), ("crc32c", "crc32c-intel", 200), ("sha1", "sha1-ni", 300))
    assert beside.crc32c_driver(listed) == "crc32c-intel"
    assert beside.crc32c_driver(crypto(("sha1", "sha1-ni", 300))) == "no listed driver"


@pytest.mark.parametrize(("kernel", "outcome"), [(60, Outcome.PASS), (99, Outcome.INCONCLUSIVE), (150, Outcome.FAIL)])
def test_writes_through_krbd_are_held_to_those_through_librbd(kernel: float, outcome: Outcome) -> None:
    recorder = new_recorder()
    claims.note_krbd(recorder, {"krbd": rate(kernel), "librbd": rate(100)}, writes=True, why_not="")
    assert CHECKS["figures"](recorder.events()).outcome is outcome


def test_krbd_is_compared_with_librbd() -> None:
    reads = "recorded only: the paper's krbd reads come from the page cache, which these bypass"
    writes = f"{SAID}: a slight advantage of librbd in writes"
    for of_writes, why_not, bound in (
        (True, "", {"why": writes, "most": 1.0, "basis": "shape"}),
        (True, "slow", {"why": f"{writes}; slow", "basis": "noted"}),
        (False, "", {"why": reads, "basis": "noted"}),
    ):
        recorder = new_recorder()
        claims.note_krbd(recorder, {"krbd": rate(50), "librbd": rate(100)}, writes=of_writes, why_not=why_not)
        assert noted(recorder) == {"metric": "rate, krbd over librbd", **bound}
        assert claims.judges_krbd(writes=of_writes, why_not=why_not) is ("most" in bound)
    assert not claims.judges_krbd(writes=False, why_not="slow")


@pytest.mark.parametrize(
    ("provider", "emulated", "said"),
    [("qemu", False, ""), ("qemu", True, EMULATED), ("uml", False, claims.OTHER_KERNEL)],
)
def test_krbd_is_compared_by_rate_where_the_machine_is_no_emulated_one(
    provider: str, emulated: bool, said: str
) -> None:
    host = SimpleNamespace(emulated=emulated)
    cluster = SimpleNamespace(hosts={NODE: host}, provider_name=provider)
    assert beside.why_not_judged(cast("Cluster", cluster)) == said
