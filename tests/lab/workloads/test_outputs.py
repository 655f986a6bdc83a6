"""Output of programs that is cut off, lacks something, or has other values: LabBroken, never an error of Python."""

import json
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

import pytest

from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.ceph import disks, pgs, status
from cephlab.lab.telemetry import accounting, counters
from cephlab.lab.workloads import fio, fioserver, fioverify, gtest, s3, s3load

_DIRECTION = {
    "total_ios": 5,
    "io_bytes": 20480,
    "runtime": 1000,
    "iops": 5.0,
    "lat_ns": {"mean": 5.0},
    "iops_samples": 3,
    "clat_ns": {"percentile": {"99.000000": 5}},
}
_JOB = {"jobname": "j", "hostname": "s0", "error": 0, "job_start": 1, "read": _DIRECTION, "write": _DIRECTION}
_CASE = {"name": "c", "status": "RUN", "result": "COMPLETED", "time": "0.5s", "failures": [{"failure": "x"}]}
_STATUS = {
    "health": {"status": "HEALTH_WARN", "checks": {"OSD_DOWN": {"summary": {"message": "1 osds down"}}}},
    "quorum_names": ["a"],
    "monmap": {"num_mons": 1},
    "osdmap": {"num_osds": 3, "num_up_osds": 2, "num_in_osds": 3},
    "pgmap": {"num_pgs": 3, "pgs_by_state": [{"state_name": "active+clean", "count": 3}], "num_objects": 4},
}
_PUTS = s3.S3Job("put", "bucket", 10, 4096, 1, 1.0)


def _bytes(value: Any) -> bytes:
    return json.dumps(value, indent=1).encode()


READERS: dict[str, tuple[Any, Callable[[Any], object]]] = {
    "fio": ({"jobs": [_JOB]}, lambda value: fio.parse(_bytes(value))),
    "jobs of fio": ({"jobs": [_JOB]}, lambda value: fio.parse_each(_bytes(value))),
    "fio client": ({"client_stats": [_JOB]}, lambda value: fioserver.parse(_bytes(value).decode(), 1)),
    "verifying fio": ({"jobs": [_JOB]}, lambda value: fioverify.read_tally(_bytes(value))),
    "gtest": ({"testsuites": [{"name": "s", "testsuite": [_CASE]}]}, lambda value: gtest.parse_report(_bytes(value))),
    "S3 client": (
        {"errors": 0, "words": "", "operations": 4, "seconds": 1.0, "waited_s": 1.0},
        lambda value: s3.parse(_bytes(value), _PUTS),
    ),
    "S3 load": (
        {"spent": {"run": [1.0, 1.0]}, "wrong": [], "wrongs": 0},
        lambda value: s3load.parse(_bytes(value), ""),
    ),
    "status": (_STATUS, status.parse_status),
    "PGs": (
        [{"pgid": "1.0", "state": "active", "epoch": 3, "acting": [1, 2], "acting_primary": 1}],
        pgs.parse_pgs,
    ),
    "perf dump": ({"bluestore": {"a": 1, "b": {"avgcount": 2, "sum": 1.5}}}, counters.flatten),
    "label": ({"/dev/x": {"osd_uuid": "u", "whoami": "1"}}, lambda value: disks.parse_label(json.dumps(value))),
}
OTHERS: tuple[Any, ...] = (None, -1, 0, 1e308, float("inf"), "x", [], {})


def places(value: Any) -> Iterator[tuple[Any, ...]]:
    """The keys that lead to each part of a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (key,)
        yield from ((key, *rest) for rest in places(part))


def changed(value: Any, place: tuple[Any, ...], new: Any) -> Any:
    """A copy with another part, or without it if `new` is Ellipsis."""
    made = deepcopy(value)
    inner = made
    for key in place[:-1]:
        inner = inner[key]
    if new is ...:
        del inner[place[-1]]
    else:
        inner[place[-1]] = new
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_output_without_a_part_or_with_another_is_read_or_the_lab_is_broken(name: str) -> None:
    whole, read = READERS[name]
    read(whole)
    refused = 0
    for place in places(whole):
        for new in (..., *OTHERS):
            try:
                read(changed(whole, place, new))
            except LabError:
                refused += 1
    assert refused


_USAGE = "12 (ceph-osd) S " + " ".join(map(str, range(50)))
_IO = "read_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 0\n"
_TRAFFIC = "Inter-|\n face |\n  eth0: " + " ".join(map(str, range(16))) + "\n"
TEXTS: dict[str, tuple[str, Callable[[str], object]]] = {
    "fio": (_bytes({"jobs": [_JOB]}).decode(), lambda text: fio.parse(text.encode())),
    "fio's log": ("1700000000, 5, 0, 4096\n1700000001, 5, 0, 4096\n", fio.parse_progress),
    "stat": (_USAGE, lambda text: accounting.parse_usage(text, _IO)),
    "io": (_IO, lambda text: accounting.parse_usage(_USAGE, text)),
    "CPUs": ("cpu  1 2 3 4 5 6 7 8 9 10\n", accounting.busy_of),
    "traffic": (_TRAFFIC, accounting.interface_counters),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", TEXTS)
def test_output_that_is_cut_off_is_read_or_the_lab_is_broken(name: str) -> None:
    text, read = TEXTS[name]
    read(text)
    refused = 0
    for end in range(len(text)):
        for cut in (text[:end], text[:end] + "x" + text[end:]):
            try:
                read(cut)
            except LabError:
                refused += 1
    assert refused


def test_output_that_cannot_be_read_is_shown_with_the_reason() -> None:
    with pytest.raises(LabBroken, match="the output of fio cannot be read") as raised:
        fio.parse(_bytes({"jobs": [{**_JOB, "read": None}]}))
    assert raised.value.detail.startswith("TypeError: ")
    assert '"jobname": "j"' in raised.value.detail
