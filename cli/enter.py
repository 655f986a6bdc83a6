"""`cephlab ceph`, `shell` and `logs`: commands in a cluster, and the logs of its daemons."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.clusters import NameArgument
from cephlab.cli.completion import DAEMONS, NODES
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabError, SpecError
from cephlab.lab.base.numbers import how_many
from cephlab.lab.base.process import run_attached
from cephlab.lab.base.runs import make_empty, write_private

if TYPE_CHECKING:
    from cephlab.lab.base.runs import Run
    from cephlab.lab.ceph.daemon import Daemon
    from cephlab.lab.cluster.cluster import Cluster
    from cephlab.lab.cluster.own import OwnCluster
    from cephlab.lab.providers.host import Host

PASS_THROUGH = {"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
"""Everything after the fixed arguments is passed on unchanged, including options."""

_FOLLOW_S = 0.3
_OUTPUT = " output"
_COMPLETED = ("ceph", "rados", "radosgw-admin", "rbd")
"""Programs whose bash completion is in Debian's packages of Ceph."""
_LINES = 40


@framed
def ceph(
    world: World,
    name: NameArgument,
    arguments: Annotated[
        list[str] | None, typer.Argument(help="Arguments of `ceph`, including options.", metavar="ARGS")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Add `--format json`; give it before NAME.")] = False,
) -> int:
    """Run the image's own `ceph` on a native node, with its input, output and exit code.

    Example: cephlab ceph demo osd tree
    """
    cluster = world.cluster(name)
    host = cluster.deployer.client_host()
    wanted = [*(["--format", "json"] if as_json else []), *(arguments or [])]
    return attach(host, cluster.ceph_argv(host.name, *wanted))


@framed
def shell(
    world: World,
    name: NameArgument,
    node: Annotated[
        str,
        typer.Argument(help="Name of the node, as `cephlab status` shows it.", metavar="NODE", autocompletion=NODES),
    ],
    command: Annotated[
        list[str] | None, typer.Argument(help="A command to run instead of a shell.", metavar="-- CMD")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print errors as JSON; give it before NAME.")] = False,
) -> int:
    """Open a shell on a node, or run one command there. The exit code is that of the shell or the command.

    Example: cephlab shell demo n0 -- rados lspools
    """
    cluster = world.cluster(name)
    if node not in cluster.hosts:
        raise SpecError(f"{name} has no node {node!r}", f"nodes: {', '.join(cluster.hosts)}")
    host = cluster.hosts[node]
    argv = command or []
    if argv[:1] == ["--"]:
        argv = argv[1:]
    return attach(host, argv or shell_argv(cluster, host))


def shell_argv(cluster: Cluster, host: Host) -> list[str]:
    """bash with a prompt that names cluster and node, and with Ceph's own completion if the image has it.

    Plain bash if standard input is not a terminal.
    """
    if not sys.stdin.isatty():
        return ["bash"]
    start = host.directory / "shell.rc"
    emulated = " emulated" if host.emulated else ""
    prompt = f"[{cluster.name} {host.name} {host.arch}{emulated}] \\w \\$ "
    host.push(f"PS1='{prompt}'\ncd '{host.directory}'\n{completions(host)}".encode(), start)
    return ["bash", "--noprofile", "--rcfile", str(start), "-i"]


def completions(host: Host) -> str:
    """Lines for bash that load the completion of Ceph's programs from the image."""
    folder = host.root / "usr/share/bash-completion/completions"
    programs = " ".join(_COMPLETED)
    return f"for name in {programs}; do if [ -r '{folder}'/$name ]; then . '{folder}'/$name; fi; done\n"


def attach(host: Host, argv: list[str]) -> int:
    """Run a command on a host with this process's own streams. CEPH_CONF tells Ceph's programs their cluster."""
    from cephlab.lab.ceph.conf import conf_path

    terminal = sys.stdin.isatty() and sys.stdout.isatty()
    sys.stdout.flush()
    return run_attached(host.interactive(argv, env={"CEPH_CONF": str(conf_path(host))}, terminal=terminal))


@dataclass(frozen=True)
class LogSource:
    """A file with lines of a daemon. name: `osd.0` for its log, or `osd.0 output` for what it printed elsewhere."""

    name: str
    host: Host
    path: PurePosixPath

    def tail(self, lines: int) -> list[str]:
        """The last lines; none if the file does not exist."""
        from cephlab.lab.ceph.offline import last_lines

        return list(last_lines(self.host, self.path, lines))

    def content(self) -> bytes:
        """All of it; nothing if the file does not exist."""
        return self.host.read(self.path) if self.host.exists(self.path) else b""


def log_sources(daemons: Iterable[Daemon]) -> list[LogSource]:
    """For each daemon, its log and its other output."""
    return [
        LogSource(name, daemon.host, path)
        for daemon in daemons
        for name, path in ((daemon.name, daemon.log), (f"{daemon.name}{_OUTPUT}", daemon.output))
    ]


@dataclass(frozen=True)
class LogOptions:
    """How much of the logs, and what becomes of it."""

    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="Number of lines from the end of each log.")] = (
        _LINES
    )
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Keep printing new lines, until Ctrl-C or until the cluster is gone.")
    ] = False
    save: Annotated[
        Path | None,
        typer.Option(help="Write whole logs to this new folder, without keys, and show none.", metavar="DIR"),
    ] = None


