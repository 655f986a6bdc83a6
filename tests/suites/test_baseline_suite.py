"""The pure parts of the baseline suite: what they read, what they must catch, and what is no result."""

import json
import struct
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.checks import Outcome
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability, Node
from cephlab.suites.baseline import SCENARIOS, atomics, checksum, clocks, disk, network
from cephlab.suites.baseline.atomics import Atomics, count, is_lse
from cephlab.suites.baseline.clocks import ClockReading
from cephlab.suites.baseline.disk import REFERENCES, place
from cephlab.suites.baseline.rated import CHECKSUM, SYNC_LATENCY, SYNC_WRITES, osd_memory, speed
from cephlab.suites.machines import are_machines_of
from cephlab.tuning.profilefile import THIS_MACHINE, find_profile
from tests.fake_stage import verdict_of

# Clocks


def test_the_offset_is_half_way_and_its_doubt_half_the_round_trip() -> None:
    reading = ClockReading(sent=100.0, remote_s=100.35, heard=100.1)
    assert reading.offset_s == pytest.approx(0.3)
    assert reading.doubt_s == pytest.approx(0.05)
    assert clocks.quickest([reading, ClockReading(1, 1, 1.02)]).doubt_s == pytest.approx(0.01)


def test_every_two_nodes_are_compared() -> None:
    offsets = clocks.pairs(
        {"a": ClockReading(0, 0.2, 0.02), "b": ClockReading(0, -0.1, 0.04), "c": ClockReading(0, 0.01, 0.02)}
    )
    assert list(offsets) == [f"clock offset between {pair}" for pair in ("a and b", "a and c", "b and c")]
    assert offsets["clock offset between a and b"] == pytest.approx((0.31, 0.03))


@pytest.mark.parametrize(
    ("before", "after", "ahead"),
    [
        ("1795508655.5", "1795508655.5", 0.0),
        ("1795508658.0", "1795508658.0", -2.5),
        ("1795508610.5", "1795508615.5", 40.0),
        ("1795508650.0", "1795508656.0", 0.0),
    ],
)
def test_a_daemons_clock_is_held_against_the_time_of_its_logs_file(before: str, after: str, ahead: float) -> None:
    lines = (
        "2026-11-24T08:24:14.000+0000 7f2c 1 osd.1 begins",
        "2026-11-24T08:24:15.500+0000 7f2c 1 osd.1 at 2026-11-24T09:00:00.000+0000",
        "  a line more",
    )
    assert clocks.ahead_of("\n".join((before, *lines, after)) + "\n", "osd.1") == pytest.approx(ahead)


def test_a_log_without_a_time_is_trouble_of_the_lab() -> None:
    with pytest.raises(LabBroken, match=r"the log of osd\.1 has no line with a time stamp"):
        clocks.ahead_of("1.0\nsomething\n1.0\n", "osd.1")


# Disks


def test_the_command_is_the_papers() -> None:
    argv = disk.SYNC.argv(cast("Any", Path("/x")), Tier.FULL)
    paper = (
        "--ioengine=libaio --direct=1 --sync=1 --rw=write --bs=4096 --numjobs=1 --iodepth=1 --runtime=60 --time_based"
    )
    assert set(paper.split()) <= set(argv)


def test_the_table_is_from_fast_to_slow_and_agrees_with_itself() -> None:
    rates = [reference.iops for reference in REFERENCES]
    assert rates == sorted(rates, reverse=True)
    for reference in REFERENCES:
        assert reference.bandwidth_kb_s == pytest.approx(reference.iops * 4, rel=0.01)


@pytest.mark.parametrize(
    ("iops", "words"),
    [
        (100_000, "faster than Intel Optane"),
        (20_000, "between Micron 9300 MAX 3.2 TB (data centre NVMe, 51000/s) and Samsung SM863"),
        (117, "between Crucial MX100 512 GB (consumer SATA SSD, 254/s)"),
        (50, "slower than Seagate Constellation"),
    ],
)
def test_a_disk_is_placed_between_known_ones(iops: float, words: str) -> None:
    assert place(iops + 1).startswith(words) or place(iops).startswith(words)


# Network


def flow_text(**end: Any) -> str:
    sums = {"sum_sent": {"bytes": 2000, "retransmits": 1}, "sum_received": {"bytes": 1000, "seconds": 2.0}}
    return json.dumps({"end": {**sums, **end}})


def test_a_flow_is_what_the_receiver_got() -> None:
    flow = network.parse_flow(flow_text(), "here")
    assert flow.mbit_s == pytest.approx(0.004)
    assert flow.retransmits == 1


@pytest.mark.parametrize("text", ["", "no json", '{"end": {}}', '{"error": "unable to connect"}'])
def test_a_flow_that_did_not_happen_is_the_labs_trouble(text: str) -> None:
    with pytest.raises(LabBroken):
        network.parse_flow(text, "here")


@pytest.mark.parametrize(("mtu", "size"), [(1500, 1472), (9000, 8972), (65536, 65507)])
def test_a_datagram_fills_the_mtu(mtu: int, size: int) -> None:
    assert network.largest_datagram(mtu) == size


