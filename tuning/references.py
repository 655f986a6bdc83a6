"""Figures that others published about their clusters, with the conditions: the model is compared with them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, KNOWN_RELEASES
from cephlab.lab.spec.specfile import Count, Text, TomlTable, load_model
from cephlab.lab.spec.written import Finite
from cephlab.tuning.profile import DiskRole, MachineClass, Profile
from cephlab.tuning.units import UNITS, Measure, parse, scale_of
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


_MEASURED = {
    FigureKind.THROUGHPUT: Measure.OPS,
    FigureKind.BANDWIDTH: Measure.RATE,
    FigureKind.LATENCY: Measure.TIME,
    FigureKind.ALONE: Measure.TIME,
    FigureKind.RECOVERY: Measure.TIME,
}
"""What the model predicts for a kind. A share of CPU has no unit, and other kinds are only listed."""


def known_release(name: str) -> str:
    """The name, where it is a release of Ceph; ValueError otherwise."""
    if name not in KNOWN_RELEASES:
        raise ValueError(f"one of {', '.join(KNOWN_RELEASES)}")
    return name


ReleaseName = Annotated[str, AfterValidator(known_release)]


class _Load(TomlTable):
    op: Text
    bs: Text
    clients: Count
    depth: Count
    replicas: Count = 3
    ec: str = ""
    hit_ratio: Annotated[float, Field(ge=0, le=1, strict=True)] = 0.0
    span: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    assumed: tuple[Literal["clients", "depth", "replicas", "hit_ratio", "span"], ...] = ()

    @property
    def shape(self) -> Shape:
        k, m = parse_ec(self.ec)
        return Shape(
            self.op, parse_block(self.bs), self.clients, self.depth, self.replicas, k, m, self.hit_ratio, self.span
        )

    @model_validator(mode="after")
    def _known(self) -> _Load:
        try:
            _ = self.shape
        except SpecError as error:
            raise ValueError(f"{error.what}: {error.detail}") from error
        return self


def _is_amount(text: str) -> str:
    parse(text, Measure.BYTES)
    return text


class Rebuild(TomlTable):
    """What had to be copied. bytes: on each node lost; nodes: of the cluster, None: all of the profile.

    share: of disks and network that recovery gets; clients have the rest.
    """

    bytes: Annotated[Text, AfterValidator(_is_amount)]
    nodes_lost: Count = 1
    nodes: Count | None = None
    share: Annotated[float, Field(gt=0, le=1, strict=True)] = 1.0
    assumed: tuple[Literal["bytes", "share"], ...] = ()

    @property
    def data_bytes(self) -> float:
        return parse(self.bytes, Measure.BYTES)


class Machines(TomlTable):
    """How the cluster of one figure differs from its profile. disks: data disks of each node; clients: load machines.

    osd_threads: processor threads of a node that its OSDs were held to.
    """

    nodes: Count | None = None
    disks: Count | None = None
    osd_threads: Count | None = None
    clients: Count | None = None

    def of(self, profile: Profile) -> Profile:
        """The profile with these machines. All classes of nodes, disks and clients are changed in the same way."""
        nodes = tuple(self._node(node) for node in profile.nodes)
        if self.clients is None:
            return replace(profile, nodes=nodes)
        return replace(profile, nodes=nodes, clients=tuple(replace(c, count=self.clients) for c in profile.clients))

    def _node(self, node: MachineClass) -> MachineClass:
        disks = tuple(
            replace(disks, count=self.disks or disks.count) if disks.role is DiskRole.DATA else disks
            for disks in node.disks
        )
        threads = self.osd_threads or node.osd_threads
        return replace(node, count=self.nodes or node.count, disks=disks, osd_threads=threads)


class Published(TomlTable):
    """One figure. unit: as written; where: place in the source and conditions.

    load or recovery: what the model predicts for comparison; beyond: why it cannot predict the figure. release,
    profile: where they differ from those of the publication; on: how the machines differ from the profile's.
    """

    name: Text
    kind: FigureKind
    value: Finite
    unit: Text
    where: Text
    load: _Load | None = None
    recovery: Rebuild | None = None
    beyond: str = ""
    note: str = ""
    release: ReleaseName | None = None
    profile: str = ""
    on: Machines | None = None

    @model_validator(mode="after")
    def _one_way(self) -> Published:
        if sum((self.load is not None, self.recovery is not None, bool(self.beyond))) != 1:
            raise ValueError(f"{self.name}: exactly one of load, recovery and beyond")
        return self

    @model_validator(mode="after")
    def _fits(self) -> Published:
        measure = _MEASURED.get(self.kind)
        if measure and scale_of(self.unit, measure) is None:
            wanted = ", ".join(UNITS[measure])
            raise ValueError(f"{self.name}: unit: got {self.unit!r}, wanted for {self.kind}: one of {wanted}")
        if self.load and self.kind is FigureKind.CPU and self.unit != "share":
            raise ValueError(f"{self.name}: unit: got {self.unit!r}, wanted for {self.kind}: share")
        if not self.beyond and self.value <= 0:
            raise ValueError(f"{self.name}: value: got {self.value:g}, wanted: above 0")
        return self

    @property
    def scale(self) -> float:
        """How many of the model's own units (ops/s, bytes/s, s, share) one `unit` is."""
        measure = _MEASURED.get(self.kind)
        return (scale_of(self.unit, measure) if measure else None) or 1.0

    @property
    def shape(self) -> Shape | None:
        return self.load.shape if self.load else None

    @property
    def assumed(self) -> tuple[str, ...]:
        """What the source does not say about the load or the rebuild, so that it is assumed."""
        conditions = self.load or self.recovery
        return conditions.assumed if conditions else ()


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
    release: ReleaseName = DEFAULT_RELEASE
    lost: tuple[Text, ...] = ()
    figures: Annotated[tuple[Published, ...], Field(min_length=1)]


def load_reference(path: Path) -> Publication:
    """Read one reference file; SpecError names file, key, got and wanted."""
    read = load_model(path, _Reference, what="a reference", hint="docs/model.md shows a whole one")
    values = {**vars(read), "profile": beside(path, read.profile)}
    figures = tuple(f.model_copy(update={"profile": beside(path, f.profile)}) for f in read.figures)
    return Publication(name=path.stem, **{**values, "figures": figures})


def of_profile(references: Iterable[Publication], profile: str) -> tuple[Publication, ...]:
    """Publications with only the figures of a profile's own cluster, as the profile describes it."""
    return _with(references, lambda whole, figure: not figure.on and (figure.profile or whole.profile) == profile)


def of_recovery(references: Iterable[Publication]) -> tuple[Publication, ...]:
    """Publications with only the times of recovery."""
    return _with(references, lambda _whole, figure: figure.kind is FigureKind.RECOVERY)


def _with(
    references: Iterable[Publication], wanted: Callable[[Publication, Published], bool]
) -> tuple[Publication, ...]:
    """Publications with only the wanted figures, without those that have none."""
    own = (
        replace(reference, figures=tuple(figure for figure in reference.figures if wanted(reference, figure)))
        for reference in references
    )
    return tuple(reference for reference in own if reference.figures)


def beside(path: Path, profile: str) -> str:
    """The name of a profile, or the path of its file, which is relative to the file that names it."""
    return str(path.parent / profile) if "/" in profile or profile.endswith(".toml") else profile


def load_references() -> tuple[Publication, ...]:
    """The shipped references, by name."""
    return tuple(load_reference(path) for path in sorted(SHIPPED.glob("*.toml")))
