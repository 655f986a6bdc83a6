"""Turns the options of `cephlab up` into a cluster spec; refuses what cannot be served."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import typer

from cephlab.cli.completion import RELEASES
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.spec.arch import default_nodes
from cephlab.lab.spec.clusterspec import (
    DEFAULT_DISK_BYTES,
    DEFAULT_RELEASE,
    GIB,
    MAX_DISK_BYTES,
    MIN_DISK_BYTES,
    UNKNOWN_RELEASE,
    ClusterSpec,
    refuse_image,
)
from cephlab.lab.spec.layout import MOST_NODES, CephSetup, Daemons, build_spec, parse_nodes, with_gateways, with_metrics
from cephlab.lab.spec.written import size_bytes

_LEAST_BYTES = 512


@dataclass(frozen=True)
class NewCluster:
    """A cluster by options; None where one was not given."""

    nodes: Annotated[
        str | None,
        typer.Option(
            help="Number of nodes of each architecture.",
            show_default="2 native and 1 of the other",
            metavar="ARCH:COUNT,...",
        ),
    ] = None
    release: Annotated[
        str | None,
        typer.Option(
            help="Ceph release; `cephlab image ls` shows those built. Not with --image.",
            show_default="reef",
            autocompletion=RELEASES,
        ),
    ] = None
    osds_per_node: Annotated[int | None, typer.Option(help="OSDs on each node.", show_default="1")] = None
    mons: Annotated[
        int | None, typer.Option(help="Monitors, 1 to 5, spread over the architectures.", show_default="1")
    ] = None
    mgrs: Annotated[int | None, typer.Option(help="Managers.", show_default="1")] = None
    disk_size: Annotated[
        str | None, typer.Option(help="Size of each OSD's sparse disk.", show_default="10GiB", metavar="SIZE")
    ] = None
    separate_db: Annotated[
        bool | None, typer.Option("--separate-db", help="Give each OSD a second disk for its RocksDB.")
    ] = None
    image: Annotated[str | None, typer.Option(help="Use a pulled image instead of a built one.", metavar="REF")] = None
    gateways: Annotated[
        int | None, typer.Option(help="S3 gateways, spread over the architectures.", show_default="0")
    ] = None
    balancer: Annotated[bool | None, typer.Option("--balancer", help="Put HAProxy before the gateways.")] = None
    metrics: Annotated[
        bool | None, typer.Option("--metrics", help="Run Prometheus, and an exporter on every node.")
    ] = None
    option: Annotated[list[str] | None, typer.Option(help="ceph.conf setting; repeatable.", metavar="KEY=VALUE")] = None

    def build(self, *, foreign_runs: bool) -> ClusterSpec:
        """The spec. foreign_runs: whether the other architecture can run here, for the default of --nodes."""
        refuse_image(self.release, self.image)
        groups = parse_nodes(self.nodes) if self.nodes is not None else default_nodes(foreign_runs=foreign_runs)
        mgrs = _at_least_one("--mgrs", self.mgrs)
        machines = sum(count for _, count in groups)
        if mgrs > machines:
            raise SpecError(
                f"{mgrs} managers do not fit on {how_many(machines, 'node')}",
                "every manager needs its own node",
                f"ask for at most {how_many(machines, 'manager')} or for more nodes",
            )
        daemons = Daemons(
            mons=_at_least_one("--mons", self.mons),
            mgrs=mgrs,
            osds_per_node=_at_least_one("--osds-per-node", self.osds_per_node),
            disk_bytes=parse_disk_size(self.disk_size) if self.disk_size else DEFAULT_DISK_BYTES,
            separate_db=bool(self.separate_db),
        )
        release = UNKNOWN_RELEASE if self.image else self.release or DEFAULT_RELEASE
        spec = build_spec(groups, daemons, CephSetup(release, self.image, parse_options(self.option or ())))
        return with_metrics(self._served(spec)) if self.metrics else self._served(spec)

    def _served(self, spec: ClusterSpec) -> ClusterSpec:
        gateways = _at_least_one("--gateways", self.gateways, "none") if self.gateways is not None else 0
        if self.balancer and not gateways:
            raise SpecError("--balancer needs a gateway", "--gateways: missing", "add --gateways 2")
        return with_gateways(spec, gateways, balancer=bool(self.balancer)) if gateways else spec


@dataclass(frozen=True)
class ClusterOptions(NewCluster):
    """The cluster that is asked for, by options or by a file."""

    spec: Annotated[Path | None, typer.Option(help="TOML file that describes the whole cluster.")] = None

    @property
    def of_packages(self) -> dict[str, object]:
        """Option -> its value, for the options about nodes that cephlab creates itself."""
        names = ("nodes", "mons", "mgrs", "separate_db", "image", "option", "gateways", "balancer", "metrics", "spec")
        return {_option(name): getattr(self, name) for name in names}

    def build(self, *, foreign_runs: bool) -> ClusterSpec:
        """The spec, from the file if one is given."""
        if self.spec is None:
            return super().build(foreign_runs=foreign_runs)
        spec = self._from_file(self.spec)
        if spec.osd_count == 0:
            raise SpecError(
                f"{self.spec}: a cluster without an OSD never becomes healthy",
                "nodes.*.osds: got 0 OSDs",
                "give at least one node a disk and an OSD",
            )
        return spec

    def _from_file(self, path: Path) -> ClusterSpec:
        given = [
            _option(field.name)
            for field in fields(self)
            if field.name != "spec" and getattr(self, field.name) not in (None, [])
        ]
        if given:
            raise SpecError(
                f"--spec and {', '.join(given)} cannot be given together",
                f"{path} describes the whole cluster",
                "put it into the file, or leave --spec out",
            )
        from cephlab.lab.spec.specfile import load_spec

        return load_spec(path)


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def nodes_text(spec: ClusterSpec) -> str:
    """`x86_64:2,aarch64:1`."""
    return ",".join(f"{arch}:{sum(node.arch is arch for node in spec.nodes)}" for arch in spec.archs)


def parse_options(pairs: Sequence[str], given: str = "--option") -> dict[str, str]:
    """ceph.conf settings from `key=value`; spaces and dashes in a key mean underscores, as in Ceph.

    given: the command line's option that they come from.
    """
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace(" ", "_").replace("-", "_")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_]*", key) or "\n" in value:
            raise SpecError(
                f"{given} {pair!r} is not KEY=VALUE", hint=f"write for example {given} osd_pool_default_size=2"
            )
        options[key] = value.strip()
    return options


def parse_bytes(option: str, text: str, example: str = "4k or 4G") -> int:
    """Bytes from `4k`, `10GiB` or a plain number; units are powers of 1024."""
    size = size_bytes(text) or 0
    if size < _LEAST_BYTES:
        raise SpecError(
            f"{option}: {text!r} is not a size",
            f"wanted: {_LEAST_BYTES} bytes or more, as a number or with a unit: k, M, G, T, in powers of 1024",
            f"write {example}",
        )
    return size


def parse_disk_size(text: str) -> int:
    """Bytes of an OSD's disk; SpecError if it is not a size, too small, or too large for a file."""
    size = parse_bytes("--disk-size", text, "10GiB")
    if size < MIN_DISK_BYTES:
        raise SpecError(
            f"--disk-size: {text} is too small for an OSD",
            f"wanted: {MIN_DISK_BYTES / GIB:g}GiB or more",
            "disks are sparse: a large one takes no more space than its data",
        )
    if size > MAX_DISK_BYTES:
        raise SpecError(f"--disk-size: {text} is too large for a file", "wanted: below 16TiB", "ask for less")
    return size


def warnings(spec: ClusterSpec) -> list[str]:
    """Warnings about what is allowed but rarely intended."""
    mons = len(spec.mons)
    if mons % 2 == 0:
        return [f"{mons} monitors tolerate no more failures than {mons - 1}: an odd number is better"]
    return []


def _at_least_one(option: str, value: int | None, otherwise: str = "1") -> int:
    if value is None:
        return 1
    if value < 1:
        raise SpecError(f"{option} must be 1 or more", f"got {value}", f"leave {option} out for {otherwise}")
    if value > MOST_NODES:
        raise SpecError(f"{option} asks for too many", f"got {value}, wanted: at most {MOST_NODES}", "ask for fewer")
    return value
