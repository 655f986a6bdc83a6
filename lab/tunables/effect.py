"""Measures the effect of a tuning on the cost of an operation: before, with and after the tuning, on one cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from cephlab.lab.base.errors import SpecError, noted_on
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.telemetry.demand import Interval, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.lab.telemetry.place import Say
from cephlab.lab.tunables.settings import Setting, SettingChange, SettingOutcome
from cephlab.lab.tunables.tune import Target, apply, revert


@dataclass(frozen=True)
class Effect:
    """Three measurements. before, after: without the tuning; a difference between these two is due to the machine."""

    changes: tuple[SettingChange, ...]
    before: Measurement
    tuned: Measurement
    after: Measurement


@dataclass(frozen=True)
class Row:
    """One cost. untuned: before and after; ratio: tuned mean divided by the mean of these two, None if one may be 0.

    differs: whether the tuned interval lies above both untuned intervals, or below both.
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
    """Measure, apply, measure, revert, measure. Daemons are restarted before each measurement, for equal conditions.

    SpecError if the tuning changes nothing here, because then there is no effect to measure.
    """
    say("restarting the daemons, untuned")
    restart(cluster)
    before = measure()
    say(f"applying {tuning}")
    changes = tuple(apply(target, tuning, settings))
    try:
        if not any(change.outcome in (SettingOutcome.DONE, SettingOutcome.WAITS) for change in changes):
            raise SpecError(
                f"{tuning} changes nothing here",
                "\n".join(f"{change.outcome}: {change.setting.title} {change.why}" for change in changes),
                "`cephlab tune check` shows which settings differ, and where",
            )
        restart(cluster)
        tuned = measure()
    except BaseException as error:
        with noted_on(error, f"reverting {tuning}"):
            _put_back(target, tuning, say)
        raise
    _put_back(target, tuning, say)
    restart(cluster)
    return Effect(changes, before, tuned, measure())


def _put_back(target: Target, tuning: str, say: Say) -> None:
    say(f"reverting {tuning}")
    revert(target, tuning)


def restart(cluster: Cluster) -> None:
    """Restart every running OSD and monitor, one after the other, and wait until the cluster is healthy."""
    for daemon in list(cluster.daemons.values()):
        if daemon.kind in ("mon", "osd") and daemon.alive():
            cluster.stop(daemon.name)
            cluster.start(daemon.name)
    cluster.wait_healthy()


def rows(effect: Effect) -> Iterator[Row]:
    """One row for every cost that all three measurements have."""
    for role, costs in effect.tuned.demand.costs.items():
        for resource, cost in costs.items():
            before, after = (side.demand.costs.get(role, {}).get(resource) for side in (effect.before, effect.after))
            if before is not None and after is not None:
                yield Row(role, resource, (before, after), cost)
