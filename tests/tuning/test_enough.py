"""What would be enough: the least change of each kind, and what limits next."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from cephlab.lab.checks.verdict import Outcome
from cephlab.tuning.enough import KINDS, TOGETHER, Enough, enough, kinds_for
from cephlab.tuning.held import held
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.requirements import Requirement
from tests.model_parts import disks, machine, profile
from tests.tuning.test_growth import DEMANDS
from tests.tuning.test_requirements import ALTRA, demands, find, load, outcomes, trust


def changes_for(requirement: Requirement, on: Profile) -> dict[str, Any]:
    def judged(other: Profile) -> tuple[bool, str]:
        answers = held(requirement, other, demands(), trust())
        return all(answer.outcome is Outcome.PASS for answer in answers), answers[0].limited_by

    return {change.kind: change for change in enough(on, judged, kinds_for(requirement))}


@pytest.mark.slow
def test_the_least_number_of_nodes_is_said_and_one_less_is_not_enough() -> None:
    wanted = load(op="get", bs="4M", clients=400, depth=8, at_least="9 GB/s")
    changes = changes_for(wanted, find(ALTRA))
    assert changes["nodes"].met
    count = int(changes["nodes"].words.split("-> ")[1].split()[0])
    [altra] = find(ALTRA).nodes
    for nodes, outcome in ((count, Outcome.PASS), (count - 1, Outcome.INCONCLUSIVE)):
        assert outcomes(wanted, replace(find(ALTRA), nodes=(replace(altra, count=nodes),))) == [outcome]
    assert changes["nodes"].limited_by
    assert not changes["cores"].met
    assert "network" in changes["cores"].limited_by
    assert str(changes["cores"]).startswith("not cores alone (")


@pytest.mark.slow
def test_each_kind_of_change_grows_what_it_says() -> None:
    wanted = load(op="get", bs="4M", clients=400, depth=8, at_least="20 GB/s")
    changes = changes_for(wanted, find(ALTRA))
    assert changes.keys() == {"nodes", "cores", "disks", "network", "clients", "nodes and clients"}
    assert changes["nodes and clients"].met
    assert "machines, load: 6 machines -> " in changes["nodes and clients"].words
    assert changes["network"].words.startswith("altra: 50 Gb/s -> ")
    assert changes["disks"].words == "altra: 3 cd8 -> 192 cd8"
    assert changes["clients"].words == "load: 6 machines -> 384 machines"
    [altra] = find(ALTRA).nodes
    assert changes["cores"].words == f"altra: {altra.cores} cores -> {altra.cores * 64} cores"


def test_a_step_is_one_of_the_largest_there_is_and_a_node_without_disks_has_none_to_add() -> None:
    profile = find(ALTRA)
    [altra] = profile.nodes
    without = replace(altra, disks=())
    assert KINDS["network"].first(profile) == 50
    assert KINDS["disks"].first(replace(profile, nodes=(altra, without))) == 3
    assert not list(enough(replace(profile, nodes=(without,)), lambda _: (False, "disks"), ["disks"]))


LIMITS: Mapping[str, Any] = {
    "recovery": {"fill": 0.7, "protection": "replicated:2", "at_most": "1 h"},
    "capacity": {"fill": 0.7, "protection": "replicated:2", "at_least": "1 TB"},
    "objects": {"metadata": {"value": "1 KB", "source": "x"}, "at_least": "1 objects"},
    "power": {"at_most": "1 W"},
}


def of_kind(kind: str) -> Requirement:
    read: TypeAdapter[Requirement] = TypeAdapter(Requirement)
    return read.validate_python({"name": "x", "kind": kind, **LIMITS[kind]})


@pytest.mark.parametrize(
    ("kind", "kinds"),
    [("recovery", ("nodes", "disks", "network")), ("capacity", ("nodes", "disks")), ("objects", ("nodes", "disks"))],
)
def test_a_requirement_is_helped_by_what_it_is_made_of(kind: str, kinds: tuple[str, ...]) -> None:
    changes = enough(find(ALTRA), lambda _: (False, "all of it"), kinds_for(of_kind(kind)))
    assert tuple(change.kind for change in changes) == kinds


def test_no_more_hardware_takes_less_power() -> None:
    assert not list(enough(find(ALTRA), lambda _: (False, "power"), kinds_for(of_kind("power"))))


def test_where_watts_count_nothing_is_offered_whose_watts_nobody_declared() -> None:
    """`power_loaded` is of a node as it is: more cores in it would be free."""
    wanted = load(per_watt_at_least="100 ops/s/W", at_least="1 ops/s")
    assert kinds_for(wanted) == ("nodes", "clients")
    assert "cores" in kinds_for(load(at_least="1 ops/s"))


@pytest.mark.slow
def test_hosts_for_every_shard_are_the_least_that_is_enough() -> None:
    changes = changes_for(load(protection="ec:8+3", at_least="1 ops/s"), find(ALTRA))
    assert changes["nodes"].met
    assert changes["nodes"].words == "altra: 4 machines -> 11 machines"
    assert changes["disks"].limited_by == "hosts: 4 for 11 shards"


def test_every_link_that_has_to_grow_is_said() -> None:
    [altra] = find(ALTRA).nodes
    linked = replace(find(ALTRA), nodes=(replace(altra, cluster_bandwidth=altra.bandwidth.times(0.5)),))
    joined = replace(linked, uplink=altra.bandwidth.times(400))
    grow = KINDS["network"]
    nodes = "altra: 50 Gb/s and 25 Gb/s between OSDs -> 100 Gb/s and 50 Gb/s between OSDs"
    assert grow.words(linked, grow.grown(linked, 1.0)) == nodes
    assert grow.words(joined, grow.grown(joined, 1.0)) == f"{nodes}, uplink: 20,000 Gb/s -> 40,000 Gb/s"


AMOUNT = re.compile(r"(\w+): .*?-> ([0-9]+)[^,]*")


def applied(on: Profile, change: Enough, less: int = 0) -> Profile:
    """A profile with what a change says. less: how many fewer of the first thing that it names."""
    amounts = {name: int(count) for name, count in AMOUNT.findall(change.words)}
    key = {"disks": "disks", "cores": "cores"}.get(change.kind, "count")

    def of(part: MachineClass) -> MachineClass:
        count = amounts.get(part.name, 0) - less
        if part.name not in amounts:
            return part
        if key == "disks":
            return replace(part, disks=tuple(replace(disks, count=count) for disks in part.disks))
        return replace(part, cores=count) if key == "cores" else replace(part, count=count)

    return replace(on, nodes=tuple(map(of, on.nodes)), clients=tuple(map(of, on.clients)))


@pytest.mark.slow
@settings(max_examples=20, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(st.integers(3, 8), st.integers(1, 32), st.integers(1, 8), st.integers(1, 6)),
    bandwidth=st.sampled_from((1e8, 1e9, 2e10)),
    operation=st.sampled_from(("randread", "randwrite", "get", "put")),
    wanted_ops=st.sampled_from((1_000, 20_000, 300_000)),
)
def test_the_least_change_of_any_cluster_is_enough_and_one_less_is_not(
    sizes: tuple[int, int, int, int], bandwidth: float, operation: str, wanted_ops: int
) -> None:
    count, cores, disk_count, clients = sizes
    node = machine("a", count=count, cores=cores, bandwidth=bandwidth, gateways=2, disk=(disks("d", count=disk_count),))
    on = replace(profile(node), clients=(machine("client", count=clients, bandwidth=bandwidth),))
    wanted = load(
        op=operation, bs="4k", clients=40, depth=16, protection="replicated:3", at_least=f"{wanted_ops} ops/s"
    )

    def judged(other: Profile) -> tuple[bool, str]:
        answers = held(wanted, other, DEMANDS, trust())
        return all(answer.outcome is Outcome.PASS for answer in answers), answers[0].limited_by

    if judged(on)[0]:
        return
    for change in enough(on, judged, ("nodes", "cores", "disks", "clients")):
        if change.met and change.kind != TOGETHER:
            assert judged(applied(on, change)) == (True, change.limited_by)
            assert not judged(applied(on, change, less=1))[0]
