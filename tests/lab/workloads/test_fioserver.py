"""fio's client/server: what is started, what is read from it, and when it is not used."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CommandFailed, LabBroken
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.workloads import fio, fioserver
from cephlab.lab.workloads.fio import Done, FioJob, FioResult
from cephlab.lab.workloads.fioserver import Jobs, Together

JOB = FioJob("one", "rbd", "image", "randwrite", 4096, 16, 1 << 28, runtime_s=30, more={"ramp_time": "1"})
FAILED = "<s1> fio: rbd_open failed.\nclient <s1>: exited with error 1\n"


def entry(jobname: str, hostname: str, operations: int, error: int = 0) -> dict[str, Any]:
    def direction(count: int) -> dict[str, Any]:
        return {
            "io_bytes": count * 4096,
            "runtime": 2000,
            "iops": count / 2,
            "total_ios": count,
            "lat_ns": {"mean": 5e6},
        }

    return {
        "jobname": jobname,
        "hostname": hostname,
        "port": 8765,
        "error": error,
        "job_start": 1_700_000_000_500,
        "read": direction(0),
        "write": direction(operations),
    }


def written(*stats: dict[str, Any], words: str = "") -> str:
    return f"{words}\n" + json.dumps({"fio version": "fio-3.39", "client_stats": stats}, indent=2) + "\n\n"


def result(operations: int) -> FioResult:
    return FioResult(Done(0, 0, 0, 0, 0), Done(operations, 0, 1, operations, 0))


def test_a_client_has_a_server_and_a_job_for_each_and_asks_for_no_progress() -> None:
    argv = fioserver.client_argv(2, PurePosixPath("/d/out.json"))
    assert argv[:4] == ["fio", "--eta=never", "--output-format=json", "--output=/d/out.json"]
    assert argv[4:] == ["--client=sock:s0", "j0", "--client=sock:s1", "j1"]


def test_a_server_listens_on_a_socket_in_a_file_alone() -> None:
    assert fioserver.server_argv(PurePosixPath("/d/s")) == ["fio", "--server=sock:/d/s"]


def test_a_job_is_a_file_whose_work_stays_in_its_servers_session() -> None:
    head, *lines = JOB.file().splitlines()
    assert head == "[one]"
    assert {"ioengine=rbd", "rbdname=image", "rw=randwrite", "runtime=30", "ramp_time=1", "thread=1"} <= set(lines)
    assert not [line for line in lines if line.startswith(("output", "write_"))]


def test_results_are_each_ones_and_everybodys() -> None:
    # In the order in which they ended, which is nobody's.
    said = fioserver.parse(written(entry("one", "s1", 30), entry("one", "s0", 10), entry("All clients", "s0", 40)), 2)
    assert {place: result.write.operations for place, result in said.results.items()} == {0: 10, 1: 30}
    assert said.results[0].began_s == 1_700_000_000.5
    assert said.everyone is not None
    assert said.everyone.write.operations == 40
    assert said.failed == {}


@pytest.mark.parametrize(
    "words",
    [FAILED, "client: host=s1 disconnected\n", "fio: client s1 timed out\n", "client <s1>: exited with signal 9\n"],
)
def test_one_that_failed_is_told_of_and_the_others_are_kept(words: str) -> None:
    text = written(entry("one", "s0", 10), entry("one", "s1", 0), entry("All clients", "s0", 10), words=words)
    said = fioserver.parse(text, 2)
    assert list(said.results) == [0]
    assert said.failed == {1: words.strip()}
    assert said.everyone is None


def test_one_that_says_nothing_or_has_an_error_failed_too() -> None:
    said = fioserver.parse(written(entry("one", "s0", 10), entry("one", "s2", 5, error=5)), 3)
    assert list(said.results) == [0]
    assert sorted(said.failed) == [1, 2]
    assert said.failed[1] == "fio gives no reason"


@pytest.mark.parametrize("text", ["", "fio: connect: refused\n", '{\n "jobs": []}'])
def test_no_result_is_the_lab_broken(text: str) -> None:
    with pytest.raises(LabBroken, match="no result"):
        fioserver.parse(text, 2)


def hosts(*names: str) -> Jobs:
    return [(cast("Host", SimpleNamespace(name=name)), JOB) for name in names]


def test_a_failure_names_its_host() -> None:
    done = Together(hosts("a", "b", "c"), {0: result(1)}, {1: "why", 2: "because"})
    with pytest.raises(LabBroken) as caught:
        done.require()
    assert caught.value.what == "fio failed on b, c"
    assert caught.value.detail == "b: why\nc: because"


def test_results_come_in_the_jobs_order() -> None:
    done = Together(hosts("a", "b"), {1: result(2), 0: result(1)})
    assert [result.operations for result in done.require()] == [1, 2]


class Near:
    """A host from which others' sockets are reached."""

    def __init__(self, name: str, version: str = "fio-3.39") -> None:
        self.name = name
        self.version = version

    def run(self, argv: tuple[str, ...], **_more: object) -> object:
        assert argv == ("fio", "--version")
        return SimpleNamespace(stdout=f"{self.version}\n")

    @contextmanager
    def reaching(self, _other: object, _path: object, _near: object) -> Iterator[None]:
        yield


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ([Near("a"), Near("b")], True),
        ([Near("a"), Near("b", "fio-3.33")], False),
        ([Near("a"), SimpleNamespace(name="b")], False),
    ],
)
def test_a_server_is_used_where_sockets_reach_and_versions_are_one(given: list[object], wanted: bool) -> None:
    assert fioserver.serves(cast("list[Host]", given)) is wanted


def test_without_it_they_run_side_by_side_and_one_failure_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(host: Host, _job: FioJob, *, timeout_s: float) -> FioResult:
        assert timeout_s == 7
        if host.name == "b":
            raise CommandFailed(("fio",), 1, "", "no image", "b")
        return result(5)

    monkeypatch.setattr(fio, "run", one)
    done = fioserver.run(hosts("a", "b", "c"), timeout_s=7)
    assert sorted(done.results) == [0, 2]
    assert "no image" in done.failed[1]
    assert done.everyone is None


def test_one_that_failed_long_before_the_last_words_is_told_of() -> None:
    words = "client: host=s1 disconnected\n" + "fio: a warning of another\n" * 200
    said = fioserver.parse(written(entry("one", "s0", 10), entry("one", "s1", 0), words=words), 2)
    assert list(said.results) == [0]
    assert list(said.failed) == [1]


def test_a_server_that_does_not_listen_is_the_labs_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fioserver, "_STARTED_S", 0.0)
    host = cast("Host", SimpleNamespace(name="n0", exists=lambda _path: False))
    channel = cast("Channel", SimpleNamespace(alive=lambda: True))
    with pytest.raises(LabBroken, match="the start of the fio server on n0 took more than 0 s"):
        fioserver._wait_listening(host, PurePosixPath("/d/s"), channel)
