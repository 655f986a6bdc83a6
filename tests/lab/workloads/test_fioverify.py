"""What fio says of a verified load is read as it is, bad news too."""

import json
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob
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


def test_both_passes_are_one_job_but_for_what_they_do_with_it() -> None:
    witness = Witness(pool="p", node="c0", seed=7)
    write, read = witness.job("/f", do_verify="0"), witness.job("/f", verify_only="1", verify_state_load="1")
    assert (write.name, write.seed, write.pattern, write.size_bytes) == (
        read.name,
        read.seed,
        read.pattern,
        read.size_bytes,
    )
    assert write.more["verify_state_save"] == "1"
    assert write.options["rbd_cache"] == "false"


def test_no_more_blocks_are_read_back_than_were_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """fio 3.41 had drawn others when it was told to stop: on a plain file it read 1 to 3 too many."""
    jobs: list[FioJob] = []
    monkeypatch.setattr(fio, "start", lambda host, job: jobs.append(job))
    monkeypatch.setattr(FioVerify, "_output", lambda self, running, timeout_s: said(0, 0, 546))
    host = SimpleNamespace(directory=PurePosixPath("/hosts/c0"))
    cluster = cast("Cluster", SimpleNamespace(hosts={"c0": host}))
    FioVerify(cluster, History().recorder("a.b"), Witness(pool="p", node="c0", seed=7), written=546).verify()
    assert [job.more["number_ios"] for job in jobs] == ["546"]
