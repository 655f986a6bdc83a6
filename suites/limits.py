"""Figures with their limits, and limits of service: no errors, and no wait beyond what noticing a death takes."""

from __future__ import annotations

from collections.abc import Sequence

from lab.cluster import Cluster
from lab.history import Recorder


def no_errors(recorder: Recorder, why: str) -> None:
    """No client may be refused anything. why: the reason that the verdict shows."""
    recorder.record("limit", metric="client_errors", high=0, unit="", why=why)


def wait_until_noticed(recorder: Recorder, cluster: Cluster, peering_s: float) -> None:
    """No operation may wait longer than until a dead OSD is noticed, and its PGs have peered without it.

    peering_s: what peering and the first operations afterwards may take, before patience.
    """
    grace = float(cluster.deployment.options["osd_heartbeat_grace"])
    high = grace + peering_s * cluster.patience
    why = f"osd_heartbeat_grace {grace:g} s, then {peering_s:g} s of peering times a patience of {cluster.patience:g}"
    recorder.record("limit", metric="longest_wait_s", high=high, unit="s", why=why)


def figure(
    recorder: Recorder,
    what: str,
    value: float,
    unit: str,
    *,
    why: str,
    least: float | None = None,
    most: float | None = None,
    interval: tuple[float, float] | None = None,
    derivation: Sequence[str] = (),
) -> None:
    """Note a figure with its limit, or with why it has none. interval: where it lies; left out where it is exact."""
    low, high = interval or (value, value)
    steps = {"derivation": list(derivation)} if derivation else {}
    recorder.record(
        "figure", what=what, value=value, low=low, high=high, unit=unit, least=least, most=most, why=why, **steps
    )
