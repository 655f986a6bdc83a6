"""What the NVMe-oF suite says of a gap that is too long, of a stranger who is let in and of a pair as it stands."""

import re
import socket
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from itertools import count
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import NotReached
from cephlab.lab.blockstack.initiator import Connecting
from cephlab.lab.blockstack.nvmeof import tls_key_of
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.fault import EVENT
from cephlab.lab.history import operations
from cephlab.lab.history.history import Bound, History
from cephlab.lab.history.operations import Act, Ended, Operation
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, Capability
from cephlab.suites.nvmeof import (
    SCENARIOS,
    content,
    failover,
    faults,
    known,
    overhead,
    pool,
    spdk,
    stand,
    tls,
    wire_program,
)
from cephlab.suites.nvmeof.stand import INITIATOR, NODES, TOPOLOGY
from tests.fake_clock import VirtualClock
from tests.fake_stage import stage_of


def operation(version: int, act: Act, began_s: float, took_s: float) -> Operation:
    return Operation("load", "c0", 0, act, 0, version, began_s, began_s + took_s, Ended.OK)


def verdict_of(gap_s: float, took_s: float) -> Outcome:
    """Of a load that waits once, from 9.7 s on: the fault came at 10 s, and was there a second later."""
    clock = VirtualClock()
    recorder = History(clock=clock).recorder("nvmeof.topic")
    for at_s, phase in ((10.0, "inflicting"), (11.0, "broken")):
        clock.now = at_s
        recorder.record(EVENT, fault="f", target="t", nodes=[], phase=phase)
    done = [operation(1, Act.WRITE, 9.0, 0.5), operation(1, Act.READ, 9.6, 0.1), operation(2, Act.WRITE, 9.7, gap_s)]
    for data in operations.pack([*done, operation(2, Act.FINAL, 99.0, 0.1)]):
        recorder.record(operations.EVENT, **data)
    recorder.witness("load", got=1, least=1)
    failover.noticed_in_time(recorder, Connecting(keep_alive_s=4, reconnect_s=2), 11.0 + took_s)
    return CHECKS["service"](recorder.events()).outcome


@pytest.mark.parametrize(
    ("gap_s", "took_s", "outcome"),
    [
        (9.0, 1.0, Outcome.PASS),  # 1 of breaking, 6 to notice, 2 to reconnect, 0.5 as usual
        (9.8, 1.0, Outcome.FAIL),
        (9.8, 7.0, Outcome.PASS),  # the twin took longer than the keep-alive
    ],
)
def test_a_gap_is_held_to_the_settings_in_force(gap_s: float, took_s: float, outcome: Outcome) -> None:
    assert verdict_of(gap_s, took_s) is outcome


@pytest.mark.parametrize(
    ("few", "many", "osds", "outcome"),
    [
        ([4, 0, 0], [22, 21, 21], 3, Outcome.PASS),  # four PGs may be on one OSD
        ([2, 1, 1], [33, 16, 15], 3, Outcome.FAIL),
        ([2, 1, 1], [22, 21, 20], 3, Outcome.FAIL),  # a PG has no primary
        ([2, 2], [32, 32], 2, Outcome.INCONCLUSIVE),  # the limit is for three OSDs
    ],
)
def test_only_many_pgs_must_be_spread_evenly(
    monkeypatch: pytest.MonkeyPatch, few: list[int], many: list[int], osds: int, outcome: Outcome
) -> None:
    led = {pool.FEW: few, pool.MANY: many}
    created: list[int] = []

    @contextmanager
    def creating(_cluster: object, name: str, _kind: object, *, pg_num: int, options: object) -> Iterator[str]:
        created.append(pg_num)
        yield name

    def primaries(_cluster: object, _name: str) -> dict[str, int]:
        of_each = [osd for osd, count in enumerate(led[created[-1]]) for _ in range(count)]
        return {f"1.{number}": osd for number, osd in enumerate(of_each)}

    def told(_cluster: object, key: str) -> object:
        return {"pg_autoscale_mode": "off", "bulk": True, "target_size_ratio": 0.9, "pg_num": created[-1]}[key]

    monkeypatch.setattr(pool, "told", told)
    monkeypatch.setattr(pool, "pools", SimpleNamespace(pool=creating, primaries=primaries))
    stage = stage_of(SimpleNamespace(osd_ids=lambda: list(range(osds))))
    pool.spread(stage)
    assert CHECKS[pool.SCENARIOS[0].check](stage.recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("through", "outcome"),
    [
        ([3.0, 3.1, 2.9], Outcome.PASS),
        ([0.5, 0.6, 0.5], Outcome.FAIL),
        ([0.2, 1.0, 2.4], Outcome.INCONCLUSIVE),
    ],
)
def test_a_gateway_that_costs_less_than_krbd_alone_is_not_believed(through: list[float], outcome: Outcome) -> None:
    recorder = History().recorder("nvmeof.topic")
    recorder.witness("writes", got=100, least=100)
    overhead.judge(recorder, "cost", {overhead.KRBD: [1.0, 1.1, 0.9], overhead.NVMEOF: through}, Bound(least=1.0))
    assert CHECKS["figures"](recorder.events()).outcome is outcome


