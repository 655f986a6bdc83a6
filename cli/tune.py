"""`cephlab tune`: the papers' tunings, looked for on machines and clusters, applied there, and taken back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cli import tune_effect
from cli.output import JsonOption, reporting, table
from cli.world import World, world_of
from lab.errors import CleanupFailed, SpecError

if TYPE_CHECKING:
    from lab.knobs.settings import Change, Finding, Setting
    from lab.knobs.tune import Target

app = typer.Typer(help="Check, apply and revert the tunings of the papers.", no_args_is_help=True)

app.command("measure")(tune_effect.measure)

DRIFTED, NOTHING_KNOWN = 1, 6
_CELL = 90  # characters; two such cells fit beside the short ones

TuningArgument = Annotated[str, typer.Argument(help="A tuning that `tune ls` shows, or a .toml file.", metavar="NAME")]
ClusterArgument = Annotated[
    str | None, typer.Argument(help="A cluster that `cephlab ls` shows: its Ceph and its hosts.", metavar="[CLUSTER]")
]
MachineOption = Annotated[
    bool, typer.Option("--this-machine", help="The machine that cephlab runs on, kernel and files.")
]


InventoryOption = Annotated[
    Path | None, typer.Option(help="The machines of an inventory, over ssh; see docs/attach.md.", metavar="FILE")
]
MayBreakOption = Annotated[
    str | None,
    typer.Option(help="With --inventory: the machines that may be changed; none by default.", metavar="FILE|LIST"),
]


@app.command("ls")
def ls(as_json: JsonOption = False) -> None:
    """List the tunings that there are."""
    with reporting(as_json) as out:
        from tuning.named import load, names

        found = [load(name) for name in names()]
        rows = [[one.name, str(len(one.settings)), one.title, one.paper] for one in found]
        value = [{"name": one.name, "title": one.title, "paper": one.paper} for one in found]
        out.result(table(("name", "settings", "what", "paper"), rows), {"tunings": value})


@app.command("show")
def show(name: TuningArgument, as_json: JsonOption = False) -> None:
    """Show every setting of a tuning with its place in the paper."""
    with reporting(as_json) as out:
        from tuning.named import load

        found = load(name)
        rows = [[one.title, one.source, one.note] for one in found.settings]
        settings = [setting_value(one) for one in found.settings]
        value = {"name": found.name, "title": found.title, "paper": found.paper, "settings": settings}
        out.result(table(("setting", "source", "note"), rows, title=found.paper), value)


@app.command("check")
def check(
    ctx: typer.Context,
    name: TuningArgument,
    cluster: ClusterArgument = None,
    *,
    this_machine: MachineOption = False,
    inventory: InventoryOption = None,
    may_break: MayBreakOption = None,
    as_json: JsonOption = False,
) -> None:
    """Say which settings differ; ends with 1 when one does, with 6 when none could be looked at."""
    place = Place(cluster, this_machine, inventory, may_break)
    with reporting(as_json) as out, targets(world_of(ctx), place, out.note) as found:
        from lab.knobs.settings import State
        from lab.knobs.tune import check as look
        from tuning.named import load

        tuning = load(name)
        findings = [one for target in found for one in look(target, tuning.settings)]
        rows = [[one.state.value, one.where, title(one.setting), " ".join(finding_words(one))] for one in findings]
        counts = Counter(one.state.value for one in findings)
        value = {"tuning": tuning.name, "counts": counts, "findings": [finding_value(one) for one in findings]}
        out.result(table(("state", "where", "setting", "found"), rows), value)
        if counts[State.DRIFT]:
            raise typer.Exit(DRIFTED)
        if not counts[State.SET]:
            raise typer.Exit(NOTHING_KNOWN)


@app.command("apply")
def apply(
    ctx: typer.Context,
    name: TuningArgument,
    cluster: ClusterArgument = None,
    *,
    this_machine: MachineOption = False,
    inventory: InventoryOption = None,
    may_break: MayBreakOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set what differs; ends with 1 when something was refused, with 6 when nothing could be set at all."""
    place = Place(cluster, this_machine, inventory, may_break, changing=True)
    with reporting(as_json) as out, targets(world_of(ctx), place, out.note) as found:
        from lab.knobs.settings import Outcome
        from lab.knobs.tune import apply as change
        from tuning.named import load

        tuning = load(name)
        changes = [one for target in found for one in change(target, tuning.name, tuning.settings)]
        rows = [[one.outcome.value, one.where, title(one.setting), short(one.why)] for one in changes]
        counts = Counter(one.outcome.value for one in changes)
        value = {"tuning": tuning.name, "counts": counts, "changes": [change_value(one) for one in changes]}
        out.result(table(("outcome", "where", "setting", "why"), rows), value)
        if counts[Outcome.REFUSED]:
            raise typer.Exit(DRIFTED)
        if not counts[Outcome.DONE] + counts[Outcome.ALREADY] + counts[Outcome.WAITS]:
            raise typer.Exit(NOTHING_KNOWN)


