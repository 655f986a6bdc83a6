"""Tunings on a machine and a cluster that exist only as dictionaries: drift found, applied, put back exactly."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import CleanupFailed, LabBroken, SpecError
from cephlab.lab.tunables.machine import Machine, limits_file
from cephlab.lab.tunables.options import CephOptions
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Finding, Kind, Scope, Setting, SettingOutcome, State
from cephlab.lab.tunables.tune import Site, Target, apply, apply_to, check, revert
from tests.fake_machine import SWAPS, FakeClient, FakeMachine, Killed

THP = "/sys/kernel/mm/transparent_hugepage/enabled"
CPUS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
SWAPPINESS = "/proc/sys/vm/swappiness"
PORTS = "/proc/sys/net/ipv4/ip_local_port_range"

SETTINGS = (
    Setting(Kind.SYSCTL, "vm.swappiness", "0", "s"),
    Setting(Kind.SYSCTL, "net.ipv4.ip_local_port_range", "8192 65535", "s"),
    Setting(Kind.SYSFS, THP, "never", "s"),
    Setting(Kind.SYSFS, CPUS, "performance", "s"),
    Setting(Kind.SWAP, "all", "off", "s"),
    Setting(Kind.LIMITS, "* soft nofile", "327680", "s"),
    Setting(Kind.LIMITS, "* hard nofile", "327680", "s"),
    Setting(Kind.MTU, "cluster", "9000", "s"),
)
BY_HAND = (
    Setting(Kind.CMDLINE, "iommu.passthrough=1", "", "s"),
    Setting(Kind.BIOS, "Memory Speed", "3200MT/s", "s"),
)
OPTIONS = (
    Setting(Kind.CEPH, "bluestore_throttle_bytes", "268435456", "s", "global"),
    Setting(Kind.CEPH, "osd_client_message_cap", "1024", "s", "osd"),
    Setting(Kind.CEPH, "rbd_cache", "false", "s", "client"),
)
KNOWN = {"bluestore_throttle_bytes": "67108864", "osd_client_message_cap": "256", "rbd_cache": "true"}


def files() -> dict[str, bytes]:
    return {
        SWAPPINESS: b"60\n",
        PORTS: b"32768\t60999\n",
        THP: b"always [madvise] never\n",
        CPUS.replace("*", "0"): b"performance\n",
        CPUS.replace("*", "1"): b"powersave\n",
        "/proc/swaps": SWAPS.encode(),
        "/proc/cmdline": b"root=/dev/sda1 quiet\n",
        "/etc/security/limits.conf": b"# none\n* soft nofile 4096\n",
        "/sys/class/net/eth0/mtu": b"1500\n",
    }


def target_of(folder: Path, machine: FakeMachine, client: FakeClient | None = None, **site: Any) -> Target:
    ceph = CephOptions(client, ("mon.n0", "osd.0", "osd.1")) if client else None
    return Target("one", (Site(Machine("n0", machine, "10.0.0.1"), **site),), ceph, Records(folder))


def finding(findings: list[Finding], key: str) -> Finding:
    return next(finding for finding in findings if finding.setting.key == key)


def test_drift_is_found_and_nothing_is_changed(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    findings = check(target_of(tmp_path, machine), (*SETTINGS, *BY_HAND))
    assert {finding.setting.key: (finding.state, finding.got) for finding in findings} == {
        "vm.swappiness": (State.DRIFT, "60"),
        "net.ipv4.ip_local_port_range": (State.DRIFT, "32768 60999"),
        THP: (State.DRIFT, "madvise"),
        CPUS: (State.DRIFT, f"1 of 2 differ: powersave in {CPUS.replace('*', '1')}"),
        "all": (State.DRIFT, "/dev/sda2"),
        "* soft nofile": (State.DRIFT, "4096"),
        "* hard nofile": (State.DRIFT, "not set"),
        "cluster": (State.DRIFT, "1500"),
        "iommu.passthrough=1": (State.DRIFT, "not set"),
        "Memory Speed": (State.UNSEEN, ""),
    }
    assert machine.files == files()
    assert machine.writes == 0


def test_applied_settings_show_no_drift_and_revert_gives_every_byte_back(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    changes = apply(target, "altra", (*SETTINGS, *BY_HAND))
    assert {change.outcome for change in changes if not change.setting.by_hand} == {SettingOutcome.DONE}
    assert {change.outcome for change in changes if change.setting.by_hand} == {SettingOutcome.BY_HAND}
    assert {finding.state for finding in check(target, SETTINGS)} == {State.SET}
    assert machine.files[THP] == b"always madvise [never]\n"
    assert machine.files[limits_file("altra")].decode().splitlines()[1:] == [
        "* soft nofile 327680",
        "* hard nofile 327680",
    ]
    assert len(revert(target, "altra")) == 7
    assert machine.files == files()
    assert target.records.all() == []


@pytest.mark.parametrize("dies_after", range(8))
def test_a_killed_apply_is_reverted_byte_for_byte(tmp_path: Path, dies_after: int) -> None:
    machine = FakeMachine(files=files(), dies_after=dies_after)
    with pytest.raises(Killed):
        apply(target_of(tmp_path, machine), "altra", SETTINGS)
    machine.dies_after = None
    revert(target_of(tmp_path, machine), "altra")
    assert machine.files == files()


@pytest.mark.parametrize("dies_after", range(8))
def test_a_killed_apply_can_be_gone_on_with_and_still_be_reverted(tmp_path: Path, dies_after: int) -> None:
    machine = FakeMachine(files=files(), dies_after=dies_after)
    with pytest.raises(Killed):
        apply(target_of(tmp_path, machine), "altra", SETTINGS)
    machine.dies_after = None
    target = target_of(tmp_path, machine)
    assert SettingOutcome.REFUSED not in {change.outcome for change in apply(target, "altra", SETTINGS)}
    assert {finding.state for finding in check(target, SETTINGS)} == {State.SET}
    revert(target, "altra")
    assert machine.files == files()


@dataclass
class Unsteady(FakeMachine):
    """A machine that is lost once, after so many writes. then: what happens at that time."""

    then: Callable[[], object] = lambda: None

    def _count(self) -> None:
        try:
            super()._count()
        except Killed:
            self.dies_after = None
            self.then()
            raise LabBroken("the connection to the machine is lost") from None


@pytest.mark.parametrize("dies_after", range(1, 8))
def test_an_apply_that_fails_half_way_puts_back_what_it_set(tmp_path: Path, dies_after: int) -> None:
    machine = Unsteady(files=files(), dies_after=dies_after)
    target = target_of(tmp_path, machine)
    with pytest.raises(LabBroken, match="is lost") as caught:
        apply(target, "altra", SETTINGS)
    assert machine.files == files()
    assert target.records.all() == []
    assert "what altra had set was put back in" in caught.value.__notes__[0]


def test_an_apply_that_fails_half_way_leaves_what_an_earlier_call_set(tmp_path: Path) -> None:
    machine = Unsteady(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS[:1])
    first = dict(machine.files)
    record = target.records.get("altra")
    machine.dies_after, machine.writes = 2, 0
    with pytest.raises(LabBroken, match="is lost"):
        apply(target, "altra", SETTINGS)
    assert machine.files == first != files()
    assert target.records.get("altra") == record
    revert(target, "altra")
    assert machine.files == files()


def test_all_targets_are_put_back_and_what_cannot_be_is_told_and_remembered(tmp_path: Path) -> None:
    machines = [Unsteady(name, files()) for name in ("a", "b", "c")]
    targets = [
        Target(m.name, (Site(Machine(m.name, m, "10.0.0.1")),), None, Records(tmp_path / m.name)) for m in machines
    ]
    machines[2].then = lambda: machines[1].read_only.add(SWAPPINESS)
    machines[2].dies_after = 1
    with pytest.raises(LabBroken, match="is lost") as caught:
        apply_to(targets, "altra", SETTINGS[:3])
    assert machines[0].files == machines[2].files == files()
    assert machines[1].files == {**files(), SWAPPINESS: b"0\n"}
    assert [bool(target.records.all()) for target in targets] == [False, True, False]
    told = "\n".join(caught.value.__notes__)
    assert f"could not be put back; revert it later:\nb: {SWAPPINESS}: EROFS" in told
    machines[1].read_only.clear()
    revert(targets[1], "altra")
    assert machines[1].files == files()


@pytest.mark.parametrize("dies_after", range(6))
def test_a_killed_revert_is_finished_by_the_next(tmp_path: Path, dies_after: int) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS)
    machine.dies_after, machine.writes = dies_after, 0
    with pytest.raises(Killed):
        revert(target, "altra")
    machine.dies_after = None
    revert(target, "altra")
    assert machine.files == files()


def test_what_somebody_changed_in_between_is_set_again_and_the_first_state_comes_back(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS)
    machine.files[SWAPPINESS] = b"35\n"
    machine.files[PORTS] = b"1 2\n"
    assert finding(check(target, SETTINGS), "vm.swappiness").got == "35"
    apply(target, "altra", SETTINGS)
    assert machine.files[SWAPPINESS] == b"0\n"
    revert(target, "altra")
    assert machine.files == files()


def test_what_cannot_be_set_is_said_by_name(tmp_path: Path) -> None:
    machine = FakeMachine(files=files(), read_only={SWAPPINESS})
    del machine.files[THP]
    before = dict(machine.files)
    target = target_of(tmp_path, machine)
    changes = {change.setting.key: change for change in apply(target, "altra", SETTINGS)}
    assert changes["vm.swappiness"].outcome is SettingOutcome.REFUSED
    assert "Read-only file system" in changes["vm.swappiness"].why
    assert changes[THP].outcome is SettingOutcome.MISSING
    assert THP in changes[THP].why
    revert(target, "altra")
    assert machine.files == before


def test_a_choice_that_the_kernel_does_not_have_is_refused(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    [change] = apply(target, "odd", [Setting(Kind.SYSFS, THP, "sometimes", "s")])
    assert (change.outcome, "EINVAL" in change.why) == (SettingOutcome.REFUSED, True)


def test_what_is_shared_with_the_machine_below_is_looked_at_and_left_alone(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    kernel = frozenset({Scope.KERNEL})
    target = target_of(tmp_path, machine, owned=frozenset({Scope.NETWORK, Scope.FILES}), shared=kernel)
    changes = {change.setting.key: change.outcome for change in apply(target, "altra", SETTINGS)}
    assert changes["vm.swappiness"] is SettingOutcome.SHARED
    assert changes["all"] is SettingOutcome.SHARED
    assert changes["net.ipv4.ip_local_port_range"] is SettingOutcome.DONE
    assert machine.files[SWAPPINESS] == b"60\n"
    assert machine.files["/proc/swaps"] == SWAPS.encode()


def test_the_later_of_two_tunings_is_reverted_first(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "first", [Setting(Kind.SYSCTL, "vm.swappiness", "10", "s")])
    apply(target, "second", [Setting(Kind.SYSCTL, "vm.swappiness", "0", "s")])
    with pytest.raises(SpecError) as caught:
        revert(target, "first")
    assert "revert second first" in caught.value.hint
    revert(target, "second")
    assert machine.files[SWAPPINESS] == b"10\n"
    revert(target, "first")
    assert machine.files == files()


def test_tunings_of_different_settings_are_reverted_in_any_order(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "first", [SETTINGS[0]])
    apply(target, "second", [SETTINGS[1]])
    revert(target, "first")
    revert(target, "second")
    assert machine.files == files()


def test_what_was_not_applied_cannot_be_reverted(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="altra was not applied to one"):
        revert(target_of(tmp_path, FakeMachine(files=files())), "altra")


def test_a_revert_goes_on_after_a_refusal_and_keeps_the_record(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS)
    machine.read_only.add(SWAPPINESS)
    with pytest.raises(CleanupFailed) as caught:
        revert(target, "altra")
    assert len(caught.value.errors) == 1
    assert SWAPPINESS in caught.value.errors[0]
    assert machine.files == {**files(), SWAPPINESS: b"0\n"}
    machine.read_only.clear()
    revert(target, "altra")
    assert machine.files == files()


# Ceph


def test_options_are_set_in_the_database_and_leave_it_as_it_was(tmp_path: Path) -> None:
    was = {("client", "rbd_cache"): "true", ("global", "debug_osd"): "1"}
    client = FakeClient(dict(KNOWN), dict(was))
    target = target_of(tmp_path, FakeMachine(), client, owned=frozenset())
    assert {finding.state for finding in check(target, OPTIONS)} == {State.DRIFT}
    assert {change.outcome for change in apply(target, "ceph", OPTIONS)} == {SettingOutcome.DONE}
    assert {finding.state for finding in check(target, OPTIONS)} == {State.SET}
    assert client.database["client", "rbd_cache"] == "false"
    revert(target, "ceph")
    assert client.database == was


def test_an_option_that_is_read_at_start_waits_for_it(tmp_path: Path) -> None:
    client = FakeClient(dict(KNOWN), fixed={"osd_client_message_cap"})
    target = target_of(tmp_path, FakeMachine(), client, owned=frozenset())
    [change] = apply(target, "ceph", OPTIONS[1:2])
    assert change.outcome is SettingOutcome.WAITS
    assert "after their next restart" in check(target, OPTIONS[1:2])[0].why
    client.started()
    assert check(target, OPTIONS[1:2])[0].state is State.SET
    revert(target, "ceph")
    assert client.database == {}


def test_a_debug_level_is_one_for_log_and_memory(tmp_path: Path) -> None:
    client = FakeClient({"debug_osd": "1/1"})
    target = target_of(tmp_path, FakeMachine(), client, owned=frozenset())
    settings = [Setting(Kind.CEPH, "debug_osd", level, "s", "osd") for level in ("1", "5")]
    assert [finding.state for finding in check(target, settings)] == [State.SET, State.DRIFT]


def test_an_option_that_the_release_lacks_is_missing(tmp_path: Path) -> None:
    client = FakeClient(dict(KNOWN))
    gone = Setting(Kind.CEPH, "osd_op_threads", "8", "s", "global")
    target = target_of(tmp_path, FakeMachine(), client, owned=frozenset())
    [change] = apply(target, "old", [gone])
    assert change.outcome is SettingOutcome.MISSING
    assert client.database == {}


def test_a_value_that_ceph_refuses_is_said(tmp_path: Path) -> None:
    target = target_of(tmp_path, FakeMachine(), FakeClient(dict(KNOWN)), owned=frozenset())
    [change] = apply(target, "odd", [Setting(Kind.CEPH, "rbd_cache", "nonsense", "s", "client")])
    assert (change.outcome, change.why) == (SettingOutcome.REFUSED, "error parsing value")


def test_an_option_that_ceph_conf_overrides_is_drift_and_its_setting_no_success(tmp_path: Path) -> None:
    client = FakeClient(dict(KNOWN), overrides={"bluestore_throttle_bytes": "1"})
    target = target_of(tmp_path, FakeMachine(), client, owned=frozenset())
    [change] = apply(target, "ceph", OPTIONS[:1])
    assert change.outcome is SettingOutcome.REFUSED
    assert "overrides it" in change.why
    assert finding(check(target, OPTIONS[:1]), "bluestore_throttle_bytes").got == "1 in mon.n0, osd.0, osd.1"


def test_options_without_a_cluster_are_not_pretended(tmp_path: Path) -> None:
    target = target_of(tmp_path, FakeMachine(files=files()))
    assert [finding.state for finding in check(target, OPTIONS)] == [State.UNSEEN] * 3
    assert [change.outcome for change in apply(target, "ceph", OPTIONS)] == [SettingOutcome.MISSING] * 3
