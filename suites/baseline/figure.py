"""A measured figure as the suite notes it, with its limit or the reason why it has none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lab.cluster import Cluster
from lab.history import Recorder
from lab.host import Host


@dataclass(frozen=True)
class Bound:
    """A limit of a figure. least, most: None for none; why: where the limit comes from, or why there is none."""

    why: str
    least: float | None = None
    most: float | None = None


def note(
    recorder: Recorder,
    what: str,
    value: float,
    unit: str,
    bound: Bound,
    *,
    low: float | None = None,
    high: float | None = None,
) -> None:
    """Note a figure. low, high: the interval it lies in; left out where it is exact."""
    recorder.record(
        "figure",
        what=what,
        value=value,
        low=value if low is None else low,
        high=value if high is None else high,
        unit=unit,
        least=bound.least,
        most=bound.most,
        why=bound.why,
    )


def native(cluster: Cluster) -> Iterator[Host]:
    """Hosts whose speed is that of a real machine."""
    return (host for host in cluster.hosts.values() if not host.emulated)


def one_of_each_arch(cluster: Cluster) -> Iterator[Host]:
    """The first host of every architecture."""
    return (cluster.host_with(arch) for arch in cluster.spec.archs)
