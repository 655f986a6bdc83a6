"""Machines that exist, as a file says: where they are, who may enter, what they are for, how to reach their Ceph."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from lab.arch import Arch, parse_arch
from lab.errors import SpecError
from lab.spec import MAX_NODE_NAME
from lab.specfile import explain

INVENTORY_VARIABLE = "CEPHLAB_INVENTORY"
"""Path of the inventory, where no `--inventory` says."""

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
    """One machine. key, known_hosts: files here, None for ssh's own; python: 3.9 or later, there.

    path: folders there, separated by colons, where programs are looked for before the user's own PATH.

    sudo: whether systemctl takes `sudo -n`. address: where ssh goes; cluster_address: where Ceph's daemons are.
    """

    name: str
    address: str
    cluster_address: str
    arch: Arch
    roles: frozenset[Role]
    user: str | None = None
    port: int = 22
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
    try:
        raw = tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"{path} cannot be read", str(error), HINT) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML", str(error)) from error
    try:
        written = _File.model_validate(raw)
    except ValidationError as error:
        raise SpecError(f"{path} is not an inventory", explain(error), HINT) from None
    found = _inventory(path.absolute(), written)
    _refuse(found)
    return found


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """A machine as JSON values."""
    return {**asdict(machine), "arch": machine.arch.value, "roles": sorted(machine.roles)}


def machine_from_json(raw: Mapping[str, Any]) -> Machine:
    """What `machine_to_json` gave."""
    return Machine(**{**raw, "arch": parse_arch(raw["arch"]), "roles": frozenset(map(Role, raw["roles"]))})


# What a file may say. Addresses and users become words of ssh's command line, where a dash would begin an option.


def _matching(pattern: str, wanted: str) -> AfterValidator:
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
    _matching(
        rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NODE_NAME - 1}}}",
        f"1 to {MAX_NODE_NAME} letters, digits, - and _, beginning with a letter or digit",
    ),
]
_Address = Annotated[str, _matching(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", "a name or an address")]
_User = Annotated[str, _matching(r"[A-Za-z_][A-Za-z0-9_.-]*", "a user's name")]
_Port = Annotated[int, Field(ge=1, le=65535, strict=True)]
_Arch = Annotated[str, AfterValidator(_arch)]
_Program = Annotated[str, _matching(r"[A-Za-z0-9_./+-]+", "a program's name or path")]
_Path = Annotated[str, _matching(r"/[^:\0\n]*(:/[^:\0\n]*)*", "absolute paths, separated by colons")]
_Entity = Annotated[str, _matching(r"client\.[A-Za-z0-9_.-]+", "client.NAME")]
_Directory = Annotated[
    str,
    _matching(rf"/[A-Za-z0-9_./-]{{1,{MAX_DIRECTORY - 1}}}", f"an absolute path, at most {MAX_DIRECTORY} letters"),
]


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid")


class _Defaults(_Table):
    user: _User | None = None
    port: _Port | None = None
    key: str | None = None
    known_hosts: str | None = None
    architecture: _Arch | None = None
    directory: _Directory | None = None
    python: _Program | None = None
    sudo: bool | None = None
    path: _Path | None = None


class _Host(_Defaults):
    name: _Name
    address: _Address
    cluster_address: _Address | None = None
    roles: Annotated[frozenset[Role], Field(min_length=1)]


class _Ceph(_Table):
    conf: str
    keyring: str
    name: _Entity = "client.admin"


class _File(_Defaults):
    hosts: Annotated[tuple[_Host, ...], Field(min_length=1)]
    ceph: _Ceph | None = None
    profile: str | None = None


def _inventory(path: Path, written: _File) -> Inventory:
    def here(name: str) -> Path:
        return path.parent / Path(name).expanduser()

    machines = tuple(_machine(path, host, written, number) for number, host in enumerate(written.hosts))
    ceph = written.ceph
    access = CephAccess(here(ceph.conf), here(ceph.keyring), ceph.name) if ceph else None
    return Inventory(path, machines, access, written.profile)


def _machine(path: Path, host: _Host, defaults: _Defaults, number: int) -> Machine:
    def of(key: str) -> Any:
        own = getattr(host, key)
        return getattr(defaults, key) if own is None else own

    def file(key: str) -> str | None:
        name = of(key)
        return str(path.parent / Path(name).expanduser()) if name else None

    if of("architecture") is None:
        raise SpecError(
            f"{path} is not an inventory",
            f"hosts.{number}.architecture: missing, at the top of the file too; wanted: x86_64 or aarch64",
            HINT,
        )
    return Machine(
        name=host.name,
        address=host.address,
        cluster_address=host.cluster_address or host.address,
        arch=parse_arch(of("architecture")),
        roles=host.roles,
        user=of("user"),
        port=of("port") or 22,
        key=file("key"),
        known_hosts=file("known_hosts"),
        directory=of("directory") or DEFAULT_DIRECTORY,
        python=of("python") or "python3",
        sudo=bool(of("sudo")),
        path=of("path") or "",
    )


def _refuse(found: Inventory) -> None:
    """What fits each key and cannot be served all the same."""
    names = [machine.name for machine in found.machines]
    wrong = [f"hosts: {name!r} is there twice, wanted: a name of its own" for name in _twice(names)]
    places = [f"{machine.address} port {machine.port}" for machine in found.machines]
    wrong += [f"hosts: {place} is there twice, wanted: each machine once" for place in _twice(places)]
    for machine in found.machines:
        wrong += _absent(f"key of {machine.name}", machine.key)
        wrong += _absent(f"known_hosts of {machine.name}", machine.known_hosts)
    if found.ceph is not None:
        wrong += _absent("ceph.conf", str(found.ceph.conf)) + _absent("ceph.keyring", str(found.ceph.keyring))
    if wrong:
        raise SpecError(f"{found.source} is not an inventory", "\n".join(wrong), HINT)


def _twice(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})


def _absent(key: str, path: str | None) -> list[str]:
    if path is None or Path(path).is_file():
        return []
    return [f"{key}: got {path}, wanted: a file that is there"]
