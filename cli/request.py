"""What `cephlab up` was asked for, turned into a cluster spec; refuses what cannot be served."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from lab.arch import Arch, host_arch
from lab.errors import SpecError
from lab.spec import (
    DEFAULT_DISK_BYTES,
    DEFAULT_RELEASE,
    GIB,
    MIN_DISK_BYTES,
    UNKNOWN_RELEASE,
    ClusterSpec,
    build_spec,
    parse_nodes,
    refuse_both,
)

_UNITS = {"": 1, "B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([KMGT]?)(i?B)?", re.IGNORECASE)


_OPTION_OF = {
    "nodes": "--nodes",
    "release": "--release",
    "osds_per_node": "--osds-per-node",
    "mons": "--mons",
    "mgrs": "--mgrs",
    "disk_size": "--disk-size",
    "separate_db": "--separate-db",
    "image": "--image",
    "options": "--option",
    "spec": "--spec",
}


@dataclass(frozen=True)
class Request:
    """The options as given; None where one was not."""

    nodes: str | None = None
    release: str | None = None
    osds_per_node: int | None = None
    mons: int | None = None
    mgrs: int | None = None
    disk_size: str | None = None
    separate_db: bool | None = None
    image: str | None = None
    options: tuple[str, ...] = ()
    spec: Path | None = None

    @property
    def of_packages(self) -> dict[str, object]:
        """Option -> what was given, of those that say something of nodes which cephlab makes."""
        names = ("nodes", "mons", "mgrs", "separate_db", "image", "options", "spec")
        return {_OPTION_OF[name]: getattr(self, name) for name in names}

    def build(self, *, foreign_runs: bool) -> ClusterSpec:
        """The spec. foreign_runs: whether the other architecture can run here, for the default of --nodes."""
        spec = self._from_options(foreign_runs) if self.spec is None else self._from_file(self.spec)
        if spec.osd_count == 0:
            told = "a cluster without an OSD never becomes healthy"
            raise SpecError(
                told if self.spec is None else f"{self.spec}: {told}",
                "got 0 OSDs" if self.spec is None else "nodes.*.osds: got 0 OSDs",
                "give at least one node a disk and an OSD",
            )
        return spec

    def _from_options(self, foreign_runs: bool) -> ClusterSpec:
        refuse_both(self.release, self.image)
        groups = parse_nodes(self.nodes) if self.nodes is not None else default_nodes(foreign_runs=foreign_runs)
        mgrs = _at_least_one("--mgrs", self.mgrs)
        machines = sum(count for _, count in groups)
        if mgrs > machines:
            raise SpecError(
                f"{mgrs} managers do not fit on {machines} node(s)",
                "every manager needs a node of its own",
                f"ask for at most {machines} managers or for more nodes",
            )
        return build_spec(
            groups,
            release=UNKNOWN_RELEASE if self.image else self.release or DEFAULT_RELEASE,
            mons=_at_least_one("--mons", self.mons),
            mgrs=mgrs,
            osds_per_node=_at_least_one("--osds-per-node", self.osds_per_node),
            disk_bytes=parse_disk_size(self.disk_size) if self.disk_size else DEFAULT_DISK_BYTES,
            separate_db=bool(self.separate_db),
            image=self.image,
            options=parse_options(self.options),
        )

    def _from_file(self, path: Path) -> ClusterSpec:
        given = [_OPTION_OF[field.name] for field in fields(self) if getattr(self, field.name) not in (None, ())]
        given.remove("--spec")
        if given:
            raise SpecError(
                f"--spec and {', '.join(given)} cannot be given together",
                f"{path} describes the whole cluster",
                "write it into the file, or leave --spec out",
            )
        from lab.specfile import load_spec

        return load_spec(path)


def default_nodes(*, foreign_runs: bool) -> tuple[tuple[Arch, int], ...]:
    """Two native nodes and one of the other architecture; three native ones where the other cannot run."""
    here = host_arch()
    if not foreign_runs:
        return ((here, 3),)
    return ((here, 2), (next(arch for arch in Arch if arch is not here), 1))


def nodes_text(spec: ClusterSpec) -> str:
    """`x86_64:2,aarch64:1`."""
    return ",".join(f"{arch}:{sum(node.arch is arch for node in spec.nodes)}" for arch in spec.archs)


def parse_options(pairs: Sequence[str]) -> dict[str, str]:
    """ceph.conf settings from `key=value`; spaces and dashes in a key mean underscores, as in Ceph."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip().replace(" ", "_").replace("-", "_")
        if not equals or not re.fullmatch(r"[a-z][a-z0-9_]*", key) or "\n" in value:
            raise SpecError(
                f"--option {pair!r} is not KEY=VALUE", hint="write for example --option osd_pool_default_size=2"
            )
        found[key] = value.strip()
    return found


def parse_disk_size(text: str) -> int:
    """Bytes from `10GiB`, `10G` or a plain number; units are powers of 1024."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise SpecError(f"--disk-size: {text!r} is not a size", "wanted: a number and a unit", "write 10GiB")
    size = int(float(match[1]) * _UNITS[match[2].upper()])
    if size < MIN_DISK_BYTES:
        raise SpecError(
            f"--disk-size: {text} is too small for an OSD",
            f"wanted: {MIN_DISK_BYTES / GIB:g}GiB or more",
            "disks are sparse: a large one takes no more room than its data",
        )
    return size


def warnings(spec: ClusterSpec) -> list[str]:
    """What is allowed but is seldom meant."""
    mons = len(spec.mons)
    if mons % 2 == 0:
        return [f"{mons} monitors survive no more failures than {mons - 1}: an odd number is better"]
    return []


def _at_least_one(option: str, value: int | None) -> int:
    if value is None:
        return 1
    if value < 1:
        raise SpecError(f"{option} must be 1 or more", f"got {value}", f"leave {option} out for 1")
    return value
