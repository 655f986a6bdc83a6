"""Daemons as units of systemd: which unit is whose, what systemctl is told, and what is not done to containers.

The lines of cephadm's units are of the shape that its documentation shows for reef (Operations, "Service status":
`ceph-FSID@TYPE.ID.service`); no systemd answers here.
"""

import json
import signal
from collections.abc import Sequence
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CommandFailed, DaemonDied, LabBroken, SpecError, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.daemon import Wanted
from cephlab.lab.cluster.attach.cluster import keeping
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.cluster.attach.units import FRESH_S, SystemdUnits, UnitDaemon, parse_units
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.daemons import KillTogether
from cephlab.lab.providers.host import Host
from tests.fake_clock import VirtualClock

FSID = "0f2d7cbe-9c1b-11ee-b9d1-0242ac120002"
OTHER = "11111111-9c1b-11ee-b9d1-0242ac120002"


def listed(**units: str) -> str:
    """unit (with `_at_` for @) -> active state, as `systemctl list-units --output=json` has it."""
    return json.dumps(
        [
            {"unit": name, "load": "loaded", "active": state, "sub": "x", "description": "x"}
            for name, state in units.items()
        ]
    )


PACKAGED = listed(**{"ceph-osd@3.service": "active", "ceph-mon@a.service": "failed", "ceph.target": "active"})
CEPHADM = listed(
    **{
        f"ceph-{FSID}@osd.3.service": "active",
        f"ceph-{FSID}@mgr.node1.xyzabc.service": "active",
        f"ceph-{FSID}@crash.node1.service": "active",
        f"ceph-{OTHER}@osd.4.service": "active",
        f"ceph-{FSID}.target": "active",
    }
)


class FakeMachine:
    """Answers list-units with what it is given and does what it is told to its units."""

    name = "n"
    emulated = False
    directory = PurePosixPath("/tmp")

    def __init__(self, text: str, *, systemctl: bool = True) -> None:
        self.entries: list[dict[str, Any]] = json.loads(text)
        self.systemctl = systemctl
        self.told: list[tuple[str, ...]] = []
        self.lost = False
        self.main_pid = b"4711\n"

    def run(self, argv: Sequence[str], *, timeout_s: float) -> Result:
        if self.lost:
            raise LabBroken("n went away")
        if not self.systemctl:
            raise CommandFailed(argv, 127, "", "not found", self.name)
        self.told.append(tuple(argv))
        words = [word for word in argv if word not in ("sudo", "-n", "systemctl")]
        if words[0] == "show":
            return Result(tuple(argv), 0, self.main_pid, b"")
        for entry in self.entries:
            if entry["unit"] == words[-1] and words[0] in ("start", "stop"):
                entry["active"] = {"start": "active", "stop": "inactive"}[words[0]]
        return Result(tuple(argv), 0, json.dumps(self.entries).encode(), b"")

    def up(self) -> bool:
        return not self.lost

    def changes(self) -> list[tuple[str, ...]]:
        return [words[words.index("systemctl") + 1 :] for words in self.told if "list-units" not in words]


def daemon_on(
    machine: FakeMachine, name: str = "osd.3", *, sudo: bool = False, allowed: Sequence[str] = ("osd.3",)
) -> UnitDaemon:
    guard = Guard(Permit(daemons=frozenset(allowed)), Existing(), dict)
    host = cast("Host", machine)
    units = SystemdUnits(host, FSID, sudo=sudo)
    return UnitDaemon(name, host, (), wanted=Wanted.RUNNING, units=units, permitted=guard.daemon)


def test_units_of_packages_are_found() -> None:
    units = parse_units(PACKAGED, FSID)
    assert {name: (unit.active, unit.contained) for name, unit in units.items()} == {
        "osd.3": (True, False),
        "mon.a": (False, False),
    }


