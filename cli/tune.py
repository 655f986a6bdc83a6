"""`cephlab tune`: the papers' tunings, looked for on machines and clusters, applied there, and taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Annotated

import typer

from cephlab.cli import tune_effect
from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.world import World
from cephlab.lab.base.errors import CleanupFailed, SpecError
from cephlab.lab.base.progress import Progress

if TYPE_CHECKING:
    from cephlab.lab.tunables.tune import Target

app = typer.Typer(help="Check, apply and revert the tunings of the papers.", no_args_is_help=True)

app.command("measure")(tune_effect.measure)

DRIFTED, NOTHING_KNOWN = 1, 6
_CELL = 90  # characters; two such cells fit beside the short ones

TuningArgument = Annotated[str, typer.Argument(help="A tuning that `tune ls` shows, or a .toml file.", metavar="NAME")]


@dataclass(frozen=True)
class TuningPlace:
    """The places where a tuning is looked for or set."""

    cluster: Annotated[
        str | None,
        typer.Argument(help="A cluster that `cephlab ls` shows: its Ceph and its hosts.", metavar="[CLUSTER]"),
    ] = None
    this_machine: Annotated[
        bool, typer.Option("--this-machine", help="The machine that cephlab runs on, kernel and files.")
    ] = False
    inventory: Annotated[
        Path | None, typer.Option(help="The machines of an inventory, over ssh; see docs/attach.md.", metavar="FILE")
    ] = None
    may_break: Annotated[
        str | None,
        typer.Option(help="With --inventory: the machines that may be changed; none by default.", metavar="FILE|LIST"),
    ] = None


@app.command("ls")
@framed
def ls(out: Output) -> None:
    """List the tunings."""
    from cephlab.tuning.named import load, names

    tunings = [load(name) for name in names()]
    rows = [[tuning.name, str(len(tuning.settings)), tuning.title, tuning.paper] for tuning in tunings]
    value = [{"name": tuning.name, "title": tuning.title, "paper": tuning.paper} for tuning in tunings]
    out.result(table(("name", "settings", "what", "paper"), rows), {"tunings": value})


@app.command("show")
@framed
def show(out: Output, name: TuningArgument) -> None:
    """Show every setting of a tuning with its place in the paper."""
    from cephlab.tuning.named import load

    tuning = load(name)
    rows = [[setting.title, setting.source, setting.note] for setting in tuning.settings]
    settings = list(map(asdict, tuning.settings))
    value = {"name": tuning.name, "title": tuning.title, "paper": tuning.paper, "settings": settings}
    out.result(table(("setting", "source", "note"), rows, title=tuning.paper), value)


@app.command("check")
@framed
def check(out: Output, world: World, name: TuningArgument, place: TuningPlace) -> int:
    """Say which settings differ; ends with 1 when one does, with 6 when none could be looked at."""
    with targets(world, place, out.note) as chosen:
        from cephlab.lab.tunables.settings import State
        from cephlab.lab.tunables.tune import check as look
        from cephlab.tuning.named import load

        tuning = load(name)
        findings = [finding for target in chosen for finding in look(target, tuning.settings)]
        rows = []
        for finding in findings:
            why = f"({finding.why})" if finding.why else ""
            found = f"{short(finding.got)} {why}".strip()
            rows.append([finding.state.value, finding.where, short(finding.setting.title), found])
        counts = Counter(finding.state.value for finding in findings)
        value = {"tuning": tuning.name, "counts": counts, "findings": list(map(asdict, findings))}
        out.result(table(("state", "where", "setting", "found"), rows), value)
        if counts[State.DRIFT]:
            return DRIFTED
        return 0 if counts[State.SET] else NOTHING_KNOWN


@app.command("apply")
@framed
def apply(out: Output, world: World, name: TuningArgument, place: TuningPlace) -> int:
    """Set what differs; ends with 1 when something was refused, with 6 when nothing could be set at all."""
    with targets(world, place, out.note, changing=True) as chosen:
        from cephlab.lab.tunables.settings import SettingOutcome
        from cephlab.lab.tunables.tune import apply as change
        from cephlab.tuning.named import load

        tuning = load(name)
        changes = [changed for target in chosen for changed in change(target, tuning.name, tuning.settings)]
        rows = [[done.outcome.value, done.where, short(done.setting.title), short(done.why)] for done in changes]
        counts = Counter(changed.outcome.value for changed in changes)
        value = {"tuning": tuning.name, "counts": counts, "changes": list(map(asdict, changes))}
        out.result(table(("outcome", "where", "setting", "why"), rows), value)
        if counts[SettingOutcome.REFUSED]:
            return DRIFTED
        set_now = (SettingOutcome.DONE, SettingOutcome.ALREADY, SettingOutcome.WAITS)
        return 0 if any(counts[outcome] for outcome in set_now) else NOTHING_KNOWN


@app.command("revert")
@framed
def revert(out: Output, world: World, name: TuningArgument, place: TuningPlace) -> None:
    """Put back, byte for byte, what `tune apply` found."""
    with targets(world, place, out.note, changing=True) as chosen:
        from cephlab.lab.tunables.tune import revert as restore

        # The tuning's file is not read: the record says what was changed, and the file may be gone.
        tuning = PurePath(name).stem
        done: list[str] = []
        errors: list[str] = []
        for target in chosen:
            try:
                done += restore(target, tuning)
            except CleanupFailed as error:
                errors += error.errors
        if errors:
            raise CleanupFailed(errors)
        text = "\n".join(f"as before: {line}" for line in done) or "nothing had to be changed back"
        out.result(text, {"tuning": tuning, "restored": done})


@contextmanager
def targets(world: World, place: TuningPlace, say: Progress, *, changing: bool = False) -> Iterator[Sequence[Target]]:
    """The places that the options name; NotPermitted for machines that no list names. changing: to be changed."""
    from cephlab.lab.cluster.attach.permit import read_permit
    from cephlab.lab.spec.inventory import load_inventory
    from cephlab.lab.tunables import targets as places

    if place.cluster is None and not place.this_machine and place.inventory is None:
        got = "got neither CLUSTER nor --this-machine nor --inventory"
        raise SpecError("a tuning needs a place", got, "see `cephlab ls` for clusters")
    if place.may_break and place.inventory is None:
        raise SpecError("--may-break is for machines of an inventory", "--inventory: missing", "docs/attach.md")
    with ExitStack() as undo:
        chosen: list[Target] = [places.this_machine(world.home)] if place.this_machine else []
        if place.inventory is not None:
            inventory = load_inventory(place.inventory)
            permit = read_permit(place.may_break, inventory)
            world.home.ensure()
            chosen += undo.enter_context(places.of_inventory(inventory, permit, world.home, changing=changing, say=say))
        if place.cluster is not None:
            opened = world.cluster(place.cluster)
            undo.callback(opened.close_clients)
            chosen.append(places.of_cluster(opened, world.provider_of(opened.run).capabilities()))
        yield chosen


def short(text: str) -> str:
    """As much of it as a table's cell takes; `tune show` and --json have all of it."""
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."
