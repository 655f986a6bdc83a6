"""Profiles as TOML files: every key and unit is checked, and what does not fit is named with its place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, StringConstraints, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.specfile import load_model
from cephlab.tuning.profile import DiskKind, DiskRole, Disks, Figure, MachineClass, Profile, Threads
from cephlab.tuning.tables import Count, Text, TomlTable
from cephlab.tuning.units import Measure, parse

SHIPPED = Path(__file__).with_name("profiles")
THIS_MACHINE = "this-machine"
_HINT = "docs/model.md shows a whole profile"

_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$")]


class _Figure(TomlTable):
    value: Text
    source: Text


def _reader(kind: Measure) -> Any:
    def read(raw: Any) -> Figure:
        if not isinstance(raw, dict):
            raise ValueError('{ value = "figure unit", source = "where it is from" }')
        read_as = _Figure.model_validate(raw)
        return Figure(parse(read_as.value, kind), kind, read_as.source)

    return BeforeValidator(read)


_Bytes = Annotated[Figure, _reader(Measure.BYTES)]
_Rate = Annotated[Figure, _reader(Measure.RATE)]
_Time = Annotated[Figure, _reader(Measure.TIME)]
_Ops = Annotated[Figure, _reader(Measure.OPS)]
_Speed = Annotated[Figure, _reader(Measure.SPEED)]
_Power = Annotated[Figure, _reader(Measure.POWER)]


class _Disks(TomlTable):
    name: _Name
    kind: DiskKind
    role: DiskRole = DiskRole.DATA
    count: Count
    osds_per_disk: Count = 1
    size: _Bytes
    read_iops: _Ops | None = None
    write_iops: _Ops | None = None
    seq_read: _Rate | None = None
    seq_write: _Rate | None = None
    sync_latency: _Time | None = None
    read_latency: _Time | None = None
    shared_link: _Rate | None = None

    def build(self) -> Disks:
        return Disks(**vars(self))


class _Machine(TomlTable):
    name: _Name
    count: Count
    arch: Arch
    cores: Count
    threads_per_core: Annotated[int, Field(ge=1, le=8, strict=True)]
    core_speed: _Speed
    thread_speed: _Speed | None = None
    memory: _Bytes
    bandwidth: _Rate
    cluster_bandwidth: _Rate | None = None
    gateways: Annotated[int, Field(ge=0, strict=True)] = 0
    crc32c: _Rate | None = None
    ec_encode: _Rate | None = None
    power_loaded: _Power | None = None
    power_idle: _Power | None = None
    disks: tuple[_Disks, ...] = ()

    @model_validator(mode="after")
    def _names_differ(self) -> _Machine:
        _once("disks.name", [disks.name for disks in self.disks])
        return self

    def build(self) -> MachineClass:
        values = {**vars(self), "disks": tuple(disks.build() for disks in self.disks)}
        return MachineClass(**values)


class _Client(_Machine):
    """A machine that only asks: disks and gateways there would change nothing, so they are refused."""

    @model_validator(mode="after")
    def _no_storage(self) -> _Client:
        if self.disks:
            raise ValueError(f"disks: {self.name} is a client, whose disks are not used; wanted: none")
        if self.gateways:
            raise ValueError(f"gateways: {self.name} is a client; wanted: none, gateways are on nodes")
        return self


class _NetworkTable(TomlTable):
    rtt: _Time
    uplink: _Rate | None = None
    mtu_bytes: Annotated[int, Field(ge=576, le=65536, strict=True)] = 1500


class _Threads(TomlTable):
    osd_shards: Count | None = None
    threads_per_shard: Count | None = None
    messenger: Count = 3


class _Profile(TomlTable):
    name: _Name
    title: Text
    nodes: Annotated[tuple[_Machine, ...], Field(min_length=1)]
    clients: tuple[_Client, ...] = ()
    clients_on_nodes: bool = False
    network: _NetworkTable
    threads: _Threads = _Threads()
    max_backfills: Count = 1
    pgs: Count | None = None
    missing: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> _Profile:
        _once("nodes.name and clients.name", [machine.name for machine in (*self.nodes, *self.clients)])
        if not any(disks.role is DiskRole.DATA for node in self.nodes for disks in node.disks):
            raise ValueError("nodes.disks: at least one node with a data disk")
        for node in self.nodes:
            if all(disks.role is DiskRole.METADATA for disks in node.disks) and node.disks:
                raise ValueError(f"nodes.disks: {node.name} has metadata disks but no data disk that could use them")
        if bool(self.clients) == self.clients_on_nodes:
            raise ValueError("clients: either [[clients]] or clients_on_nodes = true, and not both")
        return self

    def build(self) -> Profile:
        values = {
            **vars(self),
            **vars(self.network),
            "nodes": tuple(node.build() for node in self.nodes),
            "clients": tuple(client.build() for client in self.clients),
            "threads": Threads(**vars(self.threads)),
        }
        del values["network"]
        return Profile(**values)


def _once(what: str, names: Sequence[str]) -> None:
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{what}: got more than once: {', '.join(twice)}; wanted: each name once")


def load_profile(path: Path) -> Profile:
    """Read one profile file; SpecError names file, key, what was got and what was wanted."""
    read = load_model(path, _Profile, what="a profile", hint=_HINT)
    if read.name != path.stem:
        raise SpecError(
            f"{path} is not a profile", f"name: got {read.name!r}, wanted: {path.stem!r}, as the file", _HINT
        )
    return read.build()


def profile_files(own: Path) -> dict[str, Path]:
    """Name -> file of every profile: those that are shipped, and over them the user's own folder."""
    return {path.stem: path for folder in (SHIPPED, own) for path in sorted(folder.glob("*.toml"))}


def find_profile(name: str, own: Path) -> Profile:
    """A profile by name or by path (something with a / or .toml); SpecError when there is none.

    own: the folder of the user's profiles, which `cephlab probe` writes to.
    """
    if "/" in name or name.endswith(".toml"):
        return load_profile(Path(name))
    known = profile_files(own)
    if name not in known:
        hint = "`cephlab probe` makes it" if name == THIS_MACHINE else "choose one of these, or give the path of a file"
        raise SpecError(f"no profile is named '{name}'", f"known: {', '.join(sorted(known))}", hint)
    return load_profile(known[name])
