"""Flipping a bit below a store, on a file in place of a disk."""

import random
import sys
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import cast

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.faults.copies import BLOCK_BYTES, flip_bit
from cephlab.lab.providers.host import Host

CONTENT = random.Random(1).randbytes(3 * BLOCK_BYTES)


class FileHost:
    """A host whose only disk is a file; it runs Python and nothing else."""

    name = "n0"

    def __init__(self, disk: Path) -> None:
        self._disk = disk

    def disk(self, name: str) -> PurePosixPath:
        assert name == "n0-block0"
        return PurePosixPath(self._disk)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> process.Result:
        assert argv[0] == "python3"
        return process.run([sys.executable, *argv[1:]], stdin=stdin, timeout_s=timeout_s)


class DeviceHost(FileHost):
    """Its disk tells as little of its holes as a block device does."""

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", timeout_s: float = 60.0) -> process.Result:
        python, option, program, *rest = argv
        return super().run([python, option, f"{_NO_HOLES}{program}", *rest], stdin=stdin, timeout_s=timeout_s)


_NO_HOLES = """
import os
seek = os.lseek
def lseek(disk, at, how):
    if how in (os.SEEK_DATA, os.SEEK_HOLE):
        raise OSError(22, "Invalid argument")
    return seek(disk, at, how)
os.lseek = lseek
"""


def flip(disk: Path, *contents: bytes, host: type[FileHost] = FileHost) -> tuple[int, ...]:
    return flip_bit(cast("Host", host(disk)), "n0-block0", contents)


def sparse(path: Path, places: Sequence[int], size: int = 64 << 20) -> Path:
    with path.open("wb") as disk:
        disk.truncate(size)
        for place in places:
            disk.seek(place)
            disk.write(CONTENT)
    return path


@pytest.mark.slow
def test_one_bit_changes_at_each_place_and_nothing_else(tmp_path: Path) -> None:
    places = (20 * BLOCK_BYTES, 9000 * BLOCK_BYTES)
    disk = sparse(tmp_path / "disk", places)
    before = disk.read_bytes()
    assert flip(disk, CONTENT) == places
    after = disk.read_bytes()
    blocks = [
        at for at in range(0, len(before), BLOCK_BYTES) if before[at : at + BLOCK_BYTES] != after[at : at + BLOCK_BYTES]
    ]
    assert [at for block in blocks for at in range(block, block + BLOCK_BYTES) if before[at] != after[at]] == list(
        places
    )
    assert {before[at] ^ after[at] for at in places} == {1}


@pytest.mark.slow
def test_what_does_not_begin_a_block_is_left_alone(tmp_path: Path) -> None:
    disk = sparse(tmp_path / "disk", [BLOCK_BYTES + 512])
    before = disk.read_bytes()
    with pytest.raises(LabBroken, match="no block on disk"):
        flip(disk, CONTENT)
    assert disk.read_bytes() == before


@pytest.mark.slow
def test_a_device_is_looked_through_as_a_whole(tmp_path: Path) -> None:
    places = (20 * BLOCK_BYTES, 9000 * BLOCK_BYTES)
    assert flip(sparse(tmp_path / "disk", places), CONTENT, host=DeviceHost) == places


def test_any_of_several_contents_is_found(tmp_path: Path) -> None:
    disk = sparse(tmp_path / "disk", [7 * BLOCK_BYTES])
    assert flip(disk, bytes(range(64)), CONTENT) == (7 * BLOCK_BYTES,)


def test_too_short_a_content_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LabBroken, match="too few"):
        flip(sparse(tmp_path / "disk", []), b"short")
