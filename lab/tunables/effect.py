"""What a tuning does to the cost of an operation: measured before, with and after it, on one cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry.demand import Interval, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.tunables.settings import Change, Outcome, Setting
from cephlab.lab.tunables.tune import Target, apply, revert

Say = Callable[[str], None]


@dataclass(frozen=True)
class Effect:
    """before and after are of the untuned cluster: what lies between them is the machine's doing, not the tuning's."""

    changes: tuple[Change, ...]
    before: Measurement
    tuned: Measurement
    after: Measurement


@dataclass(frozen=True)
class Row:
    """One cost. untuned: before and after; ratio: of the tuned mean to the mean of those two, None where that may be 0.

    differs: the tuned interval lies outside of both untuned ones, on one side.
    """

    role: Role
    resource: Resource
    untuned: tuple[Interval, Interval]
    tuned: Interval

    @property
    def ratio(self) -> float | None:
        if any(interval.low <= 0 for interval in self.untuned):
            return None
        return self.tuned.mean * 2 / sum(interval.mean for interval in self.untuned)

    @property
    def differs(self) -> bool:
        return all(self.tuned.low > interval.high for interval in self.untuned) or all(
            self.tuned.high < interval.low for interval in self.untuned
        )


def measure_effect(
    cluster: Cluster,
    target: Target,
    tuning: str,
    settings: Sequence[Setting],
    measure: Callable[[], Measurement],
    say: Say,
) -> Effect:
    """Measure, apply, measure, revert, measure. The daemons start anew before each, so that all three begin alike.

    SpecError when the tuning changes nothing here: then there is no effect to measure.
    """
    say("starting the daemons anew, untuned")
    restart(cluster)
    before = measure()
    say(f"applying {tuning}")
    changes = tuple(apply(target, tuning, settings))
    try:
        if not any(change.outcome in (Outcome.DONE, Outcome.WAITS) for change in changes):
            raise SpecError(
                f"{tuning} changes nothing here",
                "\n".join(f"{change.outcome}: {change.setting.title} {change.why}" for change in changes),
                "`cephlab tune check` says what differs, and where",
            )
        restart(cluster)
        tuned = measure()
    finally:
        say(f"reverting {tuning}")
        revert(target, tuning)
    restart(cluster)
    return Effect(changes, before, tuned, measure())


def restart(cluster: Cluster) -> None:
    """Stop and start every OSD and monitor that runs, one after the other, until the cluster is healthy again."""
    for daemon in list(cluster.daemons.values()):
        if daemon.kind in ("mon", "osd") and daemon.alive():
            cluster.stop(daemon.name)
            cluster.start(daemon.name)
    cluster.wait_healthy()


def rows(effect: Effect) -> Iterator[Row]:
    """Every cost that all three measurements have."""
    before, tuned, after = (measurement.demand.costs for measurement in (effect.before, effect.tuned, effect.after))
    for role, costs in tuned.items():
        for resource, cost in costs.items():
            first, last = _of(before, role, resource), _of(after, role, resource)
            if first is not None and last is not None:
                yield Row(role, resource, (first, last), cost)


def _of(costs: Mapping[Role, Mapping[Resource, Interval]], role: Role, resource: Resource) -> Interval | None:
    return costs.get(role, {}).get(resource)
