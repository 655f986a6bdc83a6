"""Whether the figures of a run are judged: only those of the profile's own machines, whose disks nobody throttles."""

from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Disk, DiskLimits, Node, Osd
from cephlab.suites.machines import (
    are_machines_of,
    at_home,
    hardware_of,
    is_client,
    machine_of_osds,
    machines_with_osds,
    profile_of,
    profile_of_disks,
)
from cephlab.tuning.profilefile import SHIPPED, THIS_MACHINE, find_hardware, find_profile
from tests.fake_stage import stage_of

ALTRA = "ampere-altra-4n"


def node(*limits: DiskLimits, name: str = "n0", daemons: bool = True) -> Node:
    disks = tuple(Disk(f"d{number}", 1 << 30, limits=each) for number, each in enumerate(limits))
    osds = tuple(Osd(disk.name) for disk in disks) if daemons else ()
    return Node(name, Arch.AARCH64, disks=disks, osds=osds)


def stage(
    home: Path, lab: str = "ssh", profile: str = ALTRA, nodes: Sequence[Node] = (), changes: tuple[str, ...] = ()
) -> Stage:
    cluster = SimpleNamespace(
        provider=provider(lab), spec=SimpleNamespace(nodes=tuple(nodes)), run=Run(RunId("one"), home / "runs" / "one")
    )
    whole = stage_of(cluster)
    return Stage(whole.cluster, whole.recorder, whole.rng, home, profile=profile, changes=changes)


def test_without_a_profile_nothing_is_judged(tmp_path: Path) -> None:
    for lab in ("ssh", "local"):
        on = stage(tmp_path, lab, profile="")
        assert (profile_of(on), hardware_of(on), profile_of_disks(on), at_home(on)) == (None, None, None, False)


def test_a_profile_has_the_changes_that_the_user_made_to_it(tmp_path: Path) -> None:
    changes = ("nodes.count=7",)
    on = stage(tmp_path, changes=changes)
    assert profile_of(on) == find_profile(ALTRA, tmp_path, changes) != find_profile(ALTRA, tmp_path)
    assert hardware_of(on) == find_hardware(ALTRA, tmp_path, changes)


def test_a_profile_of_the_home_is_used(tmp_path: Path) -> None:
    on = stage(tmp_path, profile="mine")
    with pytest.raises(SpecError):
        profile_of(on)
    profiles = on.cluster.run.home.profiles
    profiles.mkdir(parents=True)
    (profiles / "mine.toml").write_text((SHIPPED / f"{ALTRA}.toml").read_text().replace(ALTRA, "mine", 1))
    for use in (profile_of, profile_of_disks):
        profile = use(on)
        assert profile is not None
        assert profile.name == "mine"
    hardware = hardware_of(on)
    assert hardware is not None
    assert hardware.profile.name == "mine"


@pytest.mark.parametrize(
    ("lab", "profile", "home"),
    [
        ("ssh", ALTRA, True),
        ("local", ALTRA, False),
        ("qemu", ALTRA, False),
        ("ssh", THIS_MACHINE, False),
        ("local", THIS_MACHINE, True),
        ("qemu", THIS_MACHINE, False),
    ],
)
def test_figures_are_judged_on_the_machines_of_the_profile_alone(
    tmp_path: Path, lab: str, profile: str, home: bool
) -> None:
    on = stage(tmp_path, lab, profile)
    folder = on.cluster.run.home.profiles
    folder.mkdir(parents=True)
    text = (SHIPPED / f"{ALTRA}.toml").read_text()
    (folder / f"{THIS_MACHINE}.toml").write_text(text.replace(ALTRA, THIS_MACHINE, 1))
    named = profile_of(on)
    assert named is not None
    assert at_home(on) is home
    assert are_machines_of(on.cluster.provider, named) is home
    assert profile_of_disks(on) == (named if home else None)


@pytest.mark.parametrize("limited", [field.name for field in fields(DiskLimits)])
def test_disks_that_a_lab_throttles_are_no_disks_of_the_profile(tmp_path: Path, limited: str) -> None:
    throttled = DiskLimits(**{limited: 1000})
    free = [node(DiskLimits(), DiskLimits()), node(DiskLimits(), name="n1")]
    assert profile_of_disks(stage(tmp_path, nodes=free)) is not None
    for nodes in ([node(DiskLimits(), throttled), free[1]], [free[0], node(throttled, name="n1")]):
        assert profile_of_disks(stage(tmp_path, nodes=nodes)) is None


def test_a_client_has_no_daemons_and_in_an_inventory_that_role() -> None:
    nodes = (node(DiskLimits(), name="n0"), node(name="c0", daemons=False))
    lab = cast("Any", SimpleNamespace(spec=SimpleNamespace(nodes=nodes)))
    assert [name for name in ("n0", "c0", "c1") if is_client(lab, name)] == ["c0", "c1"]
    attached = object.__new__(AttachedCluster)
    attached.spec = cast("Any", SimpleNamespace(nodes=nodes))
    roles = [SimpleNamespace(name=name) for name in ("n0", "c1")]
    attached.inventory = cast("Any", SimpleNamespace(with_role=lambda role: roles))
    assert [name for name in ("n0", "c0", "c1") if is_client(attached, name)] == ["c1"]


def test_machines_with_osds_are_counted_once() -> None:
    hosts = {"osd.0": "n0", "osd.1": "n1", "osd.7": "n0"}
    cluster = cast(
        "Any",
        SimpleNamespace(osd_ids=lambda: [0, 1, 7], host_of=lambda daemon: SimpleNamespace(name=hosts[daemon])),
    )
    assert machine_of_osds(cluster) == {0: "n0", 1: "n1", 7: "n0"}
    assert machines_with_osds(cluster) == 2
