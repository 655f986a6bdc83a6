"""What kernels say counts where it names the run's own; where they may not be asked, a sentence says so."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import kernel, kernel_program
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.kernel import HERE, KernelLook, look_at_kernels, said_since, unread
from cephlab.lab.checks.aftermath import aftermath
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host

SEGFAULT = "msgr-worker-0[2459]: segfault at 7f0eed1ff020 ip 00007f0eef59a45a sp 00007f0eebc1a658 error 4 in libc.so.6"
KILLED = "Out of memory: Killed process 2401 (ceph-osd) total-vm:1835008kB, anon-rss:903412kB, file-rss:0kB, UID:0"
CGROUP = "Memory cgroup out of memory: Killed process 2401 (ceph-osd) total-vm:1835008kB, anon-rss:903412kB"
HUNG = "INFO: task bstore_kv_sync:2433 blocked for more than 120 seconds."
TRAP = "traps: ceph-mon[2402] general protection fault ip:7f1 sp:7f2 error:0 in libceph-common.so.2[7f0+9]"
ERROR = "I/O error, dev vdb, sector 2048 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2"
BUFFERED = "Buffer I/O error on dev vdb, logical block 0, lost async page write"
QUIET = "EXT4-fs (vda): mounted filesystem with ordered data mode. Quota mode: none."
GRAVE = (SEGFAULT, KILLED, CGROUP, HUNG, TRAP, ERROR, BUFFERED)
OWN = frozenset({"2401", "2402", "2433", "2459", "vdb"})
BEFORE = KernelLook("boot", 7, cores=frozenset({("/var/old.2401", 1)}))


def said(*lines: str, own: frozenset[str] | None = None, cores: tuple[tuple[str, int], ...] = ()) -> list[str]:
    now = replace(BEFORE, lines=lines, own=own, cores=BEFORE.cores | frozenset(cores))
    return [f"{each.daemon} {each.level} {each.text}" for each in said_since({"n0": BEFORE}, {"n0": now})]


def test_a_guests_kernel_is_the_labs_own() -> None:
    assert said(QUIET, *GRAVE) == [f"kernel.n0 kernel {line}" for line in GRAVE]
    assert said(cores=(("/core", 3),)) == ["kernel.n0 core /core"]


def test_of_a_shared_kernel_only_what_names_the_runs_own_counts() -> None:
    assert said(*GRAVE, own=OWN) == [f"kernel.n0 kernel {line}" for line in GRAVE]
    assert said(QUIET, *GRAVE, own=frozenset({"24", "vd", "9"})) == []
    cores = (("/var/core.ceph-osd.2401", 2), ("/var/core.ceph-osd.12401", 2), ("/var/core", 2))
    assert said(own=OWN, cores=cores) == ["kernel.n0 core /var/core.ceph-osd.2401"]


def test_what_was_there_before_or_was_not_looked_at_says_nothing() -> None:
    look = replace(BEFORE, lines=GRAVE)
    assert list(said_since({}, {"n0": look})) == []
    assert list(said_since({"n0": look}, {"n0": look})) == []


@dataclass
class FakeHost:
    """A host. answer: what its look says, an error where it cannot."""

    name: str
    own_kernel: bool = True
    answer: Mapping[str, Any] | LabBroken = field(default_factory=dict)
    disks: Mapping[str, str] = field(default_factory=dict)
    asked: Any = None

    def up(self) -> bool:
        return True

    def run(self, argv: list[str], *, stdin: bytes, timeout_s: float) -> SimpleNamespace:
        assert argv[:2] == ["python3", "-I"]
        assert timeout_s > 0
        self.asked = json.loads(stdin)
        if isinstance(self.answer, LabBroken):
            raise self.answer
        return SimpleNamespace(stdout=json.dumps(self.answer))


def look(*hosts: FakeHost, daemons: tuple[Daemon, ...] = (), before: kernel.Looks = {}) -> dict[str, KernelLook]:  # noqa: B006
    return look_at_kernels("no-such-run", {host.name: cast("Host", host) for host in hosts}, daemons, before)


def test_a_guest_is_asked_from_where_the_last_look_ended() -> None:
    host = FakeHost("n1", answer={"boot": "b", "last": 9, "lines": [ERROR], "cores": [["/core", 5]], "unread": ["x"]})
    process = SimpleNamespace(pid=0, ref={"pid": 77})
    daemon = cast("Daemon", SimpleNamespace(process=process, host=host))
    looks = look(host, daemons=(daemon,), before={"n1": BEFORE})
    assert host.asked == {"boot": "boot", "after": 7, "pids": [77]}
    assert looks == {"n1": KernelLook("b", 9, (ERROR,), frozenset({("/core", 5)}), ("x",), None)}
    assert unread(looks) == ["n1: x"]


def test_a_guest_that_cannot_be_asked_is_named() -> None:
    looks = look(FakeHost("n1", answer=LabBroken("n1 went away")), before={"n1": BEFORE})
    assert unread(looks) == ["n1: the kernel log could not be read: n1 went away"]
    assert list(said_since({"n1": BEFORE}, looks)) == []
    assert looks["n1"].last == BEFORE.last


def test_of_this_machine_processes_threads_and_disks_of_the_run_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, int, list[int]]] = []

    def looked(boot: str, after: int, pids: list[int]) -> dict[str, object]:
        seen.append((boot, after, pids))
        return {"boot": "b", "last": 1, "lines": [], "cores": [], "unread": []}

    monkeypatch.setattr(kernel_program, "look", looked)
    host = FakeHost("n0", own_kernel=False, disks={"d0": "/dev/null", "d1": "/var/disk"})
    process = SimpleNamespace(pid=os.getpid(), ref={"pid": os.getpid()})
    daemon = cast("Daemon", SimpleNamespace(process=process, host=host))
    first = look(host, daemons=(daemon,))[HERE]
    assert first.own is not None
    assert {str(os.getpid()), "null"} <= first.own
    assert "disk" not in first.own
    assert seen == [("", -1, [os.getpid()])]
    later = look(host, before={HERE: first})[HERE]
    assert later.own == first.own  # the processes of the look before may be those that ended


def test_records_of_a_kernels_log_are_read_from_the_first_new_one(tmp_path: Path) -> None:
    # A file gives all of it at once; the device gives one record for each reading.
    record = tmp_path / "kmsg"
    record.write_bytes(f"6,345,1836683239,-;{SEGFAULT}\n SUBSYSTEM=x\n".encode())
    assert kernel_program.log_after(344, str(record)) == (345, [SEGFAULT])
    assert kernel_program.log_after(345, str(record)) == (345, [])


@pytest.mark.parametrize(
    ("pattern", "files", "sentences"),
    [
        ("core", ["/a/core*", "/b/core*"], []),
        ("/var/cores/core.%e.%p", ["/var/cores/core.*.**"], []),
        ("|/lib/systemd/systemd-coredump %P %u", ["/var/lib/systemd/coredump/core.*"], []),
        (
            "|/usr/apport -p%p",
            [],
            ["core dumps go to /usr/apport, which is not asked for them"],
        ),
        ("", [], ["the kernel keeps no core dumps: its core_pattern is empty"]),
    ],
)
def test_core_dumps_are_looked_for_where_the_kernel_puts_them(
    pattern: str, files: list[str], sentences: list[str]
) -> None:
    assert kernel_program.core_patterns(pattern, ["/a", "/b"]) == (files, sentences)


def test_the_program_runs_by_itself_and_finds_a_core_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"boot": "", "after": -1, "pids": [os.getpid(), 4_194_305]}
    source = Path(kernel_program.__file__).read_text()
    argv = [sys.executable, "-c", source]
    done = subprocess.run(argv, input=json.dumps(asked), capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"boot", "last", "lines", "cores", "unread"}
    monkeypatch.setattr(kernel_program, "read", lambda path: "core" if path.endswith("core_pattern") else "boot")
    monkeypatch.setattr(kernel_program, "log_after", refused)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "core.12").touch()
    (tmp_path / "core.11").symlink_to("gone")  # as one that is removed between being listed and being looked at
    answer = kernel_program.look("boot", 3, [os.getpid()])
    assert answer["cores"] == [[str(tmp_path / "core.12"), (tmp_path / "core.12").stat().st_mtime_ns]]
    assert answer["unread"] == ["the kernel's log may not be read: [Errno 1] Operation not permitted"]
    assert answer["last"] == 3


@pytest.mark.parametrize(
    ("pattern", "uses_pid", "told"),
    [("core", "0", False), ("core", "1", True), ("/var/%e.%P", "0", True), ("|/usr/apport", "0", True)],
)
def test_whose_a_core_dump_is_may_not_be_told(
    monkeypatch: pytest.MonkeyPatch, pattern: str, uses_pid: str, *, told: bool
) -> None:
    monkeypatch.setattr(kernel_program, "read", lambda path: pattern if path.endswith("pattern") else uses_pid)
    assert kernel_program.names_processes() is told
    looks = look(FakeHost("n0", own_kernel=False))
    assert any("do not show their process" in sentence for sentence in unread(looks)) is not told


def refused(_number: int) -> tuple[int, list[str]]:
    raise PermissionError(1, "Operation not permitted")


def judged(**more: Any) -> tuple[Outcome, str, tuple[str, ...]]:
    data = {"crashes": [], "dead": [], "complaints": [], "healthy": True, "health": "", **more}
    recorder = History().recorder("demo.x")
    recorder.record("aftermath", **data)
    verdict = aftermath(recorder.events())
    assert verdict is not None
    return verdict.outcome, verdict.reason, verdict.derivation


def test_what_a_kernel_said_fails_a_scenario_and_what_was_not_looked_at_is_told() -> None:
    line = {"daemon": "kernel.n0", "level": "kernel", "text": KILLED}
    core = {"daemon": "kernel.n0", "level": "core", "text": "/core.2401"}
    assert judged(complaints=[line])[:2] == (
        Outcome.FAIL,
        f"afterwards: unexpected line in the log of kernel.n0: {KILLED}",
    )
    assert "in the core dumps of kernel.n0: /core.2401" in judged(complaints=[core])[1]
    outcome, _, derivation = judged(unread=["n1: the kernel's log may not be read"])
    assert outcome is Outcome.PASS
    assert derivation == ("not looked at: n1: the kernel's log may not be read",)
