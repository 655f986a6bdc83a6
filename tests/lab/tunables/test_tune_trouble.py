"""What goes wrong while a tuning is applied or put back is told, and what a person has to do."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import CleanupFailed, LabBroken
from cephlab.lab.base.process import Result
from cephlab.lab.tunables.machine import Machine, limits_file
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Kind, Setting, SettingOutcome, State
from cephlab.lab.tunables.tune import Site, Target, apply, apply_to, check, revert
from tests.fake_machine import SWAPS, FakeClient, FakeMachine
from tests.lab.tunables.test_tune import BY_HAND, CPUS, KNOWN, OPTIONS, PORTS, SETTINGS, SWAPPINESS, files, target_of


class Unreachable(FakeMachine):
    """Nothing may be asked of it."""

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
        raise AssertionError(f"{self.name} was asked {argv}")


@dataclass
class Stubborn(FakeMachine):
    """A machine whose files `stuck` take no new content without an error, and that does not switch swap off."""

    stuck: set[str] = field(default_factory=set)
    swap_errors: list[str] = field(default_factory=list)

    def _write(self, item: dict[str, Any]) -> str | None:
        return None if item["path"] in self.stuck else super()._write(item)

    def _swap(self, wanted: Any) -> list[str]:
        return self.swap_errors if wanted is not None and self.swap_errors else super()._swap(wanted)


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
    for other in (SWAPS.replace("-2", "5"), SWAPS.replace("sda2", "sdb7")):
        machine.swap_becomes = other
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


# What a machine does not do


def test_a_value_that_a_file_does_not_take_is_said_and_also_that_it_does_not_come_back(tmp_path: Path) -> None:
    machine = Stubborn(files=files(), stuck={SWAPPINESS})
    target = target_of(tmp_path, machine)
    stays, done = apply(target, "altra", SETTINGS[:2])
    assert (stays.outcome, stays.why) == (SettingOutcome.REFUSED, "it is still 60")
    assert done.outcome is SettingOutcome.DONE
    machine.stuck = {PORTS}
    with pytest.raises(CleanupFailed) as caught:
        revert(target, "altra")
    assert caught.value.errors == (f"n0: {PORTS}: its old content could not be written back",)
    assert caught.value.hint.endswith("revert altra again")


def test_of_several_files_that_refuse_a_value_two_are_named(tmp_path: Path) -> None:
    cpus = [CPUS.replace("*", str(number)) for number in range(3)]
    machine = FakeMachine(files=dict.fromkeys(cpus, b"powersave\n"), read_only=set(cpus))
    [change] = apply(target_of(tmp_path, machine), "altra", [SETTINGS[3]])
    assert change.outcome is SettingOutcome.REFUSED
    assert change.why == "; ".join(f"{path}: EROFS: Read-only file system" for path in cpus[:2])


def test_swap_that_cannot_be_switched_is_said_with_every_error(tmp_path: Path) -> None:
    machine = Stubborn(files=files(), swap_errors=["/dev/sda2: EBUSY", "/dev/sdb2: EBUSY"])
    target = target_of(tmp_path, machine)
    [change] = apply(target, "altra", [SETTINGS[4]])
    assert (change.outcome, change.why) == (SettingOutcome.REFUSED, "/dev/sda2: EBUSY; /dev/sdb2: EBUSY")
    machine.swap_errors = []
    apply(target, "altra", [SETTINGS[4]])
    machine.swap_errors = ["/dev/sda2: ENOENT"]
    with pytest.raises(CleanupFailed) as caught:
        revert(target, "altra")
    assert caught.value.errors == ("n0: /dev/sda2: ENOENT", "n0: swap is []")


def test_swap_that_cannot_be_looked_at_is_not_said_to_be_back(tmp_path: Path) -> None:
    machine = FakeMachine(files=files())
    target = target_of(tmp_path, machine)
    apply(target, "altra", [SETTINGS[4]])
    machine.hidden = {"/proc/swaps"}
    with pytest.raises(CleanupFailed) as caught:
        revert(target, "altra")
    assert caught.value.errors == ("n0: swap is ['EACCES: Permission denied']",)


def test_a_revert_tells_the_trouble_of_every_place(tmp_path: Path) -> None:
    """One machine cannot be reached, one refuses a file, and one is well."""

    class Lost(FakeMachine):
        def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
            raise LabBroken("the connection to the machine is lost")

    machines = [FakeMachine(name, files()) for name in ("a", "b", "c")]

    def target(first: FakeMachine) -> Target:
        sites = (Site(Machine(machine.name, machine)) for machine in (first, *machines[1:]))
        return Target("all", tuple(sites), None, Records(tmp_path))

    apply(target(machines[0]), "altra", SETTINGS[:2])
    machines[1].read_only = {SWAPPINESS}
    with pytest.raises(CleanupFailed) as caught:
        revert(target(Lost("a")), "altra")
    assert caught.value.errors == (
        "a: the connection to the machine is lost",
        f"b: {SWAPPINESS}: EROFS: Read-only file system",
    )
    machines[1].read_only = set()
    assert revert(target(machines[0]), "altra") == [f"a: {SWAPPINESS}", f"a: {PORTS}", f"b: {SWAPPINESS}"]
    assert [machine.files for machine in machines] == [files()] * 3


def test_after_an_error_the_places_of_all_targets_are_counted_and_all_that_is_left_is_told(tmp_path: Path) -> None:
    """Only what is as it was counts, also of the options of a cluster."""

    class Keeping(FakeClient):
        """Keeps one option as it was set, and fails once it was asked for another."""

        def mon(self, prefix: str, **arguments: Any) -> Any:
            if prefix == "config rm" and arguments["name"] == "osd_client_message_cap":
                return None
            return super().mon(prefix, **arguments)

    class Broken(FakeMachine):
        def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, stdin: bytes = b"") -> Result:
            raise LabBroken("the connection to the machine is lost")

    machines = [FakeMachine(name, files()) for name in ("a", "b")]
    machines[1].read_only = {PORTS}
    client = Keeping(dict(KNOWN))
    targets = [
        target_of(tmp_path / "a", machines[0]),
        target_of(tmp_path / "b", machines[1], client),
        target_of(tmp_path / "c", Broken("c")),
    ]
    with pytest.raises(LabBroken) as caught:
        apply_to(targets, "altra", (*SETTINGS[:2], *OPTIONS[:2]))
    assert caught.value.__notes__ == [
        "what altra had set was put back in 4 places",
        "what altra had set could not be put back; revert it later:\n"
        "the cluster: osd/osd_client_message_cap was None and is now '1024'",
    ]
    assert [len(target.records.all()) for target in targets] == [0, 1, 0]
    assert [machine.files for machine in machines] == [files()] * 2
