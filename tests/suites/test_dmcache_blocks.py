"""Block sizes of dm-cache: they take turns on warm caches, and only the opposite of the paper is red in a lab."""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.blockstack.dmcache import CacheStatus, DmCacheMode, parse_status
from cephlab.lab.blockstack.mariadb import MariaDb, Settings
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.telemetry.statistics import interval
from cephlab.suites.dmcache import settings
from cephlab.suites.dmcache.findings import note_findings
from tests.lab.blockstack.test_blockstack import STATUS
from tests.suites.test_dmcache_suite import LOW, stage_of
from tests.tuning.test_comparison import oltp

SMALL_BLOCKS, LARGE_BLOCKS = 32 << 10, 1 << 20


@pytest.mark.parametrize(
    ("threads", "times", "outcome"),
    [
        (1, 3.0, Outcome.PASS),  # as the paper has it
        (1, 1.0, Outcome.PASS),  # cannot tell
        (1, 1 / 3, Outcome.FAIL),
        (32, 1 / 3, Outcome.PASS),
        (32, 1.0, Outcome.PASS),
        (32, 3.0, Outcome.FAIL),
    ],
)
def test_the_opposite_of_the_paper_in_block_sizes_is_no_pass(threads: int, times: float, outcome: Outcome) -> None:
    """Small blocks commit so many times as many transactions as large ones, in each of several runs."""
    assert of_blocks(threads, times, "uml") is outcome


@pytest.mark.parametrize(("lab", "outcome"), [("uml", Outcome.PASS), ("ssh", Outcome.INCONCLUSIVE)])
@pytest.mark.parametrize(("threads", "times"), [(1, 1 / 3), (32, 3.0)])
def test_runs_that_differ_by_as_much_as_block_sizes_do_cannot_tell(
    threads: int, times: float, lab: str, outcome: Outcome
) -> None:
    """The seconds of each run are steady; only an interval over runs includes what differs between them."""
    assert of_blocks(threads, times, lab, apart=(0.3, 1.0, 3.0)) is outcome


@pytest.mark.parametrize(
    ("threads", "times", "hits", "outcome"),
    [
        (1, 1 / 3, 98, Outcome.FAIL),  # twice the misses, and a third of the transactions
        (1, 1 / 3, 95, Outcome.INCONCLUSIVE),
        (1, 1 / 30, 95, Outcome.FAIL),
        (1, 1 / 3, None, Outcome.FAIL),
        (32, 3.0, 95, Outcome.FAIL),  # the colder cache did more
        (32, 3.0, 100, Outcome.INCONCLUSIVE),
    ],
)
@pytest.mark.parametrize("lab", ["uml", "ssh"])
def test_what_misses_explain_contradicts_nothing(
    threads: int, times: float, hits: int | None, outcome: Outcome, lab: str
) -> None:
    """Of a hundred accesses to a cache of large blocks one misses."""
    assert of_blocks(threads, times, lab, hits=hits) is outcome


def test_cold_caches_may_agree_with_the_paper() -> None:
    assert of_blocks(1, 3.0, "ssh", hits=50) is Outcome.PASS
    assert of_blocks(32, 1 / 3, "ssh", hits=50) is Outcome.PASS


STEADY = (0.98, 1.0, 1.02)
"""How the rates of runs of one setting differ."""


def of_blocks(threads: int, times: float, lab: str, apart: Sequence[float] = STEADY, hits: int | None = 99) -> Outcome:
    """Verdict where small blocks commit so many times as many; at other threads as the paper, or in a lab as many.

    apart: how the runs with small blocks differ; hits: of a hundred accesses to the caches of small blocks.
    """
    recorder = History().recorder("dmcache.block-size")
    recorder.witness("transactions", got=100, least=1)
    for count, as_published in ((1, 3.0), (32, 1 / 3)):
        by = times if count == threads else as_published if lab == "ssh" else 1.0
        differ = apart if count == threads else STEADY
        for block_bytes, factors in ((SMALL_BLOCKS, [by * each for each in differ]), (LARGE_BLOCKS, STEADY)):
            for factor in factors:
                tps = [value * factor for value in LOW]
                label = f"{block_bytes}, {count}"
                hit = hits if block_bytes == SMALL_BLOCKS else 99
                for second in range(6 if hit is not None else 0):
                    assert hit is not None
                    recorder.record("cache", stand=label, read_hits=hit * second, read_misses=(100 - hit) * second)
                run = oltp("writeback", count, tps, block_bytes=block_bytes, stand=label)
                recorder.record(run.kind, **run.data)
    note_findings(stage_of(recorder, lab))
    return CHECKS["figures"](recorder.events()).outcome


