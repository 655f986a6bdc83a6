"""How Ceph gets onto hosts."""

from __future__ import annotations

from cephlab.lab.base.runs import Run


def undeploy(run: Run) -> list[str]:
    """Take off machines what a run's deployer put there to outlive its processes; in words. CleanupFailed at the end.

    Called before the run's directory goes, which holds the way to the machines.
    """
    from cephlab.lab.cluster.deploy.machines import remove_from_machines

    return remove_from_machines(run)
