"""Profiles as TOML files: every key and unit is checked, and an error names the place of what does not fit."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import user_path
from cephlab.lab.base.nearest import did_you_mean
from cephlab.lab.spec.specfile import Count, Text, TomlTable, as_model, load_toml, refuse_twice
from cephlab.lab.spec.written import Flag, names_file
from cephlab.tuning.changes import changed
from cephlab.tuning.profile import DiskRole, Figure, MachineClass, Name, Profile, RateFigure, Threads, TimeFigure
from cephlab.tuning.requirements import RecoveryRequirement, Requirement
from cephlab.tuning.units import Measure

SHIPPED = Path(__file__).with_name("profiles")
THIS_MACHINE = "this-machine"
_HINT = "docs/model.md shows a whole profile, docs/requirements.md its requirements"


class _NetworkTable(TomlTable):
    rtt: TimeFigure
    uplink: RateFigure | None = None
    nvmeof_cores: Annotated[int, Field(ge=0, strict=True)] = 0
    mtu_bytes: Annotated[int, Field(ge=576, le=65536, strict=True)] = 1500


class _Profile(TomlTable):
    name: Name
    title: Text
    nodes: Annotated[tuple[MachineClass, ...], Field(min_length=1)]
    clients: tuple[MachineClass, ...] = ()
    clients_on_nodes: Flag = False
    network: _NetworkTable
    threads: Threads = Threads()
    max_backfills: Count = 1
    pgs: Count | None = None
    missing: tuple[Text, ...] = ()
    requirements: tuple[Requirement, ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> _Profile:
        refuse_twice("nodes.name and clients.name", [machine.name for machine in (*self.nodes, *self.clients)])
        if not any(node.data_disks for node in self.nodes):
            raise ValueError("nodes.disks: at least one node with a data disk")
        for number, node in enumerate(self.nodes):
            refuse_twice(f"nodes.{number}: disks.name", [disks.name for disks in node.disks])
            if node.metadata_disks and not node.data_disks:
                raise ValueError(f"nodes.disks: {node.name} has metadata disks but no data disk that could use them")
            if any(disks.role is DiskRole.CACHE for disks in node.disks):
                raise ValueError(f"nodes.{number}: disks: {node.name} is a node; the role cache is for clients only")
        for number, client in enumerate(self.clients):
            refuse_twice(f"clients.{number}: disks.name", [disks.name for disks in client.disks])
            if any(disks.role is not DiskRole.CACHE for disks in client.disks):
                raise ValueError(f"clients.{number}: disks: {client.name} is a client, whose disks have the role cache")
            if client.gateways:
                raise ValueError(f"clients.{number}: gateways: {client.name} is a client; gateways are on nodes")
        if bool(self.clients) == self.clients_on_nodes:
            raise ValueError("clients: either [[clients]] or clients_on_nodes = true, and not both")
        refuse_twice("requirements.name", [requirement.name for requirement in self.requirements])
        return self

    def build(self) -> Profile:
        values = {**vars(self), **vars(self.network)}
        del values["network"], values["requirements"]
        return Profile(**values)


@dataclass(frozen=True)
class Hardware:
    """A profile's file as read: the machines, and what they are wanted for. path: of the file."""

    path: Path
    profile: Profile
    requirements: tuple[Requirement, ...]

    @property
    def recovery(self) -> RecoveryRequirement | None:
        """The first requirement of recovery; None where there is none."""
        return next((wanted for wanted in self.requirements if isinstance(wanted, RecoveryRequirement)), None)


def load_hardware(path: Path, changes: Sequence[str] = ()) -> Hardware:
    """Read one profile file; SpecError names file, key, got and wanted.

    changes: `PLACE=VALUE`, put in place of what the file has; the profile's name says them.
    """
    source = f"{path.stem} with {', '.join(changes)}" if changes else path
    read = as_model(changed(load_toml(path, _HINT), changes), _Profile, source=source, what="a profile", hint=_HINT)
    if read.name != path.stem:
        raise SpecError(
            f"{path} is not a profile", f"name: got {read.name!r}, wanted: {path.stem!r}, the file's name", _HINT
        )
    built = read.build()
    return Hardware(path, replace(built, name=", ".join((built.name, *changes))), read.requirements)


