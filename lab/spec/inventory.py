"""The inventory file: existing machines, how to log in to them, their roles, and how to reach their Ceph."""

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import is_file, read_text, user_path
from cephlab.lab.spec.arch import Arch, parse_arch
from cephlab.lab.spec.clusterspec import MAX_NODE_NAME
from cephlab.lab.spec.specfile import Text, TomlTable, load_model
from cephlab.lab.spec.written import Flag, names_file

INVENTORY_VARIABLE = "CEPHLAB_INVENTORY"
"""Environment variable with the path of the inventory, unless `--inventory` gives it."""

NVMEOF_PORT = 5500
"""Port of the gRPC API of ceph-nvmeof; its own default."""

EXPORTER_PORT = 9100
"""Port of prometheus-node-exporter; its own default."""

SSH_PORT = 22
"""Port of ssh, unless the inventory or ssh's own settings give another."""

DEFAULT_DIRECTORY = "/var/tmp"
MAX_DIRECTORY = 20
"""Sockets are below the directory, and a socket's path has at most 107 bytes."""

HINT = "see docs/attach.md for the keys"


class Role(StrEnum):
    """A machine's purpose. A client runs the suites' programs."""

    MON = "mon"
    MGR = "mgr"
    OSD = "osd"
    NVMEOF = "nvmeof"
    CLIENT = "client"


@dataclass(frozen=True)
class Machine:
    """One machine. address: where ssh connects; cluster_address: address of its Ceph daemons.

    user, port, key, known_hosts: for ssh; None for its own settings. The last two are files on this machine.
    directory, python, path: on that machine; python is 3.9 or later, path is put before the user's PATH.
    sudo: whether systemctl needs `sudo -n`. exporter: port of its node exporter, if it has one.
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
    exporter: int = EXPORTER_PORT


@dataclass(frozen=True)
class CephAccess:
    """What a client needs. conf, keyring: files on this machine; name: the entity of the keyring."""

    conf: Path
    keyring: Path
    name: str = "client.admin"


@dataclass(frozen=True)
class S3Access:
    """How S3 is reached. endpoints: `ADDRESS:PORT`, plain HTTP; keys: file with a user's access_key and secret_key."""

    endpoints: tuple[str, ...]
    keys: Path


@dataclass(frozen=True)
class NvmeofAccess:
    """How ceph-nvmeof gateways are reached. pool: where Ceph keeps their configuration; port: of their gRPC API.

    certificates: with mTLS, the files with the gateways' certificate, the client's certificate and the client's key.
    """

    pool: str
    port: int = NVMEOF_PORT
    certificates: tuple[Path, Path, Path] | None = None


@dataclass(frozen=True)
class Inventory:
    """The content of an inventory file. profile: name, or path of the file, of a hardware profile."""

    source: Path
    machines: tuple[Machine, ...]
    ceph: CephAccess | None = None
    profile: str | None = None
    s3: S3Access | None = None
    nvmeof: NvmeofAccess | None = None

    def with_role(self, role: Role) -> tuple[Machine, ...]:
        return tuple(machine for machine in self.machines if role in machine.roles)


