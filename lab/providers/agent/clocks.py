"""Sets the clock of an agent's machine to this machine's, as precisely as the round trip of a message allows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

ENOUGH_S = 0.005
"""A tenth of what Ceph's monitors tolerate between each other (mon_clock_drift_allowed, 0.05 s)."""
_LOOKS = 5
"""How often the clock is read before it is moved. The quickest answer is the best, as in NTP (RFC 5905, section 10)."""
_MOVES = 4

Ask = Callable[..., Any]


def set_clock(ask: Ask, now: Callable[[], float] = time.time) -> float:
    """Move the clock behind `ask("clock", step_s=...)` until it is right. Returns the remaining possible error, in s.

    One step is not enough: a guest that waits for a CPU before it sets its clock is late by that time, and would stay
    late. A monitor on it would warn about the clock until the guest is switched off.
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
    """How far the clock is behind, and the possible error of that: half of the round trip. Both in s."""
    sent = now()
    remote = float(ask("clock", step_s=0.0))
    received = now()
    return (sent + received) / 2 - remote, (received - sent) / 2