@framed
def logs(
    out: Output,
    world: World,
    name: NameArgument,
    options: LogOptions,
    daemon: Annotated[
        str | None,
        typer.Argument(help="Daemon, e.g. osd.0.", show_default="all", metavar="DAEMON", autocompletion=DAEMONS),
    ] = None,
) -> None:
    """Show the last lines of the daemons' logs and of their other output.

    Example: cephlab logs demo osd.0 -n 20 -f
    """
    cluster = world.cluster(name)
    chosen = [cluster.daemon(daemon)] if daemon else list(cluster.daemons.values())
    other = [option for option, given in (("--json", out.as_json), ("--save", options.save)) if given]
    if options.follow and other:
        raise SpecError(f"{other[0]} and --follow cannot be given together", hint="leave one of them out")
    if options.save:
        written = save_logs(cluster, chosen, options.save)
        value = {"folder": str(options.save), "files": written}
        out.result(f"{how_many(len(written), 'file')} in {options.save}", value)
        return
    sources = log_sources(chosen)
    # To follow a log, all of it is read; without that, only its end.
    contents = {source.name: source.content() for source in sources} if options.follow else {}
    tails = {name: _lines(content.strip())[-options.lines :] for name, content in contents.items()}
    tails = tails or {source.name: source.tail(options.lines) for source in sources}
    nonempty = {label: tail for label, tail in tails.items() if tail or not label.endswith(_OUTPUT)}
    heads = len(nonempty) > 1
    text = "\n".join("\n".join([f"==> {label} <==", *tail] if heads else tail) for label, tail in nonempty.items())
    out.result(text or "no lines yet", {"logs": nonempty})
    if options.follow:
        sizes = {name: len(content) for name, content in contents.items()}
        out.note(follow_logs(sources, sizes, cluster.run, heads=len(sources) > 1))


def save_logs(cluster: OwnCluster, daemons: Iterable[Daemon], folder: Path) -> list[str]:
    """Write whole logs to a new folder, without the keys of the cluster and its S3 user. Returns the file names."""
    from cephlab.lab.base.redaction import without_secrets
    from cephlab.lab.ceph.logs import read_logs
    from cephlab.lab.cluster.gateway import S3_FILE, load_keys

    make_empty(folder, "the folder of logs")
    keys = cluster.client_files[0].with_name(S3_FILE)
    if keys.exists():
        load_keys(keys)  # S3 keys have no form: only those that were loaded are recognised
    contents = read_logs(daemons)
    for name, content in contents.items():
        write_private(folder / name, without_secrets(content))
    return sorted(contents)


def _lines(content: bytes) -> list[str]:
    return content.decode(errors="replace").splitlines()


def follow_logs(sources: Iterable[LogSource], sizes: dict[str, int], run: Run, *, heads: bool) -> str:
    """Print new lines of the logs until the run is gone or is interrupted; returns why it ended.

    sizes: how many bytes of each log were shown.
    """
    try:
        while run.directory.exists():
            for source in sources:
                content = source.content()
                whole = content.rfind(b"\n") + 1  # the rest of a line comes with a later look
                for line in _lines(content[sizes[source.name] : whole]):
                    print(f"{source.name}: {line}" if heads else line, flush=True)
                sizes[source.name] = min(max(sizes[source.name], whole), len(content))
            SYSTEM.sleep(_FOLLOW_S)
    except KeyboardInterrupt:
        return "stopped following"
    except (LabError, OSError) as error:  # its hosts are removed before its directory
        return f"{run.id} can no longer be read: {error}"
    return f"{run.id} is gone"