def load_profile(path: Path) -> Profile:
    """The machines of one profile file; see `load_hardware`."""
    return load_hardware(path).profile


def profile_files(own: Path) -> dict[str, Path]:
    """Name -> file of every profile. A profile of the user's own folder hides a shipped one of the same name."""
    return {path.stem: path for folder in (SHIPPED, own) for path in sorted(folder.glob("*.toml"))}


def find_hardware(name: str, own: Path, changes: Sequence[str]) -> Hardware:
    """A profile's file by name or by path (something with a / or .toml); SpecError when there is none.

    own: the folder of the user's profiles, which `cephlab probe` writes to. changes: see `load_hardware`.
    """
    if names_file(name):
        return load_hardware(user_path(name), changes)
    known = profile_files(own)
    if name not in known:
        hint = did_you_mean(name, known, "choose one of these, or give the path of a file")
        hint = "`cephlab probe` makes it" if name == THIS_MACHINE else hint
        raise SpecError(f"no profile is named '{name}'", f"known: {', '.join(sorted(known))}", hint)
    return load_hardware(known[name], changes)


def find_profile(name: str, own: Path, changes: Sequence[str] = ()) -> Profile:
    """The machines of a profile; see `find_hardware`."""
    return find_hardware(name, own, changes).profile


_UNIT = {
    Measure.BYTES: ("GiB", 2.0**30),
    Measure.RATE: ("MB/s", 1e6),
    Measure.TIME: ("us", 1e-6),
    Measure.OPS: ("IOPS", 1.0),
    Measure.SPEED: ("points", 1.0),
    Measure.POWER: ("W", 1.0),
}


def to_toml(profile: Profile) -> str:
    """The file's text. `load_profile` reads an equal profile from it, with figures to three decimals."""
    lines = [f"name = {_text(profile.name)}", f"title = {_text(profile.title)}"]
    if profile.clients_on_nodes:
        lines.append("clients_on_nodes = true")
    if profile.max_backfills != 1:
        lines.append(f"max_backfills = {profile.max_backfills}")
    if profile.pgs:
        lines.append(f"pgs = {profile.pgs}")
    if profile.missing:
        lines += ["missing = [", *(f"  {_text(line)}," for line in profile.missing), "]"]
    lines += ["", "[network]", f"rtt = {_figure(profile.rtt)}", f"mtu_bytes = {profile.mtu_bytes}"]
    if profile.uplink:
        lines.append(f"uplink = {_figure(profile.uplink)}")
    if profile.nvmeof_cores:
        lines.append(f"nvmeof_cores = {profile.nvmeof_cores}")
    lines += ["", "[threads]", *_plain(profile.threads)]
    for kind, machines in (("nodes", profile.nodes), ("clients", profile.clients)):
        for machine in machines:
            lines += ["", f"[[{kind}]]", *_plain(machine)]
            for disks in machine.disks:
                lines += ["", f"[[{kind}.disks]]", *_plain(disks)]
    return "\n".join(lines) + "\n"


def own_copy(source: Path, name: str) -> str:
    """The text of a profile's file with another name; SpecError where the name is not valid for a profile."""
    try:
        TypeAdapter(Name).validate_python(name)
    except ValidationError:
        raise SpecError(
            f"{name!r} is not a valid name for a profile", "wanted: a-z, 0-9 and -", "choose another name"
        ) from None
    return re.sub(r"^name\s*=.*$", f"name = {_text(name)}", source.read_text(), count=1, flags=re.MULTILINE)


def _plain(thing: object) -> Iterator[str]:
    """One line for each value of a dataclass, except for tables."""
    for key, value in vars(thing).items():
        if isinstance(value, Figure):
            yield f"{key} = {_figure(value)}"
        elif value is not None and not isinstance(value, tuple):
            yield f"{key} = {_text(value) if isinstance(value, str) else value}"


def _figure(figure: Figure) -> str:
    unit, size = _UNIT[figure.kind]
    number = f"{figure.value / size:.3f}".rstrip("0").rstrip(".")
    return f"{{ value = {_text(f'{number} {unit}')}, source = {_text(figure.source)} }}"


def _text(words: str) -> str:
    # A JSON string is a TOML basic string too, as long as only ASCII characters are escaped.
    return json.dumps(str(words), ensure_ascii=False)
