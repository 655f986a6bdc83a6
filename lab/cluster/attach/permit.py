"""The list of what a run may touch on an existing cluster: a file or a few words, checked before connecting."""

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import user_path
from cephlab.lab.spec.inventory import Inventory, matching
from cephlab.lab.spec.specfile import TomlTable, as_model, load_toml

HINT = "see docs/attach.md: may-break"
_KINDS = {"pool": "pools", "daemon": "daemons", "host": "hosts", "disk": "disks", "bucket": "buckets"}


@dataclass(frozen=True)
class PermittedDisk:
    """A disk whose content may be lost. host: the machine's name in the inventory; path: path of the disk there."""

    host: str
    path: str

    @property
    def name(self) -> str:
        """The name that scenarios use: the last part of the path."""
        return PurePosixPath(self.path).name

    def __str__(self) -> str:
        return f"{self.host}:{self.path}"


@dataclass(frozen=True)
class Permit:
    """What a run may touch, by exact names. The default is nothing: read-only.

    pools: the run may make, write to and delete them, and they must not exist before. daemons: may be stopped, started,
    killed and changed by commands. hosts: a scenario's programs may run and write there. disks: their content may be
    lost. buckets: S3 buckets, with the same rules as pools.
    """

    pools: frozenset[str] = frozenset()
    daemons: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    disks: frozenset[PermittedDisk] = frozenset()
    buckets: frozenset[str] = frozenset()

    @property
    def read_only(self) -> bool:
        return self == Permit()

    def describe(self) -> list[str]:
        """Lines to print before anything is touched."""
        if self.read_only:
            return ["read-only: no pool, bucket, daemon, disk or machine may be touched (--may-break allows some)"]
        allowed = {
            "pools": "pools that may be made, written to and deleted",
            "daemons": "daemons that may be stopped, killed and changed",
            "hosts": "machines on which programs may run and write",
            "disks": "disks whose content may be lost",
            "buckets": "buckets that may be made, written to and deleted",
        }
        return [f"{allowed[key]}: {', '.join(names) or 'none'}" for key, names in self.to_json().items()]

    def to_json(self) -> dict[str, list[str]]:
        return {
            "pools": sorted(self.pools),
            "daemons": sorted(self.daemons),
            "hosts": sorted(self.hosts),
            "disks": sorted(map(str, self.disks)),
            "buckets": sorted(self.buckets),
        }


def read_permit(given: str | None, inventory: Inventory) -> Permit:
    """A permit from a TOML file's path, or from `pool:NAME,daemon:osd.3,host:NAME,disk:HOST:/dev/NAME,bucket:NAME`.

    SpecError names file or word, key, got and wanted. Contacts nothing.
    """
    if given is None:
        return Permit()
    path = user_path(given)
    listed = ":" in given and not path.exists()
    raw, source = (_listed(given), "--may-break") if listed else (load_toml(path, HINT), str(path))
    permit = _permit(as_model(raw, _File, source=source, what="a list of what may be touched", hint=HINT))
    _refuse_strangers(permit, inventory, source)
    return permit


def _listed(text: str) -> dict[str, list[str]]:
    names: dict[str, list[str]] = {}
    for word in text.split(","):
        kind, _, name = word.strip().partition(":")
        if kind not in _KINDS or not name:
            wanted = "wanted: pool:NAME, daemon:KIND.ID, host:NAME, disk:HOST:/dev/NAME or bucket:NAME"
            raise SpecError(f"--may-break does not understand {word.strip()!r}", wanted, HINT)
        names.setdefault(_KINDS[kind], []).append(name)
    return names


# A pool's name becomes part of a cephx capability, where a space or a comma would start another one.
_Pool = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", "one pool's exact name: letters, digits, - and _")]
_Daemon = Annotated[str, matching(r"(osd\.\d+|(mon|mgr|mds)\.[A-Za-z0-9_.-]+)", "KIND.ID, e.g. osd.3 or mon.a")]
_Host = Annotated[str, matching(r"[A-Za-z0-9][A-Za-z0-9_-]*", "a machine's name in the inventory")]
_Bucket = Annotated[str, matching(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", "one bucket's exact name, as S3 allows it")]
_Disk = Annotated[str, matching(r"[A-Za-z0-9_-]+:/[A-Za-z0-9_./:-]+", "HOST:/dev/NAME")]


class _File(TomlTable):
    pools: tuple[_Pool, ...] = ()
    daemons: tuple[_Daemon, ...] = ()
    hosts: tuple[_Host, ...] = ()
    disks: tuple[_Disk, ...] = ()
    buckets: tuple[_Bucket, ...] = ()


def _permit(written: _File) -> Permit:
    disks = frozenset(PermittedDisk(host, path) for host, _, path in (disk.partition(":") for disk in written.disks))
    pools, daemons, hosts = frozenset(written.pools), frozenset(written.daemons), frozenset(written.hosts)
    return Permit(pools, daemons, hosts, disks, frozenset(written.buckets))


def _refuse_strangers(permit: Permit, inventory: Inventory, source: str) -> None:
    known = {machine.name for machine in inventory.machines}
    named = [("hosts", host) for host in sorted(permit.hosts)]
    named += [("disks", disk.host) for disk in sorted(permit.disks, key=str)]
    wanted = f"wanted: one of {', '.join(sorted(known))}"
    wrong = [f"{key}: got {name!r}, {wanted}" for key, name in named if name not in known]
    if wrong:
        raise SpecError(f"{source} names a machine that {inventory.source.name} does not have", "\n".join(wrong), HINT)
