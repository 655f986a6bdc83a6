"""Requirements measured on a real cluster: loads of blocks and objects, power, room and a lost node."""

import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks.verdict import Outcome, Verdict
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History, data_of
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.report.wanted import KIND
from cephlab.lab.scenario.scenario import Stage, run_scenario, seeded
from cephlab.lab.telemetry.power import Energy, Scope, Source
from cephlab.suites import bias
from cephlab.suites.block.stand import MeasuredTopology
from cephlab.suites.profile import lost, measured, objects
from cephlab.suites.profile.wanted import scenarios_of
from cephlab.tuning.profilefile import SHIPPED, load_hardware
from tests.contract.raising import raised
from tests.contract.standing import Standing, attached, buckets_of, serving_s3

pytestmark = [pytest.mark.real]

LOAD = """
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
LOADS = {
    "code": LOAD.format(
        name="code",
        load="mix = { randread = 0.5, randwrite = 0.5 }\nhit_ratio = 1.0",
        protection="ec:2+1",
        at_least="1 B/s",
    ),
    "much": LOAD.format(name="much", load='op = "randread"', protection="replicated:2", at_least="900000000 ops/s"),
    "objects": LOAD.format(
        name="objects",
        load="mix = { get = 0.5, put = 0.5 }\nhit_ratio = 1.0",
        protection="replicated:2",
        at_least="1 B/s",
    ),
    "deletes": LOAD.format(name="deletes", load='op = "delete"', protection="replicated:2", at_least="900000000 ops/s"),
}
WHOLE = {
    "plug": """
[[requirements]]
name = "plug"
kind = "power"
at_most = "110 W"
""",
    "room": """
[[requirements]]
name = "room"
kind = "capacity"
fill = 0.85
protection = "replicated:2"
at_least = "1 GB"
""",
    "node": """
[[requirements]]
name = "node"
kind = "recovery"
bytes = "1 GB"
protection = "ec:2+1"
at_most = "2 h"
""",
}

SLOWLY = (("osd_op_queue", "wpq"), ("osd_recovery_sleep", "0.1"))
"""A pause after each object that is recovered, which Ceph's newer queue would leave out: a lab's sample is small."""


class Plugged:
    """A meter that says 100 W for the machine: none of those that test this has one."""

    hosts, unread = ("this machine",), frozenset[str]()
    looking = staticmethod(nullcontext)

    def energies(self, window: tuple[float, float]) -> list[Energy]:
        seconds = window[1] - window[0]
        return [Energy(self.hosts[0], Source.METER, Scope.MACHINE, seconds, 100.0 * seconds)]


def run(folder: Path, cluster: Cluster, home: Home, text: str, *changes: str) -> tuple[Verdict, Mapping[str, Any]]:
    """The verdict of a requirement, and what the page shows of it."""
    path = folder / "ampere-altra-4n.toml"
    path.write_text((SHIPPED / path.name).read_text() + text)
    [scenario] = scenarios_of(load_hardware(path, changes), home, attached=True)
    recorder = History().recorder(scenario.name)
    verdict = run_scenario(scenario, Stage(cluster, recorder, seeded(1, scenario.name), folder))
    [data] = data_of(recorder.events(), KIND)
    return verdict, data


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As much as a lab's cluster takes in seconds."""
    monkeypatch.setattr(measured, "SECONDS", dict.fromkeys(measured.SECONDS, 3.0))
    monkeypatch.setattr(measured, "RAMP_S", 1.0)
    monkeypatch.setattr(measured, "IMAGE_BYTES", 16 << 20)
    monkeypatch.setattr(measured, "PGS_PER_OSD", 16)
    monkeypatch.setattr(objects, "SECONDS", measured.SECONDS)
    monkeypatch.setattr(objects, "WINDOW_S", 0.25)
    monkeypatch.setattr(objects, "NEW_OBJECTS", dict.fromkeys(objects.NEW_OBJECTS, 2000))
    for module in (bias, objects):
        monkeypatch.setattr(module, "FULL_CPU", 9.0)  # a lab's clients share their CPUs with all else, and none decides
    monkeypatch.setattr(lost, "SAMPLE_BYTES", dict.fromkeys(lost.SAMPLE_BYTES, 128 << 20))
    monkeypatch.setattr(lost, "EVERY_S", 0.2)


