"""A job: loads of objects, block images, pools and databases as a TOML file that people edit and `gate --job` runs."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.pools import REPLICATED, PoolKind
from cephlab.lab.spec.specfile import Count, Text, TomlTable, as_model, load_model, refuse_twice
from cephlab.lab.spec.written import OptionText, Size, Whole
from cephlab.lab.workloads.s3_load_program import CLEAN, FILL
from cephlab.lab.workloads.s3load import KINDS

HINT = "docs/import.md has every key"
_HEAD = "# A job for `cephlab gate --job`. docs/import.md has every key. Sizes may have units (4KiB, 10GiB).\n"

_NUMBERS = re.compile(r"\[\s*((?:[-\w.\"]+,\s*)+)\]")
_ROWS = re.compile(r"\[\s*((?:\[[^\]\n]*\],\s*)+)\]")
"""Arrays that are written over several lines: of plain values, and of such arrays."""

Named = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$", max_length=40)]
Seconds = Annotated[float, Field(ge=0)]
Range = tuple[Count, Count, Annotated[float, Field(gt=0)]]
"""First, last, weight."""
SizeRange = tuple[Annotated[Size, Field(ge=0)], Annotated[Size, Field(ge=0)], Annotated[float, Field(gt=0)]]
_EVERY: tuple[Range, ...] = ()


class Over(TomlTable):
    """Which objects an operation takes, counted from 1. Ranges have weights; without any, it takes all of them.

    in_order: one after the other, and again from the first; otherwise by chance.
    """

    buckets: tuple[Range, ...] = _EVERY
    objects: tuple[Range, ...] = _EVERY
    in_order: bool = False

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        for name, ranges in (("buckets", self.buckets), ("objects", self.objects)):
            if any(first > last for first, last, _ in ranges):
                raise ValueError(f"{name}: got {ranges}, wanted: [first, last, weight], the first not above the last")
            if self.in_order and len(ranges) > 1:
                raise ValueError(f"{name}: got {len(ranges)} ranges, wanted: one where it goes in order")
        return self


class ObjectLoad(TomlTable):
    """One load of S3 operations, with buckets of its own. objects: in each of its buckets.

    sizes: ranges with weights. mix: operation -> share. over: what each operation takes, and what `fill` and `clean`
    do. It ends after runtime_s or after that many operations. rampup_s: before its figures count; pause_s: after it.
    """

    name: Named
    objects: Count
    sizes: tuple[SizeRange, ...] = Field(min_length=1)
    workers: Count
    buckets: Count = 1
    mix: Mapping[Literal["delete", "get", "head", "list", "multipart", "put"], Annotated[float, Field(gt=0)]] = {}
    over: Mapping[str, Over] = {}
    phases: tuple[Literal["fill", "run", "final", "clean"], ...] = ("fill", "run")
    runtime_s: Seconds = 0.0
    operations: Annotated[Whole, Field(ge=0)] = 0
    rampup_s: Seconds = 0.0
    pause_s: Seconds = 0.0

    @model_validator(mode="after")
    def _runs(self) -> Self:
        if "run" in self.phases and not (self.mix and (self.runtime_s or self.operations)):
            raise ValueError("phases: got run, wanted: a mix beside it, and runtime_s or operations")
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
            raise ValueError(f"sizes: got {self.sizes}, wanted: [least, most, weight], the least not above the most")
        return self


class JobPool(TomlTable):
    """A pool. copies: of replicated data; k, m: shards of erasure-coded data."""

    name: Named
    pg_num: Count = 32
    copies: Annotated[Whole, Field(ge=1, le=10)] = 3
    k: Annotated[Whole, Field(ge=0)] = 0
    m: Annotated[Whole, Field(ge=0)] = 0

    @property
    def kind(self) -> PoolKind:
        return PoolKind(f"ec{self.k}{self.m}", self.k + self.m, self.k, self.m) if self.k else self.replicated

    @property
    def replicated(self) -> PoolKind:
        return PoolKind(REPLICATED.name, self.copies)


class BlockLoad(TomlTable):
    """fio on RBD images, whose lists mean every combination. depth, jobs: of each volume.

    read_percent: of the mixed patterns (rw, randrw). volumes: images under load at once.
    """

    name: Named
    pattern: tuple[Literal["read", "write", "randread", "randwrite", "rw", "randrw"], ...] = Field(min_length=1)
    block_bytes: tuple[Annotated[Size, Field(ge=512)], ...] = Field(min_length=1)
    depth: tuple[Count, ...] = (1,)
    jobs: tuple[Count, ...] = (1,)
    volumes: tuple[Count, ...] = (1,)
    volume_bytes: Annotated[Size, Field(ge=1 << 20)]
    runtime_s: Annotated[float, Field(gt=0)]
    read_percent: Annotated[Whole, Field(ge=0, le=100)] = 50
    pool: str = ""


class BenchLoad(TomlTable):
    """rados bench from several processes: it writes, then reads as modes say. Lists mean every combination."""

    name: Named
    block_bytes: tuple[Annotated[Size, Field(ge=1)], ...] = Field(min_length=1)
    threads: tuple[Count, ...] = (16,)
    processes: tuple[Count, ...] = (1,)
    modes: tuple[Literal["write", "seq", "rand"], ...] = ("write", "seq")
    runtime_s: Annotated[float, Field(gt=0)]
    pool: str = ""


class DatabaseLoad(TomlTable):
    """sysbench's OLTP transactions on MariaDB over an image. Lists mean every combination."""

    name: Named
    threads: tuple[Count, ...] = Field(min_length=1)
    rows: tuple[Count, ...] = Field(min_length=1)
    runtime_s: Annotated[float, Field(gt=0)]


