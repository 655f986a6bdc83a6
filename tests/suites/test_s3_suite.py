"""The s3 suite's own rules, without a cluster: how a case ends, what is known, and what the group's verdict is."""

import errno
import http.server
import io
import subprocess
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from botocore.exceptions import ClientError

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CephTrouble, CommandFailed, NotReached, SpecError, Unavailable
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import Arch
from cephlab.lab.workloads.s3load import S3Operation, S3Result
from cephlab.suites.cephtests.programs import read_known
from cephlab.suites.s3 import GROUP_SCENARIOS, GROUPS, conformance, objects, space, underload
from cephlab.suites.s3.access import asked, form
from cephlab.suites.s3.stand import LIST, Differs, Entrance, Keys, Result, Ways, record, refusal, same, tried
from tests.fake_stage import stage_of

HERE = Entrance("x86_64", "127.0.0.1:1", "127.0.0.1:2", Path("none"))
WAYS = Ways(HERE, replace(HERE, arch="aarch64"), Keys("a", "b"), Keys(None), "bucket")
BOTH = ("x86_64_aarch64", "aarch64_x86_64")


def refused(code: str = "AccessDenied") -> None:
    raise ClientError({"Error": {"Code": code}}, "GetObject")


def raising(error: Exception) -> Result:
    def case(_: Ways) -> None:
        raise error

    return tried("group.case", case, WAYS)


def test_a_case_is_named_by_its_gateways_and_passes_where_nothing_differs() -> None:
    result = tried("group.case", lambda _: None, WAYS)
    assert (result.case, result.result) == ("group.case/x86_64_aarch64", "pass")


