"""What goes wrong while a tuning is applied or put back is told, and what a person has to do."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from cephlab.lab.base.errors import CleanupFailed
from cephlab.lab.base.process import Result
from cephlab.lab.tunables.machine import Machine, limits_file
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Kind, Setting, SettingOutcome, State
from cephlab.lab.tunables.tune import Site, Target, apply, check, revert
from tests.fake_machine import SWAPS, FakeMachine
from tests.lab.tunables.test_tune import BY_HAND, SETTINGS, SWAPPINESS, files, target_of


class Unreachable(FakeMachine):
    """Nothing may be asked of it."""

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        raise AssertionError(f"{self.name} was asked {argv}")


def test_a_limits_file_that_was_there_comes_back_and_one_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    path, mine = limits_file("altra"), b"* soft nofile 1\n"
    machine = FakeMachine(files={**files(), path: mine})
    target = target_of(tmp_path, machine)
    machine.read_only.add(path)
    changes = [change for change in apply(target, "altra", SETTINGS) if change.setting.kind is Kind.LIMITS]
    assert [(change.outcome, change.why) for change in changes] == [
        (SettingOutcome.REFUSED, "EROFS: Read-only file system")
    ] * 2
    machine.read_only.clear()
    apply(target, "altra", SETTINGS)
    assert machine.files[path].startswith(b"# cephlab tuning altra\n* soft nofile 327680\n")
    revert(target, "altra")
    assert machine.files[path] == mine


def test_a_machine_that_is_gone_is_said_and_its_record_kept(tmp_path: Path) -> None:
    target = target_of(tmp_path, FakeMachine(files=files()))
    apply(target, "altra", SETTINGS[:1])
    elsewhere = Target("one", (), None, Records(tmp_path))
    with pytest.raises(CleanupFailed) as caught:
        revert(elsewhere, "altra")
    assert caught.value.errors == ("n0 no longer exists",)
    revert(target, "altra")


def test_a_host_that_is_down_is_named_and_its_settings_wait_for_it(tmp_path: Path) -> None:
    machines = {name: FakeMachine(name, files()) for name in ("n0", "n1")}

    def target(*, up: bool) -> Target:
        second = Machine("n1", machines["n1"] if up else Unreachable("n1"))
        sites = (Site(Machine("n0", machines["n0"])), Site(second, up=up))
        return Target("one", sites, None, Records(tmp_path))

    half = target(up=False)
    assert [(finding.where, finding.state) for finding in check(half, SETTINGS[:1])] == [
        ("n0", State.DRIFT),
        ("n1", State.UNREADABLE),
    ]
    done, left_out = apply(half, "altra", SETTINGS[:1])
    assert (done.where, done.outcome) == ("n0", SettingOutcome.DONE)
    assert (left_out.where, left_out.outcome) == ("n1", SettingOutcome.MISSING)
    assert left_out.why == "the host is down, so it was left out; start it and repeat"
    assert [change.outcome for change in apply(target(up=True), "altra", SETTINGS[:1])] == [
        SettingOutcome.ALREADY,
        SettingOutcome.DONE,
    ]
    with pytest.raises(CleanupFailed, match="n1 is down; start it first"):
        revert(half, "altra")
    assert revert(target(up=True), "altra") == [f"n1: {SWAPPINESS}"]
    assert [machine.files for machine in machines.values()] == [files(), files()]


def test_swap_is_back_with_its_priority_whatever_is_used_of_it(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", [SETTINGS[4]])
    machine.swap_becomes = SWAPS.replace("\t0\t", "\t512\t")
    assert revert(target, "altra") == ["n0: swap"]
    apply(target, "altra", [SETTINGS[4]])
    machine.swap_becomes = SWAPS.replace("-2", "5")
    with pytest.raises(CleanupFailed) as caught:
        revert(target, "altra")
    assert caught.value.errors[0].startswith("n0: swap is ")


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (BY_HAND[0], "add it to the boot loader's kernel command line and reboot"),
        (BY_HAND[1], "set it in the firmware"),
        (Setting(Kind.MANUAL, "cable", "new", "s"), "no program can set it on a running machine"),
        (Setting(Kind.MANUAL, "cable", "new", "s", note="ask the network team"), "ask the network team"),
    ],
)
def test_what_a_person_has_to_do_is_said(tmp_path: Path, setting: Setting, words: str) -> None:
    [change] = apply(target_of(tmp_path, FakeMachine(files=files())), "altra", [setting])
    assert (change.where, change.why) == ("n0", words)