def test_requirements_are_measured_and_what_was_measured_decides(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lost, "SAMPLE_BYTES", dict.fromkeys(lost.SAMPLE_BYTES, 192 << 20))  # enough looks for a rate
    for module in (measured, objects):
        monkeypatch.setattr(module, "meter_of", lambda _cluster, _bmcs: Plugged())
    topology = MeasuredTopology(native=4, machines=2, options=SLOWLY)
    with raised(LocalProvider(), topology, home) as cluster:
        loads = {name: run(tmp_path, cluster, home, text) for name, text in LOADS.items()}
        whole = {name: run(tmp_path, cluster, home, text) for name, text in WHOLE.items()}
        status = cluster.status()
        assert status.ok, f"not as before: {status}"
        assert cluster.client.mon("osd pool ls") == [".mgr"]
    assert {name: verdict.outcome for name, (verdict, _) in loads.items()} == {
        "code": Outcome.PASS,
        "much": Outcome.FAIL,
        "objects": Outcome.PASS,
        "deletes": Outcome.FAIL,
    }
    assert loads["much"][0].reason.startswith("measured throughput: ")
    for _, data in loads.values():
        assert [row["metric"].partition(" (")[0] for row in data["rows"]] == [
            "throughput",
            "mean latency",
            "99th percentile",
            "work per watt",
        ]
    not_passed = {name: verdict for name, (verdict, _) in whole.items() if verdict.outcome is not Outcome.PASS}
    assert not_passed == {}
    rows = [row for _, data in (*loads.values(), *whole.values()) for row in data["rows"]]
    assert all(row["measured"] and row["predicted"] for row in rows)


def test_on_a_cluster_that_exists_the_list_says_what_is_measured(stands: Standing, home: Home, tmp_path: Path) -> None:
    """Three machines with OSDs, entered by ssh. Copies in pairs: a machine may be lost."""
    node = WHOLE["node"].replace("ec:2+1", "replicated:2")
    before = stands.cluster.client.mon("osd tree")
    pools, hosts = frozenset({"wanted"}), frozenset({"c0", "c1"})
    with attached(stands, home) as cluster:
        _, data = run(tmp_path, cluster, home, WHOLE["room"], "nodes.count=3")
        assert "pool 'wanted' is not on the list" in data["measuring"][0]
    with attached(stands, home, pools=pools, hosts=hosts) as cluster:
        verdict, data = run(tmp_path, cluster, home, WHOLE["room"], "nodes.count=3")
        assert (verdict.outcome, bool(data["rows"][0]["measured"])) == (Outcome.PASS, True)
        _, data = run(tmp_path, cluster, home, node, "nodes.count=3")
        assert "which is not on the list; allow it with --may-break: daemons" in data["measuring"][0]
    assert stands.changes() == []
    osds = frozenset(f"osd.{osd}" for osd in stands.cluster.osd_ids())
    with attached(stands, home, pools=pools, hosts=hosts, daemons=osds) as cluster:
        _, data = run(tmp_path, cluster, home, node, "nodes.count=3")
        # Nothing slows this cluster's recovery down, which may be over after few looks.
        assert re.search("Recovery of .* was measured|too soon for a steady rate", data["measuring"][0])
    assert [words[1] for words in stands.changes()] == ["stop", "start"]
    assert stands.cluster.wait_healthy().ok
    assert stands.cluster.client.mon("osd tree") == before


def test_objects_are_measured_through_the_endpoints_of_an_inventory(
    stands: Standing, home: Home, tmp_path: Path
) -> None:
    """A native client machine and an emulated one. The list names a bucket for each process."""
    hosts, made = frozenset({"c0", "c1"}), frozenset({"wanted-s3-0-0", "wanted-s3-1-0"})
    gets = LOAD.format(name="gets", load='op = "get"\nhit_ratio = 1.0', protection="replicated:2", at_least="1 B/s")
    gets = gets.replace('per_watt_at_least = "0.001 ops/s/W"\n', "")
    copies = gets.replace("replicated:2", "replicated:3")
    with serving_s3(stands) as (inventory, _):
        with attached(stands, home, inventory, hosts=hosts) as cluster:
            _, data = run(tmp_path, cluster, home, gets)
            assert "bucket 'wanted-s3-0-0' is not on the list" in data["measuring"][0]
        with attached(stands, home, inventory, hosts=hosts, buckets=made) as cluster:
            verdict, data = run(tmp_path, cluster, home, gets)
            assert verdict.outcome is Outcome.PASS, verdict
            assert all(row["measured"] for row in data["rows"])
            assert data["measuring"][0].startswith("Measured with 2 S3 clients on 2 machines through 1 endpoint")
            assert buckets_of(stands) == []
            _, data = run(tmp_path, cluster, home, copies)
            assert "with replicated:2, not with replicated:3" in data["measuring"][0]
            assert buckets_of(stands) == []
    assert stands.cluster.wait_healthy().ok
