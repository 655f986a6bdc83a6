"""What the files of a machine say of a setting: each state, and the words for it."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabError
from cephlab.lab.tunables.machine import Machine, Seen, ThisMachine, Write, judge, limits_file, limits_text
from cephlab.lab.tunables.settings import Kind, Setting, State

CPUS = "/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor"
LIMITS = "/etc/security/limits.conf"
MORE_LIMITS = "/etc/security/limits.d/*.conf"


def judged(kind: Kind, key: str, value: str, sight: Mapping[str, Mapping[str, Seen]]) -> tuple[State, str, str]:
    setting = Setting(kind, key, value, "s")
    finding = judge("n0", setting, sight)
    assert (finding.where, finding.setting) == ("n0", setting)
    return finding.state, finding.got, finding.why


@pytest.mark.parametrize(
    ("got", "wanted", "state"),
    [
        ("0", "0.0", State.SET),
        ("Y true", "Y  true", State.SET),
        ("1", "True", State.SET),
        ("TRUE", "1", State.SET),
        ("false", "0", State.SET),
        ("0", "False", State.SET),
        ("true", "0", State.DRIFT),
        ("false", "1", State.DRIFT),
        ("1", "yes", State.DRIFT),
        ("8", "9", State.DRIFT),
        ("\udcff", "9", State.DRIFT),
    ],
)
def test_two_spellings_of_a_value_are_one(got: str, wanted: str, state: State) -> None:
    sight: dict[str, dict[str, Seen]] = {"/sys/x": {"/sys/x": f"{got}\n".encode(errors="surrogateescape")}}
    shown = wanted if state is State.SET else got.replace("\udcff", "\ufffd")
    assert judged(Kind.SYSFS, "/sys/x", wanted, sight) == (state, shown, "")


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        (("a",), "a"),
        (("up [a] [b]",), "a"),
        (("[a b] c",), "[a b] c"),
        (("a", "a", "a", "up"), "3 of 4 differ: a in /0, a in /1, a in /2"),
        (("a", "b", "c", "d"), "4 of 4 differ: a in /0, b in /1, c in /2, ..."),
    ],
)
def test_of_many_files_that_differ_three_are_shown(values: tuple[str, ...], shown: str) -> None:
    sight: dict[str, dict[str, Seen]] = {CPUS: {f"/{place}": value.encode() for place, value in enumerate(values)}}
    assert judged(Kind.SYSFS, CPUS, "up", sight) == (State.DRIFT, shown, "")


@pytest.mark.parametrize(
    ("kind", "key", "sight", "state", "why"),
    [
        (Kind.SYSFS, "/sys/x", {"/sys/x": {}}, State.MISSING, "/sys/x does not exist"),
        (
            Kind.MTU,
            "cluster",
            {"/sys/class/net/{interface}/mtu": {}},
            State.MISSING,
            "the interface of the cluster network is not known",
        ),
        (
            Kind.SYSFS,
            CPUS,
            {CPUS: {"/0": b"up", "/1": "EIO: Input/output error", "/2": "EPERM"}},
            State.UNREADABLE,
            "/1: EIO: Input/output error",
        ),
        (Kind.MANUAL, "the fans", {}, State.UNSEEN, "a running machine does not show it; check it by hand"),
    ],
)
def test_what_cannot_be_seen_says_why(
    kind: Kind, key: str, sight: Mapping[str, Mapping[str, Seen]], state: State, why: str
) -> None:
    assert judged(kind, key, "up", sight) == (state, "", why)


@pytest.mark.parametrize(
    ("lines", "state", "got"),
    [
        ("Filename Type Size Used Priority\n", State.SET, "off"),
        ("Filename Type Size Used Priority\n/a b c 1 2 -2\n/d c 1 2 -3\n", State.DRIFT, "/a b, /d"),
    ],
)
def test_swap_is_off_where_no_area_is_listed(lines: str, state: State, got: str) -> None:
    assert judged(Kind.SWAP, "all", "off", {"/proc/swaps": {"/proc/swaps": lines.encode()}}) == (state, got, "")


@pytest.mark.parametrize(
    ("key", "state", "got"),
    [
        ("root=UUID=2", State.DRIFT, "root=UUID=1"),
        ("iommu=pt", State.SET, "iommu=pt"),
        ("quiet", State.SET, "quiet"),
        ("console=tty0", State.DRIFT, "console=ttyS0, console=ttyS1"),
        ("iommu", State.DRIFT, "iommu=pt"),
        ("io", State.DRIFT, "not set"),
    ],
)
def test_a_word_of_the_kernel_command_line_is_there_or_another_of_its_name_is(key: str, state: State, got: str) -> None:
    words = b"quiet \xff console=ttyS0 console=ttyS1 iommu=pt root=UUID=1\n"
    assert judged(Kind.CMDLINE, key, "", {"/proc/cmdline": {"/proc/cmdline": words}}) == (state, got, "")


@pytest.mark.parametrize(
    ("text", "more", "state", "got"),
    [
        ("* soft nofile 9\n", "* soft nofile 1\n", State.DRIFT, "1"),
        ("* soft nofile 1\n", "* soft nofile 9 # enough\n", State.SET, "9"),
        ("* soft nofile 9\n", "# * soft nofile 1\n* hard nofile 1\n* soft nofile 1 1\n* soft nofile", State.SET, "9"),
        ("", "", State.DRIFT, "not set"),
        ("* soft nofile 9", "# \udcff", State.SET, "9"),
    ],
)
def test_the_last_line_of_a_limit_counts(text: str, more: str, state: State, got: str) -> None:
    sight: dict[str, dict[str, Seen]] = {
        LIMITS: {LIMITS: text.encode()},
        MORE_LIMITS: {"/90.conf": more.encode(errors="surrogateescape")},
    }
    assert judged(Kind.LIMITS, "* soft nofile", "9", sight) == (state, got, "")


def test_limits_have_a_file_of_the_tuning_that_is_read_last() -> None:
    assert limits_file("Altra_2") == "/etc/security/limits.d/95-cephlab--ltra-2.conf"
    limits = [Setting(Kind.LIMITS, f"* {kind} nofile", "9", "s") for kind in ("soft", "hard")]
    assert limits_text("altra", limits) == b"# cephlab tuning altra\n* soft nofile 9\n* hard nofile 9\n"


@pytest.mark.slow
def test_this_machine_is_read_and_written_by_a_program_of_its_own(tmp_path: Path) -> None:
    machine = Machine("here", ThisMachine(), "127.0.0.1")
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"\xff1")
    other.touch()
    refused = machine.write([Write(f"{tmp_path}/c", b"x"), Write(f"{tmp_path}/d", b"\xff2", create=True)])
    assert refused == {f"{tmp_path}/c": "ENOENT: No such file or directory"}
    assert machine.write([Write(str(other), None)]) == {}
    both, mtu = f"{tmp_path}/*", "/sys/class/net/{interface}/mtu"
    seen = machine.read([both, mtu, both, "/proc"])
    assert seen[both] == {str(path): b"\xff1", f"{tmp_path}/d": b"\xff2"}
    assert list(seen[mtu]) == ["/sys/class/net/lo/mtu"]
    assert seen["/proc"] == {"/proc": "EISDIR: Is a directory"}
    assert Machine("here", ThisMachine()).read([mtu]) == {mtu: {}}
    assert (ThisMachine().name, ThisMachine().run(("cat",)).stdout) == ("this machine", "")
    with pytest.raises(LabError, match="sleep"):
        ThisMachine().run(("sleep", "60"), timeout_s=0.1)