@pytest.mark.parametrize(
    "error",
    [
        Differs("body"),
        ClientError({"Error": {"Code": "InternalError"}}, "PutObject"),
        ConnectionResetError(),
        KeyError("Contents"),
        NotReached("the expiry", 9.0, "still there"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_differs_is_refused_or_does_not_come_is_a_failure(error: Exception) -> None:
    assert raising(error).result == "fail"


def test_a_mistake_of_the_suite_is_no_failure_of_ceph() -> None:
    with pytest.raises(TypeError):
        raising(TypeError("own mistake"))


@pytest.mark.parametrize("status", [200, 403])
def test_a_plain_request_tells_status_and_body_of_a_refusal_too_and_leaves_nothing_open(status: int) -> None:
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(b"said")

        def log_message(self, *_words: object) -> None:
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        assert asked(f"http://127.0.0.1:{server.server_port}/") == (status, b"said")
        thread.join()


def test_a_refusal_must_come_and_be_the_right_one() -> None:
    refusal("GET", refused, "AccessDenied")
    with pytest.raises(Differs, match="allowed, wanted"):
        refusal("GET", lambda: None, "AccessDenied")
    with pytest.raises(Differs, match="refused with SlowDown"):
        refusal("GET", lambda: refused("SlowDown"), "AccessDenied")


def test_long_bodies_are_told_in_short() -> None:
    with pytest.raises(Differs, match="got 5000 bytes, sha256 "):
        same("body", b"x" * 5000, b"y" * 5000)


def results(ending: str = "pass", case: str = "objects.copied") -> list[Result]:
    return [
        Result("objects.deleted/x86_64_aarch64", "pass", 1.0),
        *(Result(f"{case}/{way}", ending, 1.0, "why") for way in BOTH),
    ]


@pytest.mark.parametrize(
    ("cases", "outcome"),
    [
        (results(), Outcome.PASS),
        (results("fail"), Outcome.FAIL),
        (results("fail", "multipart.completed_after_abort"), Outcome.PASS),
        (results()[:2], Outcome.FAIL),
    ],
    ids=["all pass", "one fails", "known to fail", "one way only"],
)
def test_a_group_is_judged_case_by_case(cases: list[Result], outcome: Outcome) -> None:
    recorder = History().recorder("s3.objects")
    record(recorder, cases)
    assert CHECKS["gtest"](recorder.events()).outcome is outcome


def test_every_known_case_is_one_that_there_is() -> None:
    names = {f"{group}.{name}/x86_64_aarch64" for group, cases in GROUPS.items() for name in cases}
    own = [entry for entry in read_known(LIST) if entry.program == "s3"]
    assert own
    assert all(any(entry.covers("s3", name) for name in names) for entry in own)


def test_there_are_about_forty_cases_and_all_share_a_cluster() -> None:
    assert sum(map(len, GROUPS.values())) >= 40
    assert len({scenario.topology for scenario in GROUP_SCENARIOS}) == 1
    assert all(case.__doc__ for cases in GROUPS.values() for case in cases.values())


def test_a_form_is_what_browsers_send() -> None:
    body, headers = form({"key": "k"}, b"\x00file")
    border = headers["Content-Type"].partition("boundary=")[2].encode()
    assert body.startswith(b"--" + border + b'\r\nContent-Disposition: form-data; name="key"\r\n\r\nk\r\n')
    assert body.endswith(b"\r\n\r\n\x00file\r\n--" + border + b"--\r\n")


@pytest.mark.slow
def test_clients_are_made_once(tmp_path: Path) -> None:
    door = replace(HERE, trusted=tmp_path)
    assert door.client(Keys("a", "b")) is door.client(Keys("a", "b"))
    assert door.client(Keys("a", "b")) is not door.client(Keys(None))


COMMIT = conformance.REVISIONS["reef"].commit
REPORT = b"""<testsuites><testsuite>
<testcase classname="s3.test_s3" name="test_bucket_list" time="0.5" />
<testcase classname="s3.test_s3" name="test_acl" time="1"><failure message="403 != 200">x</failure></testcase>
<testcase classname="s3.test_s3" name="test_later" time="0"><skipped message="not yet" /></testcase>
</testsuite></testsuites>"""


def git(folder: Path, *arguments: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false")
    return subprocess.run(
        ["git", "-C", str(folder), *who, *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout whose commit is that of reef."""
    git(tmp_path, "init", "-q")
    (tmp_path / "case.py").write_text("one")
    git(tmp_path, "add", "case.py")
    git(tmp_path, "commit", "-qm", "one")
    revision = conformance.Revision(git(tmp_path, "rev-parse", "HEAD"))
    monkeypatch.setattr(conformance, "REVISIONS", {"reef": revision})
    monkeypatch.setenv(conformance.VARIABLE, str(tmp_path))
    return tmp_path


def test_without_a_checkout_the_skip_has_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(conformance.VARIABLE, raising=False)
    with pytest.raises(Unavailable) as lack:
        conformance.checkout("reef")
    assert f"checkout {COMMIT}" in lack.value.hint
    with pytest.raises(Unavailable, match="no commit of ceph/s3-tests is known for squid"):
        conformance.checkout("squid")


def test_a_checkout_is_taken_at_its_commit_and_unchanged(made: Path) -> None:
    with pytest.raises(Unavailable, match="no virtual environment"):
        conformance.checkout("reef")
    python = conformance.python_of(made)
    python.parent.mkdir(parents=True)
    python.touch()
    assert conformance.checkout("reef") == made
    (made / "case.py").write_text("two")
    with pytest.raises(SpecError, match="has local changes"):
        conformance.checkout("reef")
    git(made, "commit", "-qam", "two")
    with pytest.raises(SpecError, match="is not the ceph/s3-tests of reef"):
        conformance.checkout("reef")


def test_each_case_of_a_report_is_a_result() -> None:
    recorder = History().recorder("s3.conformance")
    conformance.record(recorder, REPORT, 1, "", least=1)
    cases = {event.data["case"]: event.data["result"] for event in recorder.events() if event.kind == "gtest_case"}
    assert cases == {"test_s3.test_bucket_list": "pass", "test_s3.test_acl": "fail", "test_s3.test_later": "skip"}
    verdict = CHECKS["gtest"](recorder.events())
    assert verdict.outcome is Outcome.FAIL
    assert "403 != 200" in verdict.reason


def test_without_a_report_nothing_passed() -> None:
    recorder = History().recorder("s3.conformance")
    conformance.record(recorder, b"", 4, "usage", least=1)
    assert CHECKS["gtest"](recorder.events()).outcome is not Outcome.PASS


@pytest.mark.parametrize(("least", "outcome"), [(1, Outcome.PASS), (2, Outcome.INCONCLUSIVE)])
def test_a_run_of_too_few_cases_shows_nothing(least: int, outcome: Outcome) -> None:
    recorder = History().recorder("s3.conformance")
    report = b"\n".join(line for line in REPORT.splitlines() if b"test_acl" not in line)
    conformance.record(recorder, report, 0, "", least=least)
    assert CHECKS["gtest"](recorder.events()).outcome is outcome


def op(kind: str, code: str = "", phase: str = "run", version: int = 1) -> S3Operation:
    return S3Operation(phase, kind, 0, "/b/o", version, 1, 1.0, 1.0, 2.0, True, code)


@pytest.mark.parametrize(
    ("versions", "outcome"),
    [
        ({"put": 3, "delete": 1}, Outcome.PASS),
        ({"put": 2, "delete": 1}, Outcome.FAIL),
        ({"put": 3, "delete": 2}, Outcome.FAIL),
        ({"put": 5, "delete": 1}, Outcome.FAIL),
    ],
    ids=["as many", "a version is lost", "a marker of nobody's", "more than were tried"],
)
def test_versions_that_were_lost_or_that_nobody_wrote_are_found(versions: dict[str, int], outcome: Outcome) -> None:
    recorder = History().recorder("s3.topic")
    puts = [op("put", version=version) for version in (1, 2, 3)]
    operations = (*puts, op("put", "503", version=4), op("delete", version=5), op("get", version=5))
    underload.counted(recorder, operations, versions)
    assert CHECKS["witnessed"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("markers", "outcome"), [(1, Outcome.PASS), (2, Outcome.PASS), (0, Outcome.FAIL), (3, Outcome.FAIL)]
)
def test_a_second_delete_may_add_a_marker_or_not(markers: int, outcome: Outcome) -> None:
    recorder = History().recorder("s3.topic")
    operations = (op("put"), op("delete", version=2), op("delete", version=3))
    underload.counted(recorder, operations, {"put": 1, "delete": markers})
    assert CHECKS["witnessed"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("later", "outcome"),
    [
        ((op("put", "503"), op("put")), Outcome.PASS),
        ((op("put", "503"), op("delete", "503")), Outcome.FAIL),
        ((op("get"), op("list")), Outcome.INCONCLUSIVE),
    ],
    ids=["busy for a while", "busy for ever", "nobody writes"],
)
def test_a_bucket_that_stays_busy_after_a_change_is_found(later: tuple[S3Operation, ...], outcome: Outcome) -> None:
    recorder = History().recorder("s3.topic")
    recorder.witness("operations", got=9, least=1)
    moved = [replace(each, began_s=11.0, ended_s=11.5) for each in later]
    underload.goes_on(recorder, [replace(op("put"), began_s=1.0, ended_s=1.5), *moved], 10.0)
    assert CHECKS["witnessed"](recorder.events()).outcome is outcome


def resharding(codes: list[int]) -> Cluster:
    """A cluster whose reshards end with these statuses, one after another."""

    def tool(_: str, program: str, *argv: str) -> str:
        if code := codes.pop(0):
            raise CephTrouble("refused", "") from CommandFailed([program, *argv], code, "", "", "c0")
        return ""

    client = SimpleNamespace(host=SimpleNamespace(name="c0"))
    return cast("Cluster", SimpleNamespace(tool=tool, client=client, patience=1.0))


def test_a_reshard_is_repeated_while_its_lock_is_held_and_only_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "wait", waited)
    later = [errno.EBUSY, 0]
    underload.reshard(resharding(later), 23)
    assert not later
    with pytest.raises(CephTrouble, match="refused"):
        underload.reshard(resharding([errno.EIO, 0]), 23)
    with pytest.raises(NotReached):
        underload.reshard(resharding([errno.EBUSY, errno.EBUSY, 0]), 23)


def waited(probe: Callable[[], str], ready: Callable[[str], bool], *, what: str, **_: float) -> str:
    """`clock.wait` that looks twice."""
    for _turn in range(2):
        if ready(seen := probe()):
            return seen
    raise NotReached(what, 0.0, seen)


@pytest.mark.parametrize(
    ("more", "outcome"),
    [
        (op("put", "503"), Outcome.PASS),
        (op("put", "InternalError"), Outcome.FAIL),
        (op("get", "NoSuchKey", "final"), Outcome.FAIL),
    ],
    ids=["asks to come again", "an error", "lost in the end"],
)
def test_errors_under_a_reshard_are_judged_by_their_code(more: S3Operation, outcome: Outcome) -> None:
    recorder = History().recorder("s3.topic")
    recorder.witness("operations", got=9, least=1)
    result = S3Result((op("get"), op("get", phase="final"), more), (), 0, 1.0, 0.1)
    underload.errors(recorder, result)
    assert CHECKS["witnessed"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("kind", "began_s", "ended_s", "outcome"),
    [
        ("list", 9.0, 10.1, Outcome.PASS),
        ("list", 11.9, 12.5, Outcome.PASS),
        ("list", 9.0, 9.9, Outcome.FAIL),
        ("list", 12.1, 12.5, Outcome.FAIL),
        ("get", 11.0, 11.5, Outcome.FAIL),
    ],
)
def test_only_a_list_during_a_reshard_may_miss_the_index(
    kind: str, began_s: float, ended_s: float, outcome: Outcome
) -> None:
    recorder = History().recorder("s3.topic")
    recorder.witness("operations", got=9, least=1)
    missed = replace(op(kind, "NoSuchKey"), began_s=began_s, ended_s=ended_s)
    result = S3Result((op("get"), op("get", phase="final"), missed), (), 0, 1.0, 0.1)
    underload.errors(recorder, result, [(1.0, 2.0), (10.0, 12.0)])
    assert CHECKS["witnessed"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(("off_s", "ending"), [(0, "pass"), (-600, "fail"), (40, "fail")])
def test_a_gateway_with_another_clock_is_found(off_s: int, ending: str) -> None:
    date = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=off_s)
    head = {"LastModified": date, "ResponseMetadata": {"HTTPHeaders": {"date": format_datetime(date, usegmt=True)}}}
    read = SimpleNamespace(head_object=lambda **_: head)
    ways = SimpleNamespace(made=lambda: None, put=lambda *_: None, read=read, bucket="b", writer=HERE, reader=HERE)
    assert tried("objects.dated", objects.dated, cast("Ways", ways)).result == ending


@pytest.mark.parametrize(
    ("left", "kept", "outcome"),
    [
        ((), space.BODY, Outcome.PASS),
        (("x__shadow_k_1",), space.BODY, Outcome.FAIL),
        ((), space.BODY[:-1], Outcome.FAIL),
    ],
    ids=["all collected", "a tail is left", "too much collected"],
)
def test_a_collection_that_leaves_or_takes_too_much_is_found(
    monkeypatch: pytest.MonkeyPatch, left: tuple[str, ...], kept: bytes, outcome: Outcome
) -> None:
    lists = iter([["old"], ["old", "a", "b", "c"], ["old", *left]])
    collected = list[tuple[str, ...]]()
    client = SimpleNamespace(list_objects=lambda _: next(lists), host=SimpleNamespace(name="c0"))
    cluster = SimpleNamespace(client=client, tool=lambda *argv: collected.append(argv))
    s3 = SimpleNamespace(
        create_bucket=lambda **_: None, put_object=lambda **_: None, get_object=lambda **_: {"Body": io.BytesIO(kept)}
    )
    monkeypatch.setattr(space, "owner", lambda _: SimpleNamespace(access_key="a", secret_key="b"))
    monkeypatch.setattr(space, "entrances", lambda *_: {Arch.X86_64: SimpleNamespace(client=lambda _: s3)})
    monkeypatch.setattr(space, "wasted", lambda *_: None)
    monkeypatch.setattr(space, "observe_quota", lambda *_: None)
    stage = stage_of(cluster)
    space.run(stage)
    assert collected[0][1:3] == ("radosgw-admin", "gc")
    assert CHECKS["witnessed"](stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(("lax", "outcome"), [(False, Outcome.PASS), (True, Outcome.FAIL)])
def test_a_gateway_that_ignores_a_quota_is_found(lax: bool, outcome: Outcome) -> None:
    def gateway(ignores: bool) -> SimpleNamespace:
        def put_object(Key: str, **_: object) -> None:  # noqa: N803 - boto3's name
            if Key == "more" and not ignores:
                refused("QuotaExceeded")

        return SimpleNamespace(put_object=put_object, create_bucket=lambda **_: None)

    told = list[tuple[str, ...]]()
    client = SimpleNamespace(host=SimpleNamespace(name="c0"))
    stage = stage_of(SimpleNamespace(client=client, tool=lambda *argv: told.append(argv)))
    space.observe_quota(stage, [gateway(False), gateway(lax)])
    assert [argv[3] for argv in told] == ["set", "enable"]
    assert CHECKS["observations"](stage.recorder.events()).outcome is outcome
