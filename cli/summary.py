"""`cephlab summary`: an archive in a page of Markdown, for the summary of a hosted run."""

from __future__ import annotations

from typing import Annotated

import typer

from cephlab.cli.frame import framed
from cephlab.cli.gate import ArchiveArgument, SignersOption, warn_of_doubts
from cephlab.cli.output import Output


@framed
def summary(
    out: Output,
    directory: ArchiveArgument,
    annotate: Annotated[
        bool, typer.Option("--annotate", help="Print GitHub's annotations instead: one line for what did not pass.")
    ] = False,
    signers: SignersOption = None,
) -> int:
    """Print an archived run's verdicts as Markdown; ends with 3 where they cannot be relied on."""
    from cephlab.lab.archive.archive import read_archive
    from cephlab.lab.report.summary import markdown, notices

    archive = read_archive(directory, signers)
    lines = list(notices(archive))
    text = markdown(archive)
    out.result("\n".join(lines) if annotate else text, {"markdown": text, "annotations": lines})
    return warn_of_doubts(out, archive)
