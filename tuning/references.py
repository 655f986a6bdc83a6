"""Published figures of clusters that others measured, with their conditions: what the model is held against."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.spec.specfile import load_model
from cephlab.tuning.tables import Count, Text, TomlTable
from cephlab.tuning.units import Measure, parse
from cephlab.tuning.workload import Shape, parse_block, parse_ec

SHIPPED = Path(__file__).with_name("references")


class FigureKind(StrEnum):
    """What was published. ALONE: the shortest latency of a run; SPREAD: how a rate or a latency varies within a run."""

    THROUGHPUT = "throughput"
    BANDWIDTH = "bandwidth"
    LATENCY = "latency"
    ALONE = "alone"
    SPREAD = "spread"
    CPU = "cpu"
    POWER = "power"
    RECOVERY = "recovery"
    RATIO = "ratio"
    COUNT = "count"
    SIZE = "size"
    DEVICE = "device"

    @property
    def is_rate(self) -> bool:
        return self in (FigureKind.THROUGHPUT, FigureKind.BANDWIDTH)


@dataclass(frozen=True)
class Rebuild:
    """What had to be copied. data_bytes: on each node lost; nodes: of the cluster, None: all of the profile.

    share: of disks and network that recovery gets beside the clients.
    """

    data_bytes: float
    nodes_lost: int = 1
    nodes: int | None = None
    share: float = 1.0


@dataclass(frozen=True)
class Published:
    """One figure. unit: as written; where: place in the source and conditions.

    shape or rebuild: what the model predicts to compare with; beyond: why it cannot speak to the figure. assumed: what
    of the load (or of what was rebuilt) the source does not say.
    """

    name: str
    kind: FigureKind
    value: float
    unit: str
    where: str
    shape: Shape | None = None
    rebuild: Rebuild | None = None
    beyond: str = ""
    note: str = ""
    assumed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Publication:
    """One publication. profile: name of the profile of its cluster; release: of Ceph there.

    lost: which graphs the text copy lacks.
    """

    name: str
    title: str
    profile: str
    figures: tuple[Published, ...]
    lost: tuple[str, ...]
    release: str = DEFAULT_RELEASE


class _Load(TomlTable):
    op: Text
    bs: Text
    clients: Count
    depth: Count
    replicas: Count = 3
    ec: str = ""
    hit_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    span: Annotated[float, Field(gt=0, le=1)] = 1.0
    assumed: tuple[Literal["clients", "depth", "replicas", "hit_ratio", "span"], ...] = ()

    def build(self) -> Shape:
        k, m = parse_ec(self.ec)
        return Shape(
            self.op, parse_block(self.bs), self.clients, self.depth, self.replicas, k, m, self.hit_ratio, self.span
        )


class _Rebuild(TomlTable):
    bytes: Text
    nodes_lost: Count = 1
    nodes: Count | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    assumed: tuple[Literal["bytes", "share"], ...] = ()

    def build(self) -> Rebuild:
        return Rebuild(parse(self.bytes, Measure.BYTES), self.nodes_lost, self.nodes, self.share)


class _Published(TomlTable):
    name: Text
    kind: FigureKind
    value: float
    unit: Text
    where: Text
    load: _Load | None = None
    recovery: _Rebuild | None = None
    beyond: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _one_way(self) -> _Published:
        if sum((self.load is not None, self.recovery is not None, bool(self.beyond))) != 1:
            raise ValueError(f"{self.name}: exactly one of load, recovery and beyond")
        return self

    def build(self) -> Published:
        return Published(
            name=self.name,
            kind=self.kind,
            value=self.value,
            unit=self.unit,
            where=self.where,
            shape=self.load.build() if self.load else None,
            rebuild=self.recovery.build() if self.recovery else None,
            beyond=self.beyond,
            note=self.note,
            assumed=(self.load.assumed if self.load else ()) + (self.recovery.assumed if self.recovery else ()),
        )


class _Reference(TomlTable):
    title: Text
    profile: Text
    release: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")] = DEFAULT_RELEASE
    lost: tuple[Text, ...] = ()
    figures: Annotated[tuple[_Published, ...], Field(min_length=1)]


def load_reference(path: Path) -> Publication:
    """Read one reference file; SpecError names file, key, what was got and what was wanted."""
    read = load_model(path, _Reference, what="a reference", hint="docs/model.md shows a whole one")
    figures = tuple(figure.build() for figure in read.figures)
    return Publication(path.stem, read.title, read.profile, figures, read.lost, read.release)


def load_references(folder: Path = SHIPPED) -> tuple[Publication, ...]:
    """Every reference of a folder, by name."""
    return tuple(load_reference(path) for path in sorted(folder.glob("*.toml")))
