"""Whether Arm binaries of Ceph use the single-instruction atomics of Armv8.1 (LSE)."""

import io
from array import array
from dataclasses import dataclass

from elftools.elf.elffile import ELFFile

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.arch import Arch

BINARIES = (
    "usr/bin/ceph-osd",
    "usr/bin/ceph-mon",
    "usr/lib/aarch64-linux-gnu/ceph/libceph-common.so.2",
    "usr/lib/aarch64-linux-gnu/librados.so.2",
    "usr/lib/aarch64-linux-gnu/librbd.so.1",
)

LEAST_INSTRUCTIONS = 10_000
"""The smallest of these files has many times more. Fewer mean that the wrong bytes were read."""

MOST_EXCLUSIVES = 3
"""For each LSE instruction. A helper of the compiler has one, and two exclusives for processors without LSE. The third
is for words that only look like one. More are in line, where the program runs them on any processor."""

# (mask, value) of instruction words, from the Arm Architecture Reference Manual for A-profile, C4.1, loads and stores.
_ATOMIC_MEMORY = (0x3F200C00, 0x38200000)  # LDADD, LDCLR, LDEOR, LDSET, LD[US]MAX, LD[US]MIN, SWP and their ST forms
_LDAPR = (0x3FFFFC00, 0x38BFC000)  # not an atomic, but shares the encoding: load-acquire of Armv8.3
_CAS = (0x3FA07C00, 0x08A07C00)
_CASP = (0xBFA07C00, 0x08207C00)
_EXCLUSIVE = (0x3FA00000, 0x08000000)  # LDXR, LDAXR, STXR, STLXR of one register


@dataclass(frozen=True)
class Atomics:
    """Counts in a binary's code. They include a few words between functions that only look like instructions."""

    instructions: int
    lse: int
    exclusive: int

    @property
    def manner(self) -> str:
        """`in line` without a fall-back, `with a fall-back` chosen at run time, mainly `exclusives`, or `none`."""
        if self.exclusive > MOST_EXCLUSIVES * self.lse:
            return "exclusives"
        if self.lse:
            return "in line" if self.lse > 10 * self.exclusive else "with a fall-back"
        return "none"

    @property
    def use_lse(self) -> bool:
        """Whether the program uses LSE on a processor that has it: in line, or in helpers that choose at run time."""
        return self.manner in ("in line", "with a fall-back")


def run(stage: Stage) -> None:
    """Count the atomics in the binaries of one aarch64 node."""
    host = stage.cluster.host_with(Arch.AARCH64)
    for path in BINARIES:
        atomics = count(code_of(host.read(host.root / path), path))
        stage.recorder.record(
            "atomics", binary=path, lse=atomics.lse, exclusive=atomics.exclusive, manner=atomics.manner
        )
        stage.recorder.witness(f"instructions of {path}", got=atomics.instructions, least=LEAST_INSTRUCTIONS)
        stage.recorder.observe(f"{path} uses LSE atomics", got=atomics.use_lse, wanted=True, manner=atomics.manner)


def code_of(content: bytes, path: str) -> bytes:
    """The code of an aarch64 ELF file. LabBroken for any other file."""
    if content[:4] != b"\x7fELF":
        raise LabBroken(f"{path} is not an ELF file")
    elf = ELFFile(io.BytesIO(content))
    text = elf.get_section_by_name(".text")
    if elf.header["e_machine"] != "EM_AARCH64" or text is None:
        raise LabBroken(f"{path} is not an aarch64 program", str(elf.header["e_machine"]))
    return bytes(text.data())


def count(code: bytes) -> Atomics:
    """Count both kinds of atomics in little-endian aarch64 code."""
    words = array("I")
    words.frombytes(code[: len(code) // 4 * 4])
    # All atomics are loads and stores, which share these bits. So only such words need the exact checks.
    loads = [word for word in words if word & 0x3B000000 in (0x38000000, 0x08000000)]
    lse = sum(1 for word in loads if is_lse(word))
    exclusive = sum(1 for word in loads if _fits(word, _EXCLUSIVE))
    return Atomics(len(words), lse, exclusive)


def is_lse(word: int) -> bool:
    """Whether an instruction word is an atomic of Armv8.1."""
    return (_fits(word, _ATOMIC_MEMORY) and not _fits(word, _LDAPR)) or _fits(word, _CAS) or _fits(word, _CASP)


def _fits(word: int, pattern: tuple[int, int]) -> bool:
    mask, value = pattern
    return word & mask == value


SCENARIOS = (
    Scenario(
        name="baseline.atomics",
        goal="Ceph's Arm binaries use the atomics of Armv8.1 where the processor has them.",
        method="Counts atomic and exclusive instructions in the code of the daemons and libraries of an aarch64 node. "
        "Helpers of the compiler that choose at run time count as use.",
        run=run,
        topology=ANY_ARCH,
        sees=("instructions of .*",),
        check="witnessed",
    ),
)
