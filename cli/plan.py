"""What `cephlab gate --plan` and `--list` say, and what an archive says of scenarios that did not run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from cephlab.cli.output import Output, table

if TYPE_CHECKING:
    from cephlab.fixtures.plan import PlannedScenario
    from cephlab.fixtures.run import Request
    from cephlab.lab.archive.archive import Archive


def show(out: Output, request: Request, lanes: int, *, elsewhere: bool = False) -> int:
    """What a gate would run, cluster by cluster; raises nothing.

    lanes: how many scenarios run side by side, of each machine where they run elsewhere; 0 for what each bears.
    """
    from cephlab.fixtures.plan import memory_of, plan
    from cephlab.lab.report.page import seconds_text
    from cephlab.lab.spec.clusterspec import GIB

    planned = plan(request)
    running = [each for each in planned if each.skipped is None]
    timed = [max(each.last_s, each.load_s or 0.0) for each in running if each.last_s is not None]
    rows = [
        [
            each.scenario,
            str(each.cluster),
            str(each.nodes) if each.nodes else "",
            f"{each.memory_bytes / GIB:.1f} GiB" if each.memory_bytes else "",
            each.skipped or _time(each),
        ]
        for each in planned
    ]
    most, needed = memory_of(planned, lanes or 1), f"the largest needs about {memory_of(planned, 1) / GIB:.1f} GiB"
    if lanes > 1:
        needed += f", {lanes} at a time up to {most / GIB:.1f} GiB"
    unknown = f", and {len(running) - len(timed)} of unknown time" if len(timed) < len(running) else ""
    last = "last time, or will by their load" if any(each.load_s for each in running) else "last time"
    clusters = len({each.cluster for each in running})
    said = [
        f"{len(running)} scenarios, {clusters} clusters, {_way(lanes, elsewhere=elsewhere)}; {needed}",
        f"{len(timed)} of them took {seconds_text(sum(timed))} {last}{unknown}; raising clusters comes on top",
    ]
    if not out.as_json:
        out.result(table(("scenario", "cluster", "nodes", "memory", "last time"), rows), None)
    scenarios = [asdict(each) for each in planned]
    told = {"scenarios": scenarios, "seconds": sum(timed), "lanes": lanes or None, "memory_bytes": most}
    out.result("\n".join(said), told)
    return 0


def _way(lanes: int, *, elsewhere: bool) -> str:
    """How many scenarios run at a time."""
    if lanes == 0:
        return "as many side by side as each machine bears"
    said = "one by one" if lanes == 1 else f"{lanes} side by side"
    return f"{said} on each machine" if elsewhere else said


def _time(planned: PlannedScenario) -> str:
    """How long it took, and how long its load will be where the user may set that."""
    from cephlab.lab.report.page import seconds_text

    last = "unknown" if planned.last_s is None else seconds_text(planned.last_s)
    return f"{last}; {seconds_text(planned.load_s)} of load now" if planned.load_s else last


def name_all(out: Output, request: Request) -> int:
    """The scenarios of a gate and what each is to show; raises nothing."""
    from cephlab.fixtures.plan import plan

    planned = plan(request)
    if not out.as_json:
        out.result(table(("scenario", "shows"), [[each.scenario, each.goal] for each in planned]), None)
    told = [{"scenario": each.scenario, "goal": each.goal, "skipped": each.skipped} for each in planned]
    out.result(f"{len(planned)} scenarios", {"scenarios": told})
    return 0


def unrun(archive: Archive) -> str:
    """What an archive says of the scenarios that were to run and have no verdict."""
    if not archive.left:
        return "what did not run is not known"
    return f"{len(archive.left)} scenarios have no verdict: {', '.join(archive.left)}"
