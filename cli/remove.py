"""`cephlab down` and `cephlab prune`: take clusters away, and what killed runs left behind."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from cephlab.cli.frame import framed
from cephlab.cli.output import Output
from cephlab.cli.world import World
from cephlab.lab.base.errors import CleanupFailed, LabError, SpecError

NameArgument = Annotated[str, typer.Argument(help="Name of the cluster, as `cephlab ls` shows it.", metavar="NAME")]


@framed
def down(out: Output, world: World, name: NameArgument) -> None:
    """Remove a cluster with all its data, in any state."""
    from cephlab.lab.cluster.prune import Fate, fate_of, remove

    run = world.runs.get(name)
    if fate_of(run) is Fate.LIVE:
        owner = run.owner().get("pid")
        raise SpecError(
            f"{name} is in use by the cephlab process {owner}",
            "it removes the cluster itself when it ends",
            f"end that process first: kill {owner}",
        )
    removed = remove(world.home, run, world.providers)
    out.result(f"{name} is gone", {"name": name, "removed": removed})


@framed
def prune(
    out: Output,
    world: World,
    everything: Annotated[bool, typer.Option("--all", help="Remove kept clusters too.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove what killed runs left behind: processes, containers, directories, half-built images."""
    from cephlab.lab.cluster.prune import stray_copies, survey, sweep

    out.note(f"home: {world.home.path}")
    findings, errors = survey(world.home, world.providers)
    for folder in world.runs.others():
        out.note(f"left alone, because it is not a run of this user: {folder}")
    doomed = [finding for finding in findings if finding.doomed(kept_too=everything)]
    value: dict[str, Any] = {"home": str(world.home.path)}
    if dry_run:
        value["would_remove"] = [f"{finding.run.id} ({finding.fate})" for finding in doomed]
        lines = [f"would remove {line}" for line in value["would_remove"]]
    else:
        swept = sweep(world.home, world.providers, doomed)
        removed = list(swept.removed)
        errors += swept.errors
        try:
            removed += world.images.prune()
        except LabError as error:
            errors.append(f"images: {error}")
        try:
            copies = stray_copies(world.providers, world.images.list())
        except LabError as error:
            copies = []
            errors.append(f"copies of images: {error}")
        for line in copies:
            out.note(line)
        value |= {"removed": removed, "errors": errors, "copies": copies}
        lines = [f"removed {line}" for line in removed]
    if not errors:
        out.result("\n".join(lines) or "nothing to remove", value)
        return
    if lines and not out.as_json:
        out.result("\n".join(lines), value)
    raise CleanupFailed(errors)
