"""Published figures of clusters that others measured, with their conditions: what the model is held against."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from lab.errors import SpecError
from lab.spec import DEFAULT_RELEASE
from lab.specfile import explain
from tuning.units import Kind, parse
from tuning.workload import Shape, parse_block, parse_ec

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
class Reference:
    """One publication. profile: name of the profile of its cluster; release: of Ceph there.

    lost: which graphs the text copy lacks.
    """

    name: str
    title: str
    profile: str
    figures: tuple[Published, ...]
    lost: tuple[str, ...]
    release: str = DEFAULT_RELEASE


_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
_Count = Annotated[int, Field(ge=1, strict=True)]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Load(_Table):
    op: _Text
    bs: _Text
    clients: _Count
    depth: _Count
    replicas: _Count = 3
    ec: str = ""
    hit_ratio: Annotated[float, Field(ge=0, le=1)] = 0.0
    span: Annotated[float, Field(gt=0, le=1)] = 1.0
    assumed: tuple[Literal["clients", "depth", "replicas", "hit_ratio", "span"], ...] = ()

    def build(self) -> Shape:
        k, m = parse_ec(self.ec)
        return Shape(
            self.op,
            parse_block(self.bs),
            self.clients,
            self.depth,
            replicas=self.replicas,
            k=k,
            m=m,
            hit_ratio=self.hit_ratio,
            span=self.span,
        )


class _Rebuild(_Table):
    bytes: _Text
    nodes_lost: _Count = 1
    nodes: _Count | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    assumed: tuple[Literal["bytes", "share"], ...] = ()

    def build(self) -> Rebuild:
        return Rebuild(parse(self.bytes, Kind.BYTES), self.nodes_lost, self.nodes, self.share)


class _Published(_Table):
    name: _Text
    kind: FigureKind
    value: float
    unit: _Text
    where: _Text
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


class _Reference(_Table):
    title: _Text
    profile: _Text
    release: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")] = DEFAULT_RELEASE
    lost: tuple[_Text, ...] = ()
    figures: Annotated[tuple[_Published, ...], Field(min_length=1)]


def load_reference(path: Path) -> Reference:
    """Read one reference file; SpecError names file, key, what was got and what was wanted."""
    try:
        read = _Reference.model_validate(tomllib.loads(path.read_text()))
    except OSError as error:
        raise SpecError(f"the reference {path} cannot be read", str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not TOML", str(error), "mend the line that is named") from error
    except ValidationError as error:
        raise SpecError(f"{path} is not a reference", explain(error), "docs/model.md shows a whole one") from None
    figures = tuple(one.build() for one in read.figures)
    return Reference(path.stem, read.title, read.profile, figures, read.lost, read.release)


def load_references(folder: Path = SHIPPED) -> tuple[Reference, ...]:
    """Every reference of a folder, by name."""
    return tuple(load_reference(path) for path in sorted(folder.glob("*.toml")))
