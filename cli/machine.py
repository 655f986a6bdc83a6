"""`cephlab doctor`: what this machine has and lacks for a lab."""

from __future__ import annotations

from dataclasses import asdict

import typer

from cephlab.cli.output import JsonOption, reporting, table
from cephlab.cli.world import world_of
from cephlab.lab.base.errors import SpecError


def doctor(ctx: typer.Context, as_json: JsonOption = False) -> None:
    """Show each need of a lab: present, or missing with its remedy."""
    with reporting(as_json) as out:
        from cephlab.lab.cluster.doctor import needs

        needed = needs(world_of(ctx).home)
        rows = [
            ["ok" if need.present else "missing", need.name, need.detail, need.remedy or "-", need.unlocks]
            for need in needed
        ]
        ready = any(need.present for need in needed if need.name.startswith("provider "))
        value = {"needs": [asdict(need) for need in needed], "ready": ready}
        out.result(table(("", "need", "found", "remedy", "unlocks"), rows), value)
        if ready:
            return
        if as_json:
            raise typer.Exit(SpecError.exit_code)
        hint = "follow the remedies above, then run `cephlab doctor` again"
        raise SpecError("no provider can run a lab here", hint=hint)
