"""`cephlab judge`, `report` and `summary`: judge and show archives."""

from __future__ import annotations

import webbrowser
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.archives import ArchiveArgument, named_or_newest
from cephlab.cli.completion import ARCHIVES, DEFECTS
from cephlab.cli.conventions import refuse_other_format, refuse_unwritable, write_named
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.given import legible
from cephlab.lab.base.numbers import how_many

if TYPE_CHECKING:
    from cephlab.lab.archive.archive import Archive

_ALTERED = 3

SignersOption = Annotated[
    Path | None,
    typer.Option(help="allowed_signers file with accepted signers.", metavar="FILE", exists=True, dir_okay=False),
]


@framed
def judge_again(out: Output, world: World, directory: ArchiveArgument = None, signers: SignersOption = None) -> int:
    """Judge the history of a run again with the checks of this cephlab, and show which verdicts differ.

    Exit code 3 if the archive was altered.

    Example: cephlab judge ARCHIVE
    """
    from cephlab.lab.archive.archive import Ending, exit_code, judge
    from cephlab.lab.archive.merged import read_run
    from cephlab.lab.report.page import left_list, unfinished

    archive = read_run(named_or_newest(out, world, directory), signers)
    verdicts = judge(archive)
    for line in (*archive.altered, *archive.lost):
        out.warn(line)
    lines = []
    for verdict in verdicts:
        now = f"not judged ({verdict.stored})" if verdict.now is None else str(verdict.now)
        stored = f" (stored: {verdict.stored})" if verdict.differs else ""
        lines.append(f"{verdict.scenario}: {now}{stored}: {verdict.reason}")
    differing = sum(1 for verdict in verdicts if verdict.differs)
    lines += ["", f"{how_many(len(verdicts), 'scenario')}, {differing} judged differently than in the run"]
    lines += [f"signed by {archive.signer}"] if archive.signer else []
    value = {
        "altered": list(archive.altered),
        "lost": list(archive.lost),
        "left": list(archive.left),
        "signer": archive.signer,
        "differing": differing,
        "verdicts": [{**asdict(verdict), "differs": verdict.differs} for verdict in verdicts],
    }
    out.result("\n".join(lines), value)
    code = exit_code([verdict.now or verdict.stored for verdict in verdicts if verdict.quarantined is None])
    code = _ALTERED if archive.altered else code
    if archive.manifest["state"] != "complete":
        left = left_list(archive.left) if archive.left else "it is not known what did not run"
        out.warn(f"the run {unfinished(archive.manifest)}; {left}")
        code = code or exit_code([Ending.INCONCLUSIVE])
    return code


def warn_of_doubts(out: Output, archive: Archive) -> int:
    """Warn why the stored verdicts of an archive cannot be relied on; returns 3 then, else 0."""
    for line in archive.doubts:
        out.warn(line)
    return _ALTERED if archive.doubts else 0


@dataclass(frozen=True)
class PageOptions:
    """Where to write the page, and what else to put on it."""

    output: Annotated[Path | None, typer.Option(help="File to write.", show_default="report.html in ARCHIVE")] = None
    beside: Annotated[
        list[Path] | None,
        typer.Option(
            help="Another archive with database runs to compare; repeatable.",
            metavar="ARCHIVE",
            autocompletion=ARCHIVES,
        ),
    ] = None
    defect: Annotated[
        str | None,
        typer.Option(
            help="Instead print what the run saw of this known defect, and a program that reproduces it.",
            metavar="NAME",
            autocompletion=DEFECTS,
        ),
    ] = None
    show: Annotated[bool, typer.Option("--open", help="Open the page in a browser.")] = False


@framed
def report(
    out: Output, world: World, page: PageOptions, directory: ArchiveArgument = None, signers: SignersOption = None
) -> int:
    """Write one self-contained HTML page from an archive. Exit code 3 if its verdicts cannot be relied on.

    Example: cephlab report ARCHIVE --output page.html
    """
    from cephlab.lab.archive.archive import replace_report
    from cephlab.lab.archive.merged import read_run, read_whole
    from cephlab.lab.report.defects import developer_report
    from cephlab.lab.report.page import render_report
    from cephlab.tuning.comparison import compared, together

    if page.defect is None:
        refuse_other_format(page.output)
    refuse_unwritable("--output", page.output)
    directory = named_or_newest(out, world, directory)
    archive = read_run(directory, signers)
    if page.defect is not None:
        with legible(directory):
            text = developer_report(archive, page.defect)
        if page.output is not None:
            write_named(page.output, text)
        where = text if page.output is None else str(page.output.absolute())
        out.result(where, {"defect": page.defect, "markdown": text, "doubts": list(archive.doubts)})
        return warn_of_doubts(out, archive)
    if page.output is None:
        refuse_unwritable("the report", directory / "report.html", instead="write it elsewhere: --output FILE")
    others = [(other.name, read_whole(other).events) for other in page.beside or ()]
    with legible(directory, *(page.beside or ())):
        html = render_report(archive, compared(together(archive.events, others)))
    if page.output is None:
        replace_report(directory, html)
    else:
        write_named(page.output, html)
    written = (page.output or directory / "report.html").absolute()
    out.result(str(written), {"report": str(written), "doubts": list(archive.doubts)})
    if page.show:
        show_page(written)
    return warn_of_doubts(out, archive)


def show_page(written: Path) -> None:
    """Open a page in a browser; LabBroken if there is none."""
    if not webbrowser.open(written.as_uri()):
        raise LabBroken("no browser could be opened", str(written), "open that file in a browser yourself")


@framed
def summary(
    out: Output,
    world: World,
    directory: ArchiveArgument = None,
    annotate: Annotated[
        bool,
        typer.Option(
            "--annotate", help="Print GitHub annotations instead: a line for each scenario that did not pass."
        ),
    ] = False,
    signers: SignersOption = None,
) -> int:
    """Print the verdicts of an archived run as Markdown. Exit code 3 if they cannot be relied on.

    Example: cephlab summary ARCHIVE
    """
    from cephlab.lab.archive.merged import read_run
    from cephlab.lab.report.summary import markdown, notices

    archive = read_run(named_or_newest(out, world, directory), signers)
    with legible(archive.directory):
        lines, text = list(notices(archive)), markdown(archive)
    out.result("\n".join(lines) if annotate else text, {"markdown": text, "annotations": lines})
    return warn_of_doubts(out, archive)
