"""Daemon logs: which lines complain, what is allowed and when, and where a scenario's part begins."""

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.process import Result
from cephlab.lab.ceph.daemon import Daemon, crash_cause, crash_records
from cephlab.lab.ceph.logs import (
    Allowed,
    Complaint,
    When,
    complaints,
    expected_lines,
    mark,
    own_output,
    read_allowed,
    since,
    sort_out,
)
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import Arch

ROOT = Path(__file__).resolve().parents[3]
STAMP = "2026-11-21T09:20:12.080+0000 7f3bacced6c0"

LOG = f"""\
{STAMP}  0 osd.0 9 done with init
{STAMP} -1 osd.0 9 bad crc in data 123 != exp 456
{STAMP}  0 log_channel(cluster) log [ERR] : 2.1 shard 0 soid 2:x : candidate had a read error
{STAMP}  0 log_channel(cluster) log [WRN] : Health check failed: 1 osds down (OSD_DOWN)
{STAMP}  0 log_channel(cluster) log [DBG] : fine
{STAMP}  1 -- a line that says -1 error in its text
a line of a dump
qemu: uncaught target signal 11 (Segmentation fault) - core dumped
"""


def test_only_complaints_are_taken() -> None:
    assert [(complaint.level, complaint.text) for complaint in complaints("osd.0", LOG)] == [
        ("error", "osd.0 9 bad crc in data 123 != exp 456"),
        ("ERR", "log_channel(cluster) log [ERR] : 2.1 shard 0 soid 2:x : candidate had a read error"),
        ("WRN", "log_channel(cluster) log [WRN] : Health check failed: 1 osds down (OSD_DOWN)"),
        ("error", "qemu: uncaught target signal 11 (Segmentation fault) - core dumped"),
    ]


def test_a_hole_that_a_power_cut_left_ends_a_line_and_hides_none() -> None:
    hole = "\0" * 4096
    falling = f"{STAMP} -1 Falling back to public interface"
    for text in (f"{hole}{falling}\n", f"{STAMP}  0 osd.0 9 do{hole}{falling}\n"):
        assert [complaint.text for complaint in complaints("osd.0", text)] == ["Falling back to public interface"]
        assert [complaint.text for complaint in own_output("osd.0", text, set())] == [
            "Falling back to public interface"
        ]
    assert list(own_output("osd.0", f"starting os{hole}sd.0 at -\n", set())) == []
    (sanitizer,) = own_output("osd.0", f"{hole}==1==ERROR: AddressSanitizer: heap-use-after-free\n", set())
    assert sanitizer.text.startswith("==1==ERROR")


def test_what_is_grave_counts_at_whatever_level_it_is_said() -> None:
    said = [
        "bluestore(/n0/osd.0) _verify_csum bad crc32c/0x1000 checksum at blob offset 0x0, got 0x1, expected 0x2",
        "heartbeat_map is_healthy 'OSD::osd_op_tp thread 0x7f3b' had timed out after 15.000000954s",
        "rocksdb: [db/db_impl.cc] Corruption: block checksum mismatch",
    ]
    text = "".join(f"{STAMP} {level:2} {line}\n" for level, line in zip((0, 1, 4), said, strict=True))
    assert [(line.level, line.text) for line in complaints("osd.0", text)] == [("grave", line) for line in said]


def test_an_alarm_of_the_runtime_counts_in_a_log_too() -> None:
    text = "*** stack smashing detected ***: terminated\n"
    assert [line.level for line in complaints("osd.0", text)] == ["error"]


@dataclass
class FakeHost:
    """A host with files and nothing else."""

    name: str = "n0"
    directory: PurePosixPath = field(default_factory=lambda: PurePosixPath("/n0"))
    files: dict[str, bytes] = field(default_factory=dict)
    alive: bool = True
    arch: Arch = Arch.X86_64

    def up(self) -> bool:
        return self.alive

    def exists(self, path: PurePosixPath) -> bool:
        return str(path) in self.files

    def read(self, path: PurePosixPath) -> bytes:
        assert self.alive, "a host that is down was read"
        return self.files[str(path)]


def osd(host: FakeHost) -> Daemon:
    return Daemon("osd.0", cast("Host", host), ("ceph-osd",))


def line(text: str) -> bytes:
    return f"{STAMP} -1 {text}\n".encode()