# Arithmetic


def test_the_check_value_is_castagnolis() -> None:
    assert checksum.CHECK_VALUE ^ 0xFFFFFFFF == 0xE3069283


CRC = next(scenario for scenario in SCENARIOS if scenario.name == "baseline.checksum-rate")
CODES = next(scenario for scenario in SCENARIOS if scenario.name == "baseline.erasure-rate[isa]")


def calculator(arch: Arch, value: int = checksum.CHECK_VALUE) -> SimpleNamespace:
    """A machine whose library computes a value of the check string."""
    crc = {"value": value, "accelerated": True, "bytes": 4 << 20, "seconds": 0.5}

    def run(argv: list[str], **_how: object) -> SimpleNamespace:
        return SimpleNamespace(stdout=json.dumps(crc) if argv[0] == "python3" else "0.5\t40960\n")

    return SimpleNamespace(name=arch.value, arch=arch, root=Path("/"), emulated=False, directory=Path("/"), run=run)


@pytest.mark.parametrize("scenario", [CRC, CODES])
@pytest.mark.parametrize("archs", [*((arch,) for arch in Arch), tuple(Arch)])
def test_what_every_architecture_of_a_cluster_computes_is_measured(scenario: Scenario, archs: tuple[Arch, ...]) -> None:
    hosts = {arch.value: calculator(arch) for arch in archs}

    def measured(*seen: Arch) -> Outcome:
        cluster = SimpleNamespace(
            hosts=hosts, spec=SimpleNamespace(archs=seen), host_with=lambda arch: hosts[arch.value], patience=1.0
        )
        return verdict_of(scenario, cluster).outcome

    assert measured(*archs) is Outcome.PASS
    assert measured(*archs[1:]) is not Outcome.PASS
    hosts[archs[-1].value] = calculator(archs[-1], value=1)
    assert (measured(*archs) is Outcome.FAIL) is (scenario is CRC)


# Atomics: encodings as GNU as makes them (binutils 2.40, -march=armv8.3-a)

LSE = {
    "ldadd w0, w1, [x2]": 0xB8200041,
    "ldaddal x0, x1, [x2]": 0xF8E00041,
    "stadd w0, [x2]": 0xB820005F,
    "ldclr w0, w1, [x2]": 0xB8201041,
    "ldset w0, w1, [x2]": 0xB8203041,
    "swp w0, w1, [x2]": 0xB8208041,
    "swpab w0, w1, [x2]": 0x38A08041,
    "cas w0, w1, [x2]": 0x88A07C41,
    "casal x0, x1, [x2]": 0xC8E0FC41,
    "casp x0, x1, x2, x3, [x4]": 0x48207C82,
}
EXCLUSIVE = {"ldxr w0, [x1]": 0x885F7C20, "ldaxr x0, [x1]": 0xC85FFC20, "stxr w0, w1, [x2]": 0x88007C41}
OTHER = {
    "ldr x0, [x1]": 0xF9400020,
    "ldr x0, [x1, x2]": 0xF8626820,
    "ldar x0, [x1]": 0xC8DFFC20,
    "stlr x0, [x1]": 0xC89FFC20,
    "ldapr x0, [x1]": 0xF8BFC020,
    "nop": 0xD503201F,
}


def code(*words: int) -> bytes:
    return struct.pack(f"<{len(words)}I", *words)


@pytest.mark.parametrize("name", LSE)
def test_an_atomic_of_armv8_1_is_known(name: str) -> None:
    assert is_lse(LSE[name])
    assert count(code(LSE[name])) == Atomics(1, 1, 0)


@pytest.mark.parametrize("name", EXCLUSIVE)
def test_an_exclusive_is_none(name: str) -> None:
    assert count(code(EXCLUSIVE[name])) == Atomics(1, 0, 1)


@pytest.mark.parametrize("name", OTHER)
def test_other_loads_and_stores_are_neither(name: str) -> None:
    assert count(code(OTHER[name])) == Atomics(1, 0, 0)


@pytest.mark.parametrize(
    ("atomics", "manner"),
    [
        (Atomics(100, 50, 0), "in line"),
        (Atomics(100, 8, 16), "with a fall-back"),
        (Atomics(100, 1, 16), "exclusives"),
        (Atomics(100, 0, 16), "exclusives"),
        (Atomics(100, 0, 0), "none"),
    ],
)
def test_the_manner_of_atomics(atomics: Atomics, manner: str) -> None:
    assert atomics.manner == manner


ATOMICS = next(scenario for scenario in SCENARIOS if scenario.name == "baseline.atomics")


