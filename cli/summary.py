"""`cephlab summary`: an archive in a page of Markdown, for the summary of a hosted run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from cli.output import JsonOption, reporting


def summary(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A run's archive.", show_default=False)],
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Print GitHub's annotations instead: one line for what did not pass.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Print an archived run's verdicts as Markdown."""
    with reporting(as_json) as out:
        from lab.archive import read_archive
        from lab.summary import markdown, notices

        archive = read_archive(directory)
        lines = list(notices(archive))
        text = markdown(archive)
        out.result("\n".join(lines) if annotate else text, {"markdown": text, "annotations": lines})