class Job(TomlTable):
    """A job. notes: what an import had to say; options: settings of ceph.conf for its cluster."""

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
        names = [each.name for each in self.objects] + [each.name for each in self.databases]
        names += [each.name for each in self.blocks] + [each.name for each in self.benches]
        if not names:
            raise ValueError("objects, blocks, benches, databases: got none, wanted: at least one load")
        refuse_twice("names of loads", names)
        refuse_twice("names of pools", [each.name for each in self.pools])
        known = {"": None, **{pool.name: pool for pool in self.pools}}
        used_by = {each.name: each.pool for each in self.blocks} | {each.name: each.pool for each in self.benches}
        for name, used in used_by.items():
            if used not in known:
                raise ValueError(f"pool of {name}: got {used!r}, wanted: one of pools")
        for block in self.blocks:
            if (pool := known[block.pool]) is not None and pool.kind.erasure:
                raise ValueError(f"pool of {block.name}: got {pool.name}, which is erasure-coded, wanted: copies")
        return self

    def kind_of(self, pool: str) -> PoolKind:
        """How the pool of a load keeps its data; three copies where it names none."""
        return next((each.kind for each in self.pools if each.name == pool), REPLICATED)

    def pgs_of(self, pool: str) -> int:
        """PGs of the pool of a load; 0 where it names none."""
        return next((each.pg_num for each in self.pools if each.name == pool), 0)


def load_job(path: Path) -> Job:
    """Read a job file; SpecError names each key that does not fit."""
    return load_model(path, Job, what="a job", hint=HINT)


def job_to_toml(job: Job) -> str:
    """The file's text, from which `load_job` reads an equal job. What is as by default is left out."""
    import tomli_w  # late: most who read a job write none

    text = tomli_w.dumps(job.model_dump(mode="json", exclude_defaults=True))
    for pattern in (_NUMBERS, _ROWS):
        text = pattern.sub(lambda match: f"[{', '.join(match[1].split()).replace(',,', ',').rstrip(',')}]", text)
    return _HEAD + text


def made_job(source: str, raw: Mapping[str, Any]) -> Job:
    """What an import gathered as a job; SpecError names what does not fit."""
    return as_model(dict(raw), Job, source=source, what="something that makes a job", hint=HINT)


def refused(source: str, line: int, what: str, got: str, wanted: str) -> SpecError:
    """What an import says of what it does not know: the file and its line, the element or key, and what it takes."""
    return SpecError(f"{source}, line {line}: {what} cannot be imported", f"got {got}, wanted: {wanted}", HINT)