@pytest.mark.parametrize(
    ("fewest", "over", "beyond", "ended"),
    [
        (100, False, False, False),
        (100, True, False, True),
        (61, True, False, False),  # a busy machine: 64 and 61 writes in all of the budget left no verdict
        (61, True, True, True),
    ],
)
def test_too_few_writes_get_more_time_but_not_all_of_it(fewest: int, over: bool, beyond: bool, ended: bool) -> None:
    budget, last = (cast("Deadline", SimpleNamespace(passed=lambda past=past: past)) for past in (over, beyond))
    costs = {name: [1.0, 9.0] for name in (overhead.KRBD, overhead.NVMEOF)}
    done = {overhead.KRBD: 200.0, overhead.NVMEOF: float(fewest)}
    assert overhead.enough(done, costs, budget, last) is ended


@pytest.mark.parametrize(("ended_s", "outcome"), [(20.0, Outcome.PASS), (10.5, Outcome.INCONCLUSIVE)])
def test_a_gateway_that_held_no_write_shows_nothing_of_fencing(ended_s: float, outcome: Outcome) -> None:
    recorder = History().recorder("nvmeof.topic")
    recorder.record(EVENT, fault="f", target="t", nodes=[], phase="broken")
    moment_s = failover.phase_s(recorder.events(), "broken")
    held = [operation(1, Act.WRITE, moment_s - 1, ended_s - 10), operation(2, Act.READ, moment_s - 1, 9.0)]
    for data in operations.pack(held):
        recorder.record(operations.EVENT, **data)
    failover.held_writes(recorder)
    assert witnesses(recorder.events()).outcome is outcome


@dataclass
class Wires:
    """A lab and a machine of it: what was done to either, in order."""

    done: list[str] = field(default_factory=list)

    def disconnect(self, name: str) -> None:
        self.done.append(f"disconnect {name}")

    def connect(self, name: str) -> None:
        self.done.append(f"connect {name}")

    def run(self, argv: Sequence[str], *, check: bool = True) -> None:
        self.done.append(" ".join(argv[2:]))


