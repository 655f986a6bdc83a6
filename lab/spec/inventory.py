"""Machines that exist, as a file says: where they are, who may enter, what they are for, how to reach their Ceph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import Arch, parse_arch
from cephlab.lab.spec.clusterspec import MAX_NODE_NAME
from cephlab.lab.spec.specfile import load_model

INVENTORY_VARIABLE = "CEPHLAB_INVENTORY"
"""Path of the inventory, where no `--inventory` says."""

SSH_PORT = 22
"""Where neither the inventory nor ssh's own settings say."""

DEFAULT_DIRECTORY = "/var/tmp"
MAX_DIRECTORY = 20
"""Sockets lie below it, and a socket's path holds 107 bytes."""

HINT = "see docs/attach.md for the keys"


class Role(StrEnum):
    """What a machine is for. A client runs the suites' programs."""

    MON = "mon"
    MGR = "mgr"
    OSD = "osd"
    CLIENT = "client"


@dataclass(frozen=True)
class Machine:
    """One machine. address: where ssh goes; cluster_address: where Ceph's daemons are.

    user, port, key, known_hosts: for ssh, None for its own settings; the last two are files on this machine.
    directory, python, path: on that machine; python is 3.9 or later, path has folders that come before the user's PATH.
    sudo: whether systemctl takes `sudo -n`.
    """

    name: str
    address: str
    cluster_address: str
    arch: Arch
    roles: frozenset[Role]
    user: str | None = None
    port: int | None = None
    key: str | None = None
    known_hosts: str | None = None
    directory: str = DEFAULT_DIRECTORY
    python: str = "python3"
    sudo: bool = False
    path: str = ""


@dataclass(frozen=True)
class CephAccess:
    """How a client gets in. conf, keyring: files here; name: whose keyring it is."""

    conf: Path
    keyring: Path
    name: str = "client.admin"


@dataclass(frozen=True)
class Inventory:
    """Everything that an inventory file says. profile: name or file of a hardware profile."""

    source: Path
    machines: tuple[Machine, ...]
    ceph: CephAccess | None = None
    profile: str | None = None

    def with_role(self, role: Role) -> tuple[Machine, ...]:
        return tuple(machine for machine in self.machines if role in machine.roles)


def load_inventory(path: Path) -> Inventory:
    """Read an inventory file. Contacts nothing.

    SpecError names file, key, got and wanted, for what is not TOML, not an inventory, or names a file that is not here.
    """
    inventory = _inventory(path.absolute(), load_model(path, _InventoryFile, what="an inventory", hint=HINT))
    _refuse(inventory)
    return inventory


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """A machine as JSON values."""
    return {**asdict(machine), "arch": machine.arch.value, "roles": sorted(machine.roles)}


def machine_from_json(raw: Mapping[str, Any]) -> Machine:
    """What `machine_to_json` gave."""
    return Machine(**{**raw, "arch": parse_arch(raw["arch"]), "roles": frozenset(map(Role, raw["roles"]))})


# What a file may say. Addresses and users become words of ssh's command line, where a dash would begin an option.


def matching(pattern: str, wanted: str) -> AfterValidator:
    """Refuses a value that does not match as a whole. wanted: what to write instead, in words."""

    def check(value: str) -> str:
        if not re.fullmatch(pattern, value):
            raise ValueError(wanted)
        return value

    return AfterValidator(check)


def _arch(value: str) -> str:
    try:
        return parse_arch(value).value
    except SpecError as error:
        raise ValueError(error.detail) from None


_Name = Annotated[
    str,
    matching(
        rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NODE_NAME - 1}}}",
        f"1 to {MAX_NODE_NAME} letters, digits, - and _, beginning with a letter or digit",
    ),
]
_Address = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", "a name or an address")]
_User = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_.-]*", "a user's name")]
_Port = Annotated[int, Field(ge=1, le=65535, strict=True)]
_Arch = Annotated[str, AfterValidator(_arch)]
_Program = Annotated[str, matching(r"[A-Za-z0-9_./+-]+", "a program's name or path")]
_Path = Annotated[str, matching(r"/[^:\0\n]*(:/[^:\0\n]*)*", "absolute paths, separated by colons")]
_Entity = Annotated[str, matching(r"client\.[A-Za-z0-9_.-]+", "client.NAME")]
_Directory = Annotated[
    str,
    matching(rf"/[A-Za-z0-9_./-]{{1,{MAX_DIRECTORY - 1}}}", f"an absolute path, at most {MAX_DIRECTORY} letters"),
]


class _InventoryPart(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Defaults(_InventoryPart):
    user: _User | None = None
    port: _Port | None = None
    key: str | None = None
    known_hosts: str | None = None
    architecture: _Arch | None = None
    directory: _Directory | None = None
    python: _Program | None = None
    sudo: bool | None = None
    path: _Path | None = None


class _InventoryHost(_Defaults):
    name: _Name
    address: _Address
    cluster_address: _Address | None = None
    roles: Annotated[frozenset[Role], Field(min_length=1)]


class _Ceph(_InventoryPart):
    conf: str
    keyring: str
    name: _Entity = "client.admin"


class _InventoryFile(_Defaults):
    hosts: Annotated[tuple[_InventoryHost, ...], Field(min_length=1)]
    ceph: _Ceph | None = None
    profile: str | None = None


def _inventory(path: Path, written: _InventoryFile) -> Inventory:
    def here(name: str) -> Path:
        return path.parent / Path(name).expanduser()

    machines = tuple(_machine(path, host, written, number) for number, host in enumerate(written.hosts))
    ceph = written.ceph
    access = CephAccess(here(ceph.conf), here(ceph.keyring), ceph.name) if ceph else None
    return Inventory(path, machines, access, written.profile)


def _machine(path: Path, host: _InventoryHost, defaults: _Defaults, number: int) -> Machine:
    usual: dict[str, Any] = defaults.model_dump(include=set(_Defaults.model_fields), exclude_none=True)
    said: dict[str, Any] = {"cluster_address": host.address, **usual, **host.model_dump(exclude_none=True)}
    if "architecture" not in said:
        raise SpecError(
            f"{path} is not an inventory",
            f"hosts.{number}.architecture: missing, at the top of the file too; wanted: x86_64 or aarch64",
            HINT,
        )
    arch = parse_arch(said.pop("architecture"))
    said |= {key: str(path.parent / Path(said[key]).expanduser()) for key in ("key", "known_hosts") if key in said}
    return Machine(arch=arch, **said)


def _refuse(inventory: Inventory) -> None:
    """SpecError for an inventory whose keys fit and which cannot be used all the same."""
    names = [machine.name for machine in inventory.machines]
    wrong = [f"hosts: {name!r} is there twice, wanted: a name of its own" for name in _twice(names)]
    places = [f"{machine.address} port {machine.port or SSH_PORT}" for machine in inventory.machines]
    wrong += [f"hosts: {place} is there twice, wanted: each machine once" for place in _twice(places)]
    for machine in inventory.machines:
        wrong += _absent(f"key of {machine.name}", machine.key)
        wrong += _absent(f"known_hosts of {machine.name}", machine.known_hosts)
    if inventory.ceph is not None:
        wrong += _absent("ceph.conf", str(inventory.ceph.conf)) + _absent("ceph.keyring", str(inventory.ceph.keyring))
    if wrong:
        raise SpecError(f"{inventory.source} is not an inventory", "\n".join(wrong), HINT)


def _twice(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})


def _absent(key: str, path: str | None) -> list[str]:
    if path is None or Path(path).is_file():
        return []
    return [f"{key}: got {path}, wanted: a file that is there"]
