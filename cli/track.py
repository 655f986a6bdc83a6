"""`cephlab track`: how flaky each scenario is, over all attempts that were kept."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

import cephlab
from cephlab.cli.frame import framed
from cephlab.cli.output import Output

_FAILED = 1
_QUARANTINE = Path(cephlab.__file__).parent / "suites" / "quarantine.toml"


@framed
def track(
    out: Output,
    archives: Annotated[list[Path] | None, typer.Argument(metavar="[DIR]...", help="Archives of runs to add.")] = None,
    kept: Annotated[Path, typer.Option(help="File that keeps every attempt.")] = Path("ci/attempts.jsonl"),
    quarantine: Annotated[Path, typer.Option(help="Scenarios that do not decide.")] = _QUARANTINE,
    output: Annotated[Path | None, typer.Option(help="Page whose table of attempts is written anew.")] = None,
) -> int:
    """Keep the attempts of archives, and say which scenarios end differently at one commit.

    Ends with 1 when a scenario is above the limit of 1 % and not in quarantine.
    """
    from cephlab.fixtures.selection import read_quarantine
    from cephlab.lab.archive.archive import read_whole
    from cephlab.lab.archive.attempts import keep, page, put_into, rates, read_kept, run_of, wanted

    quarantined = read_quarantine(quarantine)
    added = [run_of(read_whole(directory)) for directory in archives or ()]
    runs = keep(kept, added) if added else read_kept(kept)
    text = page(runs, quarantined)
    if output is not None:
        put_into(output, text)
    missing = list(wanted(runs, quarantined))
    for rate in missing:
        out.warn(f"{rate.scenario} is above the limit ({rate.words}): put it into {quarantine}")
    rows = [{**asdict(rate), "rate": rate.rate, "quarantined": rate.scenario in quarantined} for rate in rates(runs)]
    out.result(text, {"runs": len(runs), "scenarios": rows, "wanted": [rate.scenario for rate in missing]})
    return _FAILED if missing else 0
