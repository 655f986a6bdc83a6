"""More hardware never predicts less: nodes, cores, disks, links and clients, on clusters that nobody chose."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cephlab.lab.telemetry.demand import Demand, Role
from cephlab.tuning import placement
from cephlab.tuning.calibrate import DENSE, SPARSE
from cephlab.tuning.constants import Constants, current
from cephlab.tuning.enough import KINDS
from cephlab.tuning.model import predict
from cephlab.tuning.profile import DiskKind, DiskRole, Disks, MachineClass, Profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, disks, machine, profile

ROUNDED = 1e-9
THREADS = {
    Role.PRIMARY: {"tp_osd_tp": 8e-5, "msgr-worker": 4e-5, "bstore_kv_sync": 3e-5},
    Role.REPLICA: {"tp_osd_tp": 9e-5, "msgr-worker": 5e-5, "bstore_kv_sync": 5e-5},
    Role.CLIENT: {"fio": 1e-5, "msgr-worker": 2e-5},
}
CODES = ((0, 0), (4, 2), (2, 1))
BLOCKS = (4096, 16_384, 65_536, 1 << 20, 4 << 20)


def costs(name: str, size: int) -> Demand:
    """What an operation costs, more for a larger block."""
    each = 1 + size / 1e5
    return demand(
        name,
        size,
        primary_s=2e-4 * each,
        replicas_s=3e-4 * each,
        client_s=6e-5 * each,
        gateway_s=1e-4 * each,
        threads=THREADS,
        writes=3 + size / 65_536,
        write_bytes=1.2 * size,
    )


DEMANDS = [costs(name, size) for name in ("randread", "randwrite", "get", "put") for size in (4096, 4 << 20)]


@st.composite
def some_disks(draw: st.DrawFn, role: DiskRole) -> Disks:
    kind = draw(st.sampled_from(DiskKind)) if role is DiskRole.DATA else DiskKind.NVME
    figures = {
        "read_iops": st.sampled_from((150.0, 5e4, 8e5)),
        "write_iops": st.sampled_from((150.0, 2e4, 2e5)),
        "seq_read": st.sampled_from((2e8, 3e9)),
        "seq_write": st.sampled_from((2e8, 1e9)),
        "sync_latency": st.sampled_from((1e-5, 5e-3)),
        "read_latency": st.sampled_from((8e-5, 8e-3)),
        "shared_link": st.sampled_from((1e9, 6e9)),
    }
    rated = {key: draw(values) for key, values in figures.items() if draw(st.booleans())}
    return disks(role.value, kind=kind, role=role, count=draw(st.integers(1, 12)), **rated)


@st.composite
def some_nodes(draw: st.DrawFn, name: str, least: int) -> MachineClass:
    own = [draw(some_disks(DiskRole.DATA))]
    own += [draw(some_disks(DiskRole.METADATA))] if draw(st.booleans()) else []
    return machine(
        name,
        count=draw(st.integers(least, 12)),
        cores=draw(st.integers(1, 64)),
        speed=draw(st.sampled_from((0.5, 1.0, 4.0))),
        bandwidth=draw(st.sampled_from((1e8, 1e9, 2e10))),
        threads_per_core=draw(st.integers(1, 2)),
        gateways=draw(st.integers(1, 4)),
        disk=tuple(own),
    )


@st.composite
def clusters(draw: st.DrawFn) -> Profile:
    """One or two kinds of nodes, enough of them for every protection, and clients elsewhere."""
    nodes = [draw(some_nodes(name, 6)) for name in "ab"[: draw(st.integers(1, 2))]]
    made = profile(*nodes, pgs=draw(st.sampled_from((None, 32, 256, 4096))))
    hosts = machine("client", count=draw(st.integers(1, 40)), bandwidth=draw(st.sampled_from((1e8, 1e10))))
    return replace(made, clients=(hosts,))


@st.composite
def loads(draw: st.DrawFn) -> Shape:
    k, m = draw(st.sampled_from(CODES))
    return Shape(
        draw(st.sampled_from(("randread", "randwrite", "read", "write", "get", "put", "randrw70"))),
        draw(st.sampled_from(BLOCKS)),
        draw(st.sampled_from((1, 3, 20, 100))),
        draw(st.sampled_from((1, 4, 32, 256))),
        replicas=draw(st.integers(1, 3)),
        k=k,
        m=m,
        hit_ratio=draw(st.sampled_from((0.0, 0.5, 1.0))),
        span=draw(st.sampled_from((0.1, 1.0))),
    )


growing = pytest.mark.parametrize("kind", ["nodes", "cores", "disks", "network", "clients"])


def grown(on: Profile, kind: str, times: int) -> Profile:
    """Each class is multiplied, so that their proportion stays."""
    return KINDS[kind].grown(on, times - 1)


@pytest.mark.slow
@growing
@settings(max_examples=25, deadline=None)
@given(on=clusters(), load=loads(), times=st.integers(2, 5))
def test_more_hardware_never_predicts_less(kind: str, on: Profile, load: Shape, times: int) -> None:
    """A gateway finds less on its own node when there are more of them, and fetches so much more from others."""
    larger = grown(on, kind, times)
    before, after = (predict(DEMANDS, each, load) for each in (on, larger))
    slack = fetched(larger, load) / fetched(on, load) * (1 + ROUNDED)

    assert after.ops >= before.ops / slack
    assert after.latency_s <= before.latency_s * slack
    assert after.ceiling >= before.ceiling / slack
    assert after.unloaded_s <= before.unloaded_s * slack


@pytest.mark.slow
@pytest.mark.shipped_constants
@growing
@settings(max_examples=25, deadline=None)
@given(on=clusters(), load=loads(), times=st.integers(2, 5))
def test_as_it_ships_only_thinner_connections_cost_something(kind: str, on: Profile, load: Shape, times: int) -> None:
    """Of the same requests over more OSDs, each takes fewer from a connection in one go (`calibrate.connected`)."""
    larger = grown(on, kind, times)
    before, after = (predict(DEMANDS, each, load) for each in (on, larger))
    thinner = dearer(current(), times) if kind in ("nodes", "disks") else 1.0
    assert after.ops >= before.ops / thinner / fetched(larger, load) * fetched(on, load) * (1 - ROUNDED)


def fetched(on: Profile, load: Shape) -> float:
    """Share of the operations whose gateway is not on the node of their primary OSD; 1 without gateways."""
    return 1 - sum(each.count * each.primary * each.gateway for each in placement.loads(on, load.parts[0][1]))


def dearer(constants: Constants, times: int) -> float:
    """The cost of an operation with so many times as many OSDs, over that before, at most."""
    return float(constants.one_connection ** (-math.log(times) / math.log(DENSE / SPARSE)))


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(on=clusters(), load=loads(), times=st.integers(2, 5))
def test_more_in_flight_never_predicts_less(on: Profile, load: Shape, times: int) -> None:
    for more in (replace(load, depth=load.depth * times), replace(load, clients=load.clients * times)):
        assert predict(DEMANDS, on, more).ops >= predict(DEMANDS, on, load).ops * (1 - ROUNDED)


@pytest.mark.slow
@growing
@settings(max_examples=25, deadline=None)
@given(on=clusters(), times=st.integers(2, 5), k=st.sampled_from((0, 4)))
def test_more_hardware_never_recovers_more_slowly(kind: str, on: Profile, times: int, k: int) -> None:
    before, after = (recovery_time(each, 1e12, k=k) for each in (on, grown(on, kind, times)))
    assert after.seconds <= before.seconds * (1 + ROUNDED)
