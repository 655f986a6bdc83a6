"""The Altra paper's two migrations beside the model: what it publishes must be possible by what it lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from tuning.profile import Profile
from tuning.profilefile import find_profile
from tuning.recovery import recovery_time

RAW_NODE_BYTES = 4.5e12  # paper, 9.1.1: raw data capacity of each node
SWAP_S = 75 * 60.0  # paper, 9.1.1: new disks
REUSE_S = 5 * 60.0  # paper, 9.2.2: disks reused


@pytest.fixture
def altra(tmp_path: Path) -> Profile:
    return find_profile("altra-3n-epyc-1n", tmp_path)


def test_75_minutes_are_no_less_than_a_full_node_needs(altra: Profile) -> None:
    full = recovery_time(altra, RAW_NODE_BYTES, nodes=3)
    assert full.limit == "network into the new node"
    assert 600 < full.seconds < SWAP_S


def test_5_minutes_are_too_few_to_copy_a_node_that_is_half_full(altra: Profile) -> None:
    """So the disks really were reused: what was written meanwhile is all that can have been copied."""
    assert recovery_time(altra, RAW_NODE_BYTES / 2, nodes=3).seconds > REUSE_S
