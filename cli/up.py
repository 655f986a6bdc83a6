"""`cephlab up`: raise a cluster, wait until it is healthy, and leave it running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli import microceph
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.request import ClusterOptions, nodes_text, warnings
from cephlab.cli.signals import interruptible
from cephlab.cli.world import World
from cephlab.lab.base.errors import NotReached
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
        made = microceph.raise_microceph(world, out, snaps, cluster, run.name)
    else:
        made = Raising(world, out, run).do(cluster)
    out.result(str(made["name"]), made)


@dataclass(frozen=True)
class Raising:
    """One `up`, from its options to a healthy cluster that outlives this process."""

    _world: World
    _out: Output
    _options: RunOptions

    def do(self, request: ClusterOptions) -> dict[str, Any]:
        """Refuse, or raise the cluster; returns what `--json` prints. Removes everything when it fails."""
        from cephlab.lab.base.clock import SYSTEM

        began = SYSTEM.monotonic()
        provider, spec = self._plan(request)
        with interruptible(self._out.note), self._out.progress() as say:
            cluster = self._raise(provider, spec, say)
        return describe(cluster, seconds=SYSTEM.monotonic() - began)

    def _plan(self, request: ClusterOptions) -> tuple[Provider, ClusterSpec]:
        from cephlab.lab.base.errors import NotInstalled
        from cephlab.lab.cluster.preflight import require_installed
        from cephlab.lab.cluster.raising import refuse_unfit
        from cephlab.lab.providers.select import choose, foreign_runs

        runs = request.nodes is not None or foreign_runs(self._options.lab, self._world.providers)
        spec = request.build(foreign_runs=runs)
        refuse_unfit(spec, self._world.home, self._world.images)
        try:
            choice = choose(self._options.lab, spec, providers=self._world.providers)
        except NotInstalled as reason:
            require_installed(spec, self._world.images, reason)
            raise
        require_installed(spec, self._world.images)
        if request.nodes is None and request.spec is None:
            self._out.note(f"nodes: {nodes_text(spec)} (choose with --nodes)")
        self._out.note(f"provider: {choice.reason}")
        for line in warnings(spec):
            self._out.warn(line)
        return choice.provider, spec

    def _raise(self, provider: Provider, spec: ClusterSpec, say: Progress) -> OwnCluster:
        from cephlab.lab.cluster.raising import ClusterRequest, raise_for

        options, world = self._options, self._world
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
    from cephlab.lab.cluster.pulled import described

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
    parts = []
    for daemon in cluster.daemons.values():
        tail = daemon.log_tail(_TAIL_LINES)
        parts.append(f"last log lines of {daemon.name} on {daemon.host.name}:\n{tail or '(none)'}")
    return "\n".join(parts)
