"""A cluster for the tests of one module, and what a suite's scenario says of it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Verdict
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.cluster.raising import ClusterRequest, Manner, raise_for
from cephlab.lab.history.history import History
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.base import Provider
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario, seeded
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, HEALTHY_S

GUESTS = ("uml", "qemu")
GUESTS_VARIABLE = "CEPHLAB_GUESTS"


def skip_guests(provider: str) -> None:
    """Leave machines that are booted to whoever has the minutes."""
    if provider in GUESTS and os.environ.get(GUESTS_VARIABLE) != "1":
        pytest.skip(f"machines are booted where {GUESTS_VARIABLE}=1, as `tox -e lab` has it: they take minutes")


@contextmanager
def raised(provider: Provider, topology: Topology, home: Home) -> Iterator[OwnCluster]:
    """A healthy cluster as a run of its own, or a skip by name; leaving the block removes it and the run's directory.

    Images that the cache lacks are built. It comes from kept stores where it can, as a gate's clusters do.
    """
    skip_guests(provider.name)
    spec = topology.spec(DEFAULT_RELEASE)
    reason = provider.unavailable(spec)
    if reason is not None:
        pytest.skip(str(reason))
    request = ClusterRequest(
        spec, provider, home, ImageStore(home), topology.role_sets, manner=Manner(from_stores=True)
    )
    with raise_for(request, healthy_s=HEALTHY_S) as cluster:
        yield cluster


def verdict_of(scenario: Scenario, cluster: Cluster, scratch: Path, *, seed: int = 1) -> Verdict:
    """What the suite would say of this cluster."""
    recorder = History().recorder(scenario.name)
    return run_scenario(scenario, Stage(cluster, recorder, seeded(seed, scenario.name), scratch))
