"""Changes of a profile on the command line: read like its file, refused where they name no place."""

from copy import deepcopy
from functools import reduce
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.changes import changed, sweep_of
from cephlab.tuning.profilefile import load_hardware
from cephlab.tuning.requirements import Amount, LoadRequirement, ObjectsRequirement
from cephlab.tuning.units import Measure
from tests.tuning.test_requirements import file_with


def test_a_change_is_read_like_the_file(tmp_path: Path) -> None:
    path = file_with(tmp_path, "")
    changes = ("nodes.count=7", "nodes.altra.bandwidth=100 Gb/s", "nodes.altra.cd8.count=5", "network.mtu_bytes=1500")
    made = load_hardware(path, [change.replace("altra.cd8", "disks.cd8") for change in changes]).profile
    [altra] = made.nodes
    assert (altra.count, altra.bandwidth.value, altra.disks[0].count, made.mtu_bytes) == (7, 12.5e9, 5, 1500)
    assert altra.bandwidth.source == "--set nodes.altra.bandwidth=100 Gb/s"
    assert made.name.startswith("ampere-altra-4n, nodes.count=7, ")


def test_numbers_may_have_an_exponent(tmp_path: Path) -> None:
    numbers = ("nodes.count=1e1", "nodes.disks.count=2.5E+1", "nodes.cores=1200e-1", "network.mtu_bytes=9e3")
    figures = ("nodes.memory=2.56e2 GB", "nodes.disks.size=1e12B")
    made = load_hardware(file_with(tmp_path, ""), [*numbers, *figures]).profile
    [altra] = made.nodes
    assert (altra.count, altra.disks[0].count, altra.cores, made.mtu_bytes) == (10, 25, 120, 9000)
    assert (altra.memory.value, altra.disks[0].size.value) == (256e9, 1e12)


@pytest.mark.parametrize(("written", "share"), [("0.5", 0.5), ("1.0", 1.0), ("1", 1.0), ("5e-1", 0.5), ("1e0", 1.0)])
def test_a_share_is_a_number_as_in_the_file(tmp_path: Path, written: str, share: float) -> None:
    load = 'op = "read"\nbs = "4k"\nclients = 2\ndepth = 2\nprotection = "replicated:3"\nat_least = "5 ops/s"\n'
    path = file_with(tmp_path, f'[[requirements]]\nname = "vm"\n{load}')
    [wanted] = load_hardware(path, [f"requirements.vm.hit_ratio={written}"]).requirements
    assert getattr(wanted, "hit_ratio", None) == share


def test_a_limit_of_a_requirement_is_changed_and_added_as_in_the_file(tmp_path: Path) -> None:
    load = 'op = "read"\nbs = "4k"\nclients = 2\ndepth = 2\nprotection = "replicated:3"\nat_least = "5 ops/s"\n'
    path = file_with(tmp_path, f'[[requirements]]\nname = "vm"\n{load}')
    changes = ["requirements.vm.at_least=70000 ops/s", "requirements.vm.p99_at_most=10 ms", "requirements.vm.bs=64k"]
    [wanted] = load_hardware(path, changes).requirements
    assert isinstance(wanted, LoadRequirement)
    assert wanted.at_least == Amount(70000, Measure.OPS)
    assert wanted.p99_at_most == Amount(0.01, Measure.TIME)
    assert wanted.bs == 65536


def test_what_one_osd_can_use_is_a_figure_with_its_source(tmp_path: Path) -> None:
    objects = 'kind = "objects"\nmetadata = { value = "10 KB", source = "measured" }\nat_least = "8000 objects"\n'
    path = file_with(tmp_path, f'[[requirements]]\nname = "objects"\n{objects}', "rhcs-10b-6n")
    [wanted] = load_hardware(path, ["requirements.objects.db=275 GB"]).requirements
    assert isinstance(wanted, ObjectsRequirement)
    assert wanted.db is not None
    assert (wanted.db.value, wanted.db.source) == (275e9, "--set requirements.objects.db=275 GB")


RAW = {
    "name": "small",
    "deep": {"table": {"key": 1}},
    "half": {"value": 1},
    "figure": {"value": "1 GB", "source": "a data sheet"},
    "nodes": [{"name": "a", "count": 1, "disks": [{"name": "d", "count": 2}]}, {"name": "b", "count": 2}],
}


@pytest.mark.parametrize(
    ("change", "where", "value"),
    [
        ("deep.table.key=5", ("deep", "table", "key"), 5),
        (" deep.table.key = some words ", ("deep", "table", "key"), "some words"),
        ("name=a=b", ("name",), "a=b"),
        ("half.value=3", ("half", "value"), 3),
        ("nodes.a.disks.count=4", ("nodes", 0, "disks", 0, "count"), 4),
        ("nodes.b.bulk=true", ("nodes", 1, "bulk"), True),
        ("nodes.b.bulk=false", ("nodes", 1, "bulk"), False),
        ("nodes.b.speed=7 Gb/s", ("nodes", 1, "speed"), {"value": "7 Gb/s", "source": "--set nodes.b.speed=7 Gb/s"}),
    ],
)
def test_a_change_is_put_where_its_place_says_and_nowhere_else(
    change: str, where: tuple[str | int, ...], value: object
) -> None:
    wanted: Any = deepcopy(RAW)
    *way, last = where
    reduce(getitem, way, wanted)[last] = value
    before = deepcopy(RAW)
    assert changed(RAW, [change]) == wanted
    assert before == RAW


