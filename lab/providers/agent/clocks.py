"""The clock of an agent's machine, set to this machine's as closely as the round trip of a message allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ENOUGH_S = 0.005
"""A tenth of what Ceph's monitors bear between two of them (mon_clock_drift_allowed, 0.05 s)."""
_LOOKS = 5
"""At the clock before it is moved: the quickest answer says most, as in NTP (RFC 5905, section 10)."""
_MOVES = 4

Ask = Callable[..., Any]


def set_clock(ask: Ask, now: Callable[[], float] = time.time) -> float:
    """Move the clock that `ask("clock", step_s=...)` answers for, until it is right; how far off it may be then, in s.

    A guest that waits for a CPU between the message and the setting of its clock is late by as long as it waited, and
    would stay so until it is off: a monitor there then warns of its clock for good.
    """
    behind, doubt = _best(ask, now)
    for _ in range(_MOVES):
        if abs(behind) <= max(ENOUGH_S, doubt):
            break
        ask("clock", step_s=behind)
        behind, doubt = _best(ask, now)
    return abs(behind) + doubt


def _best(ask: Ask, now: Callable[[], float]) -> tuple[float, float]:
    return min((_look(ask, now) for _ in range(_LOOKS)), key=lambda look: look[1])


def _look(ask: Ask, now: Callable[[], float]) -> tuple[float, float]:
    """How far the clock is behind, and by how much that may be wrong: half of the way there and back; both in s."""
    sent = now()
    there = float(ask("clock", step_s=0.0))
    back = now()
    return (sent + back) / 2 - there, (back - sent) / 2
