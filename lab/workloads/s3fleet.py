"""Runs S3 loads on several hosts with a common start, merges their raw times, and names lost clients."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from cephlab.lab.base import clock
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3load
from cephlab.lab.workloads.s3load import Entrance, S3Load, S3Result, merged

T = TypeVar("T")
Started = Callable[[Host, Sequence[Entrance], S3Load], s3load.RunningS3Load]


@dataclass(frozen=True)
class Fleet:
    """Results of several clients. results: client -> result, in times of the first host's clock; lost: client -> why.

    ahead_s: client -> how far its host's clock was ahead of that of the first host; late_s: client -> how long after
    the common start its first operation was due. Every client is in ahead_s, in the order of the loads.
    """

    results: Mapping[str, S3Result]
    lost: Mapping[str, str]
    ahead_s: Mapping[str, float]
    late_s: Mapping[str, float]

    @property
    def whole(self) -> S3Result:
        """All operations as one result; LabBroken if every client was lost."""
        if not self.results:
            raise LabBroken("every S3 client was lost", "\n".join(f"{name}: {why}" for name, why in self.lost.items()))
        return merged(list(self.results.values()))


def clock_ahead_s(host: Host) -> float:
    """How far the clock of a host is ahead of the monotonic clock of this process, corrected by half the round trip."""
    before = SYSTEM.monotonic()
    at_s = float(host.run(["date", "+%s.%N"]).stdout)
    return at_s - (before + SYSTEM.monotonic()) / 2


def run_together(
    loads: Sequence[tuple[Host, S3Load]],
    entrances: Sequence[Entrance],
    *,
    lead_s: float,
    timeout_s: float,
    start: Started = s3load.start,
) -> Fleet:
    """Run all loads, each on its host; once all have filled their buckets, all begin at the same moment.

    lead_s: time to tell them that moment; timeout_s: for the filling, and again for the rest. A client that fails is in
    `lost` while the others continue. On any other error all are ended.
    """
    clients = named(loads)
    clocks = {name: clock_ahead_s(host) for name, host in {host.name: host for host, _ in loads}.items()}
    ahead = {name: clocks[host.name] for name, (host, _) in clients.items()}
    running: dict[str, s3load.RunningS3Load] = {}
    results: dict[str, S3Result] = {}
    lost: dict[str, str] = {}
    try:
        for name, (host, load) in clients.items():
            running[name] = start(host, entrances, replace(load, waits=True))
        for name, client in running.items():
            what = f"the end of filling by {name}"
            kept(lost, name, partial(clock.wait, client.ready, bool, what=what, timeout_s=timeout_s))
        begin_s = SYSTEM.monotonic() + lead_s
        for name, client in running.items():
            if name not in lost:
                client.begin_at(begin_s + ahead[name])
        for name, client in running.items():
            if name not in lost and (result := kept(lost, name, partial(client.finish, timeout_s=timeout_s))):
                results[name] = result
    finally:
        for name in sorted(running.keys() - results.keys()):
            unended: dict[str, str] = {}
            kept(unended, name, running[name].kill)
            if unended:  # its machine may be why it was lost
                lost[name] = "; ".join([*filter(None, [lost.get(name)]), f"it may still run: {unended[name]}"])
    first = next(iter(ahead.values()))
    apart = {name: value - first for name, value in ahead.items()}
    aligned = {name: moved(result, -apart[name]) for name, result in results.items()}
    late = {name: first_due_s(result) - begin_s - first for name, result in aligned.items()}
    return Fleet(aligned, lost, apart, late)


def named(loads: Sequence[tuple[Host, S3Load]]) -> dict[str, tuple[Host, S3Load]]:
    """Name of each client -> its host and load. It is the host's name, with its bucket if the host has several."""
    each = Counter(host.name for host, _ in loads)
    return {host.name if each[host.name] == 1 else f"{host.name} {load.bucket}": (host, load) for host, load in loads}


def kept(lost: dict[str, str], name: str, work: Callable[[], T]) -> T | None:
    """The result of some work; None if it fails, and its client is then added to `lost`."""
    try:
        return work()
    except LabError as error:
        lost[name] = f"{error.what}: {error.detail}"
        return None


def moved(result: S3Result, by_s: float) -> S3Result:
    """The same result with all times shifted to another clock."""
    operations = tuple(
        replace(op, due_s=op.due_s + by_s, began_s=op.began_s + by_s, ended_s=op.ended_s + by_s)
        for op in result.operations
    )
    windows = tuple(replace(each, began_s=each.began_s + by_s, ended_s=each.ended_s + by_s) for each in result.windows)
    return replace(result, operations=operations, windows=windows)


def first_due_s(result: S3Result) -> float:
    """When the first operation of the run was due; infinite without any."""
    return min((op.due_s for op in result.of()), default=float("inf"))
