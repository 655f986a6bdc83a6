"""The S3 load: what follows from its seed, what it finds wrong, when its times count, and what it says of itself."""

import json
import random
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.cluster.gateway import Endpoint
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3_load_program, s3load
from cephlab.lab.workloads.s3_load_program import FILL, FINAL, RUN, WRONG, Due, each_once, plan
from cephlab.lab.workloads.s3_program import S3Answer, S3Connection
from cephlab.lab.workloads.s3load import S3Load, S3Result, merged, parse
from tests.fake_s3 import CONFIG, FakeGateway, FakeTime, load_of

ALL = {"get": 5.0, "put": 3.0, "head": 1.0, "list": 1.0, "delete": 1.0, "multipart": 1.0}


def result_of(load: s3_load_program.Load, seconds: float = 6.0, cpu_s: float = 0.5) -> S3Result:
    report = {"spent": {RUN: (seconds, cpu_s)}, "wrong": load.wrong, "wrongs": len(load.wrong)}
    return parse(json.dumps(report).encode(), "".join(load.rows))


def ran(monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, **config: Any) -> S3Result:
    """Fill, run, read all."""
    load = load_of(monkeypatch, gateway, **config)
    each_once(load, FILL, load.config["fill_by"])
    s3_load_program.run(load)
    each_once(load, FINAL, "get")
    return result_of(load)


def test_a_run_waits_for_the_moment_that_it_is_told_and_for_all_of_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path, told = tmp_path / "begin", {2: "1", 4: "12.5\n"}

    @dataclass
    class Telling(FakeTime):
        looks: int = 0

        def wait(self, seconds: float) -> bool:
            self.looks += 1
            if self.looks in told:
                path.write_text(told[self.looks])
            return super().wait(seconds)

    time = Telling()
    monkeypatch.setattr(s3_load_program, "time", time)
    monkeypatch.setattr(s3_load_program, "STOP", time)
    s3_load_program.wait_for_moment(path)
    assert time.now_s == pytest.approx(12.5)
    time.end_s = 0.0
    path.write_text("99.0")
    s3_load_program.wait_for_moment(path)
    assert time.now_s == pytest.approx(12.5)


@pytest.mark.parametrize(
    ("there", "new", "made"),
    [
        ({}, True, ["b0", "b1"]),
        ({"b1": 200}, True, None),
        ({"b1": 403}, True, None),
        ({"b1": 200}, False, ["b0", "b1"]),
    ],
    ids=["none", "its own", "somebody's", "not asked for"],
)
def test_a_bucket_that_is_there_ends_a_load_that_wants_new_ones(
    there: dict[str, int], new: bool, made: list[str] | None
) -> None:
    asked: list[str] = []

    class Line:
        def send(self, method: str, path: str) -> S3Answer:
            assert method == "HEAD"
            return S3Answer(there.get(path[1:], 404), {}, b"")

        def ask(self, method: str, path: str) -> bytes:
            asked.append(path[1:])
            return b""

    if made is None:
        with pytest.raises(SystemExit, match="b1"):
            s3_load_program.make_buckets(cast("S3Connection", Line()), ["b0", "b1"], new=new)
        assert asked == []
    else:
        s3_load_program.make_buckets(cast("S3Connection", Line()), ["b0", "b1"], new=new)
        assert asked == made


def test_two_loads_on_a_host_have_folders_of_their_own() -> None:
    files: dict[str, bytes] = {}

    class Machine:
        directory = PurePosixPath("/n0")

        def push(self, content: object, path: PurePosixPath, *, mode: int = 0o644) -> None:
            files[str(path)] = b""

        def spawn(self, argv: list[str], **_: object) -> None: ...
        def remove(self, path: PurePosixPath) -> None: ...
        def make_directory(self, path: PurePosixPath) -> None: ...

    host, doors = cast("Host", Machine()), [Endpoint("192.0.2.1:80", "a", "s")]
    first, second = (s3load.start(host, doors, S3Load()) for _ in range(2))
    assert first.base != second.base
    assert {f"{each.base}/config" for each in (first, second)} <= files.keys()


