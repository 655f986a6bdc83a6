"""Job files: TOML that users edit and `gate --job` runs, with loads on objects, block images, pools and databases."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.spec.specfile import Count, Text, TomlTable, as_model, load_model, refuse_twice
from cephlab.lab.spec.written import Finite, Flag, OptionText, Size, Whole
from cephlab.lab.workloads.s3_load_program import CLEAN, FILL, PHASES
from cephlab.lab.workloads.s3load import KINDS

HINT = "docs/import.md has every key"
_HEAD = "# A job for `cephlab gate --job`. docs/import.md has every key. Sizes may have units (4KiB, 10GiB).\n"

_NUMBERS = re.compile(r"\[\s*((?:[-\w.\"]+,\s*)+)\]")
_ROWS = re.compile(r"\[\s*((?:\[[^\]\n]*\],\s*)+)\]")
"""Arrays written over several lines: of plain values, and of arrays."""

Named = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
LONGEST_S = 30 * 86400
"""The longest load. A longer one is a typing error, and nobody would wait for it."""

Seconds = Annotated[Finite, Field(ge=0, le=LONGEST_S)]
Duration = Annotated[Finite, Field(gt=0, le=LONGEST_S)]
Many = Annotated[Whole, Field(ge=1)]
AtOnce = Annotated[Count, Field(le=100_000)]
"""How many of something run at the same time."""

Weight = Annotated[Finite, Field(gt=0)]
Range = tuple[Many, Many, Weight]
"""First, last, weight."""
SizeRange = tuple[Annotated[Size, Field(ge=0)], Annotated[Size, Field(ge=0)], Weight]
MOST_PGS = 65536
"""mon_max_pool_pg_num, Ceph's default."""
_MOST_SHARDS = 32
_EVERY: tuple[Range, ...] = ()


class Over(TomlTable):
    """The objects that an operation uses, counted from 1. Ranges have weights; without ranges it uses all objects.

    in_order: sequentially, starting again after the last; otherwise at random.
    """

    buckets: tuple[Range, ...] = _EVERY
    objects: tuple[Range, ...] = _EVERY
    in_order: Flag = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, ranges in (("buckets", self.buckets), ("objects", self.objects)):
            if any(first > last for first, last, _ in ranges):
                raise ValueError(f"{name}: got {ranges}, wanted: [first, last, weight] with first <= last")
            if self.in_order and len(ranges) > 1:
                raise ValueError(f"{name}: got {len(ranges)} ranges, wanted: one, because of in_order")
        return self


class ObjectLoad(TomlTable):
    """One load of S3 operations, with its own buckets. objects: in each of its buckets.

    sizes: ranges with weights. mix: operation -> share. over: the objects that each operation, `fill` and `clean` use.
    It ends after runtime_s or after `operations`. rampup_s: before its figures count; pause_s: after the load.
    """

    name: Named
    objects: Many
    sizes: tuple[SizeRange, ...] = Field(min_length=1)
    workers: AtOnce
    buckets: Count = 1
    mix: Mapping[Literal["delete", "get", "head", "list", "multipart", "put"], Weight] = {}
    over: Mapping[str, Over] = {}
    phases: tuple[Literal["fill", "run", "final", "clean"], ...] = Field(("fill", "run"), min_length=1)
    runtime_s: Seconds = 0.0
    operations: Annotated[Whole, Field(ge=0)] = 0
    rampup_s: Seconds = 0.0
    pause_s: Seconds = 0.0

    @model_validator(mode="after")
    def _runs(self) -> Self:
        if "run" in self.phases and not (self.mix and (self.runtime_s or self.operations)):
            raise ValueError("phases: got run, wanted: also a mix, and runtime_s or operations")
        if list(self.phases) != (ordered := [phase for phase in PHASES if phase in self.phases]):
            raise ValueError(f"phases: got {', '.join(self.phases)}, wanted: {', '.join(ordered)}")
        if unknown := sorted(self.over.keys() - {*KINDS, FILL, CLEAN}):
            raise ValueError(f"over: got {', '.join(unknown)}, wanted: {', '.join((*KINDS, FILL, CLEAN))}")
        for what, over in self.over.items():
            for name, ranges, most in (
                ("buckets", over.buckets, self.buckets),
                ("objects", over.objects, self.objects),
            ):
                if any(last > most for _, last, _ in ranges):
                    raise ValueError(f"over.{what}.{name}: got {ranges}, wanted: up to {most}")
        if any(least > most for least, most, _ in self.sizes):
            raise ValueError(f"sizes: got {self.sizes}, wanted: [least, most, weight] with least <= most")
        return self


class JobPool(TomlTable):
    """A pool. copies: of replicated data; k, m: shards of erasure-coded data."""

    name: Named
    pg_num: Annotated[Count, Field(le=MOST_PGS)] = 32
    copies: Annotated[Whole, Field(ge=1, le=10)] = 3
    k: Annotated[Whole, Field(ge=0, le=_MOST_SHARDS)] = 0
    m: Annotated[Whole, Field(ge=0, le=_MOST_SHARDS)] = 0

    @model_validator(mode="after")
    def _coded(self) -> Self:
        if bool(self.k) != bool(self.m):
            raise ValueError(f"k, m: got {self.k} and {self.m}, wanted: both above 0 for an erasure code, or neither")
        return self

    @property
    def kind(self) -> PoolKind:
        return PoolKind(f"ec{self.k}{self.m}", self.k + self.m, self.k, self.m) if self.k else self.replicated

    @property
    def replicated(self) -> PoolKind:
        return PoolKind(REPLICATED.name, self.copies)