@pytest.mark.parametrize(
    ("change", "what", "detail"),
    [
        ("nodes.count=6", "--set has to name one table", "got 'nodes.count=6', wanted: the name of one of a, b"),
        ("nodes.disks.x=6", "--set has to name one table", "got 'nodes.disks.x=6', wanted: the name of one of a, b"),
        ("name.key=3", "--set: 'name' has no keys", "got 'name.key=3'"),
        ("name.deeper.key=3", "--set: the profile has no 'deeper' there", "got 'name.deeper.key=3'"),
        ("figure.value=3", "--set replaces a whole figure", "got 'figure.value=3'"),
        ("name= ", "--set needs PLACE=VALUE", "got 'name= '"),
    ],
)
def test_a_place_that_is_none_is_named(change: str, what: str, detail: str) -> None:
    with pytest.raises(SpecError) as caught:
        changed(RAW, [change])
    assert (caught.value.what, caught.value.detail) == (what, detail)
    assert caught.value.hint


NO_CHANGES = (
    ("nodes.count", "--set needs PLACE=VALUE"),
    ("=3", "--set needs PLACE=VALUE"),
    ("nodes.epyc.count=3", "the profile has no 'epyc' there"),
    ("switches.count=3", "the profile has no 'switches' there"),
    ("nodes.memory.value=3 GB", "--set replaces a whole figure"),
    ("nodes.count=three", "nodes.0.count: got 'three'"),
    ("nodes.cuont=3", "nodes.0.cuont: unknown key"),
    ("nodes.bandwidth=3 W", "nodes.0.bandwidth: got '3 W'"),
    ("nodes.count=-1", "nodes.0.count: got -1, wanted: 1 or more"),
    ("nodes.count=-1e1", "nodes.0.count: got -10, wanted: 1 or more"),
    ("nodes.count=1.5e0", "with nodes.count=1.5e0 is not a profile\nnodes.0.count: got 1.5, wanted: a whole number"),
    ("nodes.count=1e-1", "nodes.0.count: got 0.1, wanted: a whole number"),
    ("nodes.count=1e1x", "nodes.0.count: got '1e1x', wanted: a whole number"),
    ("nodes.bandwidth=1e400 GB/s", "nodes.0.bandwidth: got '1e400 GB/s', wanted: a finite figure"),
    ("nodes.bandwidth=-3 GB/s", "nodes.0.bandwidth: got '-3 GB/s', wanted: a figure above 0"),
)


@pytest.mark.parametrize(("change", "said"), NO_CHANGES)
def test_what_is_no_change_is_refused(tmp_path: Path, change: str, said: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_hardware(file_with(tmp_path, ""), [change])
    assert said in f"{caught.value.what}\n{caught.value.detail}"


def test_a_place_is_changed_once(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"nodes\.count: set more than once") as caught:
        load_hardware(file_with(tmp_path, ""), ["nodes.count=3", "nodes.cores=8", " nodes.count =4"])
    assert "nodes.count=3" in caught.value.detail


def test_of_several_kinds_of_nodes_a_change_names_one(tmp_path: Path) -> None:
    path = file_with(tmp_path, "", "altra-3n-epyc-1n")
    with pytest.raises(SpecError, match="--set has to name one table"):
        load_hardware(path, ["nodes.count=6"])
    assert [machine.count for machine in load_hardware(path, ["nodes.epyc.count=6"]).profile.nodes] == [3, 6]


def test_a_sweep_is_a_place_and_its_values() -> None:
    assert sweep_of("nodes.count=3..5") == ("nodes.count", range(3, 6))
    assert sweep_of("nodes.count=3..3") == ("nodes.count", range(3, 4))
    assert sweep_of("nodes.count=1..64") == ("nodes.count", range(1, 65))
    assert sweep_of("depth") is None
    for wrong in ("nodes.count=5..3", "nodes.count=1..65"):
        with pytest.raises(SpecError, match="points"):
            sweep_of(wrong)


def test_a_number_that_no_machine_has_is_refused_or_no_sweep(tmp_path: Path) -> None:
    """Python makes no number of more than 4300 digits, and no length of more than 64 bits."""
    assert sweep_of("nodes.count=1..99999999999999999999") is None
    with pytest.raises(SpecError, match="points"):
        sweep_of("nodes.count=1..999999999999999999")
    with pytest.raises(SpecError, match="count"):
        load_hardware(file_with(tmp_path, ""), ["nodes.count=" + "9" * 5000])