def test_only_what_was_written_after_the_mark_counts() -> None:
    host = FakeHost(files={"/n0/log/osd.0.log": line("old")})
    marks = mark([osd(host)])
    assert since(marks, [osd(host)]) == []
    host.files["/n0/log/osd.0.log"] += line("new")
    assert [complaint.text for complaint in since(marks, [osd(host)])] == ["new"]


def test_a_log_that_did_not_exist_counts_from_its_beginning() -> None:
    host = FakeHost()
    marks = mark([osd(host)])
    host.files["/n0/log/osd.0.log"] = line("first words")
    assert [complaint.text for complaint in since(marks, [osd(host)])] == ["first words"]


def test_own_output_counts_for_what_the_log_does_not_say() -> None:
    host = FakeHost()
    marks = mark([osd(host)])
    host.files["/n0/log/osd.0.log"] = line("said")
    host.files["/n0/log/osd.0.out"] = line("said") + b"qemu: uncaught target signal 11\n"
    assert [complaint.text for complaint in since(marks, [osd(host)])] == ["said", "qemu: uncaught target signal 11"]


def test_whatever_a_daemon_prints_and_does_not_log_is_a_complaint() -> None:
    host = FakeHost(files={"/n0/log/osd.0.out": b"from before\n"})
    marks = mark([osd(host)])
    host.files["/n0/log/osd.0.log"] = line("said") + b"  frame 1 of a trace\n"
    host.files["/n0/log/osd.0.out"] += line("said") + b"\n  frame 1 of a trace\nsomething odd\n" + line("unlogged")
    seen = [(complaint.level, complaint.text) for complaint in since(marks, [osd(host)])]
    assert seen == [("error", "said"), ("output", "something odd"), ("error", "unlogged")]


def test_a_host_that_is_down_is_not_read() -> None:
    host = FakeHost(files={"/n0/log/osd.0.log": line("old")})
    marks = mark([osd(host)])
    host.alive = False
    assert since(marks, [osd(host)]) == []


DOWN = Complaint("mon.n0", "WRN", "log_channel(cluster) log [WRN] : Health check failed: 1 osds down (OSD_DOWN)")


@pytest.mark.parametrize(
    ("entry", "stopped", "covered"),
    [
        (Allowed(pattern="OSD_DOWN", reason="a reason given"), False, True),
        (Allowed(pattern="OSD_UP", reason="a reason given"), False, False),
        (Allowed(pattern="OSD_DOWN", reason="a reason given", daemons=("osd",)), False, False),
        (Allowed(pattern="OSD_DOWN", reason="a reason given", when=When.AFTER_STOP), False, False),
        (Allowed(pattern="OSD_DOWN", reason="a reason given", when=When.AFTER_STOP), True, True),
    ],
)
def test_an_entry_covers_what_it_says(entry: Allowed, stopped: bool, covered: bool) -> None:
    unexpected, reasons = sort_out([DOWN], [entry], stopped=stopped)
    assert (unexpected == []) is covered
    assert reasons == ({"a reason given": 1} if covered else {})


def test_a_scenario_may_name_what_it_causes() -> None:
    allowed = expected_lines({r"1 osds down": "the scenario pauses one"})
    assert sort_out([DOWN, DOWN], allowed, stopped=False) == ([], {"the scenario pauses one": 2})


BAD_LISTS = (
    ('[[line]]\npattern = "abcd"\n', "line.0.reason"),
    ('[[line]]\npattern = "("\nreason = "long enough"\n', "line.0.pattern"),
    ('[[line]]\npattern = "a(bc"\nreason = "long enough"\n', "line.0.pattern"),
    ('[[line]]\npattern = "abcd"\nreason = "long enough"\nwhen = "never"\n', "line.0.when"),
    ('[[line]]\npattern = "abcd"\nreason = "long enough"\nregex = "x"\n', "line.0.regex"),
    ("[[lines]]\n", "lines"),
    ("[[line\n", "is not TOML"),
)


