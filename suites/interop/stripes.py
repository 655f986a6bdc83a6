"""Erasure codes over thousands of stripes in one process, and with the smallest chunks that a code allows."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.interop.erasure import (
    FULL,
    QUICK,
    ErasureCode,
    clay,
    decode_all,
    encode,
    lrc,
    plain,
    require_plugin,
    shec,
)
from cephlab.suites.interop.sides import ArchSide, agree, each, sides

LARGE_BYTES = 16 * MIB
SMALLEST = 32
"""Bytes of a chunk. jerasure and shec need k chunks to be a multiple of k*w*4 bytes, where w is 8 (get_alignment in
Ceph's ErasureCodeJerasure.cc and ErasureCodeShec.cc), isa a chunk to be a multiple of 32 (EC_ISA_ADDRESS_ALIGNMENT)."""

MANY_STRIPES = 2000


@dataclass(frozen=True)
class Long:
    """A code and how much one process encodes. stripes: whole stripes, which part of one more stripe may follow."""

    code: ErasureCode
    stripes: int

    @property
    def label(self) -> str:
        return f"{self.code.label},stripe_unit={self.code.stripe_unit}"


def with_unit(code: ErasureCode, unit: int) -> Long:
    """A code with a stripe unit, and as many stripes as fit into LARGE_BYTES, but at most four times MANY_STRIPES."""
    return Long(replace(code, stripe_unit=unit), min(LARGE_BYTES // (unit * code.k), 4 * MANY_STRIPES))


LONG_QUICK = (
    with_unit(plain("jerasure", "reed_sol_van", 2, 1), 4096),
    with_unit(plain("jerasure", "reed_sol_van", 4, 2), SMALLEST),
    with_unit(plain("isa", "reed_sol_van", 2, 1), SMALLEST),
    with_unit(plain("isa", "reed_sol_van", 4, 2), 4096),
    with_unit(lrc(2, 2, 2), 4096 + SMALLEST),
    with_unit(shec(2, 1, 1), 3 * SMALLEST),
    with_unit(clay(2, 1, 2), 4096),
)
LONG_FULL = (
    *(with_unit(code, code.stripe_unit) for code in FULL),
    *(
        with_unit(code, unit)
        for code in QUICK
        for unit in (SMALLEST * 2, 4096, 4096 + 2 * SMALLEST, 65536)
        if with_unit(code, unit) not in LONG_QUICK
    ),
)


def run(stage: Stage, long: Long) -> None:
    """Encode on both, compare all chunks, let each restore the other's, once by all of the parity."""
    code = long.code
    data = stage.rng.randbytes(size_of(long, stage.rng))
    losses = [tuple(range(code.tolerated)), tuple(sorted(stage.rng.sample(code.chunks, code.tolerated)))]
    with sides(stage.cluster, "stripes") as between:
        require_plugin(between, code.plugin)
        encoded = each(between, partial(encode, profile=code, data=data))
        for chunk in code.chunks:
            what = f"chunk {chunk} of {long.stripes} stripes"
            agree(stage.recorder, what, {arch: chunks[chunk] for arch, chunks in encoded.items()})

        def recover(side: ArchSide) -> list[str]:
            return decode_all(side, code, encoded[side.arch.other], losses, data)

        note(stage, each(between, recover), len(losses))


def size_of(long: Long, rng: Random) -> int:
    """Bytes of whole stripes plus a rest: nothing, a byte, about a chunk, a stripe less a byte, or a random size."""
    unit, stripe = long.code.stripe_unit, long.code.stripe_unit * long.code.k
    ends = (0, 1, unit - 1, unit, unit + 1, stripe - 1, rng.randrange(stripe))
    return long.stripes * stripe + rng.choice(ends)


def note(stage: Stage, wrong: Mapping[Arch, list[str]], losses: int) -> None:
    for arch, lines in wrong.items():
        stage.recorder.observe(f"losses that {arch} does not restore", got=lines, wanted=[], of=losses)


def scenario(tier: Tier, long: Long) -> Scenario:
    return Scenario(
        name=f"interop.erasure-stripes[{long.label}]",
        goal=f"Both architectures encode {long.stripes} stripes in one process to the same chunks, and restore each "
        "other's lost chunks.",
        method=f"Encodes the same bytes with {long.code.text} in chunks of {long.code.stripe_unit} bytes on both; each "
        "decodes the other's chunks without the first ones, then without random ones.",
        run=partial(run, long=long),
        sees=tuple(f"losses that {arch} does not restore" for arch in Arch),
        tier=tier,
    )


SCENARIOS: tuple[Scenario, ...] = (
    *(scenario(Tier.QUICK, long) for long in LONG_QUICK),
    *(scenario(Tier.FULL, long) for long in LONG_FULL),
)
