"""`cephlab gate`, `judge` and `report`: run the suites, judge an archive again, render it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from cli.output import JsonOption, reporting
from cli.signals import interruptible
from cli.world import world_of
from lab.errors import SpecError
from lab.home import Home

ALL = "all"
QUICK_SUITES = ("interop",)

QUICK = "quick"
_RERUN = "rerun"

SuiteOption = Annotated[
    list[str] | None,
    typer.Option(help="This suite; repeatable; `all` is every one.", show_default="quick: interop, full: all"),
]
InventoryOption = Annotated[
    Path | None, typer.Option(help="With --lab ssh: the machines of a cluster that exists.", metavar="FILE")
]
MayBreakOption = Annotated[
    str | None,
    typer.Option(help="With --lab ssh: what may be touched there; nothing by default.", metavar="FILE|LIST"),
]
ArchiveArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A run's archive.", show_default=False)]


def gate(
    ctx: typer.Context,
    failed_in: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", help="With --rerun-failed: the archive to take; else the newest."),
    ] = None,
    *,
    tier: Annotated[str | None, typer.Option(help="quick or full.", show_default="quick")] = None,
    lab: Annotated[str | None, typer.Option(help="Provider; see `cephlab doctor`.", show_default="auto")] = None,
    release: Annotated[str | None, typer.Option(help="Ceph release; not with --image.", show_default="reef")] = None,
    image: Annotated[str | None, typer.Option(help="Pulled image instead of a built one.", metavar="REF")] = None,
    seed: Annotated[int | None, typer.Option(help="Of every random choice; a new one when left out.", min=0)] = None,
    suite: SuiteOption = None,
    expression: Annotated[str, typer.Option("-k", help="Only scenarios whose names match.", metavar="EXPR")] = "",
    profile: Annotated[
        str | None, typer.Option(help="Hardware to predict for beside the verdicts: a profile's name or file.")
    ] = None,
    inventory: InventoryOption = None,
    may_break: MayBreakOption = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster of the first failure up.")] = False,
    rerun_failed: Annotated[
        bool, typer.Option("--rerun-failed", help="Only what did not pass in an earlier run, as it ran.")
    ] = False,
    archive: Annotated[Path | None, typer.Option(help="Folder for the run's archive.", metavar="DIR")] = None,
    as_json: JsonOption = False,
) -> None:
    """Run the suites on real clusters and say what passed, failed, stayed open or was skipped."""
    with reporting(as_json) as out:
        from cli.narration import narrating
        from cli.verdicts import describe, page
        from fixtures.run import Request, run_gate
        from fixtures.session import archive_name

        if failed_in is not None and not rerun_failed:
            raise SpecError(f"what is {str(failed_in)!r} for?", "an archive is named with --rerun-failed only")
        home = world_of(ctx).home
        home.ensure()
        rerun = (failed_in or newest(home)).absolute() if rerun_failed else None
        request = Request(
            archive=folder_of(archive or home.archive / archive_name(tier or (_RERUN if rerun else QUICK))),
            home=home.path,
            tier=tier,
            lab=lab,
            release=release,
            image=image,
            seed=seed,
            suites=chosen(suite or (), tier=tier or QUICK, everything=rerun_failed or bool(expression), costs=profile),
            keep=keep,
            rerun=rerun,
            expression=expression,
            profile=profile,
            inventory=folder_of(inventory) if inventory else None,
            may_break=may_break,
        )
        with narrating() as narrator, interruptible(narrator.says):
            result = run_gate(request, narrator)
        made = expectations(request.archive) if profile else []
        out.result(page(result) + expectation_page(made), {**describe(result), "predictions": made})
        if result.code:
            raise typer.Exit(result.code)


def folder_of(path: Path) -> Path:
    """As it is meant wherever one goes from here."""
    return path.expanduser().absolute()


def expectations(directory: Path) -> list[dict[str, Any]]:
    """The predictions that a gate left in its archive, that of recovery last."""
    from fixtures.expectation import SCENARIO
    from lab.archive import read_archive

    kinds = ("prediction", "recovery")
    events = [event for event in read_archive(directory).events if event.scenario == SCENARIO and event.kind in kinds]
    return [dict(event.data) for event in events]


def expectation_page(found: Sequence[dict[str, Any]]) -> str:
    """Predictions as lines below the verdicts, each with what the hardware is held to and how that came about."""
    lines = [""] if found else []
    for one in found:
        if "ops_s" in one:
            lines.append(
                f"predicted for {one['profile']}, {one['shape']}: {one['ops_s']:,.0f}/s after "
                f"{one['latency_s'] * 1e3:.3g} ms, limit: {one['bottleneck']} (demands {one['demands']})"
            )
            lines += _limit_lines(one.get("limits", ()))
        elif "seconds" in one:
            lines.append(f"predicted for {one['profile']}: {one['text']}")
            lines += _limit_lines(one["limits"])
        else:
            lines.append(f"not predicted for {one['profile']}, {one['shape']}: {one['unknown']}")
    return "\n".join(["", *lines]) if lines else ""


def _limit_lines(limits: Sequence[dict[str, Any]]) -> list[str]:
    """What is wanted of the hardware, then every step to it; steps that two limits share are shown once."""
    lines, seen = [], set()
    for one in limits:
        sides = ((one["low"], "at least"), (one["high"], "at most"))
        wanted = " and ".join(f"{words} {bound:,.6g}" for bound, words in sides if bound is not None)
        lines.append(f"  {one['metric']}: {wanted} {one['unit']}; {one['why']}")
        lines += [f"    {step}" for step in one["derivation"] if step not in seen]
        seen |= set(one["derivation"])
    return lines


def chosen(named: Sequence[str], *, tier: str, everything: bool, costs: str | None = None) -> tuple[str, ...]:
    """The suites that a gate runs; none is every one.

    A quick gate is to be ready in minutes, so unless others are named it runs the suite that says whether the two
    architectures make one cluster at all. everything: names of scenarios or an earlier run choose among all suites.
    costs: the profile that is predicted for, from what operations cost here, which one more suite measures.
    """
    if ALL in named or (not named and (everything or tier != QUICK)):
        return ()
    return tuple(named) or (*QUICK_SUITES, *(("block",) if costs else ()))


def newest(home: Home) -> Path:
    """The archive written last; SpecError when there is none."""
    found = sorted(home.archive.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise SpecError("there is no run to repeat", f"{home.archive} has no archive", "run `cephlab gate` first")
    return found[-1].parent


def judge_again(
    directory: ArchiveArgument,
    as_json: JsonOption = False,
) -> None:
    """Judge a run's history with today's checks and say where that differs from the stored verdict."""
    with reporting(as_json) as out:
        from lab.archive import Ending, altered, exit_code, judge, read_archive

        archive = read_archive(directory)
        changed = altered(directory)
        found = judge(archive)
        for line in (*changed, *archive.lost):
            out.warn(line)
        lines = []
        for one in found:
            now = f"not judged ({one.stored})" if one.now is None else str(one.now)
            stored = f" (stored: {one.stored})" if one.differs else ""
            lines.append(f"{one.scenario}: {now}{stored}: {one.reason}")
        differing = sum(1 for one in found if one.differs)
        lines += ["", f"{len(found)} scenarios, {differing} judged otherwise than at the time"]
        value = {
            "altered": changed,
            "lost": list(archive.lost),
            "differing": differing,
            "verdicts": [_judged(one) for one in found],
        }
        out.result("\n".join(lines), value)
        code = 3 if changed else exit_code([one.now or one.stored for one in found if one.quarantined is None])
        if archive.manifest["state"] != "complete":
            out.warn("the run was cut short; what did not run is not known")
            code = code or exit_code([Ending.INCONCLUSIVE])
        if code:
            raise typer.Exit(code)


def _judged(one: Any) -> dict[str, Any]:
    return {**asdict(one), "differs": one.differs}


def report(
    directory: ArchiveArgument,
    output: Annotated[Path | None, typer.Option(help="File to write; report.html in DIR when left out.")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="Another archive whose database runs are compared as well; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write one self-contained HTML page from an archive."""
    with reporting(as_json) as out:
        from lab.archive import read_archive, replace_report
        from lab.report import render_report
        from tuning.comparison import compared, together

        archive = read_archive(directory)
        others = [(one.name, read_archive(one).events) for one in beside or ()]
        html = render_report(archive, compared(together(archive.events, others)))
        if output is None:
            replace_report(directory, html)
        else:
            output.write_text(html)
        written = (output or directory / "report.html").absolute()
        out.result(str(written), {"report": str(written)})
