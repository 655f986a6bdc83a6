"""The output of `cephlab gate --plan` and `--list`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from cephlab.cli.output import Output, table
from cephlab.lab.base.numbers import how_many

_SHOWS = "shows".ljust(40)  # its width on a narrow terminal

if TYPE_CHECKING:
    from cephlab.cli.world import World
    from cephlab.fixtures.plan import PlannedScenario
    from cephlab.fixtures.run import Request


def show(out: Output, request: Request, lanes: int, *, elsewhere: bool = False) -> int:
    """Show what a gate would run, cluster by cluster; raises no cluster.

    lanes: how many scenarios run in parallel (on each machine, if elsewhere); 0 for as many as a machine can take.
    """
    from cephlab.fixtures.plan import memory_of, plan
    from cephlab.fixtures.selection import long_times
    from cephlab.fixtures.tasks import lanes_taken
    from cephlab.fixtures.wire import Task
    from cephlab.lab.report.page import seconds_text
    from cephlab.lab.spec.clusterspec import GIB

    planned = plan(request)
    running = [each for each in planned if each.skipped is None]
    timed = [max(each.last_s, each.load_s or 0.0) for each in running if each.last_s is not None]
    rows = [
        [
            each.scenario,
            str(each.cluster or ""),
            str(each.nodes) if each.nodes else "",
            f"{each.memory_bytes / GIB:.1f} GiB" if each.memory_bytes else "",
            each.skipped or _time(each),
        ]
        for each in planned
    ]
    most, largest = memory_of(planned, lanes or 1), memory_of(planned, 1)
    needed = f"; the largest needs about {largest / GIB:.1f} GiB" if largest else ""
    beside = [each for each in running if not each.alone]
    tasks = [Task(n, each.scenario, each.cluster, False) for n, each in enumerate(beside)]
    last_s = {each.scenario: each.last_s for each in beside if each.last_s is not None}
    at_once = lanes_taken(tasks, {**long_times([task.name for task in tasks]), **last_s}, lanes)
    if at_once > 1 and largest:
        needed += f", {at_once} at the same time up to {memory_of(beside, at_once) / GIB:.1f} GiB"
    unknown = f"; time unknown for {len(running) - len(timed)}" if len(timed) < len(running) else ""
    last = "last time, or by their load now" if any(each.load_s for each in running) else "last time"
    clusters = len({each.cluster for each in running} - {0})
    counted = f"{how_many(len(running), 'scenario')}, {how_many(clusters, 'cluster') if clusters else 'no cluster'}"
    times = f"{len(timed)} of them took {seconds_text(sum(timed))} {last}{unknown}" if timed else "none was timed yet"
    summary = [
        f"{counted}, {_way(at_once, len(running), len(beside), elsewhere=elsewhere)}{needed}",
        f"{times}; raising the clusters takes more" if clusters else times,
    ]
    scenarios = [asdict(each) for each in planned]
    value = {"scenarios": scenarios, "seconds": sum(timed), "lanes": lanes or None, "memory_bytes": most}
    if out.as_json:
        out.json(value)
    else:
        columns = ("scenario", "cluster", "nodes", "memory", "last time")
        out.result(table(columns, rows, whole=columns[:4]), None)
        out.lines(*summary)
    return 0


def warn_of_unasked(out: Output, world: World, lab: str | None, on: str | None) -> None:
    """Warn in a plan that the wanted provider does not work here, or that other machines were not contacted."""
    from cephlab.fixtures.options import SSH
    from cephlab.lab.providers.select import AUTO, provider

    if on is not None:
        out.warn(f"not checked: whether {on} can be reached and can run a gate")
    elif lab not in (None, AUTO, SSH):
        reason = provider(str(lab), world.providers).unavailable()
        if reason is not None:
            out.warn(f"--lab {lab} does not work here, so the gate would be refused: {reason.what}")


def refuse_settings(out: Output, world: World, request: Request) -> None:
    """Refuse the ceph.conf settings of a job that the gate refuses; warn if no image is cached that knows them."""
    from cephlab.fixtures.options import SSH
    from cephlab.lab.cluster.optionnames import refuse_wrong_options
    from cephlab.lab.cluster.raising import cached_images
    from cephlab.lab.jobs.jobfile import load_job
    from cephlab.lab.scenario.topology import Topology
    from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE

    settings = load_job(request.job).options if request.job is not None else {}
    if not settings or request.lab == SSH:
        return
    given = Topology(native=1, foreign=1, options=tuple(settings.items())).spec(request.release or DEFAULT_RELEASE)
    images = cached_images(given, world.images) if request.image is None else {}
    refuse_wrong_options(given, images)
    if not images:
        out.warn(f"the job's settings were not checked: no image of {request.image or given.release} is cached")


def _way(lanes: int, running: int, beside: int, *, elsewhere: bool) -> str:
    """How many scenarios run at a time. beside: how many may run beside others; the rest come last."""
    where = " on each machine" if elsewhere else ""
    if not beside or lanes == 1:
        return f"one by one{where}"
    way = f"{lanes} in parallel{where}" if lanes else "as many in parallel as each machine can take"
    return f"{way}, then {running - beside} alone" if beside < running else way


def _time(planned: PlannedScenario) -> str:
    """How long it took last time, and how long its load takes now if the user can set that."""
    from cephlab.lab.report.page import seconds_text

    last = "unknown" if planned.last_s is None else seconds_text(planned.last_s)
    return f"{last}; {seconds_text(planned.load_s)} of load now" if planned.load_s else last


def name_all(out: Output, request: Request) -> int:
    """List the scenarios of a gate and what each shows; raises no cluster."""
    from cephlab.fixtures.plan import plan

    planned = plan(request)
    if not out.as_json:
        rows = [[each.scenario, each.goal] for each in planned]
        out.result(table(("scenario", _SHOWS), rows, whole=("scenario",)), None)
    value = [{"scenario": each.scenario, "goal": each.goal, "skipped": each.skipped} for each in planned]
    out.result(how_many(len(planned), "scenario"), {"scenarios": value})
    return 0
