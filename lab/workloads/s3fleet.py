"""S3 loads on several hosts at once: a common start by their own clocks, raw times put together, lost clients named."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM, Clock
from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3load
from cephlab.lab.workloads.s3load import Entrance, S3Load, S3Result, merged

T = TypeVar("T")
Started = Callable[[Host, Sequence[Entrance], S3Load], s3load.RunningS3Load]


@dataclass(frozen=True)
class Fleet:
    """What several clients did. results: host -> its load's, by the first host's clock; lost: host -> why.

    ahead_s: host -> how far its clock was ahead of the first one's; late_s: host -> how long after the common start
    its first operation was due.
    """

    results: Mapping[str, S3Result]
    lost: Mapping[str, str]
    ahead_s: Mapping[str, float]
    late_s: Mapping[str, float]

    @property
    def whole(self) -> S3Result:
        """All operations as one load's; LabBroken where every client was lost."""
        if not self.results:
            raise LabBroken("every S3 client was lost", "\n".join(f"{name}: {why}" for name, why in self.lost.items()))
        return merged(list(self.results.values()))


def clock_ahead_s(host: Host, time: Clock = SYSTEM) -> float:
    """How far a host's clock is ahead of this process' monotonic one; half of the time of asking is taken off."""
    before = time.monotonic()
    told = float(host.run(["date", "+%s.%N"]).stdout)
    return told - (before + time.monotonic()) / 2


def run_together(
    loads: Sequence[tuple[Host, S3Load]],
    entrances: Sequence[Entrance],
    *,
    lead_s: float,
    timeout_s: float,
    start: Started = s3load.start,
) -> Fleet:
    """Run a load on each host; once all have filled their buckets, all begin at one moment.

    lead_s: time to tell them the moment; timeout_s: for the filling, and again for the rest. A client that fails is in
    `lost`, and the others go on. On any other error all are ended.
    """
    ahead = {host.name: clock_ahead_s(host) for host, _ in loads}
    running: dict[str, s3load.RunningS3Load] = {}
    results: dict[str, S3Result] = {}
    lost: dict[str, str] = {}
    try:
        for host, load in loads:
            running[host.name] = start(host, entrances, replace(load, waits=True))
        for name, each in running.items():
            what = f"the filling by {name}"
            kept(lost, name, partial(clock.wait, each.ready, bool, what=what, timeout_s=timeout_s))
        begin_s = SYSTEM.monotonic() + lead_s
        for name, each in running.items():
            if name not in lost:
                each.begin_at(begin_s + ahead[name])
        for name, each in running.items():
            if name not in lost and (result := kept(lost, name, partial(each.finish, timeout_s=timeout_s))):
                results[name] = result
    finally:
        for name in running.keys() - results.keys():
            running[name].kill()
    first = next(iter(ahead.values()))
    apart = {name: value - first for name, value in ahead.items()}
    told = {name: moved(result, -apart[name]) for name, result in results.items()}
    late = {name: first_due_s(result) - begin_s - first for name, result in told.items()}
    return Fleet(told, lost, apart, late)


def kept(lost: dict[str, str], name: str, work: Callable[[], T]) -> T | None:
    """What some work gives; a client whose work fails is lost, and gives nothing."""
    try:
        return work()
    except LabError as error:
        lost[name] = f"{error.what}: {error.detail}"
        return None


def moved(result: S3Result, by_s: float) -> S3Result:
    """The same with all times moved, onto another clock."""
    operations = tuple(
        replace(each, due_s=each.due_s + by_s, began_s=each.began_s + by_s, ended_s=each.ended_s + by_s)
        for each in result.operations
    )
    return replace(result, operations=operations)


def first_due_s(result: S3Result) -> float:
    """When the first operation of the run was due; infinite without any."""
    return min((each.due_s for each in result.of()), default=float("inf"))
