"""`cephlab up`: raise a cluster, wait until it is healthy, and leave it running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli import microceph
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.request import ClusterOptions, nodes_text, warnings
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import NotInstalled, NotReached
from cephlab.lab.base.progress import Progress

if TYPE_CHECKING:
    from cephlab.lab.cluster.own import OwnCluster
    from cephlab.lab.providers.base import Provider
    from cephlab.lab.spec.clusterspec import ClusterSpec

HEALTHY_S = 120.0
_TAIL_LINES = 4


@dataclass(frozen=True)
class RunOptions:
    """Where it is raised, and what becomes of it."""

    lab: Annotated[str, typer.Option(help="auto, or a provider; see `cephlab doctor`.")] = "auto"
    name: Annotated[str | None, typer.Option(help="Name of the cluster; made up when left out.")] = None
    timeout: Annotated[float, typer.Option(help="Seconds to wait for HEALTH_OK, before patience.")] = HEALTHY_S
    keep: Annotated[bool, typer.Option("--keep", help="Leave a cluster that failed to come up as it is.")] = False


@framed
def up(out: Output, world: World, cluster: ClusterOptions, run: RunOptions, snaps: microceph.MicrocephOptions) -> None:
    """Raise a cluster and leave it running; prints its name."""
    snaps.refuse_misplaced(cluster)
    if snaps.deploy == microceph.MICROCEPH:
        raised = microceph.raise_microceph(world, out, snaps, cluster, run.name)
    else:
        raised = raise_cluster(world, out, cluster, run)
    out.result(str(raised["name"]), raised)


def raise_cluster(world: World, out: Output, request: ClusterOptions, options: RunOptions) -> dict[str, Any]:
    """Refuse, or raise a cluster that outlives this process; what `--json` prints. Removes everything when it fails."""
    began = SYSTEM.monotonic()
    provider, spec = _plan(world, out, request, options.lab)
    with out.progress() as say:
        cluster = _raise(world, provider, spec, options, say)
    return describe(cluster, seconds=SYSTEM.monotonic() - began)


def _plan(world: World, out: Output, request: ClusterOptions, lab: str) -> tuple[Provider, ClusterSpec]:
    from cephlab.lab.cluster.preflight import require_installed
    from cephlab.lab.cluster.raising import refuse_unfit
    from cephlab.lab.providers.select import choose, foreign_runs

    spec = request.build(foreign_runs=request.nodes is not None or foreign_runs(lab, world.providers))
    refuse_unfit(spec, world.home, world.images)
    try:
        choice = choose(lab, spec, providers=world.providers)
    except NotInstalled as reason:
        require_installed(spec, world.images, reason)
        raise
    require_installed(spec, world.images)
    if request.nodes is None and request.spec is None:
        out.note(f"nodes: {nodes_text(spec)} (choose with --nodes)")
    out.note(f"provider: {choice.reason}")
    for line in warnings(spec):
        out.warn(line)
    return choice.provider, spec


def _raise(world: World, provider: Provider, spec: ClusterSpec, options: RunOptions, say: Progress) -> OwnCluster:
    from cephlab.lab.cluster.raising import ClusterRequest, raise_for

    wanted = ClusterRequest(spec, provider, world.home, world.images, name=options.name, keep_failed=options.keep)
    with raise_for(wanted, say) as cluster:
        try:
            say("waiting for HEALTH_OK")
            cluster.wait_healthy(options.timeout)
            cluster.write_client_files()
        except BaseException as error:
            if isinstance(error, NotReached):
                error.detail += "\n" + last_words(cluster)
            if options.keep:
                cluster.keep()
                error.add_note(f"kept as {cluster.name}; remove it with: cephlab down {cluster.name}")
            raise
        # From here on nobody but `down` removes it, so nothing that can fail may come before it is healthy.
        cluster.keep()
        say("healthy")
        return cluster


def describe(cluster: OwnCluster, *, seconds: float) -> dict[str, Any]:
    """What `up --json` prints. conf, keyring: files on this machine; seconds: from the command's start."""
    from cephlab.lab.cluster.own import described

    conf, keyring = cluster.client_files
    return {
        "name": cluster.name,
        "release": cluster.spec.release,
        "image": described(cluster),
        "provider": cluster.provider_name,
        "fsid": cluster.deployment.fsid,
        "conf": str(conf),
        "keyring": str(keyring),
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
    """The ends of all daemons' logs: they are about to be removed with the cluster."""
    tails = ((daemon, daemon.log_tail(_TAIL_LINES) or "(none)") for daemon in cluster.daemons.values())
    return "\n".join(f"last log lines of {daemon.name} on {daemon.host.name}:\n{tail}" for daemon, tail in tails)
