"""The log of a dm-log-writes device, read and replayed as the program on a host does it."""

import io
from pathlib import Path
from random import Random

import pytest

from cephlab.lab.blockstack import replay_program as program
from cephlab.suites.powerloss.replayed import points

SECTOR = 512


def entry(sector: int = 0, data: bytes = b"", flags: int = 0, mark: str = "") -> bytes:
    """One entry, as write_metadata and log_one_block of drivers/md/dm-log-writes.c lay it out."""
    sectors = len(data) // SECTOR
    head = program.ENTRY.pack(sector, sectors, flags, len(mark)) + mark.encode()
    return head.ljust(SECTOR, b"\0") + data


def log_of(*entries: bytes, magic: int = program.MAGIC) -> io.BytesIO:
    head = program.SUPER.pack(magic, program.VERSION, 0, SECTOR).ljust(SECTOR, b"\0")
    return io.BytesIO(head + b"".join(entries) + bytes(64 << 10))


def block(byte: bytes, sectors: int = 8) -> bytes:
    return byte * (SECTOR * sectors)


ENTRIES = (
    entry(0, block(b"a")),
    entry(8, block(b"b")),
    entry(flags=program.FLUSH),
    entry(0, block(b"c", 3)),
    entry(flags=program.FLUSH),
    entry(flags=program.MARK, mark="cut"),
    entry(8, block(b"d")),
    entry(16, block(b"e"), flags=program.FUA),
)


def test_what_a_log_holds() -> None:
    survey = program.survey(program.WriteLog(log_of(*ENTRIES)))
    assert survey == {"entries": 8, "bytes": (4 * 8 + 3) * SECTOR, "flushes": 3, "marks": {"cut": 5}}


@pytest.mark.parametrize(
    ("until", "wanted"),
    [
        (0, block(b".", 24)),
        (1, block(b"a") + block(b".", 16)),
        (3, block(b"a") + block(b"b") + block(b".")),
        (5, block(b"c", 3) + block(b"a", 5) + block(b"b") + block(b".")),
        (99, block(b"c", 3) + block(b"a", 5) + block(b"d") + block(b"e")),
    ],
)
def test_a_replay_stops_where_it_should(until: int, wanted: bytes) -> None:
    disk = io.BytesIO(block(b".", 24))
    program.replay(program.WriteLog(log_of(*ENTRIES)), disk, 0, until)
    assert disk.getvalue() == wanted


def test_step_by_step_is_the_same_as_at_once() -> None:
    at_once, in_steps = io.BytesIO(bytes(24 * SECTOR)), io.BytesIO(bytes(24 * SECTOR))
    wrote = program.replay(program.WriteLog(log_of(*ENTRIES)), at_once, 0, 8)
    parts = [program.replay(program.WriteLog(log_of(*ENTRIES)), in_steps, first, first + 2) for first in (0, 2, 4, 6)]
    assert sum(parts) == wrote == 5
    assert in_steps.getvalue() == at_once.getvalue()


def test_a_discard_has_no_data_in_the_log() -> None:
    discard = program.ENTRY.pack(8, 8, program.DISCARD, 0).ljust(SECTOR, b"\0")
    disk = io.BytesIO(block(b"x", 24))
    program.replay(program.WriteLog(log_of(discard, entry(16, block(b"z")))), disk, 0, 9)
    assert disk.getvalue() == block(b"x") + bytes(8 * SECTOR) + block(b"z")


def test_a_device_without_a_log_is_refused() -> None:
    with pytest.raises(SystemExit, match="no log of dm-log-writes"):
        program.WriteLog(log_of(magic=0))


def test_the_program_on_devices(tmp_path: Path) -> None:
    log, disk = tmp_path / "log", tmp_path / "disk"
    log.write_bytes(log_of(*ENTRIES).getvalue())
    disk.write_bytes(block(b".", 24))
    assert program.main([str(log)])["marks"] == {"cut": 5}
    assert program.main([str(log), str(disk), "0", "2"]) == {"wrote": 2}
    assert disk.read_bytes().startswith(block(b"a") + block(b"b"))


def test_moments_are_in_order_and_before_the_cut() -> None:
    moments = points(Random(7), 100, 8)
    assert moments == sorted(set(moments))
    assert len(moments) == 8
    assert moments[0] > 0
    assert moments[-1] < 100
    assert points(Random(7), 4, 8) == [1, 2, 3]
