"""A cluster for the tests of one module, and what a suite's scenario says of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.checks import Verdict
from lab.cluster import Cluster, raise_cluster
from lab.history import History
from lab.home import Home
from lab.images.store import ImageStore
from lab.providers.base import Provider
from lab.runs import Runs
from lab.scenario import Scenario, Stage, Topology, run_scenario, seeded
from lab.spec import DEFAULT_RELEASE

GUESTS = ("uml", "qemu")
GUESTS_VARIABLE = "CEPHLAB_GUESTS"


def skip_guests(provider: str) -> None:
    """Leave machines that are booted to whoever has the minutes."""
    if provider in GUESTS and os.environ.get(GUESTS_VARIABLE) != "1":
        pytest.skip(f"machines are booted where {GUESTS_VARIABLE}=1, as `tox -e lab` has it: they take minutes")


@contextmanager
def raised(provider: Provider, topology: Topology, home: Home) -> Iterator[Cluster]:
    """A healthy cluster as a run of its own, or a skip by name; leaving the block removes it and the run's directory.

    Images that the cache lacks are built.
    """
    skip_guests(provider.name)
    spec = topology.spec(DEFAULT_RELEASE)
    reason = provider.unavailable(spec)
    if reason is not None:
        pytest.skip(str(reason))
    images = {arch: ImageStore(home).get(DEFAULT_RELEASE, arch, topology.role_sets) for arch in spec.archs}
    runs = Runs(home)
    run = runs.create(provider.name)
    try:
        with raise_cluster(provider, spec, images, run) as cluster:
            cluster.wait_healthy()
            yield cluster
    finally:
        runs.forget(run)


def verdict_of(scenario: Scenario, cluster: Cluster, scratch: Path, *, seed: int = 1) -> Verdict:
    """What the suite would say of this cluster."""
    recorder = History().recorder(scenario.name)
    return run_scenario(scenario, Stage(cluster, recorder, seeded(seed, scenario.name), scratch))
