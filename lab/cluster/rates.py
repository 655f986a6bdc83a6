"""Measures checksum and erasure-coding throughput of an image's own programs on one core."""

from dataclasses import dataclass

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken, output_of
from cephlab.lab.base.probe import parse_crc
from cephlab.lab.images.image import Image
from cephlab.lab.providers.local.programs import Programs

EC_K, EC_M = 4, 2
"""The code of the ten-billion-object paper."""

EC_PLUGIN = "isa"
_EC_BYTES = 4 << 20
_ITERATIONS = {False: 500, True: 5}
"""Whether the program is emulated -> encodings: one or two seconds of work."""


@dataclass(frozen=True)
class Rates:
    """Bytes per second. emulated: the rates say nothing about hardware."""

    crc32c: float
    ec_encode: float
    emulated: bool


def rates(image: Image) -> Rates:
    """Measure an image's programs, under an emulator if the image is of another architecture.

    Raises LabBroken if a program prints no result, Unavailable if there is no emulator.
    """
    programs = Programs(image.root, image.arch)

    def printed(*argv: str) -> str:
        return process.run_command(programs.command(argv), timeout_s=120).stdout

    plugins = image.root / "usr/lib" / image.arch.triplet / "ceph" / "erasure-code"
    argv = ["ceph_erasure_code_benchmark", "--workload", "encode", "--size", str(_EC_BYTES)]
    argv += ["--iterations", str(_ITERATIONS[programs.emulated]), "--plugin", EC_PLUGIN]
    argv += ["--parameter", f"k={EC_K}", "--parameter", f"m={EC_M}", "--erasure_code_dir", str(plugins)]
    seconds, encoded_bytes = parse_benchmark(printed(*argv))
    return Rates(parse_crc(printed("fio", "--crctest=crc32c")), encoded_bytes / seconds, programs.emulated)


@output_of("ceph_erasure_code_benchmark")
def parse_benchmark(text: str) -> tuple[float, int]:
    """(seconds, bytes) from ceph_erasure_code_benchmark's line of seconds and KiB; LabBroken if there is none."""
    *_, seconds, kib = text.split()
    if float(seconds) <= 0 or int(kib) <= 0:
        raise LabBroken("ceph_erasure_code_benchmark measured nothing", text[-500:])
    return float(seconds), int(kib) * 1024
