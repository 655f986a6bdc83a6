"""What is waited for before a manager is started, the age of its monitors' machines, and what they are told."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import NotReached
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.deploy import packages
from cephlab.lab.cluster.deploy.packages import Deployer, Deployment, await_age
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from tests.fake_clock import VirtualClock


@dataclass
class Machine:
    """Booted when its clock stood at `booted`; one that is stuck never grows older."""

    clock: VirtualClock
    booted: float = 0.0
    stuck: bool = False
    name: str = "n0"
    own_kernel: bool = True

    def run(self, argv: Sequence[str], **_options: Any) -> Result:
        age_s = 0.0 if self.stuck else self.clock.now - self.booted
        return Result(tuple(argv), 0, f"{age_s:.2f} 1.00\n".encode(), b"")


def test_the_youngest_monitor_is_waited_for() -> None:
    clock = VirtualClock(now=100.0)
    machines = [Machine(clock, booted=95.0), Machine(clock, booted=90.0), Machine(clock, booted=0.0)]
    await_age(cast("Any", machines), 30.0, time=clock)
    assert 125.0 < clock.now < 126.0


def test_old_machines_cost_nothing() -> None:
    clock = VirtualClock(now=100.0)
    await_age(cast("Any", [Machine(clock)]), 30.0, time=clock)
    assert clock.slept == []


def test_a_machine_whose_clock_stands_still_is_named() -> None:
    clock = VirtualClock(now=100.0)
    with pytest.raises(NotReached, match="an uptime of 30 s on n0"):
        await_age(cast("Any", [Machine(clock, stuck=True)]), 30.0, time=clock)


@dataclass
class Client:
    """Tells what the monitors were told, and when."""

    clock: VirtualClock
    said: list[tuple[float, str, str]] = field(default_factory=list)

    def mon(self, prefix: str, *, who: str, name: str, value: str = "") -> None:
        assert (who, name) == ("mon", "mon_mgr_beacon_grace")
        self.said.append((self.clock.now, prefix, value))

    def later(self, after_s: float, prefix: str, *, who: str, name: str) -> None:
        assert (who, name) == ("mon", "mon_mgr_beacon_grace")
        self.said.append((self.clock.now + after_s, prefix, ""))


@pytest.mark.parametrize(
    ("machine", "own", "started_s", "told"),
    [
        ({}, None, 8.5, [(8.5, "config set", "8"), (32.0, "config rm", "")]),
        ({"booted": -20.0}, None, 0.0, [(0.0, "config set", "8"), (12.0, "config rm", "")]),
        ({"booted": -100.0}, None, 0.0, []),
        ({"own_kernel": False, "stuck": True}, None, 0.0, []),
        ({}, "12", 12.5, []),  # a ceph.conf goes before what the monitors are told
    ],
    ids=["young", "older", "old", "shared-kernel", "own-grace"],
)
def test_managers_on_a_young_machine_start_under_a_shorter_grace(
    machine: dict[str, Any],
    own: str | None,
    started_s: float,
    told: list[tuple[float, str, str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = VirtualClock(now=0.0)
    monkeypatch.setattr(packages, "await_age", partial(await_age, time=clock))
    spec = Topology(native=1, foreign=0).spec(DEFAULT_RELEASE)
    hosts = {node.name: Machine(clock, **machine) for node in spec.nodes}
    deployer = Deployer(spec, cast("Any", hosts), {}, cast("Any", None), 1.0, cast("Any", str))
    options = {} if own is None else {"mon_mgr_beacon_grace": own}
    deployment = Deployment("fsid", {}, options, cast("Any", None), 1.0, cast("Any", None))
    client = Client(clock)
    deployer._spare_managers(deployment, cast("Any", client))
    assert (clock.now, client.said) == (started_s, told)
