"""`cephlab gate`: runs suites on real clusters."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli.archives import newest
from cephlab.cli.completion import ARCHIVES, HOSTS, LABS, PROFILES, RELEASES, SUITES, words
from cephlab.cli.expected import expectation_lines, expectations, requirement_lines
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, interruptible
from cephlab.cli.plan import name_all, refuse_settings, show, warn_of_unasked
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken, LabError, SpecError
from cephlab.lab.base.given import user_path
from cephlab.lab.base.home import temporary_folder
from cephlab.lab.base.nearest import unknown

if TYPE_CHECKING:
    from cephlab.cli.narration import Narration
    from cephlab.fixtures.run import GateResult, Request
    from cephlab.lab.spec.inventory import Machine

ALL = "all"
QUICK_SUITES = ("interop",)
COSTS, REQUIREMENTS, SCALE, JOBS = "block", "profile", "scale", "job"

QUICK = "quick"
TIERS = (QUICK, "full")
_RERUN = "rerun"

FailedInArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="ARCHIVE", help="With --rerun-failed: the archive.", show_default="the newest", autocompletion=ARCHIVES
    ),
]


@dataclass(frozen=True)
class Selection:
    """What runs."""

    job: Annotated[
        Path | None, typer.Option(help="Run this job file (see `cephlab import`), not suites.", metavar="FILE")
    ] = None
    tier: Annotated[
        str | None,
        typer.Option(help="How much to run.", metavar="quick|full", show_default="quick", autocompletion=words(*TIERS)),
    ] = None
    suite: Annotated[
        list[str] | None,
        typer.Option(
            help="Suite to run; repeatable; `all` for every suite.",
            show_default="interop; all with -k or in the full tier",
            metavar="NAME",
            autocompletion=SUITES,
        ),
    ] = None
    expression: Annotated[
        str, typer.Option("-k", "--scenarios", help="Run only scenarios whose names match.", metavar="EXPR")
    ] = ""
    sample: Annotated[
        bool,
        typer.Option("--sample", help="Of the scenarios that differ only in their brackets, run one at random."),
    ] = False
    shard: Annotated[
        str | None, typer.Option(metavar="N/M", help="Run the Nth of M parts that take about as long, e.g. 1/2.")
    ] = None
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices.", show_default="a new one", min=0)] = (
        None
    )
    jobs: Annotated[
        int,
        typer.Option(
            "-j",
            "--jobs",
            help="Processes that run scenarios in parallel; 0: as many as cores and memory allow.",
            min=0,
            max=1000,
        ),
    ] = 0
    on: Annotated[
        str | None,
        typer.Option(
            help="Run the scenarios on these machines over ssh, e.g. lab1,root@lab2; -j processes on each.",
            metavar="HOST,...",
            autocompletion=HOSTS,
        ),
    ] = None
    rerun_failed: Annotated[
        bool, typer.Option("--rerun-failed", help="Run only what did not pass in an earlier run, as it ran then.")
    ] = False
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Continue an interrupted run, including what never ran.", metavar="ARCHIVE", autocompletion=ARCHIVES
        ),
    ] = None
    plan: Annotated[
        bool,
        typer.Option("--plan", help="Only show what would run, how long it took last time, and the memory it needs."),
    ] = False
    scale_model: Annotated[
        bool, typer.Option("--scale-model", help="Also run the profile's loads on a scale model; see docs/scale.md.")
    ] = False
    list_only: Annotated[bool, typer.Option("--list", help="Only list the scenarios and what each shows.")] = False


@dataclass(frozen=True)
class LabOptions:
    """Where the suites run, and the hardware to predict for."""

    lab: Annotated[
        str | None,
        typer.Option(
            help="Provider; see `cephlab doctor`.", metavar="PROVIDER", show_default="auto", autocompletion=LABS
        ),
    ] = None
    release: Annotated[
        str | None, typer.Option(help="Ceph release; not with --image.", show_default="reef", autocompletion=RELEASES)
    ] = None
    image: Annotated[str | None, typer.Option(help="Use a pulled image instead of a built one.", metavar="REF")] = None
    profile: Annotated[
        str | None,
        typer.Option(
            help="Hardware to predict for, by name or file; its requirements are judged in addition to any suite.",
            metavar="NAME|FILE",
            autocompletion=PROFILES,
        ),
    ] = None
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Run a Prometheus in every cluster; its series are archived.")
    ] = False
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not reuse kept stores: create the stores of every cluster from scratch.")
    ] = False
    changes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="Change a figure of the profile, e.g. nodes.count=6; repeatable.", metavar="PLACE=VALUE"
        ),
    ] = None
    inventory: Annotated[
        Path | None, typer.Option(help="With --lab ssh: the machines of an existing cluster.", metavar="FILE")
    ] = None
    may_break: Annotated[
        str | None,
        typer.Option(help="With --lab ssh: what tests may change there.", show_default="nothing", metavar="FILE|LIST"),
    ] = None


@dataclass(frozen=True)
class Kept:
    """What is kept after the run."""

    keep: Annotated[bool, typer.Option("--keep", help="Leave the cluster of the first failure running.")] = False
    archive: Annotated[Path | None, typer.Option(help="Folder for the run's archive.", metavar="DIR")] = None
    sign: Annotated[
        Path | None,
        typer.Option(help="Sign the archive with this SSH key; for a public key the agent signs.", metavar="KEY"),
    ] = None


@framed
def gate(
    out: Output, world: World, what: Selection, where: LabOptions, kept: Kept, failed_in: FailedInArgument = None
) -> int:
    """Run the suites on real clusters and report what passed, failed, was inconclusive or was skipped.

    Example: cephlab gate --suite interop --tier full -k 'objects and x86_64'
    """
    from cephlab.cli.narration import describe, narrating, page
    from cephlab.fixtures.entering import called
    from cephlab.lab.archive.archive import ARCHIVE_FOLDER, read_archive
    from cephlab.lab.base.runs import refuse_used

    refuse_at_once(what, kept, failed_in)
    home = world.home
    home.ensure()
    rerun = (failed_in or newest(home)).absolute() if what.rerun_failed else None
    request = asked(world, what, where, kept, rerun)
    machines = machines_on(what.on, where)
    if what.plan or what.list_only:
        refuse_used(request.archive, ARCHIVE_FOLDER)
        refuse_settings(out, world, request)
    if what.plan:
        warn_of_unasked(out, world, where.lab, what.on)
        lanes = what.jobs if what.on else lanes_of(what.jobs, request)
        return show(out, request, lanes, elsewhere=what.on is not None)
    if what.list_only:
        return name_all(out, request)
    temporary_folder()  # pytest keeps files of scenarios there, and each of them would break
    with narrating() as narrator, interruptible(narrator.pytest_cephlab_progress):
        result = run(request, what.jobs, machines, narrator)
    if kept.sign:
        result = signed(result, kept.sign)
    archive = read_archive(request.archive)
    predictions = expectations(archive)
    if out.as_json:
        out.json({**describe(result), "predictions": predictions})
    else:
        lines = (page(result), *expectation_lines(predictions), *requirement_lines(archive))
        out.lines(*"\n".join(lines).split("\n"), whole=called("cephlab ", result.home))
    return result.code


def refuse_at_once(what: Selection, kept: Kept, failed_in: Path | None) -> None:
    """SpecError for values that are wrong by themselves. Others are refused once the scenarios were collected."""
    from cephlab.fixtures.expression import refuse_wrong
    from cephlab.fixtures.selection import parse_shard
    from cephlab.lab.archive.signature import sign

    if what.tier is not None and what.tier not in TIERS:
        raise unknown(f"--tier: {what.tier!r} is not known", what.tier, TIERS, "leave it out for quick")
    refuse_wrong(what.expression)
    if what.shard is not None:
        parse_shard(what.shard)
    if kept.sign:
        sign(b"", kept.sign)  # a key that cannot sign is refused now, not after the run
    if failed_in is not None and not what.rerun_failed:
        raise SpecError(
            f"{failed_in} needs --rerun-failed", "ARCHIVE is read only with that option", "add it, or leave ARCHIVE out"
        )


def signed(result: GateResult, key: Path) -> GateResult:
    """The result, with its archive signed; if it cannot be signed any more, that is trouble of the lab."""
    from cephlab.lab.archive.archive import add_signature

    try:
        add_signature(result.archive, key)
    except (LabError, OSError) as error:
        return replace(result, trouble=(*result.trouble, str(error)), code=result.code or LabBroken.exit_code)
    return result


def asked(world: World, what: Selection, where: LabOptions, kept: Kept, rerun: Path | None) -> Request:
    """The request that the options make; SpecError if they do not fit together. rerun: archive whose failures run."""
    from cephlab.fixtures.options import SSH, earlier_of
    from cephlab.fixtures.run import Request
    from cephlab.fixtures.session import archive_name

    earlier_of(where.release, where.image, where.lab, rerun=rerun, resume=what.resume)
    home = world.home
    folder = kept.archive or home.archive / archive_name(what.tier or (_RERUN if rerun else QUICK))
    everything = what.rerun_failed or what.resume is not None or bool(what.expression)
    refuse_on(what, where, kept)
    if what.scale_model and not (where.profile or what.rerun_failed or what.resume or where.lab == SSH):
        raise SpecError("--scale-model needs a profile", "--profile: missing", "see docs/scale.md")
    if where.release is not None:
        world.images.book.release(where.release)
    if what.job is not None and what.suite:
        raise SpecError("--job and --suite cannot be given together", "a job runs instead of suites", "leave one out")
    brought = (*beside(world, where, what.suite or ()), *((SCALE,) if what.scale_model else ()))
    named = (JOBS,) if what.job else what.suite or ()
    suites = chosen(named, tier=what.tier or QUICK, everything=everything, beside=brought)
    request = Request(
        archive=folder.absolute(),
        home=home.path,
        tier=what.tier,
        seed=what.seed,
        suites=suites,
        job=what.job.absolute() if what.job else None,
        keep=kept.keep,
        rerun=rerun,
        resume=what.resume.absolute() if what.resume else None,
        expression=what.expression,
        sample=what.sample,
        shard=what.shard,
        **{
            **vars(where),
            "changes": tuple(where.changes or ()),
            "inventory": None if what.on else where.inventory,
        },
    )
    request.paths()
    return request


def run(request: Request, jobs: int, machines: Sequence[Machine], heard: Narration) -> GateResult:
    """Run the gate in this process, in several, or on other machines."""
    from cephlab.fixtures.lanes import run_in, run_side_by_side
    from cephlab.fixtures.run import run_gate

    if machines:
        from cephlab.fixtures.hosts import prepare

        return run_in(request, prepare(machines, request, jobs, heard), heard)
    lanes = lanes_of(jobs, request)
    return run_gate(request, heard) if lanes == 1 else run_side_by_side(request, lanes, heard)


def machines_on(named: str | None, where: LabOptions) -> tuple[Machine, ...]:
    """The machines of --on, without contacting them; none if it was not given."""
    from cephlab.fixtures.options import SSH

    if named is None:
        return ()
    from cephlab.fixtures.hosts import machines_of

    if where.lab == SSH:
        raise SpecError(f"--on cannot be given with --lab {SSH}", "that is one existing cluster", "leave one out")
    return machines_of(named, inventory_of(where))


def inventory_of(where: LabOptions) -> Path | None:
    """The inventory whose machine names --on accepts."""
    from cephlab.lab.spec.inventory import INVENTORY_VARIABLE

    named = where.inventory or os.environ.get(INVENTORY_VARIABLE)
    return user_path(named) if named else None


def refuse_on(what: Selection, where: LabOptions, kept: Kept) -> None:
    """SpecError if --on is given with an option that is for one machine only."""
    of_here = {
        "--profile": where.profile is not None,
        "--resume": what.resume is not None,
        "--rerun-failed": what.rerun_failed,
        "--job": what.job is not None,
        "--keep": kept.keep,
        "--may-break": where.may_break is not None,
    }
    given = [option for option, there in of_here.items() if there]
    if what.on is not None and given:
        raise SpecError(f"--on cannot be given with {given[0]}", "that option is for one machine", "leave one out")


def lanes_of(jobs: int, request: Request) -> int:
    """How many processes run scenarios; SpecError for several, if an option allows only one.

    What an earlier run was given counts too where its failures run again, because they run as they ran then.
    """
    from cephlab.fixtures.lanes import bearable
    from cephlab.fixtures.options import SSH
    from cephlab.lab.archive.merged import read_run

    earlier = read_run(request.rerun).manifest if request.rerun is not None else {}
    shared = {
        "--inventory": request.inventory is not None,
        f"--lab {SSH}": request.lab == SSH,
        "--profile": request.profile is not None,
        "--resume": request.resume is not None,
        f"--rerun-failed of a run with --lab {SSH}": request.lab is None and earlier.get("lab") == SSH,
        "--rerun-failed of a run with --profile": earlier.get("profile") is not None,
    }
    given = [name for name, there in shared.items() if there]
    if jobs > 1 and given:
        raise SpecError(f"-j {jobs} cannot be given with {given[0]}", "it needs one process", "leave -j out")
    return 1 if given else jobs or bearable()


def beside(world: World, where: LabOptions, named: Sequence[str]) -> tuple[str, ...]:
    """The suites that a profile adds: one that measures costs, and one that judges its requirements, if it has any.

    SpecError if the latter was named and the profile has no requirements.
    """
    from cephlab.tuning.profilefile import find_hardware

    profile = find_hardware(where.profile, world.home.profiles, where.changes or ()) if where.profile else None
    wanted = profile is not None and profile.requirements
    if REQUIREMENTS in named and not wanted:
        got = f"{where.profile} has none" if where.profile else "--profile: missing"
        raise SpecError(f"--suite {REQUIREMENTS} needs a profile with requirements", got, "see docs/requirements.md")
    if profile is None:
        return ()
    return (COSTS, REQUIREMENTS) if wanted else (COSTS,)


def chosen(named: Sequence[str], *, tier: str, everything: bool, beside: Sequence[str] = ()) -> tuple[str, ...]:
    """The suites that a gate runs; an empty tuple means all of them.

    A quick gate must end within minutes. If no suite is named, it runs only `interop`, which shows whether the two
    architectures form one cluster. everything: whether scenarios are chosen by name or by an earlier run; they may
    be in any suite. beside: suites that a profile adds. Requirements are judged whatever else was named.
    """
    if ALL in named or (not named and (everything or tier != QUICK)):
        return ()
    if not named:
        return (*QUICK_SUITES, *beside)
    return tuple(dict.fromkeys((*named, *(name for name in beside if name != COSTS))))
