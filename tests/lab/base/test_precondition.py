"""When a disk is steady: what new flash does first must not be taken for what it does later."""

import json
from collections.abc import Sequence
from itertools import chain, repeat
from pathlib import Path

import pytest

from cephlab.lab.base import probe
from cephlab.lab.base.precondition import MOST_ROUNDS, WINDOW, steady, until_steady


@pytest.mark.parametrize(
    ("rates", "wanted"),
    [
        ([100.0] * WINDOW, True),
        ([100.0] * (WINDOW - 1), False),
        ([300.0, 200.0, 100.0, 101.0, 99.0, 100.0, 102.0], True),
        ([110.0, 105.0, 100.0, 95.0, 89.0], False),  # best and worst are 21 % of the mean apart
        ([108.0, 104.0, 100.0, 96.0, 92.0], False),  # they are 16 % apart, but fall all the time
        ([100.0, 109.0, 100.0, 91.0, 100.0], True),  # 18 % apart, around a level
    ],
)
def test_a_disk_is_steady_when_it_neither_scatters_nor_falls(rates: list[float], wanted: bool) -> None:
    assert steady(rates) is wanted


def test_it_is_written_until_its_rate_stays() -> None:
    rates = chain([500.0, 400.0, 300.0, 200.0], repeat(100.0))
    steady = until_steady(lambda: next(rates))
    assert (steady.rate, steady.rounds, steady.reached) == (100.0, 4 + WINDOW, True)
    assert steady.words == "after 9 rounds to steady state"


def test_a_disk_that_never_becomes_steady_is_said_to() -> None:
    rates = chain.from_iterable(repeat((50.0, 150.0)))
    steady = until_steady(lambda: next(rates))
    assert (steady.rounds, steady.reached) == (MOST_ROUNDS, False)
    assert "without steady state" in steady.words


def test_a_preconditioned_disk_is_rated_by_what_it_writes_in_the_end(tmp_path: Path) -> None:
    rates = iter([900.0, 500.0, 300.0, *[200.0] * 5])
    asked: list[str] = []

    def run(argv: Sequence[str], _timeout_s: float) -> str:
        asked.append(" ".join(argv))
        side = {"iops": next(rates) if "--rw=randwrite" in argv else 1.0, "bw_bytes": 1, "lat_ns": {"mean": 1e6}}
        return json.dumps({"jobs": [{"read": side, "write": side}]})

    disk = probe.disk(tmp_path, probe.DiskRun(1 << 20, 1.0, precondition=True), lambda _: None, run)
    assert (disk.write_iops, disk.before) == (200.0, "after 8 rounds to steady state")
    assert sum("--rw=write --bs=1M" in each and "--time_based" not in each for each in asked) == 2
    assert next(n for n, each in enumerate(asked) if "=randread" in each) < min(
        n for n, each in enumerate(asked) if "=randwrite" in each
    )
