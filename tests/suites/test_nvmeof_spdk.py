"""The scenarios over an attached cluster's gateways: their API answers on loopback, machines are what a test says."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import NotReached, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.blockstack import spdk as gateways
from cephlab.lab.blockstack.gatewayapi import GatewayApi
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.attach.discover import Census, DaemonRecord
from cephlab.lab.cluster.attach.guard import Existing, Guard
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.history import operations
from cephlab.lab.history.history import Recorder, data_of
from cephlab.lab.history.operations import Act, Ended, Operation
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.inventory import Inventory, Machine, NvmeofAccess, Role
from cephlab.suites.nvmeof import failover, faults, smallest, spdk, stand
from tests.fake_gateways import MIB, POOL, Group, serving
from tests.fake_stage import stage_of
from tests.lab.blockstack.test_nvmeof import Answering


@dataclass
class Client:
    """The machine of the initiator. Its kernel is let in where the group's list and secrets say so, or `open` does.

    deaf: it does not hear which path serves, and takes all for optimized.
    """

    group: Group
    name: str = "loader"
    user: str = "0"
    open: bool = False
    deaf: bool = False
    connected: list[tuple[str, str]] = field(default_factory=list)
    address: str = "192.0.2.9"
    arch: Arch = Arch.X86_64

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/d")

    def up(self) -> bool:
        return True

    def exists(self, _: PurePosixPath) -> bool:
        return True

    def run(self, argv: Sequence[str], **_: Any) -> Result:
        if argv[0] == "python3":  # whether a gateway takes a connection
            return Result(tuple(argv), int(bool(self.group.down)), b"", b"")
        return Result(tuple(argv), 0, self.user.encode(), b"")

    def channel(self, _argv: Sequence[str]) -> Answering:
        return Answering(self.answer)

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        if asked["do"] == "connect":
            return {"refused": self.refused(asked["options"])}
        if asked["do"] == "disconnect":
            self.connected.clear()
            return {}
        paths = [
            {"address": address, "state": "live", "controller": 2040 * number + 7, "ana": ana, "queues": 1}
            for number, (nqn, address) in enumerate(self.connected)
            for ana in ["optimized" if self.deaf or self.serves(nqn, address) else "inaccessible"]
        ]
        return {"device": "/dev/nvme0n1" if paths else "", "paths": paths, "namespaces": {}}

    def serves(self, nqn: str, address: str) -> bool:
        """Whether the gateway with this address serves the ANA group of the subsystem's first namespace."""
        subsystem = self.group.subsystems[nqn]
        server = self.group.serves[subsystem["namespaces"][1]["group"]]
        return bool(subsystem["listeners"][server][0] == address)

    def refused(self, options: dict[str, Any]) -> str:
        hosts = self.group.subsystems[options["nqn"]]["hosts"]
        key = hosts.get(options["hostnqn"])
        if not self.open and (key is None or (key and options.get("dhchap_secret") != key)):
            return "Input/output error"
        self.connected.append((options["nqn"], options["traddr"]))
        return ""


def machine(name: str, number: int, role: Role) -> Machine:
    return Machine(name, f"192.0.2.{number}", f"192.0.2.{number}", Arch.X86_64, frozenset({role}))


def daemon(name: str, number: int) -> DaemonRecord:
    return DaemonRecord(name, "", frozenset({f"192.0.2.{number}"}), "")


MACHINES = (machine("gw1", 1, Role.NVMEOF), machine("gw2", 2, Role.NVMEOF), machine("loader", 9, Role.CLIENT))
DAEMONS = (daemon("osd.0", 4), daemon("osd.1", 5), daemon("mon.a", 5), daemon("mon.b", 6))


