"""`cephlab up --deploy microceph`: MicroCeph on the machines of an inventory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lab.errors import LabError, SpecError

if TYPE_CHECKING:
    from cli.output import Output
    from cli.world import World
    from lab.inventory import Inventory

PACKAGES, MICROCEPH = "packages", "microceph"

DeployOption = Annotated[
    str, typer.Option(help=f"{PACKAGES}, or {MICROCEPH}, which only the hosted workflow verifies: docs/microceph.md.")
]
InventoryOption = Annotated[
    Path | None, typer.Option(help="Machines that get MicroCeph; see docs/microceph.md.", metavar="FILE")
]
SnapOption = Annotated[Path | None, typer.Option(help="MicroCeph from a file, not from the store.", metavar="FILE")]
DeviceOption = Annotated[
    list[str] | None, typer.Option(help="Disk for MicroCeph, wiped; repeatable.", metavar="MACHINE:/dev/NAME")
]
GatewayOption = Annotated[list[str] | None, typer.Option(help="Object gateway; repeatable.", metavar="MACHINE:PORT")]

_DEFAULT_DISK = "4GiB"
_DEFAULT_RELEASE = "squid"


@dataclass(frozen=True)
class Wanted:
    """What was asked for. devices, gateways: as written on the command line."""

    release: str | None
    osds_per_node: int | None
    disk_size: str | None
    inventory: Path | None
    snap: Path | None
    devices: Sequence[str]
    gateways: Sequence[str]
    name: str | None


def refuse_misplaced(deploy: str, wanted: Wanted, of_packages: Mapping[str, object]) -> None:
    """SpecError for an unknown deployer, and for options that the one chosen has no use for.

    of_packages: option -> what was given of those that MicroCeph has none for.
    """
    if deploy not in (PACKAGES, MICROCEPH):
        raise SpecError(f"unknown deployer {deploy!r}", f"known: {PACKAGES}, {MICROCEPH}", "choose another --deploy")
    given = {
        "--inventory": wanted.inventory,
        "--snap": wanted.snap,
        "--device": wanted.devices,
        "--gateway": wanted.gateways,
    }
    foreign, other = (of_packages, PACKAGES) if deploy == MICROCEPH else (given, MICROCEPH)
    misplaced = [option for option, value in foreign.items() if value]
    if misplaced:
        raise SpecError(f"{', '.join(misplaced)}: for --deploy {other} only", f"--deploy is {deploy}", "leave it out")


def raise_microceph(world: World, out: Output, wanted: Wanted) -> dict[str, Any]:
    """Refuse, or put MicroCeph onto the machines and keep the run; what `--json` prints."""
    from cli.signals import interruptible
    from lab.deploy.machines import raise_on_machines
    from lab.deploy.microceph import Source, source_for
    from lab.inventory import load_inventory

    if wanted.inventory is None:
        raise SpecError(
            f"--deploy {MICROCEPH} needs machines that have snapd",
            "the images of cephlab have none",
            "name them by --inventory FILE: docs/microceph.md",
        )
    inventory = load_inventory(wanted.inventory)
    disks, gateways = disks_of(inventory, wanted), _ports(wanted.gateways)
    source = Source(file=wanted.snap) if wanted.snap else source_for(wanted.release or _DEFAULT_RELEASE)
    world.home.ensure()
    with interruptible(out.note), out.progress() as say:
        run = world.runs.create("ssh", wanted.name)
        try:
            found = raise_on_machines(inventory, run, source, disks, rgw=gateways, progress=say)
        except BaseException as error:
            _forget(world, run.id, error)
            raise
        run.claim(provider="ssh", kept=True)
    return {
        "name": run.id,
        "inventory": str(found.inventory),
        "conf": str(found.conf),
        "keyring": str(found.keyring),
        "members": list(found.members),
        "disks": {str(osd): path for osd, path in found.disks.items()},
    }


def _forget(world: World, name: str, error: BaseException) -> None:
    from lab.prune import remove

    try:
        remove(world.home, world.runs.get(name), world.providers)
    except LabError as also:
        error.add_note(f"and removing it failed: {also}")


def disks_of(inventory: Inventory, wanted: Wanted) -> Mapping[str, Sequence[str]]:
    """Per machine what `disk add` takes: its devices, else files with loop devices over them.

    The names of machines are checked where they are used.
    """
    from cli.request import parse_disk_size
    from lab.deploy.machines import servers_of
    from lab.deploy.microceph import loops

    devices: dict[str, list[str]] = {}
    for text in wanted.devices:
        machine, path = _pair(text, "MACHINE:/dev/NAME")
        if not path.startswith("/dev/"):
            raise SpecError(f"--device {text} is no disk", f"got {path}", "wanted: MACHINE:/dev/NAME")
        devices.setdefault(machine, []).append(path)
    if devices:
        return devices
    spec = loops(parse_disk_size(wanted.disk_size or _DEFAULT_DISK), wanted.osds_per_node or 1)
    return {machine.name: [spec] for machine in servers_of(inventory)}


def _ports(gateways: Sequence[str]) -> dict[str, int]:
    found = {}
    for text in gateways:
        machine, port = _pair(text, "MACHINE:PORT")
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise SpecError(f"--gateway {text} has no port", f"got {port}", "wanted: 1 to 65535")
        found[machine] = int(port)
    return found


def _pair(text: str, wanted: str) -> tuple[str, str]:
    machine, colon, rest = text.partition(":")
    if not machine or not colon or not rest:
        raise SpecError(f"{text!r} cannot be read", hint=f"wanted: {wanted}")
    return machine, rest
