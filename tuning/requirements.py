"""Requirements: what a cluster has to do, as tables of a profile's file; each limit has a unit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.spec.specfile import Count, TomlTable
from cephlab.tuning.profile import BytesFigure, Name
from cephlab.tuning.units import UNITS, Measure, parse, show, terabytes
from cephlab.tuning.workload import FLOWS, Shape, parse_block, parse_ec


@dataclass(frozen=True)
class Amount:
    """A limit as somebody wrote it. value: in the unit of `kind`."""

    value: float
    kind: Measure

    def __str__(self) -> str:
        return show(self.value, self.kind)


def _read_as(*kinds: Measure) -> BeforeValidator:
    """How pydantic reads a limit that may be of any of these kinds."""
    units = ", ".join(unit for kind in kinds for unit in UNITS[kind])

    def read(raw: Any) -> Amount:
        for kind in kinds if isinstance(raw, str) else ():
            try:
                return Amount(parse(raw, kind), kind)
            except ValueError:
                continue
        raise ValueError(f"a figure above 0 with its unit in one text; units: {units}")

    return BeforeValidator(read)


Rate = Annotated[Amount, _read_as(Measure.OPS, Measure.RATE)]
Seconds = Annotated[Amount, _read_as(Measure.TIME)]
Bytes = Annotated[Amount, _read_as(Measure.BYTES)]
Objects = Annotated[Amount, _read_as(Measure.OBJECTS)]
Watts = Annotated[Amount, _read_as(Measure.POWER)]
Work = Annotated[Amount, _read_as(Measure.WORK)]


@dataclass(frozen=True)
class Protection:
    """Copies, or k and m of an erasure code; k is 0 for copies."""

    replicas: int = 3
    k: int = 0
    m: int = 0

    def __str__(self) -> str:
        return f"ec:{self.k}+{self.m}" if self.k else f"replicated:{self.replicas}"

    @property
    def spare(self) -> int:
        """Shards of an object that may be lost without losing its data."""
        return self.m if self.k else self.replicas - 1

    def shape(self, operation: str, block_bytes: int) -> Shape:
        """One request at a time."""
        return Shape(operation, block_bytes, 1, 1, self.replicas, self.k, self.m)


def _read_protection(raw: Any) -> Protection:
    kind, _, what = str(raw).partition(":")
    try:
        if kind == "ec" and what:
            k, m = parse_ec(what)
            return Protection(k=k, m=m)
        if kind == "replicated" and int(what) > 0:
            return Protection(int(what))
    except (SpecError, ValueError):
        pass
    raise ValueError("replicated:N or ec:K+M, for example replicated:3 or ec:4+2")


def _read_block(raw: Any) -> int:
    try:
        return parse_block(str(raw))
    except SpecError as error:
        raise ValueError("bytes of one operation, for example 4k, 64k or 4M") from error


Protected = Annotated[Protection, BeforeValidator(_read_protection)]
Share = Annotated[float, Field(gt=0, le=1, strict=True)]
Fill = Annotated[float, Field(gt=0, le=0.95, strict=True)]
"""Of the disks; 0.95 is mon_osd_full_ratio, at which Ceph stops writes."""


class LoadRequirement(TomlTable):
    """A steady load. op, or mix: share of each operation. bs: of a block, or of an object for get and put.

    At least one limit. per_watt_at_least: operations a second for each watt of all nodes under load.
    """

    name: Name
    kind: Literal["load"] = "load"
    op: str = ""
    mix: Annotated[dict[str, Share], Field(default_factory=dict)]
    bs: Annotated[int, BeforeValidator(_read_block)]
    clients: Count
    depth: Count
    protection: Protected
    hit_ratio: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0
    span: Share = 1.0
    at_least: Rate | None = None
    mean_at_most: Seconds | None = None
    p99_at_most: Seconds | None = None
    per_watt_at_least: Work | None = None

    @model_validator(mode="after")
    def _sound(self) -> LoadRequirement:
        if bool(self.op) == bool(self.mix):
            raise ValueError("op or mix: exactly one of the two")
        for name in (self.op, *self.mix):
            if name and name not in FLOWS:
                raise ValueError(f"op: got {name!r}, wanted one of {', '.join(FLOWS)}")
        if self.mix and abs(sum(self.mix.values()) - 1) > 1e-6:
            raise ValueError(f"mix: got shares of {sum(self.mix.values()):g} together, wanted: 1")
        if len({shape.through_gateway for _, shape in self.shapes}) > 1:
            raise ValueError("mix: got objects and blocks together, wanted: get and put, or neither")
        if not any((self.at_least, self.mean_at_most, self.p99_at_most, self.per_watt_at_least)):
            raise ValueError("no limit; wanted: at_least, mean_at_most, p99_at_most or per_watt_at_least")
        return self

    @property
    def shapes(self) -> tuple[tuple[float, Shape], ...]:
        """Share and shape of each operation."""
        guard, more = self.protection, (self.hit_ratio, self.span)
        return tuple(
            (share, Shape(op, self.bs, self.clients, self.depth, guard.replicas, guard.k, guard.m, *more))
            for op, share in (self.mix or {self.op: 1.0}).items()
        )


class RecoveryRequirement(TomlTable):
    """Recovery of the data of lost nodes. fill: of the largest node's disks, or bytes: on each lost node.

    replaced: new machines of the same kind take their place, and the time counts from then. share: of disks and network
    that recovery gets; clients have the rest.
    """

    name: Name
    kind: Literal["recovery"]
    fill: Fill | None = None
    bytes: Bytes | None = None
    protection: Protected
    nodes_lost: Count = 1
    replaced: Annotated[bool, Field(strict=True)] = False
    share: Share = 1.0
    at_most: Seconds

    @model_validator(mode="after")
    def _sound(self) -> RecoveryRequirement:
        if (self.fill is None) == (self.bytes is None):
            raise ValueError("fill or bytes: exactly one of the two")
        guard = self.protection
        if self.nodes_lost > guard.spare:
            raise ValueError(
                f"nodes_lost: got {self.nodes_lost} with {guard}, wanted: at most {guard.spare}, as each lost node may "
                "hold a shard of the same object, and losing more nodes loses data"
            )
        return self


class CapacityRequirement(TomlTable):
    """Bytes that users can store before the fullest disk is at `fill`."""

    name: Name
    kind: Literal["capacity"]
    fill: Fill
    protection: Protected
    at_least: Bytes


class ObjectsRequirement(TomlTable):
    """Objects before their metadata no longer fits the metadata disks.

    metadata: of one object on all its shards, as measured or published. db: how much of its metadata disk one OSD can
    use; left out: between the RocksDB levels that fit whole and all of it.
    """

    name: Name
    kind: Literal["objects"]
    metadata: BytesFigure
    db: BytesFigure | None = None
    at_least: Objects


class PowerRequirement(TomlTable):
    """Watts of all nodes under load."""

    name: Name
    kind: Literal["power"]
    at_most: Watts


def _kind_of(raw: Any) -> str:
    return str(raw.get("kind", "load")) if isinstance(raw, dict) else str(getattr(raw, "kind", ""))


Requirement = Annotated[
    Annotated[LoadRequirement, Tag("load")]
    | Annotated[RecoveryRequirement, Tag("recovery")]
    | Annotated[CapacityRequirement, Tag("capacity")]
    | Annotated[ObjectsRequirement, Tag("objects")]
    | Annotated[PowerRequirement, Tag("power")],
    Discriminator(
        _kind_of,
        custom_error_type="requirement",
        custom_error_message="kind: one of load (or left out), recovery, capacity, objects, power",
    ),
]


def words_of(requirement: Requirement) -> str:
    """A requirement in words, without its limits."""
    match requirement:
        case LoadRequirement():
            first = requirement.shapes[0][1]
            mix = ", ".join(f"{percent(share, '.0f')} {op}" for op, share in requirement.mix.items())
            return str(first) if not mix else str(first).replace(first.operation, mix, 1)
        case RecoveryRequirement():
            full = "" if requirement.fill is None else f"{percent(requirement.fill, '.0f')} full"
            amount = terabytes(requirement.bytes.value) if requirement.bytes else full
            nodes = how_many(requirement.nodes_lost, "replaced node" if requirement.replaced else "node")
            return f"recovery of {nodes}, {amount}, {requirement.protection}"
        case CapacityRequirement():
            return f"usable capacity at {percent(requirement.fill, '.0f')} of the disks, {requirement.protection}"
        case ObjectsRequirement():
            return f"objects with {requirement.metadata} of metadata each"
        case PowerRequirement():
            return "power of all nodes under load"
