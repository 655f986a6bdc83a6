"""`cephlab ls`, `status`, `down` and `prune`: list clusters, show one, and remove clusters and leftovers."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.archives import killed_in_parts
from cephlab.cli.completion import CLUSTERS
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, coloured, console, pairs, table, toned
from cephlab.cli.request import nodes_text
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import CleanUp, CleanupFailed, DaemonDied, DiskFull, LabError, SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.base.runs import belongs

if TYPE_CHECKING:
    from cephlab.lab.base.runs import Run
    from cephlab.lab.ceph.daemon import Daemon
    from cephlab.lab.ceph.status import Status
    from cephlab.lab.cluster.own import OwnCluster

NameArgument = Annotated[
    str, typer.Argument(help="Name of the cluster, as `cephlab ls` shows it.", metavar="NAME", autocompletion=CLUSTERS)
]

_GIB = 1 << 30
_WATCH_S = 2.0
_STATES = ("HEALTH_OK", "HEALTH_WARN", "HEALTH_ERR", "running", "paused", "stopped", "died")
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


_UNKNOWN = dict.fromkeys(("name", "provider", "release", "nodes", "state", "health", "why"), "") | {"age_s": None}
_BRIEFLY = {"rados_mon_op_timeout": "5", "client_mount_timeout": "5"}
"""Timeouts in seconds, so that `ls` does not hang on a cluster that does not answer."""


@framed
def ls(out: Output, world: World) -> None:
    """List the clusters of this home.

    Example: cephlab ls
    """
    out.note(f"home: {world.home.path}")
    rows = [row_of(world, run) for run in world.runs.all()]
    rows += [{**_UNKNOWN, "name": path.name, "state": belongs(path)} for path in world.runs.others()]
    columns = ("name", "provider", "release", "nodes", "state", "health", "age")
    listed = [
        [*(row[key] for key in columns[:4]), toned(row["state"]), toned(row["health"]), age_text(row["age_s"])]
        for row in rows
    ]
    value = {"home": str(world.home.path), "clusters": rows}
    out.result(table(columns, listed, wrapped=("nodes", "state")) if rows else "no clusters", value)


def row_of(world: World, run: Run) -> dict[str, Any]:
    """One line of `ls`.

    state: running, degraded, dead, in use, abandoned or unreachable; health: as Ceph reports it, or unknown; age_s:
    seconds or None.
    """
    owner = run.owner()
    age = max(0, round(time.time() - owner["at"])) if "at" in owner else None
    row = {**_UNKNOWN, "name": run.id, "provider": owner.get("provider", ""), "age_s": age}
    if not run.kept:
        return {**row, "state": "abandoned" if run.abandoned() else "in use"}
    try:
        cluster = world.cluster(run.id)
        known = {**row, "release": cluster.spec.release, "nodes": nodes_text(cluster.spec)}
        state = state_of([daemon.alive() for daemon in cluster.daemons.values()])
        return {**known, "state": state, "health": health_of(cluster)}
    except LabError as error:
        return {**row, "state": "unreachable", "why": error.what}


def health_of(cluster: OwnCluster) -> str:
    """HEALTH_OK, HEALTH_WARN or HEALTH_ERR; unknown if the cluster does not answer within seconds."""
    client = None
    try:
        if not _quorum(cluster) or any(daemon_state(daemon) == "paused" for daemon in cluster.daemons.values()):
            return "unknown"
        client = cluster.new_client(cluster.deployer.client_host().name, options=_BRIEFLY)
        return str(client.mon("status")["health"]["status"])
    except LabError:
        return "unknown"
    finally:
        if client is not None:
            client.close()


def state_of(alive: list[bool]) -> str:
    """The state of a cluster in one word. alive: whether each daemon is alive."""
    if not any(alive):
        return "dead"
    return "running" if all(alive) else "degraded"


def age_text(seconds: int | None) -> str:
    """`3 min`, in the largest unit that fits."""
    if seconds is None:
        return "?"
    for unit, size in _UNITS:
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return "0 s"


@framed
def status(
    out: Output,
    world: World,
    name: NameArgument,
    watch: Annotated[
        bool,
        typer.Option("--watch", "-w", help="Show it every two seconds, until Ctrl-C or until the cluster is gone."),
    ] = False,
) -> int:
    """Show the state of a cluster. Exit code 0 only if it is HEALTH_OK and every daemon is alive.

    Example: cephlab status demo
    """
    cluster = world.cluster(name)
    if watch and out.as_json:
        raise SpecError("--json and --watch cannot be given together", hint="leave one of them out")
    try:
        return watch_status(out, cluster) if watch else report(out, cluster)
    finally:
        cluster.close_clients()


def report(out: Output, cluster: OwnCluster) -> int:
    """Print the status, and the first daemon that died; returns the exit code of `cephlab status`."""
    died: LabError | None = None
    try:
        cluster.check_daemons()
    except (DaemonDied, DiskFull) as error:
        died = error
    try:
        known = ask(cluster)
    except LabError:
        if died is not None:  # it may be why Ceph does not answer
            raise died from None
        raise
    value = {**as_value(cluster, known), "died": [d.name for d in cluster.daemons.values() if not d.alive()]}
    text = coloured(as_text(cluster, known), _STATES)
    if died is not None:
        return out.incomplete(text, value, died)
    out.result(text, value)
    return 0 if known is not None and known.ok else 1


def watch_status(out: Output, cluster: OwnCluster) -> int:
    """Show the status every two seconds, in place on a terminal; returns the code of the last one."""
    from rich.live import Live

    printer = console(error=False)
    known = None
    try:
        with Live(console=printer, auto_refresh=False) as live:
            while cluster.run.directory.exists():
                known = ask(cluster)
                live.update(
                    coloured(f"{time.strftime('%T')}  Ctrl-C ends\n{as_text(cluster, known)}", _STATES), refresh=True
                )
                SYSTEM.sleep(_WATCH_S)
    except KeyboardInterrupt:
        return 0 if known is not None and known.ok else 1
    except LabError:
        if cluster.run.directory.exists():
            raise
    out.note(f"{cluster.name} is gone")
    return 1


def ask(cluster: OwnCluster) -> Status | None:
    """The status as Ceph reports it; None, without asking, if too few monitors are alive for a quorum."""
    from cephlab.lab.ceph.status import parse_status

    if not _quorum(cluster):
        return None
    return parse_status(cluster.client.mon("status"))


def _quorum(cluster: OwnCluster) -> bool:
    """Whether enough monitors are alive for a quorum."""
    mons = [daemon for daemon in cluster.daemons.values() if daemon.kind == "mon"]
    return 2 * sum(mon.alive() for mon in mons) > len(mons)


def as_value(cluster: OwnCluster, known: Status | None) -> dict[str, Any]:
    """What `status --json` prints. status: null if the monitors have no quorum; image: null if cephlab built it."""
    from cephlab.lab.cluster.own import described

    return {
        "name": cluster.name,
        "provider": cluster.provider_name,
        "release": cluster.spec.release,
        "image": described(cluster),
        "fsid": cluster.deployment.fsid,
        "status": asdict(known) if known is not None else None,
        "daemons": [
            {
                "name": daemon.name,
                "node": daemon.host.name,
                "arch": daemon.host.arch.value,
                "emulated": daemon.host.emulated,
                "state": daemon_state(daemon),
                "log": str(daemon.log),
            }
            for daemon in ordered(cluster)
        ],
    }


def as_text(cluster: OwnCluster, known: Status | None) -> str:
    """The same as text."""
    lines = {"cluster": f"{cluster.name} ({cluster.spec.release}, provider {cluster.provider_name})"}
    if cluster.spec.image is not None:
        lines["image"] = cluster.spec.image
    if known is None:
        lines["health"] = "unknown: too few monitors are alive"
    else:
        lines["health"] = known.health
        lines.update({f"  {check.code}": check.message for check in known.checks})
        lines["mon"] = f"{len(known.quorum)} of {known.mons} in quorum: {', '.join(known.quorum)}"
        lines["mgr"] = "active" if known.mgr_available else "not available"
        lines["osd"] = f"{known.osds_up} up, {known.osds_in} in of {known.osds}"
        lines["pgs"] = ", ".join(f"{count} {state}" for state, count in known.pg_states.items()) or "none"
        lines["usage"] = (
            f"{known.used_bytes / _GIB:.2f} of {known.total_bytes / _GIB:.0f} GiB, {how_many(known.objects, 'object')}"
        )
    rows = [f"  {daemon_state(d):8} {d.name:8} {where(d)}" for d in ordered(cluster)]
    return "\n".join([pairs(lines), "daemons", *rows])


def where(daemon: Daemon) -> str:
    """Node, architecture and address of a daemon."""
    host = daemon.host
    return f"{host.name} {host.arch}{' (emulated)' if host.emulated else ''} {host.address}"


def ordered(cluster: OwnCluster) -> list[Daemon]:
    """Daemons by node, then kind, then id."""
    return sorted(cluster.daemons.values(), key=lambda daemon: (daemon.host.name, daemon.kind, daemon.id))


def daemon_state(daemon: Daemon) -> str:
    """running, paused, stopped (on request) or died (not on request)."""
    from cephlab.lab.ceph.daemon import Wanted

    if daemon.alive():
        return "paused" if daemon.wanted is Wanted.PAUSED else "running"
    return "stopped" if daemon.wanted is Wanted.STOPPED else "died"


@framed
def down(out: Output, world: World, name: NameArgument) -> None:
    """Remove a cluster with all its data, in any state.

    Example: cephlab down demo
    """
    from cephlab.lab.cluster.prune import Fate, fate_of, remove

    run = world.runs.get(name)
    if fate_of(run) is Fate.LIVE:
        owner = run.owner().get("pid")
        raise SpecError(
            f"{name} is in use by the cephlab process {owner}",
            "that process removes the cluster when it ends",
            f"end that process first: kill {owner}",
        )
    removed = remove(world.home, run, world.providers)
    out.result(f"{name} is gone", {"name": name, "removed": removed})


def _strays(out: Output, world: World, *, explained: bool) -> list[str]:
    """Copies of images in engines that this home does not have; prints each if `explained`, else only how many.

    Most belong to another home, so the command that removes one is not offered to everybody.
    """
    from cephlab.lab.cluster.prune import stray_copies

    copies = stray_copies(world.providers, world.images.list())
    if explained:
        for line in copies:
            out.note(line)
    elif copies:
        number = how_many(len(copies), "image")
        out.note(f"engines hold {number} of other homes, or of none; `cephlab prune --all --dry-run` lists them")
    return copies


@framed
def prune(
    out: Output,
    world: World,
    everything: Annotated[
        bool,
        typer.Option(
            "--all",
            help="Remove kept clusters and stores too, and list images in engines that this home does not have.",
        ),
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be removed.")] = False,
) -> int:
    """Remove what killed runs left behind: processes, containers, directories, half-built images; and old kept stores.

    Example: cephlab prune --dry-run
    """
    from cephlab.lab.archive.merged import prune_unbegun
    from cephlab.lab.cluster.deploy.stores import MOST, Shelf
    from cephlab.lab.cluster.prune import survey, sweep

    out.note(f"home: {world.home.path}")
    clean_up = CleanUp()
    findings, clean_up.errors = survey(world.home, world.providers)
    for folder in world.runs.others():
        out.note(f"skipped, because it is not a run of this user: {folder}")
    verdicts = [str(archive) for archive in killed_in_parts(world.home)]
    for archive in verdicts:
        out.note(f"left, as a killed gate with its parts beside it: {archive} (`cephlab gate --resume` continues it)")
    doomed = [finding for finding in findings if finding.doomed(kept_too=everything)]
    value: dict[str, Any] = {"home": str(world.home.path), "unmerged": verdicts}
    shelf, most = Shelf(world.home), 0 if everything else MOST
    if dry_run:
        value["would_remove"] = [f"{finding.run.id} ({finding.fate})" for finding in doomed]
        value["would_remove"] += [f"the kept stores {name}" for name in shelf.stale(most)]
        value["would_remove"] += prune_unbegun(world.home.archive, dry_run=True)
        value["would_remove"] += world.images.prune(dry_run=True)
        lines = [f"would remove {line}" for line in value["would_remove"]]
    else:
        swept = sweep(world.home, world.providers, doomed)
        removed = list(swept.removed)
        clean_up.errors += swept.errors
        removed += [f"the kept stores {name}" for name in shelf.thin(most)]
        removed += prune_unbegun(world.home.archive)
        with clean_up.step("images"):
            removed += world.images.prune()
        value |= {"removed": removed, "errors": clean_up.errors}
        lines = [f"removed {line}" for line in removed]
    with clean_up.step("copies of images"):
        value["copies"] = _strays(out, world, explained=everything)
    if clean_up.errors:
        return out.incomplete("\n".join(lines) or "nothing was removed", value, CleanupFailed(clean_up.errors))
    out.result("\n".join(lines) or "nothing to remove", value)
    return 0
