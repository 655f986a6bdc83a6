"""Deploys Ceph on hosts."""

from cephlab.lab.base.runs import Run


def undeploy(run: Run) -> list[str]:
    """Remove from machines what a run's deployer installed there; returns it in words. Raises CleanupFailed at the end.

    Call it before the run's directory is removed, because that says how to reach the machines.
    """
    from cephlab.lab.cluster.deploy.machines import remove_from_machines

    return remove_from_machines(run)
