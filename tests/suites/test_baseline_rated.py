"""Limits from a profile: laws for any profile, since a limit that is too strict or too lax gives a wrong verdict."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB, Disk, Node, Osd
from cephlab.suites.baseline import rated
from cephlab.suites.baseline.rated import (
    CHECKSUM,
    ERASURE_ENCODE,
    SEQUENTIAL,
    SYNC_LATENCY,
    SYNC_WRITES,
    Port,
    osd_memory,
    speed,
    stream_speed,
)
from cephlab.tuning.profile import DiskRole, Figure, MachineClass, Profile
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.units import Measure
from tests.fake_stage import stage_of

PLAIN = find_profile("ampere-altra-4n", Path("/none"))
NODE, CLIENT = PLAIN.nodes[0], PLAIN.clients[0]
laws = settings(deadline=None, max_examples=60)
VALUES = st.floats(1e3, 1e12)
MAYBE = st.none() | VALUES


def rate(value: float | None, source: str = "a sheet") -> Figure | None:
    return None if value is None else Figure(value, Measure.RATE, source)


def node(*sync_s: float | None, arch: Arch = Arch.AARCH64, **more: Any) -> MachineClass:
    """A class of nodes with disks of these latencies, each of a kind of its own."""
    disks = NODE.data_disks[0]
    latencies = [None if value is None else Figure(value, Measure.TIME, "a sheet") for value in sync_s]
    of_kinds = tuple(replace(disks, name=f"d{n}", sync_latency=each) for n, each in enumerate(latencies))
    return replace(NODE, arch=arch, disks=of_kinds, **more)


def host(name: str, arch: Arch = Arch.AARCH64, *, emulated: bool = False) -> Host:
    return cast("Host", SimpleNamespace(name=name, arch=arch, emulated=emulated))


def stage(lab: str = "ssh") -> Stage:
    """Nodes are named n..., and every other machine has no daemons."""
    nodes = tuple(Node(f"n{n}", Arch.AARCH64, disks=(Disk("d", 1 << 30),), osds=(Osd("d"),)) for n in range(4))
    return stage_of(SimpleNamespace(provider=provider(lab), spec=SimpleNamespace(nodes=nodes)))


def bound_of(profile: Profile | None, judge: Any, *args: Any, lab: str = "ssh", **more: Any) -> Bound:
    with patch.object(rated, "profile_of", lambda _: profile):
        bound = judge(stage(lab), *args, **more)
    assert isinstance(bound, Bound)
    return bound


# One figure of one machine


@pytest.mark.slow
@given(st.lists(st.lists(st.floats(1e-6, 1.0) | st.none(), max_size=3), min_size=1, max_size=3), st.randoms())
@laws
def test_a_disk_is_held_to_half_of_the_slowest_that_it_can_be(kinds: list[list[float | None]], random: Any) -> None:
    """In whatever order a profile has them. One that is not known may be the slowest, so there is no limit then."""
    classes = [node(*latencies) for latencies in kinds]
    disks = [latency_s for latencies in kinds for latency_s in latencies]
    bounds = [
        [
            bound_of(replace(PLAIN, nodes=tuple(order)), speed, host("n0"), rating)
            for rating in (SYNC_WRITES, SYNC_LATENCY)
        ]
        for order in (classes, random.sample(classes, len(classes)))
    ]
    assert bounds[0] == bounds[1]
    writes, latency = bounds[0]
    if not disks or None in disks:
        assert not writes.judges
        assert not latency.judges
        assert writes.why == f"{PLAIN.name} has no such figure for n0 (aarch64)"
    else:
        slowest_s = max(latency_s for latency_s in disks if latency_s is not None)
        assert writes.least == pytest.approx(0.5 / slowest_s)
        assert latency.most == pytest.approx(2 * slowest_s * 1e3)
        assert (writes.most, latency.least) == (None, None)
        assert {writes.basis, latency.basis} == {Basis.PROFILE}


@pytest.mark.parametrize(
    ("rating", "key"),
    [(SEQUENTIAL["write"], "seq_write"), (SEQUENTIAL["read"], "seq_read")],
)
def test_a_rate_of_a_disk_is_of_its_own_direction_and_of_data_disks(rating: rated.Rating, key: str) -> None:
    disks = NODE.data_disks[0]
    metadata = replace(disks, name="db", role=DiskRole.METADATA, seq_write=rate(MIB), seq_read=rate(MIB))
    profile = replace(
        PLAIN,
        nodes=(
            replace(
                NODE,
                disks=(
                    metadata,
                    replace(disks, seq_write=rate(100.0 * MIB, "write"), seq_read=rate(300.0 * MIB, "read")),
                ),
            ),
        ),
    )
    bound = bound_of(profile, speed, host("n0"), rating)
    value, source = (100, "write") if key == "seq_write" else (300, "read")
    assert bound.least == pytest.approx(value / 2)
    assert bound.why == f"{PLAIN.name}: {value} [{source}], divided by 2"


@pytest.mark.parametrize(("rating", "key"), [(CHECKSUM, "crc32c"), (ERASURE_ENCODE, "ec_encode")])
def test_what_a_processor_computes_is_held_to_the_class_of_its_architecture(rating: rated.Rating, key: str) -> None:
    speeds = ((Arch.AARCH64, 8.0), (Arch.X86_64, 2.0))
    classes = tuple(node(arch=arch, **cast("Any", {key: rate(speed_mib * MIB)})) for arch, speed_mib in speeds)
    profile = replace(PLAIN, nodes=classes)
    assert bound_of(profile, speed, host("n0"), rating).least == 4
    assert bound_of(profile, speed, host("n0", Arch.X86_64), rating).least == 1
    assert not bound_of(profile, speed, host("n0"), CHECKSUM if key == "ec_encode" else ERASURE_ENCODE).judges


def test_a_latency_says_how_its_limit_follows() -> None:
    assert bound_of(replace(PLAIN, nodes=(node(0.001),)), speed, host("n0"), SYNC_LATENCY).why == (
        f"{PLAIN.name}: 1 [a sheet], times 2"
    )


def test_a_speed_that_profiles_do_not_have_is_noted() -> None:
    bound = bound_of(PLAIN, speed, host("n0"))
    assert (bound.judges, bound.basis) == (False, Basis.NOTED)
    assert bound.why == f"{PLAIN.name} has no such figure for n0 (aarch64)"


@pytest.mark.parametrize(
    ("profile", "of", "lab", "why"),
    [
        (None, host("n0"), "ssh", "no profile to judge n0 by; `--profile this-machine` names one"),
        (PLAIN, host("n0", emulated=True), "ssh", "n0 is emulated, so its speed is not judged"),
        (PLAIN, host("n0"), "local", "; the host is not one of its machines"),
    ],
)
def test_a_speed_without_a_limit_says_why(profile: Profile | None, of: Host, lab: str, why: str) -> None:
    for judge, more in ((speed, (SYNC_WRITES,)), (stream_speed, ())):
        args = (of, *more) if judge is speed else ([Port(of, "a")], Port(host("n1"), "b"))
        bound = bound_of(profile, judge, *args, lab=lab)
        assert (bound.judges, bound.basis) == (False, Basis.NOTED)
        assert bound.why.endswith(why)


# Streams


@st.composite
def networks(draw: st.DrawFn) -> Profile:
    """A profile with any bandwidths, of nodes of one class or two, with or without clients and an uplink."""

    def machine(like: MachineClass) -> MachineClass:
        keys = {key: rate(draw(MAYBE)) for key in ("link_bandwidth", "cluster_bandwidth")}
        return replace(like, arch=Arch.AARCH64, bandwidth=cast("Figure", rate(draw(VALUES))), **cast("Any", keys))

    nodes = tuple(machine(NODE) for _ in range(draw(st.integers(1, 2))))
    clients = tuple(machine(CLIENT) for _ in range(draw(st.integers(0, 2))))
    return replace(PLAIN, nodes=nodes, clients=clients, uplink=rate(draw(MAYBE)))


def one_stream(classes: Sequence[MachineClass], *, bonded: bool, between_osds: bool) -> float | None:
    """Bytes a second of one stream of the slowest class; None if that is not known."""
    if bonded and any(machine.link_bandwidth is None for machine in classes):
        return None
    all_links = [
        machine.cluster_bandwidth if between_osds and machine.cluster_bandwidth else machine.bandwidth
        for machine in classes
    ]
    links = [machine.link_bandwidth for machine in classes if machine.link_bandwidth]
    return min(figure.value for figure in (*all_links, *links))


@pytest.mark.slow
@given(
    networks(),
    st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@laws
def test_streams_are_held_to_half_of_the_narrowest_part_of_their_way(
    profile: Profile, sending: list[tuple[bool, bool]], to_client: bool, bonded: bool, between_osds: bool
) -> None:
    """sending: of each sender whether it is a client, and whether it has a bond."""
    names = [f"{'c' if client else 'n'}{number}" for number, (client, _) in enumerate(sending)]
    senders = [Port(host(name), name, bond) for name, (_, bond) in zip(names, sending, strict=True)]
    receiver = Port(host("c9" if to_client else "n3"), "r", bonded)
    bound = bound_of(profile, stream_speed, senders, receiver, between_osds=between_osds)

    def classes(client: bool) -> Sequence[MachineClass]:
        return profile.clients if client and profile.clients else profile.nodes

    streams = [one_stream(classes(client), bonded=bond, between_osds=between_osds) for client, bond in sending]
    into = one_stream(classes(to_client), bonded=bonded, between_osds=between_osds)
    if len(senders) > 1:
        into = min(machine.bandwidth.value for machine in classes(to_client))
    ways: list[float | None] = [None if None in streams else sum(filter(None, streams)), into]
    if profile.uplink and len({to_client, *(client for client, _ in sending)}) == 2:
        ways.append(profile.uplink.value)
    if None in ways:
        assert (bound.judges, bound.basis) == (False, Basis.NOTED)
        assert "has no link_bandwidth, of one link of a bond, for " in bound.why
    else:
        narrowest = min(way for way in ways if way is not None)
        assert bound.least == pytest.approx(narrowest * 8 / 1e6 / 2)
        assert bound.most is None
        assert bound.basis is Basis.PROFILE


def test_only_streams_between_osds_are_held_to_links_of_their_own() -> None:
    apart = replace(NODE, bandwidth=cast("Figure", rate(1e9)), cluster_bandwidth=rate(1e6), link_bandwidth=None)
    profile, ends = replace(PLAIN, nodes=(apart,)), ([Port(host("n0"), "a")], Port(host("n1"), "b"))
    assert bound_of(profile, stream_speed, *ends).least == 4000
    assert bound_of(profile, stream_speed, *ends, between_osds=True).least == 4


def test_senders_together_name_each_source_once() -> None:
    nodes = tuple(
        replace(like, arch=arch, bandwidth=cast("Figure", rate(1e6, source)), link_bandwidth=None)
        for like, arch, source in ((NODE, Arch.AARCH64, "arm"), (NODE, Arch.X86_64, "amd"))
    )
    wide = replace(CLIENT, bandwidth=cast("Figure", rate(1e9)))
    senders = [Port(host(f"n{n}", arch), "a") for n, arch in enumerate((Arch.AARCH64, Arch.X86_64, Arch.X86_64))]
    receiver = Port(host("c0", CLIENT.arch), "b")
    bound = bound_of(replace(PLAIN, nodes=nodes, clients=(wide,)), stream_speed, senders, receiver)
    assert bound.why == f"{PLAIN.name}: 24 [arm; amd], divided by 2"


# Memory


@pytest.mark.slow
@given(st.lists(st.tuples(VALUES, st.integers(1, 8)), min_size=1, max_size=3), st.booleans())
@laws
def test_memory_of_an_osd_is_held_to_the_largest_share_that_its_machine_can_have(
    kinds: list[tuple[float, int]], real: bool
) -> None:
    disks = NODE.data_disks[0]
    classes = [
        replace(NODE, memory=Figure(size, Measure.BYTES, "a sheet"), disks=(replace(disks, count=count),))
        for size, count in kinds
    ]
    strange = replace(NODE, arch=Arch.X86_64, memory=Figure(1e15, Measure.BYTES, "a sheet"))
    without = replace(NODE, disks=(), memory=Figure(1e15, Measure.BYTES, "a sheet"))
    profile = replace(PLAIN, nodes=(without, *classes, strange))
    bound = bound_of(profile, osd_memory, host("n0"), lab="ssh" if real else "local")
    most = max(0.7 * size / (count * disks.osds_per_disk) for size, count in kinds) / MIB
    assert bound.why.startswith(f"{PLAIN.name}: {most:.6g} MiB [")
    assert bound.most == (pytest.approx(1.2 * most) if real else None)
    assert bound.least is None
    assert bound.basis is (Basis.PROFILE if real else Basis.NOTED)


@pytest.mark.parametrize(
    ("profile", "of", "why"),
    [
        (PLAIN, host("n0", emulated=True), "n0: the figure includes the emulator's own memory"),
        (None, host("n0", emulated=True), "n0: the figure includes the emulator's own memory"),
        (None, host("n0"), "n0: no profile to judge it by"),
        (PLAIN, host("n0", Arch.X86_64), f"{PLAIN.name} has no OSDs on x86_64"),
    ],
)
def test_memory_without_a_limit_says_why(profile: Profile | None, of: Host, why: str) -> None:
    bound = bound_of(profile, osd_memory, of)
    assert (bound.judges, bound.basis, bound.why) == (False, Basis.NOTED, why)
