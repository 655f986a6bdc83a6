"""A figure is the same however a profile's file groups its machines and disks, and it obeys the laws it rests on."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cephlab.tuning.held import Answer, Trust, held
from cephlab.tuning.model import predict
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.requirements import CapacityRequirement, RecoveryRequirement
from cephlab.tuning.workload import Shape
from tests.tuning.test_growth import DEMANDS, clusters, loads

ROUNDED = 1e-6


def halves(machine: MachineClass) -> tuple[MachineClass, ...]:
    """The same machines in two tables."""
    first = machine.count // 2
    parts = (replace(machine, count=first), replace(machine, name=f"{machine.name}2", count=machine.count - first))
    return tuple(part for part in parts if part.count)


def in_halves(on: Profile) -> Profile:
    nodes, clients = (tuple(part for each in group for part in halves(each)) for group in (on.nodes, on.clients))
    return replace(on, nodes=nodes, clients=clients)


def backwards(on: Profile) -> Profile:
    nodes = tuple(replace(node, disks=node.disks[::-1]) for node in on.nodes[::-1])
    return replace(on, nodes=nodes, clients=on.clients[::-1])


regrouped = pytest.mark.parametrize("regrouped", [in_halves, backwards])
on_nodes = st.booleans()


@st.composite
def places(draw: st.DrawFn) -> Profile:
    """A cluster whose clients are elsewhere, or on its nodes."""
    on = draw(clusters())
    return replace(on, clients=(), clients_on_nodes=True) if draw(on_nodes) else on


@pytest.mark.slow
@pytest.mark.shipped_constants
@regrouped
@settings(max_examples=40, deadline=None, derandomize=True)
@given(on=places(), load=loads())
def test_a_load_is_predicted_alike(regrouped: Callable[[Profile], Profile], on: Profile, load: Shape) -> None:
    before, after = (predict(DEMANDS, each, load) for each in (on, regrouped(on)))

    assert after.ops == pytest.approx(before.ops, rel=ROUNDED)
    assert after.unloaded_s == pytest.approx(before.unloaded_s, rel=ROUNDED)
    assert after.ceiling == pytest.approx(before.ceiling, rel=ROUNDED)


GUARDS = st.sampled_from(("replicated:2", "replicated:3", "ec:4+2"))


@pytest.mark.slow
@regrouped
@settings(max_examples=40, deadline=None, derandomize=True)
@given(on=clusters(), guard=GUARDS, fill=st.sampled_from((0.1, 0.7)), replaced=st.booleans())
def test_data_is_recovered_and_held_alike(
    regrouped: Callable[[Profile], Profile], on: Profile, guard: str, fill: float, *, replaced: bool
) -> None:
    room = CapacityRequirement.model_validate(
        {"name": "x", "kind": "capacity", "fill": fill, "protection": guard, "at_least": "1 TB"}
    )
    lost = RecoveryRequirement.model_validate(
        {"name": "x", "kind": "recovery", "fill": fill, "protection": guard, "replaced": replaced, "at_most": "1 h"}
    )

    def ends(answer: Answer) -> object:
        return pytest.approx((answer.low, answer.value, answer.high), rel=ROUNDED)

    for wanted in (room, lost):
        [before], [after] = (held(wanted, each, (), Trust(2.0, 1.25)) for each in (on, regrouped(on)))
        assert ends(before) == (after.low, after.value, after.high)
        assert after.low <= after.value <= after.high


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(on=clusters(), guard=GUARDS)
def test_capacity_is_what_hosts_with_a_copy_each_can_hold(on: Profile, guard: str) -> None:
    """Objects fit as long as hosts have room for all copies, and none of them holds two copies of one."""
    wanted = CapacityRequirement.model_validate(
        {"name": "x", "kind": "capacity", "fill": 0.8, "protection": guard, "at_least": "1 TB"}
    )
    [answer] = held(wanted, on, (), Trust(2.0, 1.25))
    shape = wanted.protection.shape("write", 1 << 22)
    rooms = [0.8 * node.weight for node in on.nodes for _ in range(node.count)]

    def fit(user_bytes: float) -> bool:
        copy = user_bytes / (shape.k or 1)
        return sum(min(room, copy) for room in rooms) >= shape.copies * copy

    assert fit(answer.value * (1 - ROUNDED))
    assert not fit(answer.value * (1 + ROUNDED))


@pytest.mark.slow
@pytest.mark.shipped_constants
@settings(max_examples=60, deadline=None, derandomize=True)
@given(on=places(), load=loads())
def test_rate_latency_and_utilisation_obey_their_laws(on: Profile, load: Shape) -> None:
    made = predict(DEMANDS, on, load)

    assert made.ops * made.latency_s == pytest.approx(load.in_flight), "Little's law"
    for ceiling in made.ceilings:
        assert made.utilisation[ceiling.name] == pytest.approx(made.ops * ceiling.busiest_s), "utilisation law"
    most = max(made.utilisation.values())
    assert most <= 1 + ROUNDED
    assert made.utilisation[made.ceilings[0].name] == most
    assert made.ceilings[0].name in made.bottleneck
    assert made.latency_s >= made.unloaded_s * (1 - ROUNDED)
    for low, high in made.intervals.values():
        assert 0 < low < high < math.inf
