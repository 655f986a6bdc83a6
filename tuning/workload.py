"""Workload shapes: which operation a cluster does, for how many clients, and how many are in flight."""

import re
from dataclasses import dataclass, replace
from enum import StrEnum

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.nearest import unknown
from cephlab.lab.base.numbers import how_many
from cephlab.lab.telemetry.demand import Operation
from cephlab.lab.telemetry.describe import size_text
from cephlab.tuning.units import terabytes


class Flow(StrEnum):
    """The direction in which data moves."""

    READ = "read"
    WRITE = "write"


FLOWS = {
    "read": Flow.READ,
    "randread": Flow.READ,
    "seqread": Flow.READ,
    "seq": Flow.READ,
    "get": Flow.READ,
    "list": Flow.READ,
    "write": Flow.WRITE,
    "randwrite": Flow.WRITE,
    "seqwrite": Flow.WRITE,
    "put": Flow.WRITE,
    "delete": Flow.WRITE,
}
BARE = {"delete", "list"}
"""Operations on objects that move none of their content."""

_OBJECT = {"get", "put", *BARE}
_MIX = re.compile(r"randrw([1-9][0-9])")
OPERATIONS = (*FLOWS, "randrw70")
"""What can be asked for; the number of a mix is its share of reads in per cent."""

PAGE_BYTES = 288_000
"""One page of LIST with 1000 names, as measured from an OSD to the gateway. Its XML is assumed to be as large."""

STRIPE_UNIT = 4096
"""osd_pool_erasure_code_stripe_unit, Ceph's default: bytes of one chunk; a stripe has k of them.

Every code was measured with it."""


@dataclass(frozen=True)
class Shape:
    """One kind of operation under a steady load; SpecError for an operation that is not in OPERATIONS.

    operation: of FLOWS, or `randrw70`: a mix of 70 % random reads and 30 % random writes, see `parts`. block_bytes: of
    one operation, or of the objects that are deleted or listed. replicas, or k and m of an erasure code. clients: load
    generators (processes), each with `depth` operations in flight. hit_ratio: share of reads that an OSD answers from
    its own memory. span: share of each disk that holds the data in use. stripe_unit: bytes of one chunk of a code.
    data_bytes: that the pool holds, as its clients count; 0: not known.
    """

    operation: str
    block_bytes: int
    clients: int
    depth: int
    replicas: int = 3
    k: int = 0
    m: int = 0
    hit_ratio: float = 0.0
    span: float = 1.0
    stripe_unit: int = STRIPE_UNIT
    data_bytes: float = 0.0

    def __post_init__(self) -> None:
        if self.operation not in FLOWS and not _MIX.fullmatch(self.operation):
            raise unknown(f"the model does not know the operation {self.operation!r}", self.operation, OPERATIONS)
        if self.stripe_unit % STRIPE_UNIT or self.stripe_unit <= 0:
            raise SpecError(
                "the stripe unit cannot be used", f"got {self.stripe_unit} B, wanted: a multiple of {STRIPE_UNIT} B"
            )

    @property
    def parts(self) -> tuple[tuple[float, "Shape"], ...]:
        """(share, shape) of the plain operations that make it up: itself, or the reads and writes of a mix."""
        mix = _MIX.fullmatch(self.operation)
        if not mix:
            return ((1.0, self),)
        reads = int(mix[1]) / 100
        return (reads, replace(self, operation="randread")), (1 - reads, replace(self, operation="randwrite"))

    @property
    def flow(self) -> Flow:
        """Of a plain operation; a mix has `parts`."""
        return FLOWS[self.operation]

    @property
    def through_gateway(self) -> bool:
        return self.operation in _OBJECT

    @property
    def bare(self) -> bool:
        """Whether none of the objects' content is moved."""
        return self.operation in BARE

    @property
    def payload_bytes(self) -> int:
        """What one operation moves between client and cluster: the block, a page of LIST, or nothing of note."""
        if self.bare:
            return PAGE_BYTES if self.flow is Flow.READ else 0
        return self.block_bytes

    @property
    def in_flight(self) -> int:
        return self.clients * self.depth

    @property
    def copies(self) -> int:
        """OSDs that one write reaches."""
        return self.as_operation().shards

    @property
    def shard_bytes(self) -> float:
        """Bytes that one of these OSDs stores: the whole block, or its chunk of each stripe that the block touches."""
        if self.bare:
            return 0.0
        if not self.k:
            return float(self.block_bytes)
        return float(-(-self.block_bytes // (self.k * self.stripe_unit)) * self.stripe_unit)

    @property
    def reads_first(self) -> bool:
        """Whether an erasure-coded image has to read a stripe before it can write a part of it.

        Objects of the gateway are written whole, their last stripe is padded.
        """
        overwrites = bool(self.k) and self.flow is Flow.WRITE and not self.through_gateway
        return overwrites and self.block_bytes % (self.k * self.stripe_unit) != 0

    @property
    def protection(self) -> str:
        return self.as_operation().protection

    @property
    def awaited(self) -> int:
        """Shards that work on one operation in parallel and are all waited for."""
        if self.flow is Flow.WRITE:
            return self.copies
        return 1 if self.bare else self.k or 1

    def as_operation(self) -> Operation:
        return Operation(self.operation, self.block_bytes, self.depth, self.replicas, self.k, self.m)

    def __str__(self) -> str:
        return (
            f"{self.operation} of {size_text(self.block_bytes)}, {self.protection}, "
            f"{how_many(self.clients, 'client')} with {self.depth} in flight each"
            + (f", {self.hit_ratio:.4g} of reads from memory" if self.hit_ratio else "")
            + (f", on {self.span:.4g} of each disk" if self.span < 1 else "")
            + (f", stripe unit {size_text(self.stripe_unit)}" if self.stripe_unit != STRIPE_UNIT else "")
            + (f", {terabytes(self.data_bytes)} stored" if self.data_bytes else "")
        )


MOST_BLOCK_BYTES = 5 << 40
"""The largest object of S3."""

_BLOCK = re.compile(r"([1-9][0-9]{0,14})\s*([kKmM]?)(?:i?[bB])?")
_EC = re.compile(r"([1-9][0-9]?)\+([1-9][0-9]?)")


def parse_block(text: str, what: str = "the block size") -> int:
    """Bytes of "4k", "64KiB", "4M" or "4096", in powers of two as fio has them; SpecError otherwise. what: its name."""
    match = _BLOCK.fullmatch(text.strip())
    size = int(match[1]) << {"": 0, "k": 10, "m": 20}[match[2].lower()] if match else 0
    if not 0 < size <= MOST_BLOCK_BYTES:
        raise SpecError(f"{what}: {text!r} is not a size", "wanted e.g. 4k, 64k or 4M: bytes, k or M; at most 5 TiB")
    return size


def parse_ec(text: str, what: str = "the erasure code") -> tuple[int, int]:
    """(k, m) of "4+2", (0, 0) of nothing; SpecError otherwise. what: its name."""
    if not text:
        return 0, 0
    match = _EC.fullmatch(text.strip())
    if not match:
        raise SpecError(f"{what}: {text!r} is not K+M", "wanted e.g. 4+2")
    return int(match[1]), int(match[2])