def test_an_open_load_is_a_poisson_process_of_its_seed() -> None:
    def first(seed: int) -> list[Due]:
        planned = plan({**CONFIG, "mix": {"get": 9.0, "put": 1.0}, "rate": 50.0, "seed": seed}, 100.0)
        return [next(planned) for _ in range(2000)]

    dues = first(7)
    assert dues == first(7) != first(8)
    assert dues[-1].due_s == pytest.approx(100 + 2000 / 50, rel=0.1)
    gaps = [later.due_s - sooner.due_s for sooner, later in pairwise(dues)]  # type: ignore[operator]
    assert sum(gap > 1 / 50 for gap in gaps) / len(gaps) == pytest.approx(0.368, abs=0.05)  # e**-1 of a Poisson process
    assert sum(due.kind == "put" for due in dues) == pytest.approx(200, abs=60)


def test_every_operation_of_a_sound_gateway_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ran(monkeypatch, FakeGateway(FakeTime()), mix=ALL)
    assert (result.wrong, result.errors) == ((), {})
    assert {each.kind for each in result.of(RUN)} == set(ALL)
    assert [len(result.of(phase)) for phase in (FILL, FINAL)] == [6, 6]


@pytest.mark.parametrize(
    ("defect", "words"),
    [({"drops": 1}, "are no version of"), ({"stale": True}, "are no version of")],
    ids=["a part of an upload is dropped", "an old version is kept"],
)
def test_a_gateway_that_loses_something_is_found(
    monkeypatch: pytest.MonkeyPatch, defect: dict[str, Any], words: str
) -> None:
    result = ran(monkeypatch, FakeGateway(FakeTime(), **defect), mix=ALL)
    assert WRONG in result.errors
    assert any(words in line for line in result.wrong)


def test_an_object_that_is_gone_and_one_that_came_back_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = FakeGateway(FakeTime())
    load = load_of(monkeypatch, gateway)
    each_once(load, FILL, "put")
    (path, content), *_ = gateway.objects.items()
    del gateway.objects[path]
    gateway.objects["/b0/strange"] = content
    each_once(load, FINAL, "get")
    assert load.wrong == [f"get of {path}: nothing is there, where version 1 or later is"]
    load.do(RUN, Due(0, "list", None), load.ledger.begin("list", random.Random(1)), 0.0, idle=False)
    assert "names are listed or left out" in load.wrong[1]


def test_errors_are_counted_by_their_code_and_end_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = FakeGateway(FakeTime())
    load = load_of(monkeypatch, gateway, mix={"put": 1.0, "get": 1.0})
    each_once(load, FILL, "put")
    gateway.codes = ["SlowDown", "SlowDown", "ServiceUnavailable"]
    s3_load_program.run(load)
    result = result_of(load)
    assert result.errors == {"SlowDown": 2, "ServiceUnavailable": 1}
    assert len(result.of(RUN)) > 50
    assert result.wrong == ()


def pair(monkeypatch: pytest.MonkeyPatch) -> tuple[float, float]:
    """p90 of a closed and of an open load whose gateway stands for 2 of 6 s."""
    closed = ran(monkeypatch, FakeGateway(FakeTime(), stands=(2.0, 4.0)))
    opened = ran(monkeypatch, FakeGateway(FakeTime(), stands=(2.0, 4.0)), rate=25.0)
    return closed.percentile_s(90), opened.percentile_s(90)


def test_who_asks_nothing_while_a_gateway_stands_does_not_feel_it(monkeypatch: pytest.MonkeyPatch) -> None:
    closed_s, opened_s = pair(monkeypatch)
    assert closed_s == pytest.approx(0.005)
    assert 1.0 < opened_s < 2.1


