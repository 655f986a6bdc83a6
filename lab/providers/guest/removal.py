"""Taking a run's guests off this machine, by their environment alone: the end of every run, and of killed ones."""

from __future__ import annotations

from collections.abc import Mapping

from lab import process
from lab.errors import LabBroken
from lab.home import Home
from lab.process import LocalProcess
from lab.runs import HOME_MARK, RUN_VARIABLE

GUEST_VARIABLE = "CEPHLAB_GUEST"
"""Set on every process of a run of guests, beside the run's own marks."""

_KILL_PATIENCE_S = 10.0
_LOOKS = 5


def marks(home: Home, run_id: str) -> Mapping[str, str]:
    """What the environment of every process of a run has."""
    return {RUN_VARIABLE: run_id, HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}


def remove_run(home: Home, run_id: str) -> list[str]:
    """Kill a run's guests and its network's keeper, with which the network goes; in words, what there was."""
    removed: list[str] = []
    for _ in range(_LOOKS):
        left = process.find_marked(marks(home, run_id))
        if not left:
            return removed
        kill(left)
        removed += [f"process {found.pid}" for found in left]
    raise LabBroken(f"processes of {run_id} keep appearing", ", ".join(removed), "run `cephlab prune`")


def kill(processes: list[LocalProcess]) -> None:
    """Kill processes; LabBroken with those that do not die."""
    for found in processes:
        found.kill()
    stuck = [found.pid for found in processes if not found.wait(_KILL_PATIENCE_S)]
    if stuck:
        raise LabBroken(f"processes do not die: {stuck}", hint="look for I/O errors in the kernel's log")


def runs_present(home: Home) -> frozenset[str]:
    """Ids of this home's runs that have processes of guests."""
    wanted = {HOME_MARK: str(home.path), GUEST_VARIABLE: "1"}
    return frozenset(env[RUN_VARIABLE] for _, env in process.environments() if wanted.items() <= env.items())
