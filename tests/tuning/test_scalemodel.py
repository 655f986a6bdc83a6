"""Which machines of a lab stand for which of a profile, and what of each they hold."""

from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.requirements import Protection
from cephlab.tuning.scalemodel import kind_of, stands_for
from cephlab.tuning.units import Measure

THREE = Protection()
NONE = Path("/no/profiles")


def of(*counts: int, name: str = "mako-epyc-10n") -> Profile:
    profile = find_profile(name, NONE)
    machine = profile.nodes[0]
    nodes = tuple(replace(machine, name=f"m{count}", count=count) for count in counts)
    return replace(profile, nodes=nodes)


@pytest.mark.parametrize(
    ("counts", "protection", "times"),
    [
        ((3,), THREE, [1, 1, 1]),
        ((12,), THREE, [4, 4, 4]),
        ((10,), THREE, [2] * 5),
        ((4, 2), THREE, [2, 2, 2]),
        ((12,), Protection(k=4, m=2), [2] * 6),
        ((6,), Protection(replicas=2), [3, 3]),
    ],
)
def test_the_smallest_equal_part_that_has_a_machine_for_each_copy(
    counts: tuple[int, ...], protection: Protection, times: list[int]
) -> None:
    profile = of(*counts)
    stands = stands_for(profile, protection)
    assert [stand.times for stand in stands] == times
    assert sum(stand.points for stand in stands) == pytest.approx(
        sum(machine.count * machine.points for machine in profile.nodes)
    )


@pytest.mark.parametrize(("counts", "protection"), [((7,), THREE), ((2,), THREE), ((12,), Protection(k=8, m=3))])
def test_what_a_laptop_cannot_raise_is_refused(counts: tuple[int, ...], protection: Protection) -> None:
    with pytest.raises(SpecError, match="no equal part that a lab could raise"):
        stands_for(of(*counts), protection)


def test_metadata_on_disks_of_its_own_is_refused() -> None:
    with pytest.raises(SpecError, match="metadata on disks of its own"):
        stands_for(find_profile("rhcs-10b-6n", NONE), THREE)


def test_a_stand_has_the_figures_of_all_that_it_stands_for() -> None:
    profile = of(12)
    (stand, *_), machine = stands_for(profile, THREE), profile.nodes[0]
    disks = machine.data_disks[0]
    assert disks.read_iops is not None
    assert stand.rate("read_iops") == 4 * disks.count * disks.read_iops.value
    assert stand.bandwidth == 4 * machine.bandwidth.value
    assert machine.bandwidth.kind is Measure.RATE


def test_a_disk_without_a_figure_is_not_held() -> None:
    profile = of(3)
    machine = profile.nodes[0]
    disks = tuple(replace(disk, seq_write=None) for disk in machine.disks)
    bare: MachineClass = replace(machine, disks=disks)
    (stand, *_) = stands_for(replace(profile, nodes=(bare,)), THREE)
    assert stand.rate("seq_write") is None


@pytest.mark.parametrize(
    ("ceiling", "kind"),
    [
        ("node: CPU", "CPU"),
        ("node: CPU of its OSDs", "CPU"),
        ("node: disk data", "disk"),
        ("node: network out", "network"),
        ("node: bstore_kv_sync of an OSD on data", ""),
        ("clients: CPU", ""),
        ("clients on load: network", ""),
        ("too few operations in flight (next limit: node: CPU)", ""),
        ("uplink between clients and cluster", ""),
    ],
)
def test_only_what_the_kernel_can_hold_on_a_node_is_scaled(ceiling: str, kind: str) -> None:
    assert kind_of(ceiling) == kind
