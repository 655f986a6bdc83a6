"""Settings, their states and outcomes, in the words that tuning files, tables and `--json` have for them."""

from pathlib import Path

import pytest

from cephlab.lab.tunables.machine import Machine
from cephlab.lab.tunables.options import CephOptions
from cephlab.lab.tunables.records import Records
from cephlab.lab.tunables.settings import Finding, Kind, Scope, Setting, State
from cephlab.lab.tunables.tune import Site, Target, apply, check
from tests.fake_machine import FakeClient, FakeMachine

SETTINGS = (
    Setting(Kind.SYSCTL, "net.core.somaxconn", "1024", "s"),
    Setting(Kind.SYSCTL, "net.core.rmem_max", "1", "s"),
    Setting(Kind.SYSCTL, "net.core.wmem_max", "1", "s"),
    Setting(Kind.SYSCTL, "net.core.busy_poll", "1", "s"),
    Setting(Kind.SYSCTL, "net.core.busy_read", "1", "s"),
    Setting(Kind.SYSCTL, "vm.swappiness", "1", "s"),
    Setting(Kind.BIOS, "Memory Speed", "3200MT/s", "s"),
    Setting(Kind.CEPH, "osd_client_message_cap", "1024", "s", "osd"),
)


def target_of(folder: Path) -> Target:
    """A machine whose kernel is shared, and a cluster with an option that daemons read at their start."""
    paths = {setting.key: f"/proc/sys/{setting.key.replace('.', '/')}" for setting in SETTINGS}
    machine = FakeMachine(
        files={path: b"0\n" for key, path in paths.items() if key.startswith(("net", "vm"))},
        read_only={paths["net.core.wmem_max"]},
        hidden={paths["net.core.busy_read"]},
    )
    machine.files[paths["net.core.rmem_max"]] = b"1\n"
    del machine.files[paths["net.core.busy_poll"]]
    cap = "osd_client_message_cap"
    ceph = CephOptions(FakeClient({cap: "256"}, fixed={cap}), ("osd.0",))
    site = Site(Machine("n0", machine), owned=frozenset({Scope.NETWORK}), shared=frozenset({Scope.KERNEL}))
    return Target("one", (site,), ceph, Records(folder))


def test_each_state_has_its_word(tmp_path: Path) -> None:
    assert {finding.setting.key: finding.state.value for finding in check(target_of(tmp_path), SETTINGS)} == {
        "net.core.somaxconn": "drift",
        "net.core.rmem_max": "set",
        "net.core.wmem_max": "drift",
        "net.core.busy_poll": "missing",
        "net.core.busy_read": "unreadable",
        "vm.swappiness": "drift",
        "Memory Speed": "unseen",
        "osd_client_message_cap": "drift",
    }


def test_each_outcome_has_its_word(tmp_path: Path) -> None:
    changes = apply(target_of(tmp_path), "all", SETTINGS)
    assert {change.setting.key: change.outcome.value for change in changes} == {
        "net.core.somaxconn": "done",
        "net.core.rmem_max": "already",
        "net.core.wmem_max": "refused",
        "net.core.busy_poll": "missing",
        "net.core.busy_read": "missing",
        "vm.swappiness": "shared",
        "Memory Speed": "by-hand",
        "osd_client_message_cap": "waits",
    }
    whys = {change.setting.key: change.why for change in changes}
    assert whys["net.core.busy_read"] == "/proc/sys/net/core/busy_read: EACCES: Permission denied"


@pytest.mark.parametrize(
    ("setting", "title", "scope", "by_hand"),
    [
        (Setting(Kind.CEPH, "rbd_cache", "1", "s", "client"), "ceph client/rbd_cache = 1", Scope.CLUSTER, False),
        (Setting(Kind.SYSCTL, "net.ipv4.tcp_sack", "0", "s"), "sysctl net.ipv4.tcp_sack = 0", Scope.NETWORK, False),
        (Setting(Kind.SYSCTL, "vm.swappiness", "0", "s"), "sysctl vm.swappiness = 0", Scope.KERNEL, False),
        (Setting(Kind.SYSFS, "/sys/net.x", "0", "s"), "sysfs /sys/net.x = 0", Scope.KERNEL, False),
        (Setting(Kind.MTU, "cluster", "9000", "s"), "mtu cluster = 9000", Scope.NETWORK, False),
        (Setting(Kind.LIMITS, "* soft core", "0", "s"), "limits * soft core = 0", Scope.FILES, False),
        (Setting(Kind.SWAP, "all", "off", "s"), "swap all = off", Scope.KERNEL, False),
        (Setting(Kind.CMDLINE, "quiet", "", "s"), "kernel command line: quiet", Scope.KERNEL, True),
        (Setting(Kind.BIOS, "Speed", "high", "s"), "bios Speed = high", Scope.KERNEL, True),
        (Setting(Kind.MANUAL, "cable", "new", "s"), "manual cable = new", Scope.KERNEL, True),
    ],
)
def test_a_setting_says_what_it_is_whose_it_is_and_who_can_set_it(
    setting: Setting, title: str, scope: Scope, by_hand: bool
) -> None:
    assert (setting.title, setting.scope, setting.by_hand) == (title, scope, by_hand)


def test_a_place_of_which_nothing_is_known_has_no_value_and_no_explanation() -> None:
    nothing = Finding("n0", SETTINGS[0], State.MISSING)
    assert (nothing.got, nothing.why) == ("", "")
