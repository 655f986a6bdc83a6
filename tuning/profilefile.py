"""Profiles as TOML files: every key and unit is checked, and what does not fit is named with its place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.specfile import load_model
from cephlab.tuning.profile import MachineClass, Name, Profile, RateFigure, Threads, TimeFigure
from cephlab.tuning.tables import Count, Text, TomlTable, refuse_twice

SHIPPED = Path(__file__).with_name("profiles")
THIS_MACHINE = "this-machine"
_HINT = "docs/model.md shows a whole profile"


class _NetworkTable(TomlTable):
    rtt: TimeFigure
    uplink: RateFigure | None = None
    mtu_bytes: Annotated[int, Field(ge=576, le=65536, strict=True)] = 1500


class _Profile(TomlTable):
    name: Name
    title: Text
    nodes: Annotated[tuple[MachineClass, ...], Field(min_length=1)]
    clients: tuple[MachineClass, ...] = ()
    clients_on_nodes: bool = False
    network: _NetworkTable
    threads: Threads = Threads()
    max_backfills: Count = 1
    pgs: Count | None = None
    missing: tuple[Text, ...] = ()

    @model_validator(mode="after")
    def _sound(self) -> _Profile:
        refuse_twice("nodes.name and clients.name", [machine.name for machine in (*self.nodes, *self.clients)])
        if not any(node.data_disks for node in self.nodes):
            raise ValueError("nodes.disks: at least one node with a data disk")
        for number, node in enumerate(self.nodes):
            refuse_twice(f"nodes.{number}: disks.name", [disks.name for disks in node.disks])
            if node.metadata_disks and not node.data_disks:
                raise ValueError(f"nodes.disks: {node.name} has metadata disks but no data disk that could use them")
        for number, client in enumerate(self.clients):
            if client.disks:
                raise ValueError(f"clients.{number}: disks: {client.name} is a client, whose disks are not used")
            if client.gateways:
                raise ValueError(f"clients.{number}: gateways: {client.name} is a client; gateways are on nodes")
        if bool(self.clients) == self.clients_on_nodes:
            raise ValueError("clients: either [[clients]] or clients_on_nodes = true, and not both")
        return self

    def build(self) -> Profile:
        values = {**vars(self), **vars(self.network)}
        del values["network"]
        return Profile(**values)


def load_profile(path: Path) -> Profile:
    """Read one profile file; SpecError names file, key, got and wanted."""
    read = load_model(path, _Profile, what="a profile", hint=_HINT)
    if read.name != path.stem:
        raise SpecError(
            f"{path} is not a profile", f"name: got {read.name!r}, wanted: {path.stem!r}, as the file", _HINT
        )
    return read.build()


def profile_files(own: Path) -> dict[str, Path]:
    """Name -> file of every profile. A profile of the user's own folder hides a shipped one of the same name."""
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
