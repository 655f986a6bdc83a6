"""Judges a recorded load as a whole: no data lost, made up or stale; clients served within limits; observations."""

from collections.abc import Sequence

from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.service import service
from cephlab.lab.checks.survival import survival
from cephlab.lab.checks.verdict import Verdict, merge
from cephlab.lab.checks.witnessed import witnessed
from cephlab.lab.history.history import Event


def recorded(events: Sequence[Event]) -> Verdict:
    """Judge by `survival` and `service`, and by `observations` and `witnessed` if the scenario recorded any."""
    kinds = {event.kind for event in events}
    also = [witnessed(events)] if "witness" in kinds else [observations(events)] if "observation" in kinds else []
    return merge([survival(events), service(events), *also])
