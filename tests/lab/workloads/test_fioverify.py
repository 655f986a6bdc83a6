"""What fio says of a verified load is read as it is, bad news too."""

import json

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.workloads.fioverify import Tally, Witness, read_tally


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