@pytest.mark.parametrize(
    ("threads", "times", "outcome"),
    [
        (1, 3.0, Outcome.PASS),
        (1, 1.0, Outcome.INCONCLUSIVE),
        (1, 1 / 3, Outcome.FAIL),
        (32, 1 / 3, Outcome.PASS),
        (32, 3.0, Outcome.FAIL),
    ],
)
def test_on_a_profiles_machines_block_sizes_are_judged_as_the_paper_has_them(
    threads: int, times: float, outcome: Outcome
) -> None:
    """Unlike in a lab, a result that is not clear does not pass."""
    assert of_blocks(threads, times, "ssh") is outcome


@dataclass
class Turns:
    """A stand that notes what is done on it, and runs whose seconds all have the same rate, each another one.

    misses: of a hundred accesses, in each run that warms a cache.
    """

    misses: Sequence[int]
    did: list[str] = field(default_factory=list)
    database: MariaDb = field(default_factory=lambda: MariaDb(cast("Any", None), PurePosixPath(), PurePosixPath()))
    host: None = None
    warmings: int = 0

    def cached(self, mode: DmCacheMode, sectors: int) -> "Turns":
        self.did.append(f"{mode} of {sectors}")
        self.warmings = 0
        return self

    def status(self) -> CacheStatus:
        missed = sum(self.misses[: self.warmings])
        hits = 100 * self.warmings - missed
        return replace(parse_status(STATUS), read_hits=hits, write_hits=0, read_misses=0, write_misses=missed)

    def impose(self, *, slow: bool = True) -> None:
        self.did.append("slow" if slow else "fast")

    def warmed(self, _host: None, wanted: SimpleNamespace) -> None:
        self.did.append(f"{wanted.threads} threads for {wanted.runtime_s} s")
        self.warmings += 1

    def measured(self, _stand: object, _stage: object, label: str, wanted: SimpleNamespace) -> list[float]:
        self.did.append(f"{wanted.threads} threads for {wanted.runtime_s} s: {label}")
        return [10.0 + sum(": " in did for did in self.did)] * 4


@pytest.mark.parametrize(("misses", "warmings"), [((0,), 1), ((10, 2, 0), 2), ((3,) * 9, 2)])
@pytest.mark.parametrize("lab", ["uml", "ssh"])
def test_block_sizes_take_turns_on_warm_caches(
    monkeypatch: pytest.MonkeyPatch, lab: str, misses: Sequence[int], warmings: int
) -> None:
    """Caches are warmed over a fast origin, unless the disks are those of a profile, which nobody delays."""
    stand = Turns(misses)
    monkeypatch.setattr(settings, "standing", lambda _: nullcontext(stand))
    monkeypatch.setattr(settings, "begin", lambda begun, _: stand.did.append(f"log of {begun.database.settings}"))
    monkeypatch.setattr(settings, "thread_counts", lambda *_: (1, 8, 32))
    monkeypatch.setattr(settings, "job", lambda *_, **given: SimpleNamespace(**given))
    monkeypatch.setattr(settings, "measured", stand.measured)
    monkeypatch.setattr("cephlab.suites.dmcache.settings.sysbench.run", stand.warmed)
    monkeypatch.setattr(settings, "steady", lambda seconds: seconds)
    recorder = History().recorder("dmcache.block-size")
    settings.block_sizes(stage_of(recorder, lab))
    fast, slow = ([], []) if lab == "ssh" else (["fast"], ["slow"])
    assert stand.did == [
        f"log of {Settings(log_bytes=4 << 20)}",
        *(
            did
            for threads in (1, 32)
            for sectors, kib in [(64, 32), (2048, 1024)] * 5
            for did in (
                f"writeback of {sectors}",
                *fast,
                *["4 threads for 5 s"] * warmings,
                *slow,
                f"{threads} threads for 8 s: blocks of {kib} KiB, {threads} threads",
            )
        ),
    ]
    figures = {event.data["metric"]: event.data for event in recorder.events() if event.kind == "figure"}
    assert len(figures) == 4
    small, over_runs = figures["blocks of 32 KiB, 1 threads"], interval([11.0, 13.0, 15.0, 17.0, 19.0])
    assert (small["value"], small["low"], small["high"]) == (over_runs.mean, over_runs.low, over_runs.high)
