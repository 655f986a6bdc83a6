"""The manual page of `cephlab`, made from its commands: `python -m cephlab.cli.manpage >ci/man/cephlab.1`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import typer.main

from cephlab.cli.main import NAME, app

_HEAD = r""".TH CEPHLAB 1 "" cephlab "User Commands"
.SH NAME
cephlab \- raise real Ceph clusters of mixed architecture, run tests on them, and report a verdict for each
.SH SYNOPSIS
.B cephlab
.I COMMAND
.RI [ OPTION ]... [ ARGUMENT ]...
.SH DESCRIPTION
Raises real Ceph clusters of x86_64 and aarch64 nodes on this machine, runs test suites against them, and judges the
results by limits that follow from measured costs and from the hardware that a profile describes."""

_TAIL = r""".SH ENVIRONMENT
.TP
.B CEPHLAB_HOME
The folder for images, clusters and archives. Default: the folder cephlab in your cache folder.
.SH EXIT STATUS
0: pass.
.br
1: fail.
.br
2: wrong options or arguments, or an invalid file.
.br
3: the lab is broken, or programs are not installed.
.br
6: inconclusive.
.br
130, 143, 129: ended by Ctrl-C, SIGTERM or SIGHUP, after it had removed what it started.
.br
141: the reader of the output ended first."""

_EXAMPLE = "Example: "


def page() -> str:
    """The page in troff."""
    group = typer.main.get_command(app)
    commands = [line for name, command in _leaves(group, typer.Context(group, info_name=NAME)) for line in command]
    return "\n".join([_HEAD, ".SH COMMANDS", *commands, _TAIL, ""])


def _leaves(command: Any, ctx: typer.Context) -> Iterator[tuple[str, list[str]]]:
    """Every command of a group, with its lines of the page."""
    for name, below in getattr(command, "commands", {}).items():
        inner = typer.Context(below, info_name=name, parent=ctx)
        if hasattr(below, "commands"):
            yield from _leaves(below, inner)
        else:
            yield name, [*_command(below, inner)]


def _command(command: Any, ctx: typer.Context) -> Iterator[str]:
    usage = " ".join(command.collect_usage_pieces(ctx))
    text, _, example = (command.help or "").partition(_EXAMPLE)
    yield f".SS {_troff(ctx.command_path)} {_troff(usage)}"
    yield _troff(" ".join(text.split()))
    for param in command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and param.name != "help":
            option = " ".join(record[1].split())
            yield f".TP\n.B {_troff(record[0])}\n{_troff(option)}"
    if example:
        yield f".PP\nExample:\n.EX\n{_troff(example.strip())}\n.EE"


def _troff(text: str) -> str:
    """A text, escaped so that troff prints it as it is."""
    plain = text.replace("\\", r"\e").replace("-", r"\-").replace("`", r"\(ga").replace("'", r"\(aq")
    return re.sub(r"^\.", r"\\&.", plain, flags=re.MULTILINE)


if __name__ == "__main__":
    print(page(), end="")
