"""`cephlab profile ls`, `show` and `init`: the hardware that predictions are made for."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cephlab.cli.completion import PROFILES
from cephlab.cli.conventions import Command, Group
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabError, SpecError
from cephlab.lab.base.runs import write_private

app = typer.Typer(name="profile", cls=Group, help="List, show and create hardware profiles.", no_args_is_help=True)

ProfileArgument = Annotated[
    str,
    typer.Argument(help="A profile's name, or the path of its file.", metavar="PROFILE", autocompletion=PROFILES),
]


@app.command("ls", cls=Command)
@framed
def ls(out: Output, world: World) -> None:
    """List the profiles of this home and those that ship with cephlab.

    Example: cephlab profile ls
    """
    from cephlab.tuning.profilefile import load_profile, profile_files

    rows = []
    for name, path in sorted(profile_files(world.home.profiles).items()):
        try:
            title, nodes = (profile := load_profile(path)).title, sum(node.count for node in profile.nodes)
        except LabError as error:
            title, nodes = f"cannot be read: {error.what}", 0
        whose = "own" if path.is_relative_to(world.home.profiles) else "shipped"
        rows.append({"name": name, "nodes": nodes, "whose": whose, "title": title, "path": str(path)})
    cells = [[str(row[key]) for key in ("name", "nodes", "whose", "title")] for row in rows]
    out.result(table(("name", "nodes", "origin", "title"), cells, wrapped=("title",)), {"profiles": rows})


@app.command("show", cls=Command)
@framed
def show(out: Output, world: World, name: ProfileArgument) -> None:
    """Show every figure of a profile with its source.

    Example: cephlab profile show kunpeng920
    """
    from rich.console import Group as Parts

    profile = world.profile(name)
    figures = {place: {"value": str(figure), "source": figure.source} for place, figure in profile.figures()}
    rows = [[place, figure["value"], figure["source"]] for place, figure in figures.items()]
    value = {"name": profile.name, "title": profile.title, "missing": list(profile.missing), "figures": figures}
    listing = table(("figure", "value", "source"), rows, title=profile.title, wrapped=("source",), whole=("figure",))
    out.result(Parts(listing, *(f"missing: {line}" for line in profile.missing)), value)


@app.command("init", cls=Command)
@framed
def init(
    out: Output,
    world: World,
    name: Annotated[str, typer.Argument(help="Name of the new profile.", metavar="NAME")],
    like: Annotated[
        str,
        typer.Option("--like", help="Profile to start from.", metavar="NAME|FILE", autocompletion=PROFILES),
    ] = "incerta-3n",
) -> None:
    """Copy a profile into this home under a new name, for you to edit.

    Example: cephlab profile init mine --like kunpeng920
    """
    from cephlab.tuning.profilefile import SHIPPED, own_copy, profile_files

    world.profile(like)
    path = world.home.ensure().profiles / f"{name}.toml"
    text = own_copy(profile_files(world.home.profiles).get(like, Path(like)), name)
    if (SHIPPED / path.name).exists():
        raise SpecError(f"{name} ships with cephlab", "a copy of that name would hide it", "choose another name")
    if path.exists():
        raise SpecError(f"{path} already exists", "nothing was written", "choose another name, or remove the file")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text.encode(), mode=0o644)
    out.note(f"the figures and their sources are still those of {like}: replace them with yours")
    out.result(str(path), {"profile": str(path)})