@app.command("revert")
def revert(
    ctx: typer.Context,
    name: TuningArgument,
    cluster: ClusterArgument = None,
    *,
    this_machine: MachineOption = False,
    inventory: InventoryOption = None,
    may_break: MayBreakOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put back, byte for byte, what `tune apply` found."""
    place = Place(cluster, this_machine, inventory, may_break, changing=True)
    with reporting(as_json) as out, targets(world_of(ctx), place, out.note) as found:
        from pathlib import PurePath

        from lab.knobs.tune import revert as restore

        # Not loaded: what was changed is in the record, whatever became of the file.
        tuning = PurePath(name).stem
        done: list[str] = []
        errors: list[str] = []
        for target in found:
            try:
                done += restore(target, tuning)
            except CleanupFailed as error:
                errors += error.errors
        if errors:
            raise CleanupFailed(errors)
        text = "\n".join(f"as before: {line}" for line in done) or "nothing had to be changed back"
        out.result(text, {"tuning": tuning, "restored": done})


@dataclass(frozen=True)
class Place:
    """Where the command line wants a tuning. changing: whether more than looking is meant."""

    cluster: str | None
    this_machine: bool
    inventory: Path | None = None
    may_break: str | None = None
    changing: bool = False


@contextmanager
def targets(world: World, place: Place, say: Callable[[str], None]) -> Iterator[Sequence[Target]]:
    """What the command line names; SpecError when that is nothing, NotPermitted for machines that no list names."""
    from lab.knobs import targets as places

    if place.cluster is None and not place.this_machine and place.inventory is None:
        got = "got neither CLUSTER nor --this-machine nor --inventory"
        raise SpecError("a tuning needs a place", got, "see `cephlab ls` for clusters")
    if place.may_break and place.inventory is None:
        raise SpecError("--may-break is for machines of an inventory", "--inventory: missing", "docs/attach.md")
    with ExitStack() as undo:
        found: list[Target] = [places.this_machine(world.home)] if place.this_machine else []
        if place.inventory is not None:
            found += undo.enter_context(_machines(world, place, place.inventory, say))
        if place.cluster is not None:
            opened = world.cluster(place.cluster)
            undo.callback(opened.close_clients)
            found.append(places.of_cluster(opened, world.provider_of(opened.run).capabilities()))
        yield found


@contextmanager
def _machines(world: World, place: Place, path: Path, say: Callable[[str], None]) -> Iterator[Sequence[Target]]:
    from lab.attach.permit import read_permit
    from lab.inventory import load_inventory
    from lab.knobs.inventory import of_inventory

    inventory = load_inventory(path)
    permit = read_permit(place.may_break, inventory)
    world.home.ensure()
    with of_inventory(inventory, permit, world.home, changing=place.changing, say=say) as found:
        yield found


def title(setting: Setting) -> str:
    """A setting as a table's cell; `tune show` and --json have all of it."""
    return short(setting.title)


def short(text: str) -> str:
    """At most so much of it as one line of a table takes."""
    return text if len(text) <= _CELL else text[: _CELL - 3] + "..."


def finding_words(finding: Finding) -> Iterator[str]:
    """What was found and why, without what is empty."""
    if finding.got:
        yield short(finding.got)
    if finding.why:
        yield f"({finding.why})"


def setting_value(setting: Setting) -> dict[str, Any]:
    """A setting as JSON."""
    return {
        "kind": setting.kind.value,
        "section": setting.section,
        "key": setting.key,
        "value": setting.value,
        "source": setting.source,
        "note": setting.note,
    }


def finding_value(finding: Finding) -> dict[str, Any]:
    """A finding as JSON."""
    setting = setting_value(finding.setting)
    return {
        "where": finding.where,
        "state": finding.state.value,
        "got": finding.got,
        "why": finding.why,
        "setting": setting,
    }


def change_value(change: Change) -> dict[str, Any]:
    """A change as JSON."""
    setting = setting_value(change.setting)
    return {"where": change.where, "outcome": change.outcome.value, "why": change.why, "setting": setting}
