"""Scenarios in quarantine, through the plugin: they run and are shown, and do not decide."""

import pytest

from cephlab.lab.archive.archive import Ending
from tests.fixtures.test_plugin import Bench

pytest_plugins = ["pytester"]

HELD = """
[[quarantine]]
scenario = "demo.x"
rate = "2 of 40 attempts"
reason = "a race that is looked into"

[[quarantine]]
scenario = "demo.z"
rate = "3 of 40 attempts"
reason = "the lab runs out of memory"
"""


@pytest.fixture
def bench(pytester: pytest.Pytester) -> Bench:
    pytester.makefile(".toml", **{"suites/quarantine": HELD})
    return Bench(pytester)


@pytest.mark.slow
def test_a_scenario_in_quarantine_runs_and_is_shown_and_does_not_decide(bench: Bench) -> None:
    ran = bench.run("'demo.x', fake.wrong", "'demo.y', fake.good", "'demo.z', fake.lab_trouble")
    assert int(ran.result.ret) == 0
    assert ran.endings == {"demo.x": Ending.FAIL, "demo.y": Ending.PASS, "demo.z": Ending.ERROR}
    assert ran.record("demo.x").quarantined == "2 of 40 attempts; a race that is looked into"
    assert ran.record("demo.x").reason.startswith("quarantined, does not decide: ")
    ran.result.stdout.fnmatch_lines(["*2 quarantined*"])


@pytest.mark.slow
def test_what_is_not_in_quarantine_decides_still(bench: Bench) -> None:
    assert bench.run("'demo.x', fake.good", "'demo.y', fake.wrong").result.ret == 1
