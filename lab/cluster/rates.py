"""Checksum and erasure-code rates of an image's own programs, one core, for the architecture of the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.probe import parse_crc
from cephlab.lab.images.image import Image
from cephlab.lab.providers.local.programs import Programs

EC_K, EC_M = 4, 2
"""The code of the ten-billion-object paper."""

EC_PLUGIN = "isa"
_EC_BYTES = 4 << 20
_ITERATIONS = {False: 500, True: 5}
"""Encodings by whether the program is emulated: a second or two of work either way."""


@dataclass(frozen=True)
class Rates:
    """Bytes a second. emulated: they say nothing of hardware."""

    crc32c: float
    ec_encode: float
    emulated: bool


class Run(Protocol):
    """As cephlab.lab.base.process.run_command."""

    def __call__(self, command: process.Command, *, timeout_s: float) -> process.Result: ...


def rates(image: Image, run: Run = process.run_command) -> Rates:
    """Measure an image's programs, under an emulator where the image is of another architecture.

    Raises LabBroken when a program prints no result, Unavailable when there is no emulator.
    """
    programs = Programs(image.root, image.arch)

    def printed(*argv: str) -> str:
        return run(programs.command(argv), timeout_s=120).stdout

    code = printed(
        "ceph_erasure_code_benchmark",
        "--plugin",
        EC_PLUGIN,
        "--workload",
        "encode",
        "--size",
        str(_EC_BYTES),
        "--iterations",
        str(_ITERATIONS[programs.emulated]),
        "--parameter",
        f"k={EC_K}",
        "--parameter",
        f"m={EC_M}",
        "--erasure_code_dir",
        str(image.root / "usr/lib" / image.arch.triplet / "ceph" / "erasure-code"),
    )
    return Rates(parse_crc(printed("fio", "--crctest=crc32c")), parse_encoding(code), programs.emulated)


def parse_encoding(text: str) -> float:
    """Bytes a second of ceph_erasure_code_benchmark's line of seconds and KiB; LabBroken where there is none."""
    words = text.split()
    try:
        seconds, kib = float(words[-2]), float(words[-1])
    except (IndexError, ValueError) as error:
        raise LabBroken("ceph_erasure_code_benchmark printed no result", text[-500:]) from error
    if seconds <= 0 or kib <= 0:
        raise LabBroken("ceph_erasure_code_benchmark encoded nothing", text[-500:])
    return kib * 1024 / seconds
