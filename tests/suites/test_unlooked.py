"""Suites whose subject was not there to be looked at, or only half of it: none of their verdicts is green."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.workloads.committed import Ledger, LedgerFaults
from cephlab.lab.workloads.radosbench import BenchJob, BenchResult
from cephlab.suites.baseline import clocks, hardware
from cephlab.suites.baseline.clocks import ClockReading
from cephlab.suites.block import radosbench
from cephlab.suites.dmcache import lost
from cephlab.suites.dmcache.stand import Stand
from cephlab.suites.interop import rbd
from cephlab.suites.interop.sides import sha
from cephlab.suites.s3 import multisite
from tests.fake_stage import stage_of

# Baseline


@pytest.mark.parametrize(
    ("memory", "outcome"),
    [
        (("64000 kB", "64000 kB"), Outcome.PASS),
        (("64000 kB", "1000 kB"), Outcome.FAIL),
        (("", ""), Outcome.INCONCLUSIVE),
    ],
    ids=["even", "uneven", "not readable"],
)
def test_numa_nodes_whose_memory_is_unknown_are_not_even(
    monkeypatch: pytest.MonkeyPatch, memory: Sequence[str], outcome: Outcome
) -> None:
    files: dict[str, str] = {}
    for number, said in enumerate(memory):
        files[f"{hardware.NUMA}/node{number}/cpulist"] = "0-31"
        files[f"{hardware.NUMA}/node{number}/meminfo"] = f"Node {number} MemTotal: {said}" if said else ""
    monkeypatch.setattr(hardware, "read", lambda *_: files)
    monkeypatch.setattr(hardware, "links_on", lambda _: [])
    stage = stage_of(SimpleNamespace(hosts={"n0": SimpleNamespace(name="n0")}))
    hardware.run_numa(stage)
    assert observations(stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(("answers", "outcome"), [(25, Outcome.PASS), (3, Outcome.INCONCLUSIVE)])
def test_a_clock_that_answered_a_few_times_is_not_known_well(
    monkeypatch: pytest.MonkeyPatch, answers: int, outcome: Outcome
) -> None:
    monkeypatch.setattr(clocks, "readings", lambda *_: [ClockReading(1.0, 1.0, 1.0)] * answers)
    monkeypatch.setattr(clocks, "compare_daemons", lambda _: None)
    client = SimpleNamespace(tell=lambda *_, **__: {clocks.ALLOWED: "0.05"})
    hosts = {name: SimpleNamespace(name=name) for name in ("n0", "n1")}
    spec = SimpleNamespace(mons=[SimpleNamespace(name="n0")])
    stage = stage_of(SimpleNamespace(client=client, hosts=hosts, spec=spec, patience=1.0))
    clocks.run(stage)
    assert CHECKS["figures"](stage.recorder.events()).outcome is outcome


# Block


@pytest.mark.parametrize(("read", "outcome"), [((40, 50), Outcome.PASS), ((40, 49), Outcome.FAIL)])
def test_objects_that_rados_bench_did_not_read_back_are_found(read: tuple[int, int], outcome: Outcome) -> None:
    written, read_back = ([BenchResult(count, 1.0, 4096, 0.1, 1.0) for count in counts] for counts in ((40, 50), read))
    recorder = History().recorder("block.rados-bench")
    radosbench.all_read(recorder, 2, written, read_back)
    assert observations(recorder.events()).outcome is outcome


def test_a_lab_reads_until_it_has_read_everything_and_a_published_run_for_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[BenchJob] = []

    def judged(_stage: object, _what: str, jobs: Sequence[tuple[str, BenchJob]]) -> None:
        given.extend(job for _, job in jobs)

    monkeypatch.setattr(radosbench, "bench_judged", judged)
    monkeypatch.setattr(radosbench, "client_node", lambda *_: "c0")
    for size in (radosbench.BenchSize(4096, 1, 3, 1 << 20), radosbench.PUBLISHED):
        for mode in ("write", "seq"):
            radosbench.bench(stage_of(SimpleNamespace()), "", "p", mode, 1, size)
    assert [job.seconds for job in given] == [3, 3 * radosbench.READ_TIMES, 600, 600]


# dm-cache


@pytest.mark.parametrize(
    ("faults", "signs"),
    [
        (LedgerFaults((), (), (), 3), []),
        (LedgerFaults((1,), (2, 3), (), 0), ["1 lost", "2 half"]),
        (LedgerFaults((), (), ("7: another's value",), 0), ["1 made up"]),
    ],
)
def test_a_row_that_nobody_wrote_is_a_sign_of_loss(faults: LedgerFaults, signs: list[str]) -> None:
    """As when the origin has an older block in a table's file: the row is there, with another value."""
    stand = cast("Stand", SimpleNamespace(open_database=lambda: None, check_table=lambda: "OK"))
    assert lost._signs(stand, cast("Ledger", SimpleNamespace(read_back=lambda: faults))) == signs


