"""`cephlab track`: records how scenarios ended, and finds those that end differently at the same commit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import cephlab
from cephlab.cli.completion import ARCHIVES
from cephlab.cli.conventions import refuse_unwritable
from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import legible
from cephlab.lab.base.numbers import how_many, percent

if TYPE_CHECKING:
    from cephlab.lab.archive.attempts import KeptRun

_FAILED = 1
_QUARANTINE = Path(cephlab.__file__).parent / "suites" / "quarantine.toml"


@framed
def track(
    out: Output,
    world: World,
    archives: Annotated[
        list[Path] | None, typer.Argument(metavar="ARCHIVE", help="Archives of runs to add.", autocompletion=ARCHIVES)
    ] = None,
    kept: Annotated[
        Path | None, typer.Option(help="File that holds all attempts.", show_default="the one in the home")
    ] = None,
    quarantine: Annotated[
        Path,
        typer.Option(
            help="Scenarios that do not decide.", exists=True, dir_okay=False, show_default="those of cephlab itself"
        ),
    ] = _QUARANTINE,
    output: Annotated[
        Path | None, typer.Option(help="Page in which to renew the table of attempts and the list of known defects.")
    ] = None,
) -> int:
    """Record the attempts of archives, and report which scenarios end differently at the same commit.

    Exit code 1 if a scenario is above the limit of 1 % and not in quarantine, or if the false alarms of a suite are
    above it beyond doubt.

    Example: cephlab track ARCHIVE --kept attempts.jsonl
    """
    from cephlab.fixtures.selection import read_quarantine
    from cephlab.lab.archive.attempts import LIMIT, false_alarms, keep, page, put_into, rates, read_kept, wanted
    from cephlab.lab.report import defects

    refuse_unwritable("--output", output)
    if archives:
        refuse_unwritable("--kept", kept)
    elif kept is not None and not kept.exists():
        raise SpecError(f"--kept {kept} does not exist", "no archive was given to add to it", "name an archive")
    quarantined = read_quarantine(quarantine)
    added = [_attempts(directory) for directory in archives or ()]
    store = kept or (world.home.ensure() if added else world.home).attempts
    runs = keep(store, added) if added else read_kept(store)
    out.note(f"attempts: {store}")
    text = page(runs, quarantined)
    if output is not None:
        if runs:  # else leave the table: its attempts are kept in another file
            put_into(output, text)
        put_into(output, defects.part(defects.read_defects(defects.KNOWN)), defects.MARK)
    missing = list(wanted(runs, quarantined))
    for rate in missing:
        out.warn(f"{rate.scenario} is above the limit ({rate.words}): add it to {quarantine}")
    suites = false_alarms(runs, quarantined)
    for alarms in suites:
        if alarms.above:
            failed = f"{alarms.alarms} of {alarms.sound} sound attempts did not pass"
            out.warn(f"{alarms.suite}: {failed}; the limit is {percent(LIMIT, '.0f')}")
    rows = [{**asdict(rate), "rate": rate.rate, "quarantined": rate.scenario in quarantined} for rate in rates(runs)]
    value = {"runs": len(runs), "scenarios": rows, "wanted": [rate.scenario for rate in missing]}
    if output is not None:
        text = f"{output}: " + (f"attempts of {how_many(len(runs), 'run')}, " if runs else "") + "known defects"
    out.result(text, {**value, "suites": [asdict(alarms) for alarms in suites]})
    return _FAILED if missing or any(alarms.above for alarms in suites) else 0


def _attempts(directory: Path) -> KeptRun:
    """What is kept of an archive."""
    from cephlab.lab.archive.attempts import run_of
    from cephlab.lab.archive.merged import read_whole

    with legible(directory):
        return run_of(read_whole(directory))