def attached(group: Group, hosts: dict[str, Any], machines: Sequence[Machine] = MACHINES) -> AttachedCluster:
    told = SimpleNamespace(
        alive=lambda: True,
        host=hosts["loader"],
        mon=lambda prefix, **_: group.show() if prefix == "nvme-gw show" else {"blocklist": group.blocklist},
        rbd_create=lambda *_, **__: None,
        rbd_look=lambda _pool, image, _pieces: {"size": group.images[image]},
    )
    known = Inventory(Path("inventory.toml"), tuple(machines), nvmeof=NvmeofAccess(POOL))
    guard = Guard(Permit(pools=frozenset({stand.POOL})), Existing(), dict)
    census = Census("f", "tentacle", DAEMONS, {}, frozenset(), frozenset(), frozenset())
    nothing = cast("Any", SimpleNamespace(id="fake"))
    clients = {"loader": cast("Any", told)}
    ssh = SshProvider()
    return AttachedCluster(nothing, nothing, ssh, hosts, {}, census, known, "", guard, clients=clients)


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch) -> Iterator[Group]:
    """Two gateways that answer where the inventory has them, and a pool that is there."""
    shared = Group({stand.IMAGE: 16 * MIB})
    monkeypatch.setattr(pools, "pool", lambda *_, **__: nullcontext())
    monkeypatch.setattr(stand, "copies_for", lambda _: None)
    with serving(shared) as addresses:
        places = {f"192.0.2.{number}:5500": address for number, address in enumerate(addresses, 1)}
        monkeypatch.setattr(gateways, "GatewayApi", lambda address, given: GatewayApi(places[address], given))
        yield shared


def scenario(name: str) -> Scenario:
    return next(each for each in spdk.SCENARIOS if each.name == name)


def stage(cluster: AttachedCluster) -> Stage:
    return stage_of(cluster)


@pytest.mark.slow
@pytest.mark.parametrize(("lets_in", "outcome"), [(False, Outcome.PASS), (True, Outcome.FAIL)])
def test_gateways_that_let_a_stranger_in_are_found_out(group: Group, *, lets_in: bool, outcome: Outcome) -> None:
    loader = Client(group, open=lets_in)
    verdict = run_scenario(scenario("nvmeof.spdk-access"), stage(attached(group, {"loader": loader})))
    assert verdict.outcome is outcome
    assert group.subsystems == {}


@pytest.mark.slow
def test_data_goes_by_each_of_an_attached_clusters_gateways(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[str, str]] = []

    def both_ways(_: Stage, standing: stand.Stand, _way: str) -> None:
        told = {gateway.name: gateway.told()["state"] for gateway in standing.pair.gateways}
        served.append((standing.pair.serving.name, told[standing.pair.serving.name]))

    monkeypatch.setattr(smallest, "both_ways", both_ways)
    loader = Client(group)
    verdict = run_scenario(scenario("nvmeof.spdk-content"), stage(attached(group, {"loader": loader})))
    assert served == [("gw1", "optimized"), ("gw2", "optimized")]
    assert verdict.outcome is not Outcome.FAIL, verdict
    assert (group.subsystems, loader.connected) == ({}, [])


def test_a_machine_that_is_not_entered_as_root_is_a_skip(group: Group) -> None:
    cluster = attached(group, {"loader": Client(group, user="1000")})
    with pytest.raises(Unavailable, match="the user for loader of the attached cluster is not root"):
        spdk.refused(stage(cluster))
    assert group.subsystems == {}


@dataclass
class GatewayHost:
    """A gateway's machine: what was run there, in order."""

    done: list[str] = field(default_factory=list)
    entered_from: str = "192.0.2.200 50000 192.0.2.1 22"
    noticed: Callable[[str, str], None] = lambda _verb, _address: None
    name: str = "gw1"
    address: str = "192.0.2.1"
    directory: PurePosixPath = PurePosixPath("/d")  # noqa: RUF009

    def run(self, argv: Sequence[str], *, check: bool = True) -> Result:
        if argv[0] == "ip":
            self.done.append(" ".join(argv[3:]))
            self.noticed(argv[3], argv[-1])
        said = {"getent": "192.0.2.9 STREAM loader\n", "sh": self.entered_from}.get(argv[0], "")
        return Result(tuple(argv), 0, said.encode(), b"")

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath) -> SimpleNamespace:
        self.done.append(argv[-1])
        return SimpleNamespace(signal=lambda number: self.done.append(number.name))


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> tuple[GatewayHost, AttachedCluster]:
    monkeypatch.setattr(faults, "STUCK_S", 0.0)
    host, shared = GatewayHost(), Group({})
    return host, attached(shared, {"gw1": host, "loader": Client(shared)})


