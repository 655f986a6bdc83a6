"""What a run may touch on a cluster that exists: a file or a short list, checked before anything is contacted."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.inventory import Inventory, matching
from cephlab.lab.spec.specfile import explain

HINT = "see docs/attach.md: may-break"
_KINDS = {"pool": "pools", "daemon": "daemons", "host": "hosts", "disk": "disks"}


@dataclass(frozen=True)
class Disk:
    """A disk by the machine's name in the inventory and its path there."""

    host: str
    path: str

    @property
    def name(self) -> str:
        """What a scenario calls it: the last part of its path."""
        return self.path.rsplit("/", 1)[-1]

    def __str__(self) -> str:
        return f"{self.host}:{self.path}"


@dataclass(frozen=True)
class Permit:
    """What a run may touch, by exact names. The default is nothing: read-only.

    pools: the run may make, write to and delete them, and none may exist before; daemons: may be stopped, started,
    killed and changed by commands; hosts: a scenario's programs may run and write there; disks: their content may be
    lost.
    """

    pools: frozenset[str] = frozenset()
    daemons: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    disks: frozenset[Disk] = frozenset()

    @property
    def read_only(self) -> bool:
        return self == Permit()

    def describe(self) -> list[str]:
        """Lines to print before anything is touched."""
        if self.read_only:
            return ["read-only: no pool, daemon, disk or machine may be touched (--may-break allows some)"]
        words = {
            "pools that may be made, written to and deleted": sorted(self.pools),
            "daemons that may be stopped, killed and changed": sorted(self.daemons),
            "machines on which programs may run and write": sorted(self.hosts),
            "disks whose content may be lost": sorted(map(str, self.disks)),
        }
        return [f"{what}: {', '.join(names) or 'none'}" for what, names in words.items()]

    def to_json(self) -> dict[str, list[str]]:
        return {
            "pools": sorted(self.pools),
            "daemons": sorted(self.daemons),
            "hosts": sorted(self.hosts),
            "disks": sorted(map(str, self.disks)),
        }


def read_permit(given: str | None, inventory: Inventory) -> Permit:
    """A permit from a TOML file's path, or from `pool:NAME,daemon:osd.3,host:NAME,disk:HOST:/dev/NAME`.

    SpecError names file or word, key, got and wanted. Contacts nothing.
    """
    if given is None:
        return Permit()
    path = Path(given).expanduser()
    listed = ":" in given and not path.exists()
    raw, source = (_listed(given), "--may-break") if listed else (_read(path), str(path))
    try:
        permit = _permit(_File.model_validate(raw))
    except ValidationError as error:
        raise SpecError(f"{source} is not a list of what may be touched", explain(error), HINT) from None
    _refuse_strangers(permit, inventory, source)
    return permit


def _read(path: Path) -> Mapping[str, Any]:
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"--may-break: {path} cannot be read", str(error), HINT) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML", str(error), HINT) from error


def _listed(given: str) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for word in given.split(","):
        kind, _, name = word.strip().partition(":")
        if kind not in _KINDS or not name:
            wanted = "pool:NAME, daemon:KIND.ID, host:NAME or disk:HOST:/dev/NAME"
            raise SpecError(
                f"--may-break: {word.strip()!r} names nothing", f"got {word.strip()!r}, wanted: {wanted}", HINT
            )
        names.setdefault(_KINDS[kind], []).append(name)
    return names


# A pool's name becomes part of a cephx capability, where a space or a comma would begin another one.
_Pool = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", "one pool's exact name: letters, digits, - and _")]
_Daemon = Annotated[str, matching(r"(osd\.\d+|(mon|mgr|mds)\.[A-Za-z0-9_.-]+)", "KIND.ID, such as osd.3 or mon.a")]
_Host = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", "a machine's name in the inventory")]
_Disk = Annotated[str, matching(r"[A-Za-z0-9_-]+:/[A-Za-z0-9_./:-]+", "HOST:/dev/NAME")]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pools: tuple[_Pool, ...] = ()
    daemons: tuple[_Daemon, ...] = ()
    hosts: tuple[_Host, ...] = ()
    disks: tuple[_Disk, ...] = ()


def _permit(written: _File) -> Permit:
    disks = (Disk(host, path) for host, _, path in (disk.partition(":") for disk in written.disks))
    return Permit(frozenset(written.pools), frozenset(written.daemons), frozenset(written.hosts), frozenset(disks))


def _refuse_strangers(permit: Permit, inventory: Inventory, source: str) -> None:
    known = {machine.name for machine in inventory.machines}
    named = [("hosts", host) for host in sorted(permit.hosts)]
    named += [("disks", disk.host) for disk in sorted(permit.disks, key=str)]
    wrong = [
        f"{key}: got {name!r}, wanted: one of {', '.join(sorted(known))}" for key, name in named if name not in known
    ]
    if wrong:
        raise SpecError(f"{source} names a machine that {inventory.source.name} does not have", "\n".join(wrong), HINT)