def test_an_isolated_gateway_loses_the_osds_first_and_gets_all_back(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = Wires()
    daemons = {"osd.0": SimpleNamespace(host=SimpleNamespace(address="10.0.0.9"))}
    cluster = cast("Cluster", SimpleNamespace(hosts={"c2": wires}, daemons=daemons))
    monkeypatch.setattr(faults, "own", lambda _cluster: SimpleNamespace(lab=wires))
    monkeypatch.setattr(faults, "STUCK_S", 0.0)
    with pytest.raises(ZeroDivisionError), faults.IsolateNode("c2").broken(cluster):
        raise ZeroDivisionError
    assert wires.done == ["add blackhole 10.0.0.9/32", "disconnect c2", "connect c2", "del blackhole 10.0.0.9/32"]


@pytest.mark.parametrize("fails", [False, True], ids=["all of it", "no process"])
def test_a_paused_gateway_loses_the_osds_first_and_gets_all_back(
    monkeypatch: pytest.MonkeyPatch, *, fails: bool
) -> None:
    wires = Wires()
    daemons = {"osd.0": SimpleNamespace(host=SimpleNamespace(address="10.0.0.9"))}
    cluster = cast("Cluster", SimpleNamespace(hosts={"c2": wires}, daemons=daemons))

    def suspend() -> None:
        if fails:
            raise ZeroDivisionError
        wires.done.append("suspend")

    machine = SimpleNamespace(suspend=suspend, resume=partial(wires.done.append, "resume"))
    lab = SimpleNamespace(machine_pid=lambda _node: 7)
    monkeypatch.setattr(faults, "own", lambda _cluster: SimpleNamespace(lab=lab))
    monkeypatch.setattr(faults, "psutil", SimpleNamespace(Process=lambda pid: machine))
    monkeypatch.setattr(faults, "STUCK_S", 0.0)
    with pytest.raises(ZeroDivisionError), faults.PauseMachine("c2").broken(cluster):
        raise ZeroDivisionError
    assert wires.done == [
        "add blackhole 10.0.0.9/32",
        *(() if fails else ("suspend",)),
        "resume",
        "del blackhole 10.0.0.9/32",
    ]


class Far:
    """A volume behind a gateway, the initiator's machine with a file, and librbd. mangles: what changes the data."""

    directory = PurePosixPath("/d")

    def __init__(self, mangles: str = "") -> None:
        self.mangles, self.volume, self.file = mangles, b"", b""

    def push(self, data: bytes, _file: PurePosixPath) -> None:
        self.file = data

    def run(self, argv: Sequence[str], *, timeout_s: float) -> SimpleNamespace:
        if argv[0] == "dd" and "oflag=direct" in argv:
            self.volume = self.file[:-1] if self.mangles == "write" else self.file
        elif argv[0] == "dd":
            self.file = b"" if self.mangles == "read" else self.volume
        return SimpleNamespace(stdout=f"{sha256(self.file).hexdigest()}  /d/nvmeof-piece")

    def rbd_digest(self, *_: object) -> str:
        return sha256(self.volume).hexdigest()

    def rbd_write(self, _pool: str, _image: str, data: bytes, _offset: int) -> None:
        self.volume = data


@pytest.mark.parametrize(("mangles", "outcome"), [("", Outcome.PASS), ("write", Outcome.FAIL), ("read", Outcome.FAIL)])
def test_data_that_changes_on_its_way_fails_each_scenario_of_content(
    monkeypatch: pytest.MonkeyPatch, mangles: str, outcome: Outcome
) -> None:
    far = Far(mangles)
    monkeypatch.setattr(content, "serves", lambda *_: None)
    stage = stage_of(SimpleNamespace(client=far, patience=1.0))
    topic = SimpleNamespace(initiator=SimpleNamespace(host=far), device="/dev/nvme0n1")
    content.both_ways(stage, cast("Any", topic), "a way")
    judging = {scenario.check for scenario in SCENARIOS if re.search(r"[.-](content|smallest)", scenario.name)}
    assert {CHECKS[check](stage.recorder.events()).outcome for check in judging} == {outcome}


@pytest.mark.parametrize(
    ("late_looks", "error"), [(0, nullcontext()), (2, nullcontext()), (9999, pytest.raises(NotReached, match="'a'"))]
)
def test_an_initiator_has_a_limited_time_to_learn_which_gateway_serves(
    monkeypatch: pytest.MonkeyPatch, late_looks: int, error: AbstractContextManager[None]
) -> None:
    monkeypatch.setattr(stand, "TRANSITION_S", 0.4)
    looks = count()

    def look(_volume: object) -> tuple[str, list[SimpleNamespace]]:
        old = "optimized" if next(looks) < late_looks else "inaccessible"
        return "", [SimpleNamespace(address=at, ana=ana, state="live") for at, ana in (("a", old), ("b", "optimized"))]

    pair = SimpleNamespace(serving=SimpleNamespace(address="b"))
    initiator, cluster = SimpleNamespace(look=look), SimpleNamespace(patience=1.0)
    topic = SimpleNamespace(pair=pair, initiator=initiator, cluster=cluster, volume=None)
    with error:
        stand.serves(History().recorder("nvmeof.topic"), cast("Any", topic), "now")


def test_gateways_and_initiator_have_machines_of_their_own() -> None:
    nodes = {node.name: node for node in TOPOLOGY.spec(DEFAULT_RELEASE).nodes}
    assert {arch: nodes[name].arch for arch, name in NODES.items()} == {arch: arch for arch in Arch}
    assert nodes[INITIATOR].arch is host_arch()
    assert not any(nodes[name].has_daemons for name in (INITIATOR, *NODES.values()))
    assert TOPOLOGY.made


def test_every_scenario_with_a_gateway_asks_for_a_kernel_that_has_it() -> None:
    below = {scenario.name for scenario in (*known.SCENARIOS, *pool.SCENARIOS, *spdk.SCENARIOS)}
    asking = [scenario for scenario in SCENARIOS if scenario.name not in below]
    assert all(Capability.FABRICS in scenario.needs for scenario in asking)
    for scenario in asking:
        nodes = scenario.topology.spec(DEFAULT_RELEASE).nodes
        assert [node.fabrics for node in nodes] == [not node.has_daemons for node in nodes], scenario.name
    assert any(scenario.tier is Tier.QUICK for scenario in SCENARIOS)


def pdu(kind: int, data: bytes, *, header: bytes = bytes(64)) -> bytearray:
    """One PDU of NVMe over TCP with data behind its header."""
    begin = wire_program.COMMON.size + len(header)
    head = wire_program.COMMON.pack(kind, 0, begin, begin if data else 0, begin + len(data))
    return bytearray(head + header + data)


def connecting(queue: int) -> bytearray:
    """The command by which a connection becomes a queue."""
    command = bytearray(64)
    command[0], command[4] = wire_program.FABRICS, wire_program.CONNECT
    command[42:44] = queue.to_bytes(2, "little")
    return pdu(wire_program.COMMAND, b"", header=bytes(command))


def passed(queue: int, sent: Sequence[bytearray], flips: int) -> tuple[list[bytes], dict[str, int]]:
    """What arrives behind a wire of what an initiator sends, and what the wire says that it flipped."""
    ways = {way: wire_program.Flipper(flips) for way in ("written", "read")}
    (initiator, near), (far, gateway) = socket.socketpair(), socket.socketpair()
    with initiator, gateway:
        wire_program.Connection(near, far, ways, lambda: None).start()
        with gateway.makefile("rb") as arriving:
            arrived = []
            for each in (connecting(queue), *sent):
                initiator.sendall(each)
                arrived.append(arriving.read(len(each)))
    return arrived[1:], {way: flipper.flipped for way, flipper in ways.items()}


def test_a_wire_flips_a_bit_of_every_third_piece_of_data_until_it_has_flipped_enough() -> None:
    sent = [pdu(wire_program.TO_CONTROLLER, bytes(8192)) for _ in range(9)]
    arrived, flipped = passed(1, sent, flips=2)
    wrong = [number for number, (got, whole) in enumerate(zip(arrived, sent, strict=True)) if got != bytes(whole)]
    assert (wrong, flipped) == ([0, 3], {"written": 2, "read": 0})
    assert [left ^ right for left, right in zip(arrived[0], sent[0], strict=True) if left != right] == [1]
    assert arrived[0][:72] == bytes(sent[0][:72])


def test_a_tapped_wire_passes_all_on_and_counts_a_mark_also_one_that_is_cut() -> None:
    mark = bytes(range(64))
    kind, ways = wire_program.ways_of({"marker": mark.hex()})
    (initiator, near), (far, gateway) = socket.socketpair(), socket.socketpair()
    sent = [b"not a PDU" + mark[:40], mark[40:] + bytes(9), mark, bytes(200)]
    with initiator, gateway, gateway.makefile("rb") as arriving:
        kind(near, far, ways, lambda: None).start()
        for each in sent:
            initiator.sendall(each)
            assert arriving.read(len(each)) == each
    assert wire_program.counted(ways["written"]) == {"found": 2, "passed": sum(map(len, sent))}
    assert wire_program.counted(ways["read"]) == {"found": 0, "passed": 0}


@pytest.mark.parametrize("written", ["as {key}", "{body}", "hex {hex}", "HEX {upper}"])
def test_a_key_is_found_in_a_log_however_it_is_written(written: str) -> None:
    raw = bytes(range(32))
    key = tls_key_of(raw)
    line = written.format(key=key, body=key.split(":")[2], hex=raw.hex(), upper=raw.hex().upper())
    assert any(form in line.lower() for form in tls.forms_of(key))
    assert not any(form in line.lower() for form in tls.forms_of(tls_key_of(bytes(32))))


@pytest.mark.parametrize(
    ("queue", "each"),
    [
        (0, pdu(wire_program.TO_CONTROLLER, bytes(8192))),  # of the queue for administration
        (1, pdu(wire_program.TO_CONTROLLER, bytes(512))),
        (1, pdu(wire_program.COMMAND, b"")),
        (1, pdu(9, bytes(8192))),  # "ready to transfer" carries none
    ],
)
def test_a_wire_leaves_what_is_no_data_of_blocks(queue: int, each: bytearray) -> None:
    assert passed(queue, [each], flips=9) == ([bytes(each)], {"written": 0, "read": 0})
