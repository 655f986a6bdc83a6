"""Removes a run's guests from this machine by their environment alone, when it ends and after it was killed."""

from __future__ import annotations

from collections.abc import Mapping

from cephlab.lab.base import process
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, RunId, run_ids
from cephlab.lab.providers.marks import kill_marked

GUEST_VARIABLE = "CEPHLAB_GUEST"
"""Set on every process of a run with guests, in addition to the run's own marks."""


def marks(home: Home, run_id: str) -> Mapping[str, str]:
    """In the environment of every process of a run."""
    return {RUN_VARIABLE: run_id, HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}


def remove_run(home: Home, run_id: RunId) -> list[str]:
    """Kill a run's guests and its network's keeper, which ends the network. Returns what was killed, in words."""
    return kill_marked(marks(home, run_id), run_id)


def runs_present(home: Home) -> frozenset[RunId]:
    """Ids of this home's runs with running guests or a keeper."""
    wanted = {HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}
    return run_ids(env.get(RUN_VARIABLE, "") for _, env in process.environments() if wanted.items() <= env.items())
