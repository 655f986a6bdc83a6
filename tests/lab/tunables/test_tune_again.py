"""Tunings applied again, one over another, or beside options of a cluster: the first state is what comes back."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import CleanupFailed, SpecError
from cephlab.lab.tunables.machine import Machine, limits_file
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Kind, Setting, SettingOutcome
from cephlab.lab.tunables.tune import Site, Target, apply, apply_to, check, revert
from tests.fake_machine import SWAPS, FakeClient, FakeMachine
from tests.lab.tunables.test_tune import KNOWN, OPTIONS, SETTINGS, SWAPPINESS, files, target_of

SWAP = SETTINGS[4]
OTHER_SWAP = SWAPS.replace("sda2", "sdb7")


def swappiness(value: str) -> Setting:
    return Setting(Kind.SYSCTL, "vm.swappiness", value, "s")


# One target, again


def test_what_a_second_apply_adds_is_given_back_as_well(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS[:1])
    apply(target, "altra", SETTINGS[:5])
    assert len(revert(target, "altra")) == 5
    assert machine.files == files()


def test_swap_is_given_back_as_it_was_before_the_first_apply(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", [SWAP])
    machine.files["/proc/swaps"] = OTHER_SWAP.encode()
    apply(target, "altra", [SWAP])
    assert revert(target, "altra") == ["n0: swap"]
    assert machine.files == files()


def test_options_are_given_back_as_they_were_before_the_first_apply(tmp_path: Path) -> None:
    was = {("client", "rbd_cache"): "true"}
    client = FakeClient(dict(KNOWN), dict(was))
    target = target_of(tmp_path, FakeMachine(), client, owned=frozenset())
    apply(target, "ceph", OPTIONS[2:])
    client.database["client", "rbd_cache"] = "true, since yesterday"
    apply(target, "ceph", OPTIONS)
    assert revert(target, "ceph") == [
        "the cluster: global/bluestore_throttle_bytes",
        "the cluster: osd/osd_client_message_cap",
        "the cluster: client/rbd_cache",
    ]
    assert client.database == was


def test_a_machine_that_is_down_the_second_time_is_still_given_back(tmp_path: Path) -> None:
    machines = {name: FakeMachine(name, files()) for name in ("n0", "n1")}

    def target(*, up: bool) -> Target:
        sites = (Site(Machine("n0", machines["n0"])), Site(Machine("n1", machines["n1"]), up=up))
        return Target("one", sites, None, Records(tmp_path))

    apply(target(up=True), "altra", SETTINGS[:1])
    apply(target(up=False), "altra", SETTINGS[:1])
    assert revert(target(up=True), "altra") == [f"n0: {SWAPPINESS}", f"n1: {SWAPPINESS}"]
    assert [machine.files for machine in machines.values()] == [files(), files()]


def test_a_machine_after_one_that_is_down_is_given_back(tmp_path: Path) -> None:
    machines = FakeMachine("n0", files()), FakeMachine("n1", files())
    sites = (Site(Machine("n0", machines[0]), up=False), Site(Machine("n1", machines[1])))
    target = Target("one", sites, None, Records(tmp_path))
    apply(target, "altra", SETTINGS[:1])
    assert revert(target, "altra") == [f"n1: {SWAPPINESS}"]
    assert machines[1].files == files()


def test_a_machine_of_which_nothing_was_changed_may_be_gone(tmp_path: Path) -> None:
    machines = (FakeMachine("n0", files()), FakeMachine("n1", {**files(), SWAPPINESS: b"0\n"}))
    sites = tuple(Site(Machine(machine.name, machine)) for machine in machines)
    apply(Target("one", sites, None, Records(tmp_path)), "altra", SETTINGS[:1])
    assert revert(Target("one", sites[:1], None, Records(tmp_path)), "altra") == [f"n0: {SWAPPINESS}"]


def test_a_machine_that_is_gone_keeps_the_record_of_its_swap(tmp_path: Path) -> None:
    apply(target_of(tmp_path, FakeMachine(files=files())), "altra", [SWAP])
    with pytest.raises(CleanupFailed, match="n0 no longer exists"):
        revert(Target("one", (), None, Records(tmp_path)), "altra")


# Several tunings


def test_the_last_of_several_tunings_is_reverted_first_and_both_are_named(tmp_path: Path) -> None:
    target = target_of(tmp_path, FakeMachine(files=files()))
    for number, name in enumerate(("first", "second", "third", "fourth")):
        apply(target, name, [swappiness(str(number))])
    with pytest.raises(SpecError, match="fourth was applied after second") as caught:
        revert(target, "second")
    assert (caught.value.detail, caught.value.hint) == (f"both set n0:{SWAPPINESS}", "revert fourth first")
    with pytest.raises(SpecError) as caught:
        revert(target, "fifth")
    assert caught.value.detail == "applied: first, second, third, fourth"


def test_a_tuning_that_is_applied_again_stays_below_those_that_came_after_it(tmp_path: Path) -> None:
    target = target_of(tmp_path, FakeMachine(files=files()))
    apply(target, "first", [swappiness("10")])
    apply(target, "second", [swappiness("0")])
    apply(target, "first", [swappiness("10")])
    with pytest.raises(SpecError, match="second was applied after first"):
        revert(target, "first")


def test_without_a_tuning_none_is_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        revert(target_of(tmp_path, FakeMachine()), "altra")
    assert caught.value.detail == "applied: none"


# Machines and options together


def test_machines_and_options_are_set_and_given_back_together(tmp_path: Path) -> None:
    machine, client = FakeMachine(files=files()), FakeClient(dict(KNOWN))
    target = target_of(tmp_path, machine, client)
    wanted = (*SETTINGS[:2], *OPTIONS[:2])
    changes = apply(target, "both", wanted)
    assert [(change.where, change.setting, change.outcome) for change in changes] == [
        *(("n0", setting, SettingOutcome.DONE) for setting in SETTINGS[:2]),
        *(("the cluster", option, SettingOutcome.DONE) for option in OPTIONS[:2]),
    ]
    assert [change.why for change in changes[:2]] == ["was 60", "was 32768 60999"]
    again = apply(target, "both", wanted)
    assert [(change.outcome, change.why) for change in again] == [(SettingOutcome.ALREADY, "")] * 4
    assert len(revert(target, "both")) == 4
    assert (machine.files, client.database) == (files(), {})


def test_options_without_a_cluster_are_named_beside_what_was_set(tmp_path: Path) -> None:
    target = target_of(tmp_path, FakeMachine(files=files()))
    done, *left = apply(target, "both", (SETTINGS[0], *OPTIONS[:1]))
    assert (done.where, done.outcome) == ("n0", SettingOutcome.DONE)
    assert [(change.where, change.setting, change.outcome, change.why) for change in left] == [
        ("one", OPTIONS[0], SettingOutcome.MISSING, "a Ceph option needs a cluster")
    ]
    assert [(finding.where, finding.why) for finding in check(target, OPTIONS[:1])] == [
        ("one", "a Ceph option needs a cluster")
    ]


def test_what_was_done_is_told_of_every_target(tmp_path: Path) -> None:
    machines = [FakeMachine(name, files()) for name in ("a", "b")]
    targets = [Target(m.name, (Site(Machine(m.name, m)),), None, Records(tmp_path / m.name)) for m in machines]
    assert [change.where for change in apply_to(targets, "altra", SETTINGS[:1])] == ["a", "b"]


# What lies on a machine comes back whole


def test_a_limits_file_that_somebody_removed_comes_back(tmp_path: Path) -> None:
    mine = b"# [mine] and others\n* soft nofile 1\n"
    machine = FakeMachine(files={**files(), limits_file("altra"): mine})
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS)
    del machine.files[limits_file("altra")]
    revert(target, "altra")
    assert machine.files == {**files(), limits_file("altra"): mine}


def test_a_limits_file_is_not_made_for_other_settings(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    apply(target_of(tmp_path, machine), "altra", [*SETTINGS[:1], SWAP])
    assert limits_file("altra") not in machine.files


def test_limits_alone_leave_no_file_behind(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", SETTINGS[5:7])
    assert revert(target, "altra") == [f"n0: {limits_file('altra')}"]
    assert machine.files == files()