@pytest.mark.parametrize(("text", "place"), BAD_LISTS)
def test_a_list_that_does_not_fit_is_refused_with_the_place(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "allowed.toml"
    path.write_text(text)
    with pytest.raises(SpecError) as error:
        read_allowed(path)
    assert place in str(error.value)


STOPPING = (
    "monclient: get_auth_request but no auth handler is set up",
    "monclient: handle_auth_reply_more no authorizer?",
    "--2- v2:127.77.186.1:6805/792 >> v2:127.77.186.1:6804/427 conn(0x55557b300000 0x55557afd1b80 unknown :-1"
    " s=AUTH_CONNECTING pgs=0 cs=0 l=1 rev1=1 crypto rx=0 tx=0 comp rx=0 tx=0).handle_auth_reply_more"
    " auth_client handle_auth_reply_more returned -1",
)
PAXOS = "mon.n1@1(peon).paxos(paxos updating c 1..40)"
LATE = "seconds in the past; mons are probably laggy (or possibly clocks are too skewed)"
RENEWAL = "client.4111: SimpleRADOSStriper: lock_keeper_main: main.db: lock renewal failed:"
NO_ORCHESTRATOR = "mgr.server reply reply (2) No such file or directory"
NO_NAME = "bdev(0x562e2f54ac00 /node/osd.0/block) unable to get device name for /node/osd.0/block: "


DETAIL, PEERING = "log_channel(cluster) log [WRN] : ", "Degraded data redundancy: 82/402 objects degraded (20.398%)"
AWAY = "Reduced data availability: 1 pg peering"


@pytest.mark.parametrize(
    ("text", "covered"),
    [
        (f"Health detail: HEALTH_WARN {PEERING}, 9 pgs degraded", True),
        (f"Health detail: HEALTH_WARN {AWAY}; {PEERING}", True),
        (f"[WRN] PG_DEGRADED: {PEERING}, 9 pgs degraded", True),
        ("    pg 1.7 is activating+degraded, acting [0,3,4]", True),
        (f"Health detail: HEALTH_WARN 1 osds down; {PEERING}", False),
        (f"Health detail: HEALTH_WARN {PEERING}; 1 osds down", False),
        ("[WRN] OSD_DOWN: 1 osds down", False),
        ("    pg 1.7 is active+clean+inconsistent, acting [0,3,4]", False),
    ],
)
def test_what_monitors_list_once_a_minute_is_allowed_of_pgs_that_peer(text: str, *, covered: bool) -> None:
    allowed = read_allowed(ROOT / "suites/allowed-log-lines.toml")
    left, _ = sort_out([Complaint("mon.n0", "error", DETAIL + text)], allowed, stopped=False)
    assert (left == []) is covered


def test_the_suites_list_covers_a_restart_and_nothing_that_matters() -> None:
    allowed = read_allowed(ROOT / "suites/allowed-log-lines.toml")
    starts = [
        Complaint("osd.0", "error", "Falling back to public interface"),
        Complaint("osd.0", "error", "osd.0 36 log_to_monitors true"),
        Complaint("osd.0", "error", NO_NAME + "(22) Invalid argument"),
        Complaint("mgr.n0", "error", "mgr get_metadata_python Requested missing service osd.0"),
        Complaint("mgr.n0", "error", f"{NO_ORCHESTRATOR} No orchestrator configured (try `ceph orch set backend`)"),
    ]
    assert sort_out(starts, allowed, stopped=False)[0] == []
    nobody = Complaint("mon.n0", "error", "Fail to open '/proc/1176/cmdline' error = (2) No such file or directory")
    assert sort_out([DOWN, nobody], allowed, stopped=True)[0] == []
    leaving = [Complaint("mds.n0", "error", text) for text in STOPPING]
    assert sort_out(leaving, allowed, stopped=True)[0] == []
    assert sort_out(leaving, allowed, stopped=False)[0] == leaving
    serving = [replace(complaint, daemon="osd.0") for complaint in leaving]
    assert sort_out(serving, allowed, stopped=True)[0] == serving
    busy = [
        Complaint("osd.1", "error", "mgrc handle_mgr_configure dropping unexpected configure message"),
        Complaint("mds.n0", "error", "mds.n0 unable to obtain rotating service keys; retrying"),
        Complaint("osd.1", "error", "osd.1 0 unable to obtain rotating service keys; retrying"),
        Complaint("mds.n0", "error", "mds.0.bal find_exports  balancer runs too long"),
        Complaint("mon.n1", "error", f"{PAXOS} lease_expire from mon.0 v2:10.0.0.1:3300/0 is 1.52s {LATE}"),
        Complaint("mgr.n0", "error", f"{RENEWAL} (2) No such file or directory"),
    ]
    asked = '10.78.2.10 - - [24/Nov/2026:16:21:21] "GET /metrics HTTP/1.1" {} 1840 "" "Prometheus/2.53.3+ds1"'
    busy += [Complaint("mgr.n0", "output", asked.format(code)) for code in (200, 503)]
    assert sort_out(busy, allowed, stopped=False)[0] == []
    assert sort_out([Complaint("mgr.n0", "output", asked.format(500))], allowed, stopped=False)[0]
    ended = 'ts=1 caller=main.go:973 level=warn msg="Received an OS signal, exiting gracefully..." signal=terminated'
    assert sort_out([Complaint("prometheus.c0", "output", ended)], allowed, stopped=True)[0] == []
    grave = [
        Complaint("mgr.n0", "error", f"{RENEWAL} (108) Cannot send after transport endpoint shutdown"),
        Complaint("mon.n1", "error", f"{PAXOS} lease_expire from mon.0 v2:10.0.0.1:3300/0 is 31.52s {LATE}"),
        DOWN,
        nobody,
        Complaint("osd.0", "error", "osd.0 9 bad crc in data"),
        Complaint("osd.0", "error", NO_NAME + "(5) Input/output error"),
        Complaint("mgr.n0", "error", "mgr get_metadata_python Requested missing service mds.a"),
        Complaint("osd.0", "ERR", "log_channel(cluster) log [ERR] : 2.1 scrub 1 errors"),
        Complaint("mon.n0", "ERR", "log_channel(cluster) log [ERR] : Health check failed: 1 scrub errors"),
    ]
    assert sort_out(grave, allowed, stopped=False)[0] == grave


def test_what_a_daemon_wrote_before_it_moved_or_was_taken_away_counts() -> None:
    old, new = FakeHost(files={"/n0/log/osd.0.log": line("before")}), FakeHost("n1", PurePosixPath("/n1"))
    marks = mark([osd(old)])
    old.files["/n0/log/osd.0.log"] += line("on n0")
    new.files["/n1/log/osd.0.log"] = line("on n1")
    assert [complaint.text for complaint in since(marks, [osd(new)])] == ["on n0", "on n1"]
    assert [complaint.text for complaint in since(marks, [])] == ["on n0"]
    old.alive = False
    assert [complaint.text for complaint in since(marks, [osd(new)])] == ["on n1"]


@dataclass
class PythonHost(FakeHost):
    """Runs programs on this machine, as the lister of crash records wants it. ran: their names."""

    ran: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], **_options: object) -> Result:
        self.ran.append(argv[0])
        return process.run([sys.executable if argv[0] == "python3" else argv[0], *argv[1:]])


