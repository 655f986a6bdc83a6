"""`cephlab doctor`: what this machine has and lacks for a lab."""

from __future__ import annotations

from dataclasses import asdict

from cephlab.cli.frame import framed
from cephlab.cli.output import Output, table
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError


@framed
def doctor(out: Output, world: World) -> int:
    """Show each need of a lab: present, or missing with its remedy."""
    from cephlab.lab.cluster.doctor import needs

    needed = needs(world.home)
    rows = [
        ["ok" if need.present else "missing", need.name, need.detail, need.remedy or "-", need.unlocks]
        for need in needed
    ]
    ready = any(need.present for need in needed if need.name.startswith("provider "))
    value = {"needs": [asdict(need) for need in needed], "ready": ready}
    out.result(table(("", "need", "found", "remedy", "unlocks"), rows), value)
    if not ready and not out.as_json:
        hint = "follow the remedies above, then run `cephlab doctor` again"
        raise SpecError("no provider can run a lab here", hint=hint)
    return 0 if ready else SpecError.exit_code
