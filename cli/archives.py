"""`cephlab archive ls`, and the choice of the newest archive where none is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cephlab.cli.completion import ARCHIVES
from cephlab.cli.conventions import Command, Group
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table, toned
from cephlab.cli.world import World
from cephlab.lab.archive.archive import state_of
from cephlab.lab.archive.attempts import INTERRUPTED
from cephlab.lab.archive.durations import by_start
from cephlab.lab.archive.merged import unmerged
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home

app = typer.Typer(name="archive", cls=Group, help="List the archives of runs.", no_args_is_help=True)

ArchiveArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="ARCHIVE",
        help="Archive of a run.",
        show_default="the newest",
        autocompletion=ARCHIVES,
    ),
]
_UNKNOWN = "not an archive"


def newest(home: Home) -> Path:
    """The archive of the run that began last; SpecError when there is none."""
    known = by_start(home.archive)
    if not known:
        raise SpecError("there is no archive yet", f"looked in {home.archive}", "run `cephlab gate` first")
    return known[-1]


def named_or_newest(out: Output, world: World, directory: Path | None) -> Path:
    """The archive that was named, else the newest; then prints which one."""
    if directory is not None:
        return directory
    chosen = newest(world.home)
    out.note(f"archive: {chosen}")
    return chosen


@app.command("ls", cls=Command)
@framed
def ls(out: Output, world: World) -> None:
    """List the archives of this home, the newest last.

    Example: cephlab archive ls
    """
    out.note(f"home: {world.home.path}")
    rows = [row_of(path) for path in by_start(world.home.archive)]
    columns = ("archive", "state", "tier", "release", "verdicts")
    cells = [[row["archive"], toned(row["state"]), row["tier"], row["release"], _verdicts(row)] for row in rows]
    listing = table(columns, cells, wrapped=("verdicts",)) if rows else "no archives"
    out.result(listing, {"home": str(world.home.path), "archives": rows})


def row_of(path: Path) -> dict[str, Any]:
    """One line of `archive ls`. state: as recorded, or killed; verdicts: ending, or `interrupted` -> count."""
    try:
        manifest = json.loads((path / "manifest.json").read_text())
        parts = unmerged(path) or [path]
        verdicts = [row for part in parts for row in json.loads((part / "verdicts.json").read_text())["verdicts"]]
        counts: dict[str, int] = {}
        for verdict in verdicts:
            # An interrupted scenario has no verdict yet; `--resume` runs it again.
            ending = "interrupted" if INTERRUPTED in verdict["reason"] else verdict["ending"]
            counts[ending] = counts.get(ending, 0) + 1
        known = {key: str(manifest[key]) for key in ("tier", "release", "started")} | {"state": state_of(manifest)}
    except (OSError, ValueError, KeyError, TypeError):
        return {"archive": path.name, "path": str(path), "state": _UNKNOWN, "tier": "", "release": "", "verdicts": {}}
    return {"archive": path.name, "path": str(path), **known, "verdicts": counts}


def killed_in_parts(home: Home) -> list[Path]:
    """The archives of killed gates of several processes, whose verdicts only the parts beside them have."""
    return [path for path in by_start(home.archive) if row_of(path)["state"] != _UNKNOWN and unmerged(path)]


def _verdicts(row: dict[str, Any]) -> str:
    return ", ".join(f"{count} {ending}" for ending, count in row["verdicts"].items()) or "none"