def crashed(folder: Path, **metas: str) -> Daemon:
    for name, text in metas.items():
        (folder / "crash" / name).mkdir(parents=True)
        (folder / "crash" / name / "meta").write_text(text)
    return osd(PythonHost(directory=PurePosixPath(folder)))


def test_where_there_is_no_crash_no_python_is_started(tmp_path: Path) -> None:
    (tmp_path / "crash" / "posted").mkdir(parents=True)
    host = PythonHost(directory=PurePosixPath(tmp_path))
    assert crash_records(osd(host).host) == []
    assert host.ran == ["find"]


def test_crash_records_that_are_not_whole_are_told_too(tmp_path: Path) -> None:
    whole = {"entity_name": "osd.0", "backtrace": []}
    daemon = crashed(
        tmp_path,
        a=json.dumps({**whole, "assert_msg": "it is empty\n"}),
        b=json.dumps(whole),
        c=json.dumps({**whole, "backtrace": ["frame 1", "frame 2"]}),
        d='{"entity_name": "osd.0", "backtr',
        e="",
        f="null",
    )
    assert daemon.crashes() == ["a: it is empty", "b: without a backtrace", "c: frame 1"]
    causes = {str(record["crash_id"]): crash_cause(record) for record in crash_records(daemon.host)}
    assert sorted(causes) == ["a", "b", "c", "d", "e", "f"]
    assert all("is incomplete" in causes[name] for name in "def")


def test_a_module_that_is_loaded_all_the_same_is_no_crash(tmp_path: Path) -> None:
    noted = {
        "entity_name": "mgr.n0",
        "backtrace": [],
        "mgr_module": "volumes",
        "mgr_module_caller": "PyModule::load_subclass_of",
        "mgr_python_exception": "AttributeError",
    }
    daemon = crashed(
        tmp_path,
        harmless=json.dumps(noted),
        missing=json.dumps({**noted, "mgr_python_exception": "ImportError"}),
        serving=json.dumps({**noted, "mgr_module_caller": "PyModuleRunner::serve"}),
        deep=json.dumps({**noted, "backtrace": ["frame 1"]}),
    )
    assert [record["crash_id"] for record in crash_records(daemon.host)] == ["deep", "missing", "serving"]
