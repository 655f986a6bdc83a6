"""The preloaded wrong clock: the time of day moves, durations do not."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cephlab.lab.faults.monitors import SKEW, SKEW_VARIABLE
from cephlab.lab.images.shim import compiler as shim
from cephlab.lab.spec.arch import host_arch

CLOCKS = (
    "import json, time; print(json.dumps([time.time(), time.clock_gettime(time.CLOCK_REALTIME), time.monotonic()]))"
)
SLACK_S = 20.0
"""A start of the interpreter on a busy machine; the skews below are far beyond."""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("skew") / "libskew.so"
    shim.build(host_arch(), SKEW, target)
    return target


def clocks(library: Path, skew_s: float | None) -> list[float]:
    """What a program sees: [time of day, the same by another call, monotonic], less what this one sees."""
    env = {"LD_PRELOAD": str(library)}
    if skew_s is not None:
        env[SKEW_VARIABLE] = str(round(skew_s * 1e9))
    said = subprocess.run([sys.executable, "-c", CLOCKS], env=env, capture_output=True, text=True, check=True).stdout
    day, same_day, monotonic = json.loads(said)
    return [day - time.time(), same_day - time.time(), monotonic - time.monotonic()]


@pytest.mark.slow
def test_it_needs_nothing_that_an_older_libc_lacks(tmp_path: Path) -> None:
    """Headers of glibc 2.38 and later turn strtoll into __isoc23_strtoll, with which no program of bookworm starts."""
    shim.build(host_arch(), SKEW, tmp_path / "libskew.so", defines=["strtoll=not_in_an_older_libc"])


@pytest.mark.slow
@pytest.mark.parametrize("skew_s", [3600.0, -3600.5])
def test_the_time_of_day_moves_and_durations_do_not(library: Path, skew_s: float) -> None:
    day, same_day, monotonic = clocks(library, skew_s)
    assert abs(day - skew_s) < SLACK_S
    assert abs(same_day - skew_s) < SLACK_S
    assert abs(monotonic) < SLACK_S


def test_without_a_skew_the_clock_is_right(library: Path) -> None:
    assert all(abs(difference) < SLACK_S for difference in clocks(library, None))
