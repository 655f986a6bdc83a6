"""`cephlab ceph`, `shell` and `logs`: from this terminal into a cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.clusters import NameArgument
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.process import run_attached

if TYPE_CHECKING:
    from cephlab.lab.ceph.daemon import Daemon
    from cephlab.lab.cluster.cluster import Cluster
    from cephlab.lab.providers.host import Host

PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the fixed arguments is passed on untouched, options too."""

_FOLLOW_S = 0.3
_LINES = 40


@framed
def ceph(
    world: World,
    name: NameArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="What to pass to `ceph`, options too.", metavar="ARGS...")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Add `--format json`; give it before NAME.")] = False,
) -> int:
    """Run the image's own `ceph` on a native node; its streams and its exit code are yours."""
    cluster = world.cluster(name)
    host = cluster.deployer.client_host()
    wanted = [*(["--format", "json"] if as_json else []), *(arguments or [])]
    return attach(host, cluster.ceph_argv(host.name, *wanted))


@framed
def shell(
    world: World,
    name: NameArgument,
    node: Annotated[str, typer.Argument(help="Name of the node, as `cephlab status` shows it.", metavar="NODE")],
    command: Annotated[
        list[str] | None, typer.Argument(help="A command to run instead of a shell.", metavar="[-- CMD...]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Errors as JSON; give it before NAME.")] = False,
) -> int:
    """Open a shell on a node, or run one command there; ends with its exit code."""
    cluster = world.cluster(name)
    if node not in cluster.hosts:
        raise SpecError(f"{name} has no node {node!r}", f"nodes: {', '.join(cluster.hosts)}")
    host = cluster.hosts[node]
    argv = command or []
    if argv[:1] == ["--"]:
        argv = argv[1:]
    return attach(host, argv or shell_argv(cluster, host))


def shell_argv(cluster: Cluster, host: Host) -> list[str]:
    """bash with a prompt that names cluster and node; plain bash where standard input is no terminal."""
    if not sys.stdin.isatty():
        return ["bash"]
    start = host.directory / "shell.rc"
    emulated = " emulated" if host.emulated else ""
    prompt = f"[{cluster.name} {host.name} {host.arch}{emulated}] \\w \\$ "
    host.push(f"PS1='{prompt}'\ncd '{host.directory}'\n".encode(), start)
    return ["bash", "--noprofile", "--rcfile", str(start), "-i"]


def attach(host: Host, argv: list[str]) -> int:
    """Run a command of a host on this process's own streams, where Ceph's programs find their cluster."""
    from cephlab.lab.ceph.conf import conf_path

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    sys.stdout.flush()
    return run_attached(host.interactive(argv, env={"CEPH_CONF": str(conf_path(host))}, terminal=terminal))


@framed
def logs(
    out: Output,
    world: World,
    name: NameArgument,
    daemon: Annotated[str | None, typer.Argument(help="For example osd.0; all when left out.")] = None,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Lines from the end of each log.")] = _LINES,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is appended, until ^C.")] = False,
) -> None:
    """Show the ends of the daemons' logs."""
    cluster = world.cluster(name)
    chosen = [cluster.daemon(daemon)] if daemon else list(cluster.daemons.values())
    if out.as_json and follow:
        raise SpecError("--json and --follow cannot be given together", hint="leave one of them out")
    text = {logged.name: logged.log_tail(lines) for logged in chosen}
    heads = len(chosen) > 1
    shown = "\n".join(f"==> {key} <==\n{tail}" if heads else tail for key, tail in text.items())
    out.result(shown, {"logs": {key: tail.splitlines() for key, tail in text.items()}})
    if follow:
        follow_logs(chosen, heads=heads)


def follow_logs(daemons: Iterable[Daemon], *, heads: bool) -> None:
    """Print what is appended to the logs, until somebody interrupts."""
    seen = {daemon.name: len(_content(daemon)) for daemon in daemons}
    try:
        while True:
            for daemon in daemons:
                content = _content(daemon)
                for line in content[seen[daemon.name] :].decode(errors="replace").splitlines():
                    print(f"{daemon.name}: {line}" if heads else line, flush=True)
                seen[daemon.name] = len(content)
            SYSTEM.sleep(_FOLLOW_S)
    except KeyboardInterrupt:
        return


def _content(daemon: Daemon) -> bytes:
    return daemon.host.read(daemon.log) if daemon.host.exists(daemon.log) else b""
