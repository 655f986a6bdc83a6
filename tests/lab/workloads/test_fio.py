"""fio: the command line that is asked for, and results read once into a record."""

import json
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.workloads.fio import FioJob, RunningFio, parse, parse_each, parse_progress

JOB = FioJob("one", "rbd", "image", "randwrite", 4096, 16, 1 << 28, runtime_s=30, more={"norandommap": "1"})


def direction(operations: int) -> dict[str, Any]:
    return {
        "io_bytes": operations * 4096,
        "runtime": 2000,
        "iops": operations / 2,
        "total_ios": operations,
        "lat_ns": {"mean": 5e6},
        "clat_ns": {"percentile": {"99.000000": 9_000_000}},
    }


def report(error: int = 0) -> bytes:
    job = {"error": error, "total_err": error, "read": direction(0), "write": direction(1000)}
    return (
        b"librados says something first\n" + json.dumps({"fio version": "fio-3.39", "jobs": [job]}, indent=2).encode()
    )


def test_a_job_is_a_command_line() -> None:
    argv = JOB.argv(PurePosixPath("/out.json"))
    assert argv[0] == "fio"
    wanted = {"--rw=randwrite", "--bs=4096", "--iodepth=16", "--time_based=1", "--runtime=30", "--rbdname=image"}
    assert wanted <= set(argv)
    assert "--norandommap=1" in argv


def test_without_a_time_a_job_ends_after_its_size() -> None:
    argv = FioJob("one", "p", "", "write", 4096, 1, 4096, engine="rados").argv(PurePosixPath("o"))
    assert not [word for word in argv if "time" in word or "rbdname" in word]


def test_a_result_is_read_once() -> None:
    result = parse(report())
    assert result.operations == 1000
    assert result.iops == 500
    assert result.main is result.write
    assert result.write.latency_mean_s == 0.005
    assert result.write.bytes_per_s == 1000 * 4096 / 2


def test_jobs_that_fio_reports_apart_are_read_apart() -> None:
    jobs = [{"jobname": f"j{count}", "error": 0, "read": direction(count), "write": direction(0)} for count in (3, 500)]
    by_job = parse_each(json.dumps({"jobs": jobs}, indent=2).encode())
    assert {name: result.operations for name, result in by_job.items()} == {"j3": 3, "j500": 500}
    jobs[0]["error"] = 5
    with pytest.raises(LabBroken, match="1 of 2 jobs of fio failed") as failed:
        parse_each(json.dumps({"jobs": jobs}, indent=2).encode())
    assert "j3 ended with error 5" in failed.value.detail


@pytest.mark.parametrize("text", [b"", b"no json", b"{\n}", b'{\n"jobs": []}', report(error=5)])
def test_what_is_no_result_is_trouble(text: bytes) -> None:
    with pytest.raises(LabBroken, match="fio"):
        parse(text)


class Ended:
    """A machine, and a process on it that has ended. files: path -> content."""

    name = "c0"

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files

    def wait(self, _timeout_s: float) -> bool:
        return True

    def exists(self, path: PurePosixPath) -> bool:
        return str(path) in self.files

    def read(self, path: PurePosixPath) -> bytes:
        return self.files[str(path)]


def ended(files: dict[str, bytes]) -> RunningFio:
    there, paths = cast("Any", Ended(files)), [PurePosixPath(f"/{name}") for name in ("words", "out", "s")]
    return RunningFio(there, there, *paths)


NO_ENGINE = b"fio: engine rbd not loadable\nfio: failed to load engine\n"


@pytest.mark.parametrize("files", [{"/words": NO_ENGINE}, {"/words": NO_ENGINE, "/out": b""}, {"/out": NO_ENGINE}])
def test_an_engine_that_a_machine_lacks_is_named_as_missing(files: dict[str, bytes]) -> None:
    """fio writes it to its output or to its errors, whichever option it reads first."""
    with pytest.raises(Unavailable, match="fio on c0 has no engine rbd") as lacking:
        ended(files).finish()
    assert "fio-engine-rbd" in lacking.value.hint


@pytest.mark.parametrize("files", [{"/words": b"killed"}, {"/words": b"", "/out": report(error=5)}])
def test_any_other_failure_of_fio_is_trouble(files: dict[str, bytes]) -> None:
    with pytest.raises(LabBroken, match="fio"):
        ended(files).finish()


LOG = "".join(f"{at_ms}, 1, 1, 4096, 0\n" for at_ms in (1000200, 1000000, 1000100, 1000100))


def test_a_log_says_how_many_had_ended_by_when() -> None:
    progress = parse_progress(LOG)
    assert progress.between(1000.0, 1000.2) == 3
    assert progress.between(1000.05, 1000.15) == 2


@pytest.mark.parametrize(("began", "ended"), [(999.0, 1000.1), (1000.1, 1001.0)])
def test_what_the_log_does_not_cover_is_not_made_up(began: float, ended: float) -> None:
    with pytest.raises(LabBroken, match="does not cover"):
        parse_progress(LOG).between(began, ended)


def test_a_timed_job_keeps_a_log() -> None:
    argv = FioJob("one", "p", "i", "read", 4096, 1, 4096, timed=True).argv(PurePosixPath("/d/out.json"))
    assert "--write_iops_log=/d/log" in argv