def test_a_gateway_is_cut_off_from_osds_first_and_undoes_it_by_itself(cut: tuple[GatewayHost, AttachedCluster]) -> None:
    host, cluster = cut
    with pytest.raises(ZeroDivisionError), faults.CutOff().broken(cluster):
        raise ZeroDivisionError
    lost = [f"blackhole 192.0.2.{number}" for number in (4, 5, 6, 9)]
    undone = "; ".join(f"ip -4 route del {address}" for address in lost)
    assert host.done == [
        f"sleep {faults.UNDONE_S}; {undone}",
        *(f"add {address}" for address in lost),
        "SIGTERM",
        *(f"del {address}" for address in lost),
    ]


def test_a_machine_that_would_lose_ssh_is_not_cut_off(cut: tuple[GatewayHost, AttachedCluster]) -> None:
    host, cluster = cut
    host.entered_from = "192.0.2.6 50000 192.0.2.1 22"
    with pytest.raises(Unavailable, match="would cut ssh to"), faults.CutOff().broken(cluster):
        pass
    assert host.done == []


def test_a_machine_with_more_than_a_gateway_is_not_cut_off() -> None:
    shared = Group({})
    both = Machine("gw1", "192.0.2.1", "192.0.2.1", Arch.X86_64, frozenset({Role.NVMEOF, Role.OSD}))
    cluster = attached(shared, {"loader": Client(shared)}, (both, *MACHINES[1:]))
    with pytest.raises(Unavailable, match="only on a machine without other roles"), faults.CutOff().broken(cluster):
        pass


@dataclass
class Load:
    """A load that was never there: a write is done before the fault, and one waits from the fault to the load's end."""

    recorder: Recorder
    done: int = 0
    verified: int = 0
    load: Any = field(default_factory=lambda: SimpleNamespace(device="/dev/nvme0n1"))
    cluster: Any = field(default_factory=lambda: SimpleNamespace(patience=1.0))

    def prepare(self) -> None: ...

    def verify(self) -> None:
        self.verified += 1

    def completed(self) -> int:
        self.done += failover.LATER
        return self.done

    @contextmanager
    def running(self) -> Iterator[None]:
        began_s = self.recorder.record("load_began").at_s
        yield
        events = self.recorder.events()
        if self.verified == 0:
            struck_s = failover.phase_s(events, "inflicting")
            before = Operation("load", "c0", 0, Act.WRITE, 0, 1, began_s - 0.002, began_s - 0.001, Ended.OK)
            held = Operation("load", "c0", 0, Act.WRITE, 0, 2, struck_s + 1e-4, events[-1].at_s, Ended.OK)
            for data in operations.pack([before, held]):
                self.recorder.record(operations.EVENT, **data)


@pytest.mark.slow
@pytest.mark.parametrize(("fenced", "deaf"), [(True, False), (False, False), (True, True)])
def test_a_gateway_that_is_cut_off_is_replaced_and_shut_out(
    group: Group, monkeypatch: pytest.MonkeyPatch, *, fenced: bool, deaf: bool
) -> None:
    """Monitors that do not shut it out, while its twin serves already, are seen; so is a path that is not given up."""
    host = GatewayHost()

    def noticed(verb: str, address: str) -> None:
        if address == "192.0.2.6":  # the last of the monitors
            (group.lose if verb == "add" else group.find)("gw1")
            group.blocklist = {"10.0.0.1:0/1": "later"} if fenced else {}

    host.noticed = noticed
    monkeypatch.setattr(faults, "STUCK_S", 0.01)
    on = stage(attached(group, {"gw1": host, "loader": Client(group, deaf=deaf)}))
    load = Load(on.recorder)
    monkeypatch.setattr(failover, "new_load", lambda *_: load)
    monkeypatch.setattr(stand, "TRANSITION_S", 0.1)
    with pytest.raises(NotReached, match="optimized paths") if deaf else nullcontext():
        failover.failed_over(on, faults.CutOff(), Arch.X86_64)
    events = on.recorder.events()
    assert CHECKS["observations"](events).outcome is (Outcome.PASS if fenced else Outcome.FAIL)
    assert witnesses(events).outcome is Outcome.PASS
    assert [data["gateway"] for data in data_of(events, "took_over")] == ["gw2"]
    assert (load.verified, group.subsystems) == (1 if deaf else 2, {})
