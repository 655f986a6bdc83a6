"""`cephlab tune`: checks, applies, reverts and measures the tunings of the papers on machines and clusters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cephlab.cli.completion import ARCHS, CLUSTERS, LABS, MEASURED_OPERATIONS, RELEASES, TUNINGS
from cephlab.cli.conventions import Command, Group, refuse_unwritable
from cephlab.cli.frame import framed
from cephlab.cli.measure_request import MAX_DEPTH, MeasureRequest, file_name, parse_op, raised, rated
from cephlab.cli.output import Output, table
from cephlab.cli.request import parse_bytes
from cephlab.cli.world import World
from cephlab.lab.base.errors import CleanupFailed, SpecError
from cephlab.lab.base.progress import Progress

if TYPE_CHECKING:
    from cephlab.lab.tunables.effect import Effect, Row
    from cephlab.lab.tunables.tune import Target
    from cephlab.tuning.named import Tuning

app = typer.Typer(
    name="tune", cls=Group, help="Check, apply and revert the tunings of the papers.", no_args_is_help=True
)

DRIFTED, NOTHING_KNOWN = 1, 6
_CELL = 90  # characters; two such cells fit next to the short ones
_EFFECT_CELL = 80  # characters

TuningArgument = Annotated[
    str, typer.Argument(help="A tuning that `tune ls` shows, or a .toml file.", metavar="NAME", autocompletion=TUNINGS)
]


@dataclass(frozen=True)
class TuningPlace:
    """The places where a tuning is checked or set."""

    cluster: Annotated[
        str | None,
        typer.Argument(
            help="A cluster from `cephlab ls`: its Ceph settings and its hosts.",
            metavar="CLUSTER",
            autocompletion=CLUSTERS,
        ),
    ] = None
    this_machine: Annotated[
        bool, typer.Option("--this-machine", help="The machine that cephlab runs on: its kernel and its files.")
    ] = False
    inventory: Annotated[
        Path | None, typer.Option(help="Machines of an inventory, over ssh; see docs/attach.md.", metavar="FILE")
    ] = None
    may_break: Annotated[
        str | None,
        typer.Option(
            help="With --inventory: the machines that may be changed.", show_default="none", metavar="FILE|LIST"
        ),
    ] = None


@dataclass(frozen=True)
class EffectOptions:
    """The operation to measure, the cluster to measure it on, and the precision."""

    op: Annotated[
        str, typer.Option(help="randwrite, randread, write or read.", metavar="OP", autocompletion=MEASURED_OPERATIONS)
    ] = "randwrite"
    bs: Annotated[str, typer.Option(help="Size of one operation, e.g. 4k or 4M.", metavar="SIZE")] = "4k"
    depth: Annotated[int, typer.Option(help="Requests in flight.", min=1, max=MAX_DEPTH)] = 16
    arch: Annotated[str, typer.Option(help="Architecture of the OSDs.", autocompletion=ARCHS)] = "x86_64"
    replicas: Annotated[int, typer.Option(help="Number of copies, and of OSDs.", min=1, max=9)] = 2
    release: Annotated[str, typer.Option(help="Ceph release.", autocompletion=RELEASES)] = "reef"
    lab: Annotated[
        str, typer.Option(help="auto, or a provider; see `cephlab doctor`.", metavar="PROVIDER", autocompletion=LABS)
    ] = "auto"
    size: Annotated[str, typer.Option(help="Size of the RBD image, which is written twice first.")] = "128M"
    within: Annotated[float, typer.Option(help="Target half-width of the 95 % interval, in percent.", min=0.1)] = 3.0
    budget: Annotated[float, typer.Option(help="Maximum seconds of load, for each of three measurements.", min=5)] = 30

    def request(self) -> MeasureRequest:
        """The same as a request of `cephlab measure`."""
        return MeasureRequest(
            operations=(parse_op(self.op, self.bs),),
            depth=self.depth,
            arch=self.arch,
            replicas=self.replicas,
            release=self.release,
            lab=self.lab,
            image_bytes=parse_bytes("--size", self.size),
            within=self.within / 100,
            budget_s=self.budget,
            disks="file",
        )


@app.command("measure", cls=Command)
@framed
def measure(
    out: Output,
    world: World,
    name: TuningArgument,
    options: EffectOptions,
    output: Annotated[
        Path | None,
        typer.Option(
            help="Folder for the three demand files.", show_default="`demands/effects` in the home", metavar="DIR"
        ),
    ] = None,
) -> None:
    """Raise a cluster and measure one operation without the tuning, with it, and without it again.

    Ctrl-C removes everything.

    Example: cephlab tune measure altra-ceph --op randwrite
    """
    from cephlab.tuning.named import load

    tuning = load(name)
    refuse_unwritable("--output", output and output / "before.json", folders=True)
    effect = _measured(world, out, options.request(), tuning, output)
    out.result(effect_page(effect), effect_value(effect))


@app.command("ls", cls=Command)
@framed
def ls(out: Output) -> None:
    """List the tunings.

    Example: cephlab tune ls
    """
    from cephlab.tuning.named import load, names

    tunings = [load(name) for name in names()]
    rows = [[tuning.name, str(len(tuning.settings)), tuning.title, tuning.paper] for tuning in tunings]
    value = [{"name": tuning.name, "title": tuning.title, "paper": tuning.paper} for tuning in tunings]
    out.result(table(("name", "settings", "description", "paper"), rows), {"tunings": value})


@app.command("show", cls=Command)
@framed
def show(out: Output, name: TuningArgument) -> None:
    """Show every setting of a tuning with its place in the paper.

    Example: cephlab tune show altra-host
    """
    from cephlab.tuning.named import load

    tuning = load(name)
    rows = [[setting.title, setting.source, setting.note] for setting in tuning.settings]
    settings = list(map(asdict, tuning.settings))
    value = {"name": tuning.name, "title": tuning.title, "paper": tuning.paper, "settings": settings}
    out.result(table(("setting", "source", "note"), rows, title=tuning.paper), value)


@app.command("check", cls=Command)
@framed
def check(out: Output, world: World, name: TuningArgument, place: TuningPlace) -> int:
    """Report which settings differ from the tuning. Exit code 1 if any does, 6 if none could be read.

    Example: cephlab tune check altra-host --this-machine
    """
    from cephlab.lab.tunables.settings import State
    from cephlab.lab.tunables.tune import check as look
    from cephlab.tuning.named import load

    tuning = load(name)
    with targets(world, place, out.note) as chosen:
        findings = [finding for target in chosen for finding in look(target, tuning.settings)]
        rows = []
        for finding in findings:
            why = f"({finding.why})" if finding.why else ""
            state = f"{short(finding.got)} {why}".strip()
            rows.append([finding.state.value, finding.where, short(finding.setting.title), state])
        counts = Counter(finding.state.value for finding in findings)
        value = {"tuning": tuning.name, "counts": counts, "findings": list(map(asdict, findings))}
        out.result(table(("state", "where", "setting", "found"), rows), value)
        if counts[State.DRIFT]:
            return DRIFTED
        return 0 if counts[State.SET] else NOTHING_KNOWN


@app.command("apply", cls=Command)
@framed
def apply(out: Output, world: World, name: TuningArgument, place: TuningPlace) -> int:
    """Apply the settings that differ. Exit code 1 if one was refused, 6 if none could be set.

    Example: cephlab tune apply altra-ceph demo
    """
    from cephlab.lab.tunables.settings import SettingOutcome
    from cephlab.lab.tunables.tune import apply_to
    from cephlab.tuning.named import load

    tuning = load(name)
    with targets(world, place, out.note, changing=True) as chosen:
        changes = apply_to(chosen, tuning.name, tuning.settings)
        # What was found may be a whole file; why something was refused is what the reader needs.
        whys = [done.why if done.outcome is SettingOutcome.REFUSED else short(done.why) for done in changes]
        rows = [
            [done.outcome.value, done.where, short(done.setting.title), why]
            for done, why in zip(changes, whys, strict=True)
        ]
        counts = Counter(changed.outcome.value for changed in changes)
        value = {"tuning": tuning.name, "counts": counts, "changes": list(map(asdict, changes))}
        out.result(table(("outcome", "where", "setting", "why"), rows), value)
        if counts[SettingOutcome.REFUSED]:
            return DRIFTED
        set_now = (SettingOutcome.DONE, SettingOutcome.ALREADY, SettingOutcome.WAITS)
        return 0 if any(counts[outcome] for outcome in set_now) else NOTHING_KNOWN


@app.command("revert", cls=Command)
@framed
def revert(out: Output, world: World, name: TuningArgument, place: TuningPlace) -> None:
    """Restore, byte for byte, what `tune apply` found.

    Example: cephlab tune revert altra-ceph demo
    """
    with targets(world, place, out.note, changing=True) as chosen:
        from cephlab.lab.tunables.tune import revert as restore

        # The file of the tuning is not read: the record says what was changed, and the file may be gone.
        tuning = PurePath(name).stem
        restored: list[str] = []
        errors: list[str] = []
        # Where an earlier revert succeeded, nothing is left to do.
        for target in [target for target in chosen if target.records.get(tuning)] or chosen:
            try:
                restored += restore(target, tuning)
            except CleanupFailed as error:
                errors += error.errors
        if errors:
            raise CleanupFailed(errors, f"revert {tuning} again")
        text = "\n".join(f"restored: {line}" for line in restored) or "nothing to restore"
        out.result(text, {"tuning": tuning, "restored": restored})


@contextmanager
def targets(world: World, place: TuningPlace, say: Progress, *, changing: bool = False) -> Iterator[Sequence[Target]]:
    """The places that the options name; NotPermitted for machines that may not be changed.

    changing: whether the caller is going to change them.
    """
    from cephlab.lab.cluster.attach.permit import read_permit
    from cephlab.lab.spec.inventory import load_inventory
    from cephlab.lab.tunables import targets as places

    if place.cluster is None and not place.this_machine and place.inventory is None:
        got = "got neither CLUSTER nor --this-machine nor --inventory"
        raise SpecError("no place given for the tuning", got, "name one; `cephlab ls` lists the clusters")
    if place.may_break and place.inventory is None:
        raise SpecError("--may-break needs --inventory", "--inventory: missing", "see docs/attach.md")
    if changing or place.inventory is not None:
        world.home.ensure()
    with ExitStack() as undo:
        chosen: list[Target] = [places.this_machine(world.home)] if place.this_machine else []
        if place.inventory is not None:
            inventory = load_inventory(place.inventory)
            permit = read_permit(place.may_break, inventory)
            chosen += undo.enter_context(places.of_inventory(inventory, permit, world.home, changing=changing, say=say))
        if place.cluster is not None:
            opened = world.cluster(place.cluster)
            undo.callback(opened.close_clients)
            chosen.append(places.of_cluster(opened, world.provider_of(opened.run).capabilities()))
        yield chosen


def short(text: str) -> str:
    """The text, cut to the width of a table cell; `tune show` and --json have all of it."""
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."


@dataclass(frozen=True)
class MeasuredEffect:
    """An effect, and the files that it was saved to: before, tuned, after."""

    tuning: str
    effect: Effect
    files: tuple[Path, ...]


def _measured(
    world: World, out: Output, request: MeasureRequest, tuning: Tuning, output: Path | None
) -> MeasuredEffect:
    from cephlab.fixtures.expectation import speed_here
    from cephlab.lab.telemetry import place
    from cephlab.lab.telemetry.measure import measure as measure_one
    from cephlab.lab.tunables.effect import measure_effect
    from cephlab.lab.tunables.targets import of_cluster

    [plan] = request.plans()
    speed_here(world.home)  # a profile that cannot be read is refused now: it must not cost the measurement
    with raised(world, out, request) as (cluster, provider, say):
        key = cluster.images[request.osd_arch].identity
        effect = measure_effect(
            cluster,
            of_cluster(cluster, provider.capabilities()),
            tuning.name,
            tuning.settings,
            lambda: measure_one(cluster, plan, image_key=key, say=say, conditions=place.machine()),
            say,
        )
    return MeasuredEffect(tuning.name, effect, _saved(world, request, tuning.name, effect, output))


EFFECTS = "effects"
"""Subfolder of the home's demands. Predictions use the newest file in `demands`, never one of a tuned cluster."""


