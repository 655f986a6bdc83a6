"""A recorded load as a whole: nothing lost, made up or stale, clients served within limits, observations as wanted."""

from __future__ import annotations

from collections.abc import Sequence

from lab.checks.observations import observations
from lab.checks.service import service
from lab.checks.survival import survival
from lab.checks.verdict import Verdict, merge
from lab.checks.witnessed import witnessed
from lab.history import Event


def recorded(events: Sequence[Event]) -> Verdict:
    """`survival` and `service`, with `observations` and `witnessed` where the scenario noted any."""
    kinds = {event.kind for event in events}
    also = [witnessed(events)] if "witness" in kinds else [observations(events)] if "observation" in kinds else []
    return merge([survival(events), service(events), *also])