def test_a_client_that_counts_from_the_send_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = s3_load_program.Load.note

    def from_the_send(load: Any, phase: str, due: Due, entry: Any, done: Any) -> None:
        sound(load, phase, due._replace(due_s=None), entry, done)

    monkeypatch.setattr(s3_load_program.Load, "note", from_the_send)
    closed_s, opened_s = pair(monkeypatch)
    assert opened_s < 3 * closed_s  # object.stopped wants three times as much


def rows(*times: tuple[float, float, float, bool]) -> str:
    return "".join(f"run,get,0,/b/o,1,9,{due},{began},{ended},{int(idle)},\n" for due, began, ended, idle in times)


REPORT = json.dumps({"spent": {RUN: (10.0, 9.5)}, "wrong": [], "wrongs": 0}).encode()


def test_a_client_that_is_slow_itself_says_so() -> None:
    result = parse(REPORT, rows((1, 1.01, 2, True), (2, 2.2, 3, True), (3, 5, 6, False)))
    assert result.punctual == 0.5  # the third one waited for a worker, which was waiting for an answer
    assert (result.busy, result.client_bound) == (0.95, True)
    assert result.percentile_s(100) == 3


def test_times_of_several_clients_are_put_together_and_not_averaged() -> None:
    quick = parse(REPORT, rows(*[(0, 0, 1, False)] * 99))
    slow = parse(REPORT, rows((0, 0, 100, False)))
    both = merged([quick, slow])
    assert (both.percentile_s(50), both.percentile_s(100)) == (1, 100)
    assert len(both.operations) == 100


def test_windows_of_several_clients_are_all_kept() -> None:
    early, late = (
        parse(REPORT, "".join(f"window,{at},{at + 1},5,0.1,0.2\n" for at in times)) for times in ([1, 9], [2])
    )
    assert [window.began_s for window in merged([early, late]).windows] == [1, 2, 9]


def test_nothing_done_has_no_percentile() -> None:
    with pytest.raises(LabBroken, match="no such operation"):
        parse(REPORT, "").percentile_s(50)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"mix": {"copy": 1.0}}, "invalid mix"),
        ({"mix": {}}, "invalid mix"),
        ({"mix": {"get": 0.0}}, "invalid mix"),
        ({"sizes": ((9, 8, 1.0),)}, "sizes"),
        ({"sizes": ()}, "sizes"),
        ({"phases": (RUN, FILL)}, "phases"),
    ],
)
def test_what_makes_no_load_is_refused(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(SpecError, match=words):
        S3Load(**wrong)


def test_a_run_that_is_told_by_windows_keeps_none_of_its_operations(monkeypatch: pytest.MonkeyPatch) -> None:
    load = load_of(monkeypatch, FakeGateway(FakeTime(end_s=20.0)), window_s=2.0)
    each_once(load, FILL, "put")
    s3_load_program.run(load)
    assert load.windows is not None
    load.windows.close()
    assert all(row.startswith(FILL) for row in load.rows)
    load.rows += load.windows.lines
    result = result_of(load)
    assert len(result.windows) in {3, 4}
    assert all(window.ended_s - window.began_s == pytest.approx(2.0) for window in result.windows)
    assert result.of(RUN) == []


def test_a_window_has_the_mean_and_the_99th_percentile_of_what_ended_in_it() -> None:
    windows = s3_load_program.Windows(10.0)
    for number in range(200):
        windows.add(1000.0 + 0.01 * number, 0.001 * (number + 1))
    windows.add(1035.0, 0.5)
    windows.close()
    first, second = parse(b'{"spent": {}, "wrong": [], "wrongs": 0}', "".join(windows.lines)).windows
    assert (first.operations, second.operations) == (200, 1)
    assert (first.mean_s, first.p99_s, second.began_s) == pytest.approx((0.1005, 0.199, 1029.999))