def _saved(world: World, request: MeasureRequest, tuning: str, effect: Effect, output: Path | None) -> tuple[Path, ...]:
    """Save an effect; returns its files: before, tuned, after. They have this machine's core speed if it was probed."""
    from cephlab.fixtures.expectation import speed_here
    from cephlab.lab.telemetry import demandfile

    speed = speed_here(world.home)
    folder = (output or world.home.demands / EFFECTS).absolute()
    base = file_name(request, effect.before.demand).removesuffix(".json")
    named = {"before": effect.before, tuning: effect.tuned, "after": effect.after}
    files = {part: folder / f"{base}-{part}.json" for part in named}
    for part, measured in named.items():
        demandfile.save(files[part], [rated(measured, speed)])
    return tuple(files.values())


def effect_page(effect: MeasuredEffect) -> Any:
    """The settings, and each cost without the tuning, with it, and without it again."""
    from rich.console import Group

    from cephlab.lab.telemetry.describe import title
    from cephlab.lab.tunables.effect import rows

    changes = [
        [change.outcome.value, change.setting.title[:_EFFECT_CELL], change.why[:_EFFECT_CELL]]
        for change in effect.effect.changes
    ]
    columns = ("role", "resource", "before", effect.tuning, "after", "change", "")
    spent = [row for row in rows(effect.effect) if any(interval.mean for interval in (*row.untuned, row.tuned))]
    return Group(
        table(("outcome", "setting", "why"), changes, title=f"{effect.tuning} on this cluster"),
        "",
        table(columns, [_cells(row) for row in spent], title=title(effect.effect.tuned.demand)),
        "",
        "differs: the interval with the tuning lies entirely above or entirely below both intervals without it.",
        *(str(path) for path in effect.files),
    )


def _cells(row: Row) -> list[str]:
    from cephlab.lab.telemetry.describe import NAMES, amount

    first, last = row.untuned
    change = "" if row.ratio is None else f"{(row.ratio - 1) * 100:+.1f} %"
    amounts = [amount(interval.mean, row.resource) for interval in (first, row.tuned, last)]
    return [row.role.value, NAMES[row.resource], *amounts, change, "differs" if row.differs else ""]


def effect_value(effect: MeasuredEffect) -> dict[str, Any]:
    """The same as JSON; intervals per operation in the resource's own unit."""
    from cephlab.lab.tunables.effect import rows

    return {
        "tuning": effect.tuning,
        "files": [str(path) for path in effect.files],
        "changes": [
            {"setting": change.setting.title, "outcome": change.outcome.value, "why": change.why}
            for change in effect.effect.changes
        ],
        "costs": [
            {
                "role": row.role.value,
                "resource": row.resource.value,
                "before": asdict(row.untuned[0]),
                "tuned": asdict(row.tuned),
                "after": asdict(row.untuned[1]),
                "ratio": row.ratio,
                "differs": row.differs,
            }
            for row in rows(effect.effect)
        ],
    }