def test_units_of_cephadm_are_found_and_those_of_another_cluster_are_not() -> None:
    units = parse_units(CEPHADM, FSID)
    assert {name: unit.contained for name, unit in units.items()} == {"osd.3": True, "mgr.node1.xyzabc": True}


LEFTOVER = "ceph-osd@3.service"
OWN = f"ceph-{FSID}@osd.3.service"


@pytest.mark.parametrize("order", [(LEFTOVER, OWN), (OWN, LEFTOVER)])
@pytest.mark.parametrize("state", ["active", "failed", "inactive"])
def test_the_unit_that_names_the_cluster_goes_before_a_leftover(order: tuple[str, str], state: str) -> None:
    machine = FakeMachine(listed(**{unit: "active" if unit == OWN else state for unit in order}))
    daemon = daemon_on(machine)
    daemon.stop()
    daemon.start()
    assert machine.changes() == [("stop", OWN), ("start", OWN)]


@pytest.mark.parametrize("order", [(LEFTOVER, OWN), (OWN, LEFTOVER)])
def test_a_unit_that_runs_beside_the_clusters_own_is_refused(order: tuple[str, str]) -> None:
    machine = FakeMachine(listed(**{unit: "inactive" if unit == OWN else "active" for unit in order}))
    with pytest.raises(SpecError) as caught:
        keeping(SystemdUnits(cast("Host", machine), FSID), "osd.3")
    assert LEFTOVER in caught.value.detail
    assert OWN in caught.value.detail
    assert machine.changes() == []


def test_a_machine_without_units_has_none() -> None:
    assert parse_units("", FSID) == {}
    assert parse_units("[]", FSID) == {}


def test_stopping_and_starting_goes_through_the_unit() -> None:
    for text, unit in ((PACKAGED, "ceph-osd@3.service"), (CEPHADM, f"ceph-{FSID}@osd.3.service")):
        machine = FakeMachine(text)
        daemon = daemon_on(machine)
        daemon.stop()
        assert not daemon.alive()
        daemon.check()
        daemon.start()
        assert daemon.alive()
        assert machine.changes() == [("stop", unit), ("start", unit)]


def test_a_killed_daemon_is_not_started_again() -> None:
    machine = FakeMachine(PACKAGED)
    daemon_on(machine).kill()
    assert [words[0] for words in machine.changes()] == ["kill", "stop", "reset-failed"]
    assert "--signal=SIGKILL" in machine.changes()[0]


TWO = ("osd.3", "mon.a")


def two_on(machine: FakeMachine, *allowed: str) -> Cluster:
    """As much of a cluster of two daemons as a fault of both needs. allowed: what is on the list."""
    daemons = {name: daemon_on(machine, name, allowed=allowed) for name in TWO}
    client = SimpleNamespace(host=None)
    told = {"daemon": daemons.__getitem__, "daemons_changed": lambda: None, "client": client, "patience": 1.0}
    return cast("Cluster", SimpleNamespace(**told))


def test_daemons_that_die_together_die_through_their_units() -> None:
    machine = FakeMachine(listed(**{"ceph-osd@3.service": "active", "ceph-mon@a.service": "active"}))
    cluster = two_on(machine, *TWO)
    with KillTogether(TWO).broken(cluster):
        assert [cluster.daemon(name).alive() for name in TWO] == [False, False]
        assert [cluster.daemon(name).wanted for name in TWO] == [Wanted.STOPPED, Wanted.STOPPED]
        killed = [words for words in machine.changes() if words[0] == "kill"]
        assert sorted(killed) == [("kill", "--signal=SIGKILL", f"ceph-{unit}.service") for unit in ("mon@a", "osd@3")]
    assert [cluster.daemon(name).alive() for name in TWO] == [True, True]