@pytest.mark.parametrize(
    ("lse", "exclusive", "outcome"),
    [
        (500, 0, Outcome.PASS),
        (28, 56, Outcome.PASS),
        (28, 56 + 1000, Outcome.FAIL),
        (0, 1000, Outcome.FAIL),
        (0, 0, Outcome.FAIL),
    ],
    ids=["in line", "helpers", "helpers beside exclusives in line", "exclusives", "none"],
)
def test_a_binary_that_runs_exclusives_on_any_processor_is_found(
    lse: int, exclusive: int, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """28 and 56: ceph-osd 18 of Debian, whose helpers are all the atomics that it has."""
    words = [LSE["casal x0, x1, [x2]"]] * lse + [EXCLUSIVE["ldaxr x0, [x1]"]] * exclusive + [OTHER["nop"]] * 10_000
    monkeypatch.setattr(atomics, "code_of", lambda content, path: content)
    node = SimpleNamespace(root=Path("/"), read=lambda path: code(*words))
    cluster = SimpleNamespace(spec=SimpleNamespace(archs=(Arch.AARCH64,)), host_with=lambda arch: node)
    verdict = verdict_of(ATOMICS, cluster)
    assert verdict.outcome is outcome
    if outcome is Outcome.FAIL:
        assert verdict.reason.startswith("usr/bin/ceph-osd uses LSE atomics: got False")


def test_only_programs_of_aarch64_are_counted() -> None:
    with pytest.raises(LabBroken, match="not an ELF file"):
        atomics.code_of(b"#!/bin/sh", "x")
    own = Path("/proc/self/exe").read_bytes()
    if struct.unpack_from("<H", own, 18)[0] != 183:
        with pytest.raises(LabBroken, match="not an aarch64 program"):
            atomics.code_of(own, "x")


# The suite


def test_only_hardware_scenarios_need_hardware() -> None:
    needing = {scenario.name for scenario in SCENARIOS if Capability.HARDWARE in scenario.needs}
    assert needing == {"baseline.memory", "baseline.pcie-links", "baseline.firmware", "baseline.numa"}


def stage(lab: str, home: Path, profile: str = "") -> Stage:
    spec = SimpleNamespace(nodes=(Node("n2", Arch.AARCH64, mon=True),))
    cluster = SimpleNamespace(provider=provider(lab), spec=spec, run=Run(RunId("one"), home / "runs" / "one"))
    return Stage(cast("Any", cluster), cast("Any", None), Random(1), home, profile=profile)


def host(arch: Arch = Arch.AARCH64, *, emulated: bool = False) -> Host:
    return cast("Host", SimpleNamespace(name="n2", emulated=emulated, arch=arch))


def test_an_emulated_nodes_speed_has_no_limit(tmp_path: Path) -> None:
    bound = speed(stage("ssh", tmp_path, "ampere-altra-4n"), host(emulated=True), SYNC_WRITES)
    assert (bound.least, bound.most) == (None, None)
    assert "emulated" in bound.why


def test_a_lab_is_shown_beside_a_profile_and_machines_are_held_against_it(tmp_path: Path) -> None:
    lab = speed(stage("local", tmp_path, "ampere-altra-4n"), host(), SYNC_WRITES)
    assert (lab.least, lab.most) == (None, None)
    assert "50000" in lab.why
    assert speed(stage("ssh", tmp_path, "ampere-altra-4n"), host(), SYNC_WRITES).least == pytest.approx(25000)
    slow = speed(stage("ssh", tmp_path, "ampere-altra-4n"), host(), SYNC_LATENCY)
    assert slow.least is None
    assert slow.most == pytest.approx(0.04)


def test_an_osds_memory_is_held_to_its_share_of_a_profiles_machine(tmp_path: Path) -> None:
    """128 GiB, three OSDs: 0.7 of a third, and a fifth more."""
    real = osd_memory(stage("ssh", tmp_path, "ampere-altra-4n"), host())
    assert real.most == pytest.approx(128 * 1024 * 0.7 / 3 * 1.2, rel=0.01)
    lab = osd_memory(stage("local", tmp_path, "ampere-altra-4n"), host())
    assert (lab.most, "not one of its machines" in lab.why) == (None, True)
    assert osd_memory(stage("ssh", tmp_path), host()).most is None
    assert osd_memory(stage("ssh", tmp_path, "ampere-altra-4n"), host(emulated=True)).most is None
    assert "has no OSDs on" in osd_memory(stage("ssh", tmp_path, "ampere-altra-4n"), host(Arch.X86_64)).why


def test_this_machine_is_held_against_its_own_profile_only_where_the_lab_shares_it(tmp_path: Path) -> None:
    profile = replace(find_profile("ampere-altra-4n", tmp_path), name=THIS_MACHINE)
    assert are_machines_of(provider("local"), profile)
    assert not are_machines_of(provider("qemu"), profile)
    assert not are_machines_of(provider("ssh"), profile)


def test_what_a_profile_does_not_have_is_said(tmp_path: Path) -> None:
    assert "has no such figure" in speed(stage("ssh", tmp_path, "ampere-altra-4n"), host(), CHECKSUM).why
    assert "has no such figure" in speed(stage("ssh", tmp_path, "ampere-altra-4n"), host(Arch.X86_64), SYNC_WRITES).why
    assert "no profile" in speed(stage("ssh", tmp_path), host(), SYNC_WRITES).why
