"""Taking a run's guests off this machine, by their environment alone: the end of every run, and of killed ones."""

from __future__ import annotations

from collections.abc import Mapping

from cephlab.lab.base import process
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, RunId, run_ids
from cephlab.lab.providers.marks import kill_marked

GUEST_VARIABLE = "CEPHLAB_GUEST"
"""Set on every process of a run of guests, beside the run's own marks."""


def marks(home: Home, run_id: str) -> Mapping[str, str]:
    """What the environment of every process of a run has."""
    return {RUN_VARIABLE: run_id, HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}


def remove_run(home: Home, run_id: RunId) -> list[str]:
    """Kill a run's guests and its network's keeper, with which the network goes; in words, what there was."""
    return kill_marked(marks(home, run_id), run_id)


def runs_present(home: Home) -> frozenset[RunId]:
    """Ids of this home's runs that have processes of guests."""
    wanted = {HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}
    return run_ids(env.get(RUN_VARIABLE, "") for _, env in process.environments() if wanted.items() <= env.items())
