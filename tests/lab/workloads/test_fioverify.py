"""What fio says of a verified load is read as it is, bad news too."""

import json
import signal
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import DaemonDied, LabBroken
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host, HostProcess
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob, RunningFio
from cephlab.lab.workloads.fioverify import FioVerify, Tally, Witness, read_tally


def said(error: int, written: int, read: int) -> bytes:
    job = {"error": error, "write": {"total_ios": written}, "read": {"total_ios": read}}
    return b"\nfio: terminating on signal 2\n" + json.dumps({"jobs": [job]}, indent=2).encode()


def test_a_result_behind_fios_own_words_is_read() -> None:
    assert read_tally(said(0, 546, 0)) == Tally(0, 546, 0)


def test_a_damaged_block_is_a_result_and_no_trouble_of_the_lab() -> None:
    assert read_tally(said(84, 0, 389)).error == 84


@pytest.mark.parametrize("text", [b"", b"fio: engine rbd not loadable\n", b'{\n "jobs": []}'])
def test_no_result_is_trouble(text: bytes) -> None:
    with pytest.raises(LabBroken, match="no result"):
        read_tally(text)


FOLDER = PurePosixPath("/hosts/c0/fioverify")


@dataclass
class FakeFio:
    """fio and its host: it ends when it is told to, or by itself at once. done: what it was told, in order."""

    written: bytes | None
    itself: bool = False
    late: bool = False
    name: str = "c0"
    directory: PurePosixPath = FOLDER.parent
    files: dict[PurePosixPath, bytes] = field(default_factory=lambda: {PurePosixPath("words"): b"bad magic"})
    jobs: list[FioJob] = field(default_factory=list)
    done: list[object] = field(default_factory=list)

    def start(self, host: object, job: FioJob) -> RunningFio:
        assert host is self
        self.jobs.append(job)
        output = PurePosixPath(f"out{len(self.jobs)}")
        return RunningFio(cast("Host", self), cast("HostProcess", self), PurePosixPath("words"), output, output)

    def alive(self) -> bool:
        return not self.itself

    def signal(self, number: signal.Signals) -> None:
        self.done.append(number)

    def wait(self, timeout_s: float) -> bool:
        self.done.append(timeout_s)
        if self.written is not None:
            self.files[PurePosixPath(f"out{len(self.jobs)}")] = self.written
        return not self.late

    def make_directory(self, path: PurePosixPath) -> None:
        self.done.append(path)

    def exists(self, path: PurePosixPath) -> bool:
        return path in self.files

    def read(self, path: PurePosixPath) -> bytes:
        return self.files[path]


HEADER, BLOCK = "rbd_header.1", "rbd_data.1.0"


@dataclass
class FakeImages:
    """A cluster's client. held: the objects of the image's pool, at each look."""

    held: list[list[str]]
    did: list[object] = field(default_factory=list)

    def rbd_create(self, *what: object, **more: object) -> None:
        self.did.append(("create", *what, more))

    def rbd_remove(self, *what: object) -> None:
        self.did.append(("remove", *what))

    def list_objects(self, pool: str) -> list[str]:
        self.did.append(pool)
        return self.held.pop(0)


def verified(
    ran: FakeFio, witness: Witness, monkeypatch: pytest.MonkeyPatch, *looks: list[str]
) -> tuple[FioVerify, FakeImages, History]:
    """A load of a cluster that takes twice as long as others, at a clock that nobody waits for."""
    monkeypatch.setattr(fio, "start", ran.start)
    monkeypatch.setattr(clock, "wait", partial(waited, ran))
    images, history = FakeImages(list(looks)), History()
    cluster = cast("Cluster", SimpleNamespace(hosts={"c0": ran}, client=images, patience=2.0))
    return FioVerify(cluster, history.recorder("a.b"), witness), images, history


def waited(
    ran: FakeFio, probe: Callable[[], int], ready: Callable[[int], bool], *, what: str, timeout_s: float
) -> None:
    ran.done.append(timeout_s)
    while not ready(probe()):
        pass


WITNESS = Witness(pool="p", node="c0", seed=7)


