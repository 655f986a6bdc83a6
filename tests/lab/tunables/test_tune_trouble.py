"""What goes wrong while a tuning is applied or put back is told, and what a person has to do."""

from pathlib import Path

import pytest

from cephlab.lab.base.errors import CleanupFailed
from cephlab.lab.tunables.machine import limits_file
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Kind, Setting, SettingOutcome
from cephlab.lab.tunables.tune import Target, apply, revert
from tests.fake_machine import SWAPS, FakeMachine
from tests.lab.tunables.test_tune import BY_HAND, SETTINGS, files, target_of


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
