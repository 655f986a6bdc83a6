"""rados bench: its command line and its summary."""

import signal
import threading
from dataclasses import replace
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import conf
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads.fio import NOTHING, Done, Progress
from cephlab.lab.workloads.radosbench import BenchJob, BenchResult, parse, run_all, start

SUMMARY = """hints = 1
Maintaining 16 concurrent writes of 4194304 bytes to objects of size 4194304 for up to 3 seconds or 0 objects
  sec Cur ops   started  finished  avg MB/s  cur MB/s last lat(s)  avg lat(s)
    1      16        90        74   295.9   296    0.19    0.19
Total time run:         3.10
Total {0} made:      250
{1} size:             4194304
Object size:            4194304
Bandwidth (MB/sec):     322.5
Average IOPS:           80
Stddev IOPS:            7.5
Average Latency(s):     0.19
Stddev Latency(s):      0.02
"""


@pytest.mark.parametrize(("made", "size"), [("writes", "Write"), ("reads", "Read")])
def test_a_summary_is_read(made: str, size: str) -> None:
    summary = parse(SUMMARY.format(made, size))
    assert summary == BenchResult(250, 3.1, 4 << 20, 0.19, 7.5)
    assert summary.iops == pytest.approx(250 / 3.1)
    assert summary.bytes_per_s == pytest.approx(250 / 3.1 * (4 << 20))
    assert replace(summary, seconds=0.0).bytes_per_s == 0.0


def test_an_older_release_says_less_of_its_spread() -> None:
    assert parse(SUMMARY.format("writes", "Write").replace("Stddev IOPS", "Other IOPS")).iops_stddev == 0.0


def test_what_is_no_summary_is_trouble_with_its_last_words() -> None:
    with pytest.raises(LabBroken, match="no summary") as caught:
        parse("x" * 2000 + "error: pool not found")
    assert caught.value.detail.partition("\n")[2] == ("x" * 2000 + "error: pool not found")[-1000:]


@pytest.mark.parametrize(
    ("job", "more"),
    [
        (BenchJob("p", "seq", 10), ["10", "seq", "-t", "16", "--run-name", "bench"]),
        (
            BenchJob("p", "write", 10, threads=2, run="r"),
            ["10", "write", "-t", "2", "--run-name", "r", "-b", "4194304", "--no-cleanup"],
        ),
        (
            BenchJob("p", "write", 10, block_bytes=4096, most_bytes=10_000),
            ["10", "write", "-t", "16", "--run-name", "bench", "--max-objects", "2", "-b", "4096", "--no-cleanup"],
        ),
        (
            BenchJob("p", "write", 10, most_bytes=1),
            ["10", "write", "-t", "16", "--run-name", "bench", "--max-objects", "1", "-b", "4194304", "--no-cleanup"],
        ),
    ],
)
def test_a_job_is_a_command_line_and_only_writing_names_a_size(job: BenchJob, more: list[str]) -> None:
    assert job.arguments() == ["-p", "p", "bench", *more]
    assert BenchJob("p", "seq", 10).most_bytes == 0


def test_jobs_of_several_nodes_run_at_the_same_time() -> None:
    nodes = [str(number) for number in range(40)]
    all_of_them, asked = threading.Barrier(len(nodes), timeout=5), []

    def tool(node: str, program: str, *arguments: str, timeout_s: float) -> str:
        all_of_them.wait()
        assert threading.current_thread().name.startswith("rados-bench")
        asked.append((node, program, *arguments, timeout_s))
        return SUMMARY.format("writes", "Write").replace("250", node)

    jobs = [(node, BenchJob("p", "seq", 10, run=f"r{node}")) for node in nodes]
    results = run_all(cast("Cluster", SimpleNamespace(tool=tool)), jobs)
    assert [result.operations for result in results] == list(range(40))
    assert sorted(asked) == sorted((node, "rados", *job.arguments(), 70.0) for node, job in jobs)


class Machine:
    """A host on which whatever is started has said `words`, and ended or not."""

    name = "n"
    directory = PurePosixPath("/node")

    def __init__(self, words: str, *, ends: bool = True) -> None:
        self.files = {conf.conf_path(cast("Host", self)): b"[global]\n"}
        self.words, self.ends = words, ends
        self.told: list[signal.Signals] = []

    def remove(self, _path: PurePosixPath) -> None: ...
    def make_directory(self, _path: PurePosixPath) -> None: ...
    def exists(self, path: PurePosixPath) -> bool:
        return path in self.files

    def read(self, path: PurePosixPath) -> bytes:
        return self.files[path]

    def push(self, content: bytes, path: PurePosixPath) -> None:
        self.files[path] = content

    def spawn(self, argv: list[str], *, log: PurePosixPath, env: dict[str, str]) -> SimpleNamespace:
        self.argv = argv
        assert b"admin_socket = /node/rados/bench/s\n" in self.files[PurePosixPath(env["CEPH_CONF"])]
        self.files[log] = self.words.encode() + b"\xff"
        return SimpleNamespace(wait=self.wait, signal=self.told.append)

    def wait(self, timeout_s: float) -> bool:
        self.waited_s = timeout_s
        return self.ends


@pytest.mark.parametrize("mode", ["seq", "write"])
def test_one_that_runs_is_read_at_its_end(mode: str) -> None:
    machine, job = Machine(SUMMARY.format("reads", "Read")), BenchJob("p", mode, 600)
    running = start(cast("Host", machine), job)
    done, some = running.finish(), Done(250, 250 * (4 << 20), 3.1, 250 / 3.1, 0.19)
    assert (done.read, done.write) == ((NOTHING, some) if mode == "write" else (some, NOTHING))
    assert (machine.argv, machine.waited_s) == (["rados", *job.arguments()], 60.0)
    assert (running.job, running.socket) == (job, PurePosixPath("/node/rados/bench/s"))
    assert running.log == PurePosixPath("/node/rados/bench/words")
    assert running.progress() == Progress(())


def test_one_that_does_not_end_is_killed_with_its_last_words() -> None:
    machine = Machine("still at it", ends=False)
    with pytest.raises(LabBroken, match="rados bench did not end within 0 s on n") as caught:
        start(cast("Host", machine), BenchJob("p", "seq", 600)).finish(timeout_s=0.0)
    assert "still at it" in str(caught.value)
    assert machine.told == [signal.SIGKILL]
