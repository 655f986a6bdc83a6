"""rados bench: its command line and its summary."""

from __future__ import annotations

import pytest

from lab.errors import LabBroken
from lab.workloads.radosbench import BenchJob, parse

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
