"""`cephlab doctor`: what this machine has and lacks for a lab."""

from __future__ import annotations

from dataclasses import asdict

import typer

from cli.output import JsonOption, Output, reporting, table
from cli.world import world_of
from lab.errors import SpecError


def doctor(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show each need of a lab: present, or missing with its remedy."""
    with reporting(as_json) as out:
        from lab.doctor import needs

        found = needs(world_of(ctx).home)
        rows = [
            ["ok" if need.present else "missing", need.name, need.detail, need.remedy or "-", need.unlocks]
            for need in found
        ]
        value = {"needs": [asdict(need) for need in found], "ready": ready([(n.name, n.present) for n in found])}
        out.result(table(("", "need", "found", "remedy", "unlocks"), rows), value)
        conclude(out, ready=bool(value["ready"]))


def ready(needs: list[tuple[str, bool]]) -> bool:
    """Whether any provider can run a lab here. needs: (name, present)."""
    return any(present for name, present in needs if name.startswith("provider "))


def conclude(out: Output, *, ready: bool) -> None:
    """SpecError where nothing can run at all."""
    if ready:
        return
    if out.as_json:
        raise typer.Exit(SpecError.exit_code)
    raise SpecError("no provider can run a lab here", hint="follow the remedies above, then run `cephlab doctor` again")