def with_port(address: str, port: int) -> str:
    """ADDRESS:PORT, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def load_inventory(path: Path) -> Inventory:
    """Read an inventory file. Contacts nothing.

    SpecError names file, key, got and wanted if it is not TOML, not an inventory, or names a missing file.
    """
    inventory = _inventory(path.absolute(), load_model(path, _InventoryFile, what="an inventory", hint=HINT))
    _refuse(inventory)
    return inventory


def machine_to_json(machine: Machine) -> dict[str, Any]:
    """A machine as JSON values."""
    return {**asdict(machine), "arch": machine.arch.value, "roles": sorted(machine.roles)}


def machine_from_json(raw: Mapping[str, Any]) -> Machine:
    """The machine that `machine_to_json` was given."""
    return Machine(**{**raw, "arch": parse_arch(raw["arch"]), "roles": frozenset(map(Role, raw["roles"]))})


# The file's keys. Addresses and users become words of ssh's command line, where a dash would begin an option.


def matching(pattern: str, wanted: str) -> AfterValidator:
    """Refuses a value that does not match as a whole. wanted: the right form, in words."""

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


def _with_a_port(endpoint: str) -> str:
    if not 0 < int(endpoint.rpartition(":")[2]) < 1 << 16:
        raise ValueError("ADDRESS:PORT, with a port from 1 to 65535")
    return endpoint


_Name = Annotated[
    str,
    matching(
        rf"[A-Za-z0-9][A-Za-z0-9_-]{{0,{MAX_NODE_NAME - 1}}}",
        f"1 to {MAX_NODE_NAME} letters, digits, - and _, starting with a letter or digit",
    ),
]
_Address = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9.:_-]*", "a name or an address")]
_Endpoint = Annotated[
    str, matching(r"[A-Za-z0-9][A-Za-z0-9._-]*:[0-9]{1,5}", "ADDRESS:PORT"), AfterValidator(_with_a_port)
]
_User = Annotated[str, matching(r"[A-Za-z_][A-Za-z0-9_.-]*", "a user's name")]
_Port = Annotated[int, Field(ge=1, le=65535, strict=True)]
_Arch = Annotated[str, AfterValidator(_arch)]
_Program = Annotated[str, matching(r"[A-Za-z0-9_./+-]+", "a program's name or path")]
_Path = Annotated[str, matching(r"/[^:\0\n]*(:/[^:\0\n]*)*", "absolute paths, separated by colons")]
_Entity = Annotated[str, matching(r"client\.[A-Za-z0-9_.-]+", "client.NAME")]
_Directory = Annotated[
    str,
    matching(rf"/[A-Za-z0-9_./-]{{1,{MAX_DIRECTORY - 1}}}", f"an absolute path, at most {MAX_DIRECTORY} characters"),
]


class _Defaults(TomlTable):
    user: _User | None = None
    port: _Port | None = None
    key: str | None = None
    known_hosts: str | None = None
    architecture: _Arch | None = None
    directory: _Directory | None = None
    python: _Program | None = None
    sudo: Flag | None = None
    path: _Path | None = None
    exporter: _Port | None = None


class _InventoryHost(_Defaults):
    name: _Name
    address: _Address
    cluster_address: _Address | None = None
    roles: Annotated[frozenset[Role], Field(min_length=1)]


class _Ceph(TomlTable):
    conf: str
    keyring: str
    name: _Entity = "client.admin"


class _S3(TomlTable):
    endpoints: Annotated[tuple[_Endpoint, ...], Field(min_length=1)]
    keys: str


class _Nvmeof(TomlTable):
    pool: Text
    port: _Port = NVMEOF_PORT
    server_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None

    @property
    def files(self) -> list[str]:
        return [name for name in (self.server_cert, self.client_cert, self.client_key) if name]

    @model_validator(mode="after")
    def _sound(self) -> "_Nvmeof":
        if len(self.files) not in (0, 3):
            raise ValueError("got some of server_cert, client_cert, client_key; wanted: all three for mTLS, or none")
        return self


class _InventoryFile(_Defaults):
    hosts: Annotated[tuple[_InventoryHost, ...], Field(min_length=1)]
    ceph: _Ceph | None = None
    s3: _S3 | None = None
    nvmeof: _Nvmeof | None = None
    profile: Text | None = None


def _inventory(path: Path, written: _InventoryFile) -> Inventory:
    def here(name: str) -> Path:
        return path.parent / user_path(name)

    machines = tuple(_machine(path, host, written, number) for number, host in enumerate(written.hosts))
    ceph = written.ceph
    access = CephAccess(here(ceph.conf), here(ceph.keyring), ceph.name) if ceph else None
    s3 = S3Access(written.s3.endpoints, here(written.s3.keys)) if written.s3 else None
    profile = str(here(written.profile)) if written.profile and names_file(written.profile) else written.profile
    return Inventory(path, machines, access, profile, s3, _nvmeof(written.nvmeof, here))


def _nvmeof(written: _Nvmeof | None, here: Callable[[str], Path]) -> NvmeofAccess | None:
    if written is None:
        return None
    files = [here(name) for name in written.files]
    return NvmeofAccess(written.pool, written.port, (files[0], files[1], files[2]) if files else None)


def _machine(path: Path, host: _InventoryHost, defaults: _Defaults, number: int) -> Machine:
    usual: dict[str, Any] = defaults.model_dump(include=set(_Defaults.model_fields), exclude_none=True)
    keys: dict[str, Any] = {"cluster_address": host.address, **usual, **host.model_dump(exclude_none=True)}
    if "architecture" not in keys:
        raise SpecError(
            f"{path} is not an inventory",
            f"hosts.{number}.architecture: missing, at the top of the file too; wanted: x86_64 or aarch64",
            HINT,
        )
    arch = parse_arch(keys.pop("architecture"))
    keys |= {key: str(path.parent / user_path(keys[key])) for key in ("key", "known_hosts") if key in keys}
    return Machine(arch=arch, **keys)


def _refuse(inventory: Inventory) -> None:
    """SpecError if names, addresses or files cannot be used."""
    names = [machine.name for machine in inventory.machines]
    wrong = [f"hosts: {name!r} is there twice, wanted: each name once" for name in _duplicates(names)]
    places = [f"{machine.address} port {machine.port or SSH_PORT}" for machine in inventory.machines]
    wrong += [f"hosts: {place} is there twice, wanted: each machine once" for place in _duplicates(places)]
    if (inventory.nvmeof is None) is bool(inventory.with_role(Role.NVMEOF)):
        wrong += ["nvmeof: wanted: a table [nvmeof] and the role nvmeof for each machine with a gateway, or neither"]
    wrong += [
        f"{key}: got {path}, wanted: an existing file"
        for key, path in _files(inventory)
        if path and not is_file(Path(path))
    ]
    if inventory.ceph is not None and not wrong:
        for path in (inventory.ceph.conf, inventory.ceph.keyring):
            read_text(path, HINT)
    if wrong:
        raise SpecError(f"{inventory.source} is not an inventory", "\n".join(wrong), HINT)


def _files(inventory: Inventory) -> list[tuple[str, str | Path | None]]:
    """(key, file) of everything that an inventory may name; None if it does not."""
    files: list[tuple[str, str | Path | None]] = []
    for machine in inventory.machines:
        files += [(f"key of {machine.name}", machine.key), (f"known_hosts of {machine.name}", machine.known_hosts)]
    if inventory.profile and names_file(inventory.profile):
        files += [("profile", inventory.profile)]
    if inventory.ceph is not None:
        files += [("ceph.conf", inventory.ceph.conf), ("ceph.keyring", inventory.ceph.keyring)]
    if inventory.s3 is not None:
        files += [("s3.keys", inventory.s3.keys)]
    if inventory.nvmeof is not None:
        written = ("server_cert", "client_cert", "client_key")
        certificates = inventory.nvmeof.certificates or ()
        files += [(f"nvmeof.{name}", file) for name, file in zip(written, certificates, strict=False)]
    return files


def _duplicates(values: list[str]) -> list[str]:
    return sorted({value for value in values if values.count(value) > 1})
