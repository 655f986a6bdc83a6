"""rados bench: its command line and its summary."""

import signal
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import conf
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads.radosbench import BenchJob, parse, start

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
Average Latency(s):     0.19
Stddev Latency(s):      0.02
"""


@pytest.mark.parametrize(("made", "size"), [("writes", "Write"), ("reads", "Read")])
def test_a_summary_is_read(made: str, size: str) -> None:
    found = parse(SUMMARY.format(made, size))
    assert (found.operations, found.seconds, found.latency_mean_s) == (250, 3.1, 0.19)
    assert found.bytes_per_s == pytest.approx(250 / 3.1 * (4 << 20))


def test_what_is_no_summary_is_trouble() -> None:
    with pytest.raises(LabBroken, match="no summary"):
        parse("error: pool not found")


def test_only_writing_names_a_size() -> None:
    assert BenchJob("p", "write", 10).arguments()[-3:] == ["-b", "4194304", "--no-cleanup"]
    assert "-b" not in BenchJob("p", "seq", 10).arguments()


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
        assert argv[0] == "rados"
        assert b"admin_socket" in self.files[PurePosixPath(env["CEPH_CONF"])]
        self.files[log] = self.words.encode()
        return SimpleNamespace(wait=lambda _timeout_s: self.ends, signal=self.told.append)


def test_one_that_runs_is_read_at_its_end() -> None:
    running = start(cast("Host", Machine(SUMMARY.format("reads", "Read"))), BenchJob("p", "seq", 600))
    done = running.finish()
    assert (done.read.operations, done.read.bytes, done.write.operations) == (250, 250 * (4 << 20), 0)
    assert done.latency_mean_s == 0.19
    assert not len(running.progress().times_s)


def test_one_that_does_not_end_is_killed_with_its_last_words() -> None:
    machine = Machine("still at it", ends=False)
    with pytest.raises(LabBroken, match="did not end") as caught:
        start(cast("Host", machine), BenchJob("p", "seq", 600)).finish(timeout_s=0.0)
    assert "still at it" in str(caught.value)
    assert machine.told == [signal.SIGKILL]
