"""Recovery: the Altra paper's two migrations must be possible by what it lists; mixed nodes and erasure codes."""

from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.recovery import recovery_time
from tests.model_parts import disks, machine, profile

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


def test_an_erasure_code_reads_k_times_what_is_lost() -> None:
    nodes = replace(profile(machine(count=6, disk=(disks(seq_read=1e8, seq_write=1e9),)), rtt_s=1e-9), max_backfills=16)
    copies, coded = recovery_time(nodes, 1e9), recovery_time(nodes, 1e9, k=4)

    # Five disks at 100 MB/s, with k = 4 for a quarter of what is rebuilt.
    assert coded.limit == "reading disks"
    assert coded.seconds == pytest.approx(1e9 / (5e8 / 4))
    assert copies.seconds < coded.seconds
    assert any("5 d x 100 MB/s x 1 / 4 read per byte" in line for line in coded.derivation.lines())


@pytest.mark.parametrize("slow_first", [True, False])
def test_the_slowest_class_of_nodes_decides(*, slow_first: bool) -> None:
    fast = machine("fast", count=4, disk=(disks(seq_read=1e9, seq_write=1e9),))
    slow = machine("slow", count=1, bandwidth=1e7, disk=(disks(seq_read=1e9, seq_write=1e9),))
    mixed = profile(*((slow, fast) if slow_first else (fast, slow)))

    assert recovery_time(mixed, 1e10).limit == "network into the new node"
    assert recovery_time(mixed, 1e10).seconds == pytest.approx(1e10 / (1e7 * 0.99), rel=0.01)


def test_nobody_is_left_to_copy_from() -> None:
    with pytest.raises(SpecError, match="too many nodes"):
        recovery_time(profile(), 1e9, nodes_lost=3)
