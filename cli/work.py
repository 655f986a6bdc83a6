"""The predicted work per watt of a profile's machines, as lines of text and as JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cephlab.lab.base.numbers import si

if TYPE_CHECKING:
    from cephlab.tuning.model import Prediction
    from cephlab.tuning.profile import Profile


def known(profile: Profile) -> bool:
    """Whether the profile gives the power of every class of nodes."""
    return all(machine.power_loaded is not None for machine in profile.nodes)


def work_lines(prediction: Prediction, profile: Profile) -> list[str]:
    """One line for all nodes, and one for each architecture if there are two; none if a power figure is missing."""
    from cephlab.tuning.watts import predicted_work  # late: `--help` does not need it

    if not known(profile):
        return []
    return [
        f"work per watt of {work.what}: {si(work.value, 'ops/J')} "
        f"({si(work.low, 'ops/J')} to {si(work.high, 'ops/J')}), "
        f"{work.watts.watts:,.0f} W, source: model"
        for work in predicted_work(prediction, profile)
    ]


def watt_steps(prediction: Prediction, profile: Profile) -> list[str]:
    """The same lines, with the steps of the power calculation."""
    from cephlab.tuning.watts import predicted_work

    if not known(profile):
        return []
    steps = predicted_work(prediction, profile)[0].watts.steps
    return ["", *work_lines(prediction, profile), *(f"  {step}" for step in steps)]


def work_value(prediction: Prediction, profile: Profile) -> list[dict[str, Any]]:
    """As JSON values: operations per joule, and watts; empty if a power figure is missing."""
    from cephlab.tuning.watts import predicted_work

    if not known(profile):
        return []
    return [
        {
            "of": work.what,
            "ops_j": work.value,
            "interval": [work.low, work.high],
            "watts": work.watts.watts,
            "source": "model",
            "steps": list(work.watts.steps),
        }
        for work in predicted_work(prediction, profile)
    ]