def jobs(written: int) -> list[FioJob]:
    """Both passes: they are one job but for what they do with it."""
    same = {"verify": "crc32c", "verify_fatal": "1", "verify_state_save": "1", "aux-path": str(FOLDER)}
    options = {"rbd_cache": "false", "rados_osd_op_timeout": "0", "rados_mon_op_timeout": "0"}
    each = FioJob("witness", "p", "witness", "randwrite", 4096, 4, 1 << 30, seed=7, options=options)
    reading = {"verify_only": "1", "verify_state_load": "1", "number_ios": str(written)}
    return [
        replace(each, more={**same, "do_verify": "0", "rate_iops": "100"}),
        replace(each, more={**same, **reading}),
    ]


def test_what_fio_wrote_during_the_block_is_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """The block begins once fio has written. No more is read back than was written: of that fio 3.41 had drawn more."""
    ran = FakeFio(said(0, 546, 0))
    load, images, history = verified(ran, WITNESS, monkeypatch, [HEADER], [HEADER], [HEADER, BLOCK])
    assert load.written == 0
    load.prepare()
    with load.running():
        assert not images.held
        ran.done.append("the block")
    ran.written = said(0, 0, 543)
    load.verify()
    load.clean()
    assert ran.jobs == jobs(546)
    assert ran.done == [FOLDER, 120.0, "the block", signal.SIGINT, 240.0, 600.0]
    made = ("create", "p", "witness", 1 << 30, {"data_pool": None})
    assert images.did == [made, "p", "p", "p", ("remove", "p", "witness")]
    fine = {"got": 0, "wanted": 0, "said": ""}
    assert [(event.kind, event.data) for event in history.events()] == [
        ("observation", {"what": "error that fio ended writing with", **fine}),
        ("observation", {"what": "error that fio ended reading back with", **fine}),
        ("witness", {"what": "blocks that fio read back", "got": 543, "least": 542}),
    ]


def test_data_in_another_pool_is_looked_for_there(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = FakeFio(said(0, 3, 0))
    load, images, _ = verified(ran, replace(WITNESS, data_pool="d"), monkeypatch, [], [BLOCK])
    load.prepare()
    with load.running():
        pass
    assert images.did == [("create", "p", "witness", 1 << 30, {"data_pool": "d"}), "d", "d"]


def test_something_is_to_be_read_back_even_where_next_to_nothing_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = FakeFio(said(0, 0, 0))
    load, _, history = verified(ran, WITNESS, monkeypatch)
    load.verify()
    assert [job.more["number_ios"] for job in ran.jobs] == ["1"]
    assert history.events()[-1].data["least"] == 1


def test_a_damaged_block_is_observed_with_fios_words(monkeypatch: pytest.MonkeyPatch) -> None:
    load, _, history = verified(FakeFio(said(84, 0, 389)), WITNESS, monkeypatch)
    load.verify()
    told = history.events()[0].data
    assert (told["got"], told["wanted"], told["said"]) == (84, 0, "bad magic")


def test_fio_that_ended_during_the_block_is_trouble_and_what_it_found_is_observed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    load, _, history = verified(FakeFio(said(84, 9, 0), itself=True), WITNESS, monkeypatch, [], [BLOCK])
    with pytest.raises(LabBroken, match="fio ended by itself on c0") as raised, load.running():
        pass
    assert raised.value.detail == "bad magic"
    assert [event.data["got"] for event in history.events()] == [84]


def test_fio_that_does_not_end_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = FakeFio(said(0, 9, 0), late=True)
    load, _, history = verified(ran, WITNESS, monkeypatch, [], [BLOCK])
    with pytest.raises(LabBroken, match="fio did not end within 240 s on c0"), load.running():
        pass
    assert ran.done[-1] is signal.SIGKILL
    assert history.events() == ()


def test_fio_that_leaves_no_result_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    load, _, _ = verified(FakeFio(None), WITNESS, monkeypatch)
    with pytest.raises(LabBroken, match="no result") as raised:
        load.verify()
    assert raised.value.detail == ""


def test_fio_is_killed_where_something_else_ends_the_wait_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    ran = FakeFio(said(0, 3, 0))
    load, _, _ = verified(ran, WITNESS, monkeypatch)

    def interrupted(_timeout_s: float) -> bool:
        raise DaemonDied("osd.0", "n0", "ceph-osd", "", "", 1)

    monkeypatch.setattr(ran, "wait", interrupted)
    with pytest.raises(DaemonDied):
        load.verify()
    assert ran.done == [signal.SIGKILL]