@pytest.mark.parametrize("allowed", [("osd.3",), ("mon.a",), ()])
def test_none_of_them_dies_if_one_is_not_on_the_list(allowed: tuple[str, ...]) -> None:
    machine = FakeMachine(listed(**{"ceph-osd@3.service": "active", "ceph-mon@a.service": "active"}))
    cluster = two_on(machine, *allowed)
    with pytest.raises(NotPermitted, match="kill of"), KillTogether(TWO).broken(cluster):
        pytest.fail("it was inflicted")
    assert machine.changes() == []
    assert [cluster.daemon(name).wanted for name in TWO] == [Wanted.RUNNING, Wanted.RUNNING]


def test_changes_take_sudo_where_the_inventory_says() -> None:
    machine = FakeMachine(PACKAGED)
    daemon_on(machine, sudo=True).stop()
    assert ("sudo", "-n", "systemctl", "stop", "ceph-osd@3.service") in machine.told


@pytest.mark.parametrize("verb", ["kill", "pause", "resume"])
def test_a_signal_to_a_container_is_refused(verb: str) -> None:
    machine = FakeMachine(CEPHADM)
    with pytest.raises(Unavailable, match="in a cephadm container"):
        getattr(daemon_on(machine), verb)()
    assert machine.changes() == []


@pytest.mark.parametrize("verb", ["start", "stop", "kill", "pause", "resume"])
def test_a_daemon_that_is_not_on_the_list_is_left_alone(verb: str) -> None:
    machine = FakeMachine(PACKAGED)
    with pytest.raises(NotPermitted, match=r"mon\.a"):
        getattr(daemon_on(machine, "mon.a"), verb)()
    assert machine.told == []


def test_a_daemon_that_ended_by_itself_is_noticed() -> None:
    machine = FakeMachine(PACKAGED)
    machine.entries[0]["active"] = "failed"
    with pytest.raises(DaemonDied, match=r"osd\.3"):
        daemon_on(machine).check()


def test_systemd_is_not_asked_at_every_look() -> None:
    machine = FakeMachine(PACKAGED)
    now = VirtualClock()
    units = SystemdUnits(cast("Host", machine), FSID, now=now)
    for _ in range(10):
        assert units.all()["osd.3"].active
    assert len(machine.told) == 1
    now.sleep(FRESH_S * 2)
    units.all()
    assert len(machine.told) == 2


def test_a_machine_that_is_lost_is_no_machine_without_systemd() -> None:
    machine = FakeMachine("[]")
    machine.lost = True
    with pytest.raises(LabBroken, match="went away"):
        daemon_on(machine).alive()


def test_without_systemd_the_verbs_say_so() -> None:
    with pytest.raises(Unavailable, match="does not say which daemons"):
        daemon_on(FakeMachine("[]", systemctl=False)).stop()
    with pytest.raises(Unavailable, match=r"no systemd unit .* for osd\.3"):
        daemon_on(FakeMachine("[]")).stop()


def test_costs_are_accounted_to_a_units_own_process_and_to_none_behind_a_container_engine() -> None:
    process = daemon_on(FakeMachine(PACKAGED)).accounted()
    assert process is not None
    assert (process.ref, process.pid, process.alive(), process.exit_code()) == ({"pid": 4711}, 0, True, None)
    with pytest.raises(NotPermitted, match="SIGKILL"):
        process.signal(signal.SIGKILL)
    assert daemon_on(FakeMachine(CEPHADM)).accounted() is None
    assert daemon_on(FakeMachine(PACKAGED), "osd.9").accounted() is None


@pytest.mark.parametrize(("text", "main_pid"), [(PACKAGED, b"0\n"), (PACKAGED, b"\n"), (CEPHADM, b"4711\n")])
def test_a_daemon_whose_process_systemd_does_not_tell_says_so(text: str, main_pid: bytes) -> None:
    machine = FakeMachine(text)
    assert daemon_on(FakeMachine(PACKAGED)).started().ref == {"pid": 4711}
    machine.main_pid = main_pid
    with pytest.raises(LabBroken, match=r"the process of osd\.3 on n of the attached cluster is not known"):
        daemon_on(machine).started()
