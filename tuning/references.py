"""Figures that others published of their clusters, with their conditions: what the model is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.spec.specfile import Count, Text, TomlTable, load_model
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

    @property
    def shape(self) -> Shape:
        k, m = parse_ec(self.ec)
        return Shape(
            self.op, parse_block(self.bs), self.clients, self.depth, self.replicas, k, m, self.hit_ratio, self.span
        )

    @model_validator(mode="after")
    def _known(self) -> _Load:
        _ = self.shape  # SpecError where the operation, the block size or the code is not one
        return self


def _is_amount(text: str) -> str:
    parse(text, Measure.BYTES)
    return text


class Rebuild(TomlTable):
    """What had to be copied. bytes: on each node lost; nodes: of the cluster, None: all of the profile.

    share: of disks and network that recovery gets beside the clients.
    """

    bytes: Annotated[Text, AfterValidator(_is_amount)]
    nodes_lost: Count = 1
    nodes: Count | None = None
    share: Annotated[float, Field(gt=0, le=1)] = 1.0
    assumed: tuple[Literal["bytes", "share"], ...] = ()

    @property
    def data_bytes(self) -> float:
        return parse(self.bytes, Measure.BYTES)


class Published(TomlTable):
    """One figure. unit: as written; where: place in the source and conditions.

    load or recovery: what the model predicts to compare with; beyond: why it cannot speak to the figure.
    """

    name: Text
    kind: FigureKind
    value: float
    unit: Text
    where: Text
    load: _Load | None = None
    recovery: Rebuild | None = None
    beyond: str = ""
    note: str = ""

    @model_validator(mode="after")
    def _one_way(self) -> Published:
        if sum((self.load is not None, self.recovery is not None, bool(self.beyond))) != 1:
            raise ValueError(f"{self.name}: exactly one of load, recovery and beyond")
        return self

    @property
    def shape(self) -> Shape | None:
        return self.load.shape if self.load else None

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the source does not say of the load, or of what was rebuilt."""
        told = self.load or self.recovery
        return told.assumed if told else ()


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


class _Reference(TomlTable):
    title: Text
    profile: Text
    release: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")] = DEFAULT_RELEASE
    lost: tuple[Text, ...] = ()
    figures: Annotated[tuple[Published, ...], Field(min_length=1)]


def load_reference(path: Path) -> Publication:
    """Read one reference file; SpecError names file, key, got and wanted."""
    read = load_model(path, _Reference, what="a reference", hint="docs/model.md shows a whole one")
    return Publication(name=path.stem, **vars(read))


def load_references(folder: Path = SHIPPED) -> tuple[Publication, ...]:
    """Every reference of a folder, by name."""
    return tuple(load_reference(path) for path in sorted(folder.glob("*.toml")))
