"""Leaves the suite out of runs whose profile, if there is one, has no requirements."""

from pathlib import Path

import pytest

from cephlab.fixtures.plugin import HARDWARE


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Without requirements there is nothing to collect."""
    hardware = config.stash.get(HARDWARE, None)
    return None if hardware is not None and hardware.requirements else True
