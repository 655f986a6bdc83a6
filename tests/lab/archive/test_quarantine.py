"""Scenarios in quarantine, through the plugin: they run and are shown, and do not decide."""

import pytest

from cephlab.lab.archive.archive import Ending
from tests.fixtures import test_plugin
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


CASES = """
from cephlab.fixtures.outcomes import report_cases, require
from cephlab.lab.scenario.scenario import run_scenario
from tests import fake_raising as fake
from tests.fake_raising import scenario
import pytest

def failing(stage):
    case = dict(program="p", case="c", result="fail", seconds=0.1, message="wrong", known=None)
    stage.recorder.record("gtest_case", **case)
    fake.VERDICT(stage)

SCENARIOS = (scenario("NAME", failing), scenario("demo.y", fake.good))

@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_program(scenario, stage, request):
    try:
        verdict = run_scenario(scenario, stage)
    finally:
        report_cases(request.node, stage.recorder.events())
    require(verdict)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "verdict", "ended", "shown"),
    [
        ("demo.x", "wrong", (Ending.FAIL, 0), "*2 quarantined*"),
        ("demo.w", "wrong", (Ending.FAIL, 1), "*2 failed*"),
        ("demo.w", "good", (Ending.PASS, 1), "*1 failed*"),
    ],
)
def test_cases_of_a_scenario_in_quarantine_do_not_decide_either(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, name: str, verdict: str, ended: tuple[Ending, int], shown: str
) -> None:
    monkeypatch.setattr(test_plugin, "SUITE", CASES.replace("NAME", name).replace("VERDICT", verdict))
    ran = bench.run()
    ending, code = ended
    assert int(ran.result.ret) == code
    assert ran.endings == {name: ending, "demo.y": Ending.PASS}
    ran.result.stdout.fnmatch_lines([shown])


@pytest.mark.slow
def test_what_is_not_in_quarantine_decides_still(bench: Bench) -> None:
    assert bench.run("'demo.x', fake.good", "'demo.y', fake.wrong").result.ret == 1
