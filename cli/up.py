"""`cephlab up`: raises a cluster, or puts MicroCeph on machines, waits until it is healthy, and leaves it running."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.completion import LABS, words
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.request import ClusterOptions, nodes_text, parse_disk_size, warnings
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabError, NotInstalled, NotReached, SpecError, noted_on
from cephlab.lab.base.nearest import unknown
from cephlab.lab.base.progress import Progress
from cephlab.lab.spec.clusterspec import HEALTHY_S

if TYPE_CHECKING:
    from cephlab.lab.ceph.daemon import Daemon
    from cephlab.lab.cluster.own import OwnCluster
    from cephlab.lab.providers.base import Provider
    from cephlab.lab.providers.select import Choice
    from cephlab.lab.spec.clusterspec import ClusterSpec
    from cephlab.lab.spec.inventory import Inventory

PACKAGES, MICROCEPH = "packages", "microceph"

_PANEL = "MicroCeph on existing machines"
_DEFAULT_DISK = "4GiB"
_DEFAULT_RELEASE = "squid"


@dataclass(frozen=True)
class MicrocephOptions:
    """How to install Ceph, and on which machines."""

    deploy: Annotated[
        str,
        typer.Option(
            help=f"How Ceph is installed; {MICROCEPH} was not tried yet, see docs/microceph.md.",
            metavar=f"{PACKAGES}|{MICROCEPH}",
            rich_help_panel=_PANEL,
            autocompletion=words(PACKAGES, MICROCEPH),
        ),
    ] = PACKAGES
    inventory: Annotated[
        Path | None,
        typer.Option(
            help="Machines to put MicroCeph on; see docs/microceph.md.", metavar="FILE", rich_help_panel=_PANEL
        ),
    ] = None
    snap: Annotated[
        Path | None,
        typer.Option(help="MicroCeph from this file, not from the store.", metavar="FILE", rich_help_panel=_PANEL),
    ] = None
    device: Annotated[
        list[str] | None,
        typer.Option(
            help="Disk for MicroCeph; it is wiped; repeatable.", metavar="MACHINE:/dev/NAME", rich_help_panel=_PANEL
        ),
    ] = None
    gateway: Annotated[
        list[str] | None,
        typer.Option(help="Object gateway of MicroCeph; repeatable.", metavar="MACHINE:PORT", rich_help_panel=_PANEL),
    ] = None

    def refuse_misplaced(self, cluster: ClusterOptions) -> None:
        """SpecError for an unknown deployer, and for options that the chosen one does not have."""
        if self.deploy not in (PACKAGES, MICROCEPH):
            known = (PACKAGES, MICROCEPH)
            raise unknown(f"unknown deployer {self.deploy!r}", self.deploy, known, "choose another --deploy")
        own = {f"--{name}": getattr(self, name) for name in ("inventory", "snap", "device", "gateway")}
        foreign, other = (cluster.of_packages, PACKAGES) if self.deploy == MICROCEPH else (own, MICROCEPH)
        misplaced = [option for option, value in foreign.items() if value]
        if misplaced:
            raise SpecError(
                f"{', '.join(misplaced)}: only for --deploy {other}", f"--deploy is {self.deploy}", "leave it out"
            )


def raise_microceph(
    world: World, out: Output, options: MicrocephOptions, cluster: ClusterOptions, name: str | None
) -> dict[str, Any]:
    """Put MicroCeph onto the machines and keep the run, or refuse; returns what `--json` prints."""
    from cephlab.lab.cluster.deploy.machines import raise_on_machines
    from cephlab.lab.cluster.deploy.microceph import Source, source_for
    from cephlab.lab.providers.ssh import SshProvider
    from cephlab.lab.spec.inventory import load_inventory

    if options.inventory is None:
        raise SpecError(
            f"--deploy {MICROCEPH} needs machines that have snapd",
            "the images of cephlab do not have it",
            "name them with --inventory FILE; see docs/microceph.md",
        )
    inventory = load_inventory(options.inventory)
    disks, gateways = disks_of(inventory, options, cluster), _ports(options.gateway or ())
    source = Source(file=options.snap) if options.snap else source_for(cluster.release or _DEFAULT_RELEASE)
    world.home.ensure()
    with out.progress() as say:
        run = world.runs.create(SshProvider.name, name)
        try:
            raised = raise_on_machines(inventory, run, source, disks, rgw=gateways, progress=say)
        except BaseException as error:
            _forget(world, run.id, error)
            raise
        run.claim(provider=SshProvider.name, kept=True)
    return {
        "name": run.id,
        "inventory": str(raised.inventory),
        "conf": str(raised.conf),
        "keyring": str(raised.keyring),
        "members": list(raised.members),
        "disks": {str(osd): path for osd, path in raised.disks.items()},
    }


def _forget(world: World, name: str, error: BaseException) -> None:
    from cephlab.lab.cluster.prune import remove

    with noted_on(error, "removing it"):
        remove(world.home, world.runs.get(name), world.providers)


def disks_of(inventory: Inventory, options: MicrocephOptions, cluster: ClusterOptions) -> Mapping[str, Sequence[str]]:
    """For each machine what `disk add` takes: its devices, else files with loop devices over them.

    Names of machines are checked later, where they are used.
    """
    from cephlab.lab.cluster.deploy.machines import servers_of
    from cephlab.lab.cluster.deploy.microceph import loops

    devices: dict[str, list[str]] = {}
    for text in options.device or ():
        machine, path = _pair(text, "MACHINE:/dev/NAME")
        if not path.startswith("/dev/"):
            raise SpecError(f"--device {text} is not a disk", f"got {path}", "wanted: MACHINE:/dev/NAME")
        devices.setdefault(machine, []).append(path)
    if devices:
        return devices
    spec = loops(parse_disk_size(cluster.disk_size or _DEFAULT_DISK), cluster.osds_per_node or 1)
    return {machine.name: [spec] for machine in servers_of(inventory)}


def _ports(gateways: Sequence[str]) -> dict[str, int]:
    ports = {}
    for text in gateways:
        machine, port = _pair(text, "MACHINE:PORT")
        if not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise SpecError(f"--gateway {text} has no port", f"got {port}", "wanted: 1 to 65535")
        ports[machine] = int(port)
    return ports


def _pair(text: str, wanted: str) -> tuple[str, str]:
    machine, colon, rest = text.partition(":")
    if not machine or not colon or not rest:
        raise SpecError(f"{text!r} cannot be read", hint=f"wanted: {wanted}")
    return machine, rest


_TAIL_LINES = 4


@dataclass(frozen=True)
class RunOptions:
    """Where the cluster is raised, and what happens to it."""

    lab: Annotated[
        str, typer.Option(help="auto, or a provider; see `cephlab doctor`.", metavar="PROVIDER", autocompletion=LABS)
    ] = "auto"
    name: Annotated[str | None, typer.Option(help="Name of the cluster.", show_default="a generated one")] = None
    timeout: Annotated[
        float, typer.Option(help="Time to wait for HEALTH_OK; longer for emulated nodes.", min=1, metavar="SECONDS")
    ] = HEALTHY_S
    keep: Annotated[bool, typer.Option("--keep", help="Keep a cluster that failed to come up.")] = False
    from_stores: Annotated[
        bool,
        typer.Option(
            "--from-stores",
            help="Start from the stores of an equal cluster that was healthy in the last 12 hours; keeps its fsid.",
        ),
    ] = False
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the request and show what would be raised; start nothing.")
    ] = False


@framed
def up(out: Output, world: World, cluster: ClusterOptions, run: RunOptions, snaps: MicrocephOptions) -> None:
    """Raise a cluster and leave it running; prints its name.

    Example: cephlab up --nodes x86_64:2,aarch64:1 --release reef --name demo
    """
    snaps.refuse_misplaced(cluster)
    if run.dry_run:
        if snaps.deploy == MICROCEPH:
            raise SpecError("--dry-run cannot check existing machines", f"--deploy is {MICROCEPH}", "leave it out")
        return show_plan(world, out, cluster, run)
    if snaps.deploy == MICROCEPH:
        raised = raise_microceph(world, out, snaps, cluster, run.name)
    else:
        raised = raise_cluster(world, out, cluster, run)
    return out.result(str(raised["name"]), raised)


def show_plan(world: World, out: Output, request: ClusterOptions, options: RunOptions) -> None:
    """Refuse what `up` would refuse, or show what it would raise. Builds no image."""
    if options.name is not None:
        world.runs.unused(options.name)
    from cephlab.cli.spec import plan_page, plan_value
    from cephlab.lab.cluster.optionnames import refuse_wrong_options
    from cephlab.lab.cluster.raising import cached_images, refuse_unfit

    choice, spec = _plan(world, out, request, options.lab)
    images = cached_images(spec, world.images)
    refuse_wrong_options(spec, images)
    if spec.options and not images:
        out.warn(f"the ceph.conf settings were not checked: no image of {spec.image or spec.release} is cached")
    archs = spec.archs if spec.image is None else ()
    cached = {arch.value: images[arch].key if arch in images else None for arch in archs}
    sizing = refuse_unfit(spec, world.home, world.images)
    out.result(plan_page(spec, choice, sizing, cached), plan_value(spec, choice, cached))


def raise_cluster(world: World, out: Output, request: ClusterOptions, options: RunOptions) -> dict[str, Any]:
    """Raise a cluster that outlives this process; returns what `--json` prints. Removes everything if it fails."""
    began = SYSTEM.monotonic()
    choice, spec = _plan(world, out, request, options.lab)
    out.note(f"provider: {choice.reason}")
    with out.progress() as say:
        cluster = _raise(world, choice.provider, spec, options, say)
    return describe(cluster, seconds=SYSTEM.monotonic() - began)


def _plan(world: World, out: Output, request: ClusterOptions, lab: str) -> tuple[Choice, ClusterSpec]:
    from cephlab.lab.cluster.preflight import require_installed
    from cephlab.lab.cluster.raising import refuse_unfit
    from cephlab.lab.providers.select import choose, foreign_runs

    spec = request.build(foreign_runs=request.nodes is not None or foreign_runs(lab, world.providers))
    try:
        refuse_unfit(spec, world.home, world.images)
    except SpecError as error:
        if request.spec is None:
            raise
        raise SpecError(f"{request.spec}: {error.what}", error.detail, error.hint) from error
    try:
        choice = choose(lab, spec, providers=world.providers)
    except NotInstalled as reason:
        require_installed(spec, world.images, reason)
        raise
    require_installed(spec, world.images)
    if request.nodes is None and request.spec is None:
        out.note(f"nodes: {nodes_text(spec)} (choose with --nodes)")
    for line in warnings(spec):
        out.warn(line)
    return choice, spec


def _raise(world: World, provider: Provider, spec: ClusterSpec, options: RunOptions, say: Progress) -> OwnCluster:
    from cephlab.lab.cluster.gateway import write_s3_file
    from cephlab.lab.cluster.optionnames import refuse_wrong_options
    from cephlab.lab.cluster.raising import ClusterRequest, Manner, first_healthy, images_for, raise_for

    images = world.images
    images_given = images_for(spec, images, say) if spec.options else None
    refuse_wrong_options(spec, images_given or {})
    wanted = ClusterRequest(
        spec,
        provider,
        world.home,
        images,
        name=options.name,
        given=images_given,
        manner=Manner(keep_failed=options.keep, from_stores=options.from_stores),
    )
    with raise_for(wanted, say) as cluster:
        try:
            say("waiting for HEALTH_OK")
            first_healthy(cluster, options.timeout)
            cluster.write_client_files()
            write_s3_file(cluster)
        except BaseException as error:
            if isinstance(error, NotReached):
                error.detail += "\n" + last_words(cluster)
            if options.keep:
                cluster.keep()
                error.add_note(f"kept as {cluster.name}; remove it with: cephlab down {cluster.name}")
            raise
        # From here on only `cephlab down` removes it, so everything that can fail comes before this.
        cluster.keep()
        say("healthy")
        return cluster


def describe(cluster: OwnCluster, *, seconds: float) -> dict[str, Any]:
    """What `up --json` prints. conf, keyring, s3: files on this machine; seconds: since the command started.

    mons: `ADDRESS:PORT` of each monitor; metrics: address of the Prometheus, null without one.
    """
    from cephlab.lab.ceph.conf import MON_PORT
    from cephlab.lab.cluster.gateway import S3_FILE
    from cephlab.lab.cluster.own import described
    from cephlab.lab.services.prometheus import PROMETHEUS

    conf, keyring = cluster.client_files
    metrics = [daemon for _, daemon in sorted(cluster.daemons.items()) if daemon.kind == PROMETHEUS.kind]
    return {
        "name": cluster.name,
        "release": cluster.spec.release,
        "image": described(cluster),
        "provider": cluster.provider_name,
        "fsid": cluster.deployment.fsid,
        "conf": str(conf),
        "keyring": str(keyring),
        "mons": [f"{address}:{MON_PORT}" for address in cluster.deployment.mon_addresses.values()],
        "s3": str(s3) if (s3 := conf.with_name(S3_FILE)).exists() else None,
        "metrics": next((f"http://{d.host.address}:{PROMETHEUS.listens(d.id)}" for d in metrics), None),
        "seconds": round(seconds, 2),
        "nodes": [
            {
                "name": host.name,
                "arch": host.arch.value,
                "address": host.address,
                "emulated": host.emulated,
                "daemons": sorted(d.name for d in cluster.daemons.values() if d.host.name == host.name),
            }
            for host in cluster.hosts.values()
        ],
    }


def last_words(cluster: OwnCluster) -> str:
    """The last log lines of all daemons: the logs are about to be removed with the cluster."""
    tails = ((daemon, _tail_of(daemon)) for daemon in cluster.daemons.values())
    return "\n".join(f"last log lines of {daemon.name} on {daemon.host.name}:\n{tail}" for daemon, tail in tails)


def _tail_of(daemon: Daemon) -> str:
    try:
        return daemon.log_tail(_TAIL_LINES) or "(none)"
    except LabError as error:  # a host that is gone may be why the cluster did not come up
        return f"(cannot be read: {error.what})"
