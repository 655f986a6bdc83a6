"""`cephlab gate`, `judge`, `report`, `summary`, `track`: run suites, judge and show archives, find flaky scenarios."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import cephlab
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, interruptible
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home

if TYPE_CHECKING:
    from cephlab.lab.archive.archive import Archive

ALL = "all"
QUICK_SUITES = ("interop",)

QUICK = "quick"
_RERUN = "rerun"
_ALTERED = 3

SignersOption = Annotated[
    Path | None,
    typer.Option(help="Who may have signed it: an allowed_signers file.", metavar="FILE", exists=True, dir_okay=False),
]
FailedInArgument = Annotated[
    Path | None, typer.Argument(metavar="[DIR]", help="With --rerun-failed: the archive to take; else the newest.")
]
ArchiveArgument = Annotated[Path, typer.Argument(metavar="DIR", help="A run's archive.", show_default=False)]


@dataclass(frozen=True)
class Selection:
    """What runs."""

    tier: Annotated[str | None, typer.Option(help="quick or full.", show_default="quick")] = None
    suite: Annotated[
        list[str] | None,
        typer.Option(help="This suite; repeatable; `all` is every one.", show_default="quick: interop, full: all"),
    ] = None
    expression: Annotated[str, typer.Option("-k", help="Only scenarios whose names match.", metavar="EXPR")] = ""
    seed: Annotated[int | None, typer.Option(help="Seed of every random choice; a new one when left out.", min=0)] = (
        None
    )
    rerun_failed: Annotated[
        bool, typer.Option("--rerun-failed", help="Only what did not pass in an earlier run, as it ran.")
    ] = False


@dataclass(frozen=True)
class LabOptions:
    """Where the suites run, and the hardware that is predicted for."""

    lab: Annotated[str | None, typer.Option(help="Provider; see `cephlab doctor`.", show_default="auto")] = None
    release: Annotated[str | None, typer.Option(help="Ceph release; not with --image.", show_default="reef")] = None
    image: Annotated[str | None, typer.Option(help="Pulled image instead of a built one.", metavar="REF")] = None
    profile: Annotated[
        str | None, typer.Option(help="Hardware to predict for beside the verdicts: a profile's name or file.")
    ] = None
    inventory: Annotated[
        Path | None, typer.Option(help="With --lab ssh: the machines of a cluster that exists.", metavar="FILE")
    ] = None
    may_break: Annotated[
        str | None,
        typer.Option(help="With --lab ssh: what may be touched there; nothing by default.", metavar="FILE|LIST"),
    ] = None


@dataclass(frozen=True)
class Kept:
    """What is kept after the run."""

    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster of the first failure up.")] = False
    archive: Annotated[Path | None, typer.Option(help="Folder for the run's archive.", metavar="DIR")] = None
    sign: Annotated[
        Path | None, typer.Option(help="Sign the archive with this SSH key, or with the agent's.", metavar="KEY")
    ] = None


@framed
def gate(
    out: Output, world: World, what: Selection, where: LabOptions, kept: Kept, failed_in: FailedInArgument = None
) -> int:
    """Run the suites on real clusters and say what passed, failed, stayed open or was skipped."""
    from cephlab.cli.narration import describe, narrating, page
    from cephlab.fixtures.run import Request, run_gate
    from cephlab.fixtures.session import archive_name
    from cephlab.lab.archive.archive import add_signature
    from cephlab.lab.archive.signature import sign

    if kept.sign:
        sign(b"", kept.sign)  # a key that cannot sign is refused now, and not after the run
    if failed_in is not None and not what.rerun_failed:
        raise SpecError(
            f"{failed_in} needs --rerun-failed", "no other gate reads an archive", "add it, or leave DIR out"
        )
    home = world.home
    home.ensure()
    rerun = (failed_in or newest(home)).absolute() if what.rerun_failed else None
    folder = kept.archive or home.archive / archive_name(what.tier or (_RERUN if rerun else QUICK))
    everything = what.rerun_failed or bool(what.expression)
    request = Request(
        archive=folder.expanduser().absolute(),
        home=home.path,
        tier=what.tier,
        seed=what.seed,
        suites=chosen(what.suite or (), tier=what.tier or QUICK, everything=everything, costs=where.profile),
        keep=kept.keep,
        rerun=rerun,
        expression=what.expression,
        **vars(where),
    )
    with narrating() as narrator, interruptible(narrator.pytest_cephlab_progress):
        result = run_gate(request, narrator)
    if kept.sign:
        add_signature(result.archive, kept.sign)
    predictions = expectations(request.archive) if where.profile else []
    out.result(page(result) + expectation_page(predictions), {**describe(result), "predictions": predictions})
    return result.code


def expectations(directory: Path) -> list[dict[str, Any]]:
    """The predictions that a gate left in its archive, that of recovery last."""
    from cephlab.fixtures.expectation import SCENARIO
    from cephlab.lab.archive.archive import read_archive

    kinds = ("prediction", "recovery")
    events = [event for event in read_archive(directory).events if event.scenario == SCENARIO and event.kind in kinds]
    return [dict(event.data) for event in events]


def expectation_page(predictions: Sequence[dict[str, Any]]) -> str:
    """Predictions as lines below the verdicts, each with its limits and how they were derived."""
    lines = [""] if predictions else []
    for prediction in predictions:
        if "ops_s" in prediction:
            lines.append(
                f"predicted for {prediction['profile']}, {prediction['shape']}: {prediction['ops_s']:,.0f}/s after "
                f"{prediction['latency_s'] * 1e3:.3g} ms, limit: {prediction['bottleneck']} "
                f"(demands {prediction['demands']})"
            )
        elif "seconds" in prediction:
            lines.append(f"predicted for {prediction['profile']}: {prediction['text']}")
        else:
            lines.append(f"not predicted for {prediction['profile']}, {prediction['shape']}: {prediction['unknown']}")
        lines += _limit_lines(prediction.get("limits", ()))
    return "\n".join(["", *lines]) if lines else ""


def _limit_lines(limits: Sequence[dict[str, Any]]) -> list[str]:
    """Each limit with the steps of its derivation. A step that two limits share is shown once."""
    lines, seen = [], set()
    for limit in limits:
        sides = ((limit["low"], "at least"), (limit["high"], "at most"))
        wanted = " and ".join(f"{words} {bound:,.6g}" for bound, words in sides if bound is not None)
        lines.append(f"  {limit['metric']}: {wanted} {limit['unit']}; {limit['why']}")
        lines += [f"    {step}" for step in limit["derivation"] if step not in seen]
        seen |= set(limit["derivation"])
    return lines


def chosen(named: Sequence[str], *, tier: str, everything: bool, costs: str | None = None) -> tuple[str, ...]:
    """The suites that a gate runs; an empty tuple means all of them.

    A quick gate has to end in minutes. So where no suite is named, it runs only `interop`, which shows whether the two
    architectures make one cluster. everything: whether scenarios are chosen by name or by an earlier run, which may
    lie in any suite. costs: the profile that is predicted for; the suite that measures costs is added for it.
    """
    if ALL in named or (not named and (everything or tier != QUICK)):
        return ()
    return tuple(named) or (*QUICK_SUITES, *(("block",) if costs else ()))


def newest(home: Home) -> Path:
    """The archive written last; SpecError when there is none."""
    manifests = sorted(home.archive.glob("*/manifest.json"), key=lambda path: path.stat().st_mtime)
    if not manifests:
        raise SpecError("there is no run to repeat", f"{home.archive} has no archive", "run `cephlab gate` first")
    return manifests[-1].parent


@framed
def judge_again(out: Output, directory: ArchiveArgument, signers: SignersOption = None) -> int:
    """Judge a run's history with the checks of this cephlab, and say where that differs from the stored verdict.

    Ends with 3 where the archive was altered.
    """
    from cephlab.lab.archive.archive import Ending, exit_code, judge, read_archive

    archive = read_archive(directory, signers)
    verdicts = judge(archive)
    for line in (*archive.altered, *archive.lost):
        out.warn(line)
    lines = []
    for verdict in verdicts:
        now = f"not judged ({verdict.stored})" if verdict.now is None else str(verdict.now)
        stored = f" (stored: {verdict.stored})" if verdict.differs else ""
        lines.append(f"{verdict.scenario}: {now}{stored}: {verdict.reason}")
    differing = sum(1 for verdict in verdicts if verdict.differs)
    lines += ["", f"{len(verdicts)} scenarios, {differing} judged otherwise than at the time"]
    lines += [f"signed by {archive.signer}"] if archive.signer else []
    value = {
        "altered": list(archive.altered),
        "lost": list(archive.lost),
        "signer": archive.signer,
        "differing": differing,
        "verdicts": [{**asdict(verdict), "differs": verdict.differs} for verdict in verdicts],
    }
    out.result("\n".join(lines), value)
    code = exit_code([verdict.now or verdict.stored for verdict in verdicts if verdict.quarantined is None])
    code = _ALTERED if archive.altered else code
    if archive.manifest["state"] != "complete":
        out.warn("the run was cut short; what did not run is not known")
        code = code or exit_code([Ending.INCONCLUSIVE])
    return code


def warn_of_doubts(out: Output, archive: Archive) -> int:
    """Say why an archive's stored verdicts cannot be relied on; returns 3 then, else 0."""
    for line in archive.doubts:
        out.warn(line)
    return _ALTERED if archive.doubts else 0


@framed
def report(
    out: Output,
    directory: ArchiveArgument,
    output: Annotated[Path | None, typer.Option(help="File to write; report.html in DIR when left out.")] = None,
    beside: Annotated[
        list[Path] | None, typer.Option(help="Another archive whose database runs are compared as well; repeatable.")
    ] = None,
    signers: SignersOption = None,
) -> int:
    """Write one self-contained HTML page from an archive; ends with 3 where its verdicts cannot be relied on."""
    from cephlab.lab.archive.archive import read_archive, read_whole, replace_report
    from cephlab.lab.report.page import render_report
    from cephlab.tuning.comparison import compared, together

    archive = read_archive(directory, signers)
    others = [(other.name, read_whole(other).events) for other in beside or ()]
    html = render_report(archive, compared(together(archive.events, others)))
    if output is None:
        replace_report(directory, html)
    else:
        output.write_text(html)
    written = (output or directory / "report.html").absolute()
    out.result(str(written), {"report": str(written), "doubts": list(archive.doubts)})
    return warn_of_doubts(out, archive)


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