# Interoperability: encrypted images


@dataclass
class Images:
    """Clients of both architectures, and an image behind a header. flaw: what is wrong with its encryption."""

    flaw: str = ""
    raw: bytearray = field(default_factory=bytearray)
    plain: bytes = b""

    def client_for(self, arch: Arch) -> Any:
        return SimpleNamespace(
            host=SimpleNamespace(arch=arch),
            rbd_create=lambda _pool, _image, size: self.raw.extend(bytes(size)),
            rbd_encrypt=lambda *_: None,
            rbd_write=self.write,
            rbd_digest=lambda _pool, _image, size, encryption="": sha(self.plain if encryption else self.raw[:size]),
            rbd_look=lambda _pool, _image, pieces: {
                "pieces": [bytes(self.raw[offset : offset + length]) for offset, length in pieces]
            },
        )

    def write(self, _pool: str, _image: str, data: bytes, _offset: int, *, encryption: object) -> None:
        assert encryption
        sealed = {"plain": data, "elsewhere": b""}.get(self.flaw, bytes(255 - byte for byte in data))
        self.raw[MIB : MIB + len(sealed)] = sealed
        self.plain = data


@pytest.mark.parametrize(
    ("flaw", "outcome"), [("", Outcome.PASS), ("plain", Outcome.FAIL), ("elsewhere", Outcome.INCONCLUSIVE)]
)
def test_content_that_is_plain_behind_the_header_is_found(
    monkeypatch: pytest.MonkeyPatch, flaw: str, outcome: Outcome
) -> None:
    monkeypatch.setattr(rbd, "LUKS_BYTES", 4 * MIB)
    monkeypatch.setattr(pools, "pool", lambda *_, **__: nullcontext("locked"))
    stage = stage_of(Images(flaw))
    rbd.luks(stage, Arch.X86_64, "luks1")
    [check] = {scenario.check for scenario in rbd.SCENARIOS if "luks" in scenario.name}
    assert CHECKS[check](stage.recorder.events()).outcome is outcome


# Zones of S3

ALL = multisite.OBJECTS * 2


@pytest.mark.parametrize(
    ("held", "outcome"),
    [
        ({"amd64.rgw.buckets.data": ALL, "arm64.rgw.buckets.data": ALL + 4}, Outcome.PASS),
        ({"default.rgw.buckets.data": 2 * ALL}, Outcome.INCONCLUSIVE),
        ({"amd64.rgw.buckets.data": ALL, "arm64.rgw.buckets.data": 3}, Outcome.INCONCLUSIVE),
    ],
    ids=["apart", "one pool for both", "one zone has little"],
)
def test_zones_that_share_a_pool_replicate_nothing(held: Mapping[str, int], outcome: Outcome) -> None:
    client = SimpleNamespace(mon=lambda _: list(held), list_objects=lambda pool: ["o"] * held[pool])
    stage = stage_of(SimpleNamespace(client=client))
    multisite.apart(stage, [multisite.Zone(arch, cast("Gateway", None)) for arch in Arch])
    assert witnesses(stage.recorder.events()).outcome is outcome