class BlockLoad(TomlTable):
    """fio on RBD images. Lists mean every combination. depth, jobs: for each volume.

    read_percent: for the mixed patterns (rw, randrw). volumes: images under load at once.
    """

    name: Named
    pattern: tuple[Literal["read", "write", "randread", "randwrite", "rw", "randrw"], ...] = Field(min_length=1)
    block_bytes: tuple[Annotated[Size, Field(ge=512)], ...] = Field(min_length=1)
    depth: tuple[AtOnce, ...] = Field((1,), min_length=1)
    jobs: tuple[AtOnce, ...] = Field((1,), min_length=1)
    volumes: tuple[AtOnce, ...] = Field((1,), min_length=1)
    volume_bytes: Annotated[Size, Field(ge=1 << 20)]
    runtime_s: Duration
    read_percent: Annotated[Whole, Field(ge=0, le=100)] = 50
    pool: str = ""


class BenchLoad(TomlTable):
    """rados bench in several processes: it writes, then reads in the given modes. Lists mean every combination."""

    name: Named
    block_bytes: tuple[Annotated[Size, Field(ge=1)], ...] = Field(min_length=1)
    threads: tuple[AtOnce, ...] = Field((16,), min_length=1)
    processes: tuple[AtOnce, ...] = Field((1,), min_length=1)
    modes: tuple[Literal["write", "seq", "rand"], ...] = Field(("write", "seq"), min_length=1)
    runtime_s: Duration
    pool: str = ""


class DatabaseLoad(TomlTable):
    """OLTP transactions of sysbench on a MariaDB that stores its data on an image. Lists mean every combination."""

    name: Named
    threads: tuple[AtOnce, ...] = Field(min_length=1)
    rows: tuple[Many, ...] = Field(min_length=1)
    runtime_s: Duration


class Job(TomlTable):
    """A job. notes: remarks of an import; options: settings of ceph.conf for its cluster."""

    name: Named
    source: Text
    notes: tuple[str, ...] = ()
    options: Mapping[str, OptionText] = {}
    pools: tuple[JobPool, ...] = ()
    objects: tuple[ObjectLoad, ...] = ()
    blocks: tuple[BlockLoad, ...] = ()
    benches: tuple[BenchLoad, ...] = ()
    databases: tuple[DatabaseLoad, ...] = ()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        names = [load.name for load in self.objects] + [load.name for load in self.databases]
        names += [load.name for load in self.blocks] + [load.name for load in self.benches]
        if not names:
            raise ValueError("objects, blocks, benches, databases: got none, wanted: at least one load")
        refuse_twice("names of loads", names)
        refuse_twice("names of pools", [pool.name for pool in self.pools])
        known = {"": None, **{pool.name: pool for pool in self.pools}}
        used_by = {load.name: load.pool for load in self.blocks} | {load.name: load.pool for load in self.benches}
        for name, used in used_by.items():
            if used not in known:
                raise ValueError(f"pool of {name}: got {used!r}, wanted: one of pools")
        for block in self.blocks:
            if (pool := known[block.pool]) is not None and pool.kind.erasure:
                raise ValueError(f"pool of {block.name}: got {pool.name} (erasure-coded), wanted: a replicated pool")
        return self

    def kind_of(self, pool: str) -> PoolKind:
        """The kind of the pool of a load; three copies if the load names no pool."""
        return next((known.kind for known in self.pools if known.name == pool), REPLICATED)

    def pgs_of(self, pool: str) -> int:
        """PGs of the pool of a load; 0 if the load names no pool."""
        return next((known.pg_num for known in self.pools if known.name == pool), 0)


def load_job(path: Path) -> Job:
    """Read a job file; SpecError names each invalid key."""
    return load_model(path, Job, what="a job", hint=HINT)


def job_to_toml(job: Job) -> str:
    """The text of a file from which `load_job` reads an equal job. Defaults are left out."""
    import tomli_w  # imported here because most commands that read a job do not write one

    text = tomli_w.dumps(job.model_dump(mode="json", exclude_defaults=True))
    for pattern in (_NUMBERS, _ROWS):
        text = pattern.sub(lambda match: f"[{', '.join(match[1].split()).replace(',,', ',').rstrip(',')}]", text)
    return _HEAD + text


def made_job(source: str, raw: Mapping[str, Any]) -> Job:
    """The job from what an import gathered; SpecError names what is invalid."""
    return as_model(dict(raw), Job, source=source, what="a valid job", hint=HINT)


def refused(source: str, line: int, what: str, got: str, wanted: str) -> SpecError:
    """The error for something that an import does not know: file and line, element or key, and what is accepted."""
    return SpecError(f"{source}, line {line}: {what} cannot be imported", f"got {got}, wanted: {wanted}", HINT)
