"""Installs MicroCeph on an inventory's machines as a kept run, writes the files to attach to it, and removes it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import CleanUp, SpecError
from cephlab.lab.base.progress import Progress
from cephlab.lab.base.runs import Run, write_private
from cephlab.lab.cluster.deploy.microceph import MicroCeph, Source, remove_from
from cephlab.lab.providers.ssh.lab import SshLab, recorded
from cephlab.lab.spec.inventory import Inventory, Machine, Role, machine_to_json

MARKER = "microceph"
"""Empty file in the directory of a run that installed MicroCeph. Removing the run then removes MicroCeph too.

It is written right before the first installation: until then a machine may have a MicroCeph that is not the lab's.
"""

_INVENTORY = "inventory.toml"


@dataclass(frozen=True)
class Standing:
    """The new cluster. inventory, conf, keyring: files on this machine; disks: OSD id -> path."""

    inventory: Path
    conf: Path
    keyring: Path
    members: tuple[str, ...]
    disks: Mapping[int, str]


def servers_of(inventory: Inventory) -> tuple[Machine, ...]:
    """The machines that get Ceph; SpecError if there is none."""
    servers = tuple(machine for machine in inventory.machines if machine.roles - {Role.CLIENT})
    if not servers:
        what = f"{inventory.source} has no machine for Ceph"
        raise SpecError(what, "all machines are only clients", "give a machine the role osd")
    return servers


def raise_on_machines(
    inventory: Inventory,
    run: Run,
    source: Source,
    disks: Mapping[str, Sequence[str]],
    *,
    rgw: Mapping[str, int],
    progress: Progress,
) -> Standing:
    """Install MicroCeph on an inventory's machines. The run is not kept yet.

    disks: machine -> arguments of `disk add`. After a failure everything that was installed is removed again.
    """
    if inventory.ceph is not None:
        raise SpecError(f"{inventory.source} already has a Ceph cluster", "it has a table [ceph]", "remove [ceph]")
    lab = SshLab(run, servers_of(inventory))
    marker = run.directory / MARKER
    try:
        hosts = [lab.add_machine(machine) for machine in servers_of(inventory)]
        snaps = MicroCeph(hosts, source, progress)
        try:
            snaps.deploy(disks, rgw=rgw, begin=lambda: write_private(marker, b""))
        except BaseException:
            if not snaps.installed:
                marker.unlink(missing_ok=True)
            raise
        return _described(inventory, run, snaps)
    finally:
        lab.hang_up()


def _described(inventory: Inventory, run: Run, snaps: MicroCeph) -> Standing:
    folder = run.directory / "client"
    folder.mkdir(mode=0o700, exist_ok=True)
    conf, keyring = folder / "ceph.conf", folder / "keyring"
    for path, content in zip((conf, keyring), snaps.access(), strict=True):
        write_private(path, content)
    path = run.directory / _INVENTORY
    write_private(path, inventory_text(inventory, conf, keyring).encode())
    members = tuple(member.name for member in snaps.members())
    return Standing(path, conf, keyring, members, {disk.osd: disk.path for disk in snaps.disks()})


def inventory_text(inventory: Inventory, conf: Path, keyring: Path) -> str:
    """The text of the inventory file, including how to reach its Ceph cluster."""
    lines = [f"profile = {_quoted(inventory.profile)}"] if inventory.profile else []
    for machine in inventory.machines:
        lines += ["", "[[hosts]]", *(f"{key} = {_quoted(value)}" for key, value in _keys(machine).items())]
    return "\n".join([*lines, "", "[ceph]", f"conf = {_quoted(str(conf))}", f"keyring = {_quoted(str(keyring))}", ""])


def _keys(machine: Machine) -> dict[str, Any]:
    keys = machine_to_json(machine)
    keys["architecture"] = keys.pop("arch")
    return {key: value for key, value in keys.items() if value not in (None, "")}


def _quoted(value: str | int | list[str]) -> str:
    """A value in TOML, which writes strings, numbers and lists of strings as JSON does."""
    return json.dumps(value, ensure_ascii=False)


def remove_from_machines(run: Run) -> list[str]:
    """Remove MicroCeph from the machines on which a run installed it; returns what was removed, in words.

    Starts the agent again on a machine that was rebooted. Goes on after an error and raises CleanupFailed at the end.
    """
    if not (run.directory / MARKER).exists():
        return []
    removed: list[str] = []
    clean_up = CleanUp()
    machines = recorded(run.directory)
    lab = SshLab(run, tuple(machines.values()))
    nodes = {name: {"machine": machine_to_json(machine), "disks": []} for name, machine in machines.items()}
    lab.restore({"nodes": nodes})
    try:
        for host in lab.hosts.values():
            with clean_up.step(f"MicroCeph on {host.name}"):
                host.begin(again=True)
                remove_from(host)
                removed.append(f"MicroCeph on {host.name}")
    finally:
        lab.hang_up()
    clean_up.end()
    (run.directory / MARKER).unlink()
    return removed
