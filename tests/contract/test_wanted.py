"""Requirements measured on a real cluster: copies and an erasure code, all limits, a pass and a failure."""

from contextlib import nullcontext
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.history.history import History
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.report.wanted import KIND
from cephlab.lab.scenario.scenario import Stage, run_scenario, seeded
from cephlab.lab.telemetry.power import Energy, Scope, Source
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.suites.profile import measured
from cephlab.suites.profile.wanted import scenarios_of
from cephlab.tuning.profilefile import SHIPPED, load_hardware
from tests.contract.raising import raised

pytestmark = [pytest.mark.real]

REQUIREMENT = """
[[requirements]]
name = "{name}"
{load}
bs = "4k"
clients = 2
depth = 4
protection = "{protection}"
at_least = "{at_least}"
mean_at_most = "30 s"
p99_at_most = "60 s"
per_watt_at_least = "0.001 ops/s/W"
"""
CASES = (
    ("code", "mix = { randread = 0.5, randwrite = 0.5 }", "ec:2+1", "1 B/s"),
    ("much", 'op = "randread"', "replicated:2", "900000000 ops/s"),
)


class Plugged:
    """A meter that says 100 W for the machine: none of those that test this has one."""

    hosts, unread = ("this machine",), frozenset[str]()
    looking = staticmethod(nullcontext)

    def energies(self, window: tuple[float, float]) -> list[Energy]:
        seconds = window[1] - window[0]
        return [Energy(self.hosts[0], Source.METER, Scope.MACHINE, seconds, 100.0 * seconds)]


def run(
    folder: Path, cluster: OwnCluster, home: Home, case: tuple[str, str, str, str]
) -> tuple[Verdict, list[dict[str, str]]]:
    name, load, protection, at_least = case
    path = folder / "ampere-altra-4n.toml"
    text = REQUIREMENT.format(name=name, load=load, protection=protection, at_least=at_least)
    path.write_text((SHIPPED / path.name).read_text() + text)
    [scenario] = scenarios_of(load_hardware(path), home, attached=True)
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), folder))
    [rows] = [event.data["rows"] for event in recorder.events() if event.kind == KIND]
    return verdict, rows


def test_loads_are_measured_and_what_was_measured_decides(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(measured, "SECONDS", dict.fromkeys(measured.SECONDS, 3.0))
    monkeypatch.setattr(measured, "RAMP_S", 1.0)
    monkeypatch.setattr(measured, "IMAGE_BYTES", 16 << 20)
    monkeypatch.setattr(measured, "meter_of", lambda _cluster, _bmcs: Plugged())
    with raised(LocalProvider(), MeasuredTopology(native=3, machines=2), home) as cluster:
        found = {case[0]: run(tmp_path, cluster, home, case) for case in CASES}
    assert {name: verdict.outcome for name, (verdict, _) in found.items()} == {
        "code": Outcome.PASS,
        "much": Outcome.FAIL,
    }
    assert found["much"][0].reason.startswith("measured throughput: ")
    for _, rows in found.values():
        assert [row["metric"].partition(" (")[0] for row in rows] == [
            "throughput",
            "mean latency",
            "99th percentile",
            "work per watt",
        ]
        assert all(row["measured"] and row["predicted"] for row in rows)
