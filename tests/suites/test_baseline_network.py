"""Streams between machines of a profile: the slower end sets the limit, and a slow or silent pair is no pass."""

import base64
import json
import re
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.select import provider
from cephlab.lab.scenario.scenario import Scenario, Stage, run_scenario, verdict_of
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Disk, Node, Osd
from cephlab.suites.baseline import network
from cephlab.suites.baseline.rated import CHECKSUM, SEQUENTIAL, Port, speed, stream_speed
from cephlab.suites.machines import is_client
from cephlab.tuning.profilefile import SHIPPED
from tests.fake_stage import stage_of

PROFILE = "ampere-altra-4n"  # nodes: aarch64, 50 Gb/s in two links of 25 Gb/s; clients: x86_64, 25 Gb/s
NODE, LINK, CLIENT = 50_000.0, 25_000.0, 25_000.0
THROUGHPUT, CLIENTS = network.SCENARIOS[:2]


@dataclass
class Machine:
    """A host with iperf3. mbit_s: of its port; others: every machine by its address; streams: how many it began.

    own_mbit_s: of its port on the cluster network; slaves: of the bond that carries its address.
    """

    name: str
    arch: Arch
    mbit_s: float
    others: dict[str, "Machine"]
    emulated: bool = False
    at_once_mbit_s: float | None = None
    own_mbit_s: float = LINK
    answer: Callable[[str], str] = str
    streams: int = 0
    slaves: str = ""
    asked: list[list[str]] = field(default_factory=list)
    bound: list[str] = field(default_factory=list)
    root = PurePosixPath("/")
    directory = PurePosixPath("/lab")

    @property
    def address(self) -> str:
        return self.name

    def exists(self, path: PurePosixPath) -> bool:
        return True

    def read(self, path: PurePosixPath) -> bytes:
        return b"Server listening on 5201"

    def remove(self, path: PurePosixPath) -> None:
        pass

    def spawn(self, argv: list[str], log: PurePosixPath) -> SimpleNamespace:
        self.bound.append(argv[argv.index("--bind") + 1])
        return SimpleNamespace(signal=lambda number: None, wait=lambda timeout_s: True)

    def files(self, asked: dict[str, Any]) -> str:
        plain, below = asked["read"]
        assert ":" not in asked["address"]
        assert plain == "/sys/class/net/{interface}/bonding/slaves"
        assert below == "/sys/class/net/{interface}/lower_*/bonding/slaves"
        data = base64.b64encode(self.slaves.encode()).decode()
        bonds = {"/sys/class/net/vlan7/lower_bond0/bonding/slaves": {"data": data}} if self.slaves else {}
        return json.dumps({"read": {plain: {}, below: bonds if asked["address"] else {}}})

    def run(self, argv: list[str], *, check: bool = True, timeout_s: float = 0, stdin: bytes = b"") -> SimpleNamespace:
        if argv[0] == "test":
            return SimpleNamespace(code=0)
        if argv[0] == "python3":
            return SimpleNamespace(stdout=self.files(json.loads(stdin)))
        self.streams += 1
        self.asked.append(argv)
        server = self.others[argv[argv.index("--client") + 1]]
        assert argv[argv.index("--client") + 1] in server.bound
        rate = min(self.mbit_s, server.mbit_s)
        if argv[argv.index("--bind") + 1] != self.address:
            rate = min(self.own_mbit_s, server.own_mbit_s)
        with_osds = [machine for machine in self.others.values() if machine.name.startswith("n")]
        if self.streams > 2 * len(with_osds):  # both ways of each pair are over: all nodes at once
            rate = min(rate, (self.at_once_mbit_s or self.mbit_s) / len(with_osds))
        done = {"bytes": rate * 1e6 / 8, "seconds": 1.0}
        return SimpleNamespace(stdout=self.answer(json.dumps({"end": {"sum_sent": done, "sum_received": done}})))


def node(machine: Machine) -> Node:
    with_osd = {"disks": (Disk("d", 1 << 30),), "osds": (Osd("d"),)} if machine.name.startswith("n") else {}
    return Node(machine.name, machine.arch, **cast("Any", with_osd))


def machines(client: float = CLIENT, nodes: float = NODE, **of_client: Any) -> dict[str, Machine]:
    """Two nodes and a client machine of the profile, and what their ports carry in Mbit/s."""
    by_name: dict[str, Machine] = {}
    for name in ("n0", "n1"):
        by_name[name] = Machine(name, Arch.AARCH64, nodes, by_name)
    by_name["c0"] = Machine("c0", Arch.X86_64, client, by_name, **of_client)
    return by_name


def addresses(name: str) -> dict[str, Any]:
    return {"addrvec": [{"type": kind, "addr": f"[{name}]:{port}"} for kind, port in (("v2", 6800), ("v1", 6801))]}


def stage(
    home: Path, hosts: dict[str, Machine], own: Mapping[str, str] = {}, *, lab: str = "ssh", profile: str = PROFILE
) -> Stage:
    """own: machine -> its address on a cluster network."""
    osds = [(number, name) for number, name in enumerate(name for name in hosts if name.startswith("n"))]
    dump = [
        {"osd": number, "up": 1, "public_addrs": addresses(name), "cluster_addrs": addresses(own.get(name, name))}
        for number, name in osds
    ]
    cluster = SimpleNamespace(
        name="fake",
        client=SimpleNamespace(mon=lambda command: {"osds": dump} if command == "osd dump" else None),
        host_of=lambda daemon: hosts[dict(osds)[int(daemon[4:])]],
        hosts=hosts,
        spec=SimpleNamespace(nodes=tuple(map(node, hosts.values()))),
        provider=provider(lab),
        run=Run(RunId("one"), home / "runs" / "one"),
        patience=1.0,
    )
    return replace(stage_of(cluster), profile=profile)


def verdict(scenario: Scenario, on: Stage) -> Verdict:
    """The verdict as a run makes it: also of what a broken lab ended."""
    with suppress(LabBroken):
        run_scenario(scenario, on)
    return verdict_of(on.recorder.events())


def limits(on: Stage) -> dict[str, float | None]:
    return {event.data["metric"]: event.data["least"] for event in on.recorder.events() if event.kind == "figure"}


def host(machine: Machine) -> Host:
    return cast("Host", machine)


def port(machine: Machine, *, bonded: bool = False) -> Port:
    return Port(host(machine), machine.address, bonded)


def test_a_client_with_a_slower_port_than_the_nodes_is_held_to_its_own_rate(tmp_path: Path) -> None:
    on = stage(tmp_path, machines(client=0.6 * CLIENT))
    assert verdict(CLIENTS, on).outcome is Outcome.PASS
    assert set(limits(on).values()) == {CLIENT / 2}
    assert len(limits(on)) == 5


def test_a_client_at_a_tenth_of_its_rate_is_found(tmp_path: Path) -> None:
    slow = verdict(CLIENTS, stage(tmp_path, machines(client=CLIENT / 10)))
    assert slow.outcome is Outcome.FAIL
    assert slow.reason.startswith("c0 to n0: TCP, one stream: 2,500 Mbit/s; at least 12,500 Mbit/s wanted: " + PROFILE)


def test_a_node_at_a_tenth_of_its_rate_is_found_from_a_client(tmp_path: Path) -> None:
    hosts = machines()
    hosts["n1"].mbit_s = NODE / 10
    slow = verdict(CLIENTS, stage(tmp_path, hosts))
    assert (slow.outcome, slow.reason[:8]) == (Outcome.FAIL, "c0 to n1")


def test_a_client_that_is_slow_only_with_all_nodes_at_once_is_found(tmp_path: Path) -> None:
    slow = verdict(CLIENTS, stage(tmp_path, machines(at_once_mbit_s=CLIENT / 10)))
    assert slow.outcome is Outcome.FAIL
    assert slow.reason.startswith("all nodes to c0 at once: TCP, one stream each: 2,500 Mbit/s; at least 12,500")


def test_both_ways_of_each_pair_are_run_and_then_all_at_once(tmp_path: Path) -> None:
    on = stage(tmp_path, hosts := machines())
    verdict(CLIENTS, on)
    way = [("--reverse" in argv, argv[argv.index("--client") + 1]) for argv in hosts["c0"].asked]
    assert way[:4] == [(False, "n0"), (True, "n0"), (False, "n1"), (True, "n1")]
    assert sorted(way[4:]) == [(True, "n0"), (True, "n1")]


@pytest.mark.parametrize(
    "answer",
    [
        lambda text: json.dumps({"error": "unable to connect to server"}),
        lambda text: "",
        lambda text: text.replace('"bytes": 3125000000.0', '"bytes": 0'),
    ],
    ids=["refused", "silent", "empty"],
)
def test_a_pair_without_a_measurement_is_no_pass(tmp_path: Path, answer: Callable[[str], str]) -> None:
    assert verdict(CLIENTS, stage(tmp_path, machines(), profile="")).outcome is Outcome.PASS
    assert verdict(CLIENTS, stage(tmp_path, machines(answer=answer), profile="")).outcome is Outcome.INCONCLUSIVE


def test_a_cluster_without_a_client_machine_is_no_pass(tmp_path: Path) -> None:
    hosts = machines()
    del hosts["c0"]
    assert verdict(CLIENTS, stage(tmp_path, hosts)).outcome is Outcome.INCONCLUSIVE


def test_any_two_machines_are_held_to_the_slower_one(tmp_path: Path) -> None:
    """On an attached cluster the client machines are among the hosts, in either place of a pair."""
    on = stage(tmp_path, machines())
    assert verdict(THROUGHPUT, on).outcome is Outcome.PASS
    least_of_pair = {title.removesuffix(": TCP, one stream"): least for title, least in limits(on).items()}
    between_nodes = {"n0 to n1": LINK / 2, "n1 to n0": LINK / 2}
    assert least_of_pair == between_nodes | {
        f"{sender} to {receiver}": CLIENT / 2
        for sender, receiver in (("n0", "c0"), ("c0", "n0"), ("n1", "c0"), ("c0", "n1"))
    }


def test_a_stream_over_a_bond_is_held_to_one_of_its_links(tmp_path: Path) -> None:
    """At 94 % of one link it was below half of both."""
    assert verdict(THROUGHPUT, stage(tmp_path, machines(nodes=0.94 * LINK))).outcome is Outcome.PASS
    slow = verdict(THROUGHPUT, stage(tmp_path, machines(nodes=0.4 * LINK)))
    assert slow.reason.startswith("n0 to n1: TCP, one stream: 10,000 Mbit/s; at least 12,500 Mbit/s wanted: " + PROFILE)


def test_a_bond_of_which_the_profile_says_no_link_has_no_limit_for_one_stream(tmp_path: Path) -> None:
    text = re.sub("^link_bandwidth.*$", "", (SHIPPED / f"{PROFILE}.toml").read_text(), flags=re.MULTILINE)
    (tmp_path / "sum.toml").write_text(text.replace(PROFILE, "sum", 1))
    hosts = machines(nodes=0.4 * NODE)
    assert verdict(THROUGHPUT, stage(tmp_path, hosts, profile=str(tmp_path / "sum.toml"))).outcome is Outcome.FAIL
    hosts["n0"].slaves = hosts["n1"].slaves = "eth0 eth1\n"
    on = stage(tmp_path, hosts, profile=str(tmp_path / "sum.toml"))
    assert verdict(THROUGHPUT, on).outcome is Outcome.PASS
    why = {event.data["metric"]: event.data["why"] for event in on.recorder.events() if event.kind == "figure"}
    assert why["n0 to n1: TCP, one stream"] == "sum has no link_bandwidth, of one link of a bond, for n0 (aarch64)"
    several = [port(replace(hosts["c0"], name=f"c{number}")) for number in range(3)]
    assert stream_speed(on, several, port(hosts["n0"], bonded=True)).least == NODE / 2


def test_a_cluster_network_is_measured_between_its_own_addresses(tmp_path: Path) -> None:
    hosts, own = machines(), {"n0": "fd00::10", "n1": "192.0.2.11"}
    hosts |= {own[name]: hosts[name] for name in own}
    profile = narrow_between_osds(tmp_path)
    on = stage(tmp_path, {name: hosts[name] for name in ("n0", "n1", "c0")}, own, profile=profile)
    for machine in list(hosts.values()):
        machine.others = hosts
    assert verdict(THROUGHPUT, on).outcome is Outcome.PASS
    over = {title: least for title, least in limits(on).items() if network.CLUSTER_NETWORK in title}
    assert over == {f"{way} over the cluster network: TCP, one stream": 5000 for way in ("n0 to n1", "n1 to n0")}
    assert len(limits(on)) == 8
    asked = [argv for argv in hosts["n0"].asked if own["n0"] in argv]
    assert [(argv[argv.index("--client") + 1], argv[argv.index("--bind") + 1]) for argv in asked] == [
        (own["n1"], own["n0"])
    ] * 2
    hosts["n1"].own_mbit_s = LINK / 10
    slow = verdict(THROUGHPUT, on)
    assert slow.reason.startswith("n0 to n1 over the cluster network: TCP, one stream: 2,500 Mbit/s; at least 5,000")


def narrow_between_osds(folder: Path) -> str:
    narrow = 'cluster_bandwidth = { value = "10 Gb/s", source = "own links" }\nbandwidth ='
    text = re.sub("^bandwidth =", narrow, (SHIPPED / f"{PROFILE}.toml").read_text(), count=1, flags=re.MULTILINE)
    (folder / "own.toml").write_text(text.replace(PROFILE, "own", 1))
    return str(folder / "own.toml")


def test_a_cluster_network_is_held_to_its_own_links(tmp_path: Path) -> None:
    hosts = machines()
    on, ends = stage(tmp_path, hosts, profile=narrow_between_osds(tmp_path)), ([port(hosts["n0"])], port(hosts["n1"]))
    assert stream_speed(on, *ends, between_osds=True).least == 5000
    assert stream_speed(on, *ends).least == LINK / 2


def test_an_osd_that_is_down_tells_no_address(tmp_path: Path) -> None:
    on = stage(tmp_path, machines(), {"n0": "192.0.2.10", "n1": "192.0.2.11"})
    on.cluster.client.mon("osd dump")["osds"][1] |= {"up": 0, "cluster_addrs": {"addrvec": []}}
    assert network.osd_addresses(on.cluster) == {"n0": "192.0.2.10"}


def test_senders_that_are_slower_together_than_the_receiver_set_the_limit(tmp_path: Path) -> None:
    hosts = machines()
    on = stage(tmp_path, hosts)
    several = [port(replace(hosts["c0"], name=f"c{number}")) for number in range(3)]
    assert stream_speed(on, several[:1], port(hosts["n0"])).least == CLIENT / 2
    assert stream_speed(on, several, port(hosts["n0"])).least == NODE / 2


def test_an_uplink_between_clients_and_nodes_sets_the_limit_of_both_alone(tmp_path: Path) -> None:
    narrow = (SHIPPED / f"{PROFILE}.toml").read_text().replace(PROFILE, "narrow", 1)
    (tmp_path / "narrow.toml").write_text(
        narrow.replace("[network]", '[network]\nuplink = { value = "10 Gb/s", source = "a switch" }')
    )
    hosts = machines()
    on = stage(tmp_path, hosts, profile=str(tmp_path / "narrow.toml"))
    assert stream_speed(on, [port(hosts["c0"])], port(hosts["n0"])).least == 5000
    assert stream_speed(on, [port(hosts["n1"])], port(hosts["n0"])).least == LINK / 2


def test_without_a_figure_of_either_end_there_is_no_limit_and_why_is_said(tmp_path: Path) -> None:
    hosts = machines()
    strange = port(replace(hosts["c0"], arch=Arch.AARCH64))
    emulated = port(replace(hosts["c0"], emulated=True))
    for ends in (([strange], port(hosts["n0"])), ([port(hosts["n0"])], strange)):
        bound = stream_speed(stage(tmp_path, hosts), *ends)
        assert (bound.judges, bound.why) == (False, f"{PROFILE} has no such figure for c0 (aarch64)")
    assert "emulated" in stream_speed(stage(tmp_path, hosts), [port(hosts["n0"]), emulated], port(hosts["n1"])).why
    elsewhere = stream_speed(stage(tmp_path, hosts, lab="local"), [port(hosts["n0"])], port(hosts["c0"]))
    assert (elsewhere.judges, "25000 [" in elsewhere.why) == (False, True)


def test_a_client_has_no_other_figures_of_the_nodes_either(tmp_path: Path) -> None:
    hosts = machines()
    arm = replace(hosts["c0"], arch=Arch.AARCH64)
    on = stage(tmp_path, hosts)
    for rating in (SEQUENTIAL["read"], CHECKSUM):
        assert not speed(on, host(arm), rating).judges
    assert speed(on, host(hosts["n0"]), SEQUENTIAL["read"]).judges


def test_where_the_load_runs_on_nodes_a_client_is_held_to_a_nodes_figures(tmp_path: Path) -> None:
    on = stage(tmp_path, hosts := machines(), profile="ci-hosted-x86")
    assert stream_speed(on, [port(hosts["c0"])], port(replace(hosts["c0"], name="c1"))).least == 20_000


def test_a_client_machine_is_one_without_daemons_and_of_that_role() -> None:
    hosts = machines()
    spec = SimpleNamespace(nodes=tuple(map(node, hosts.values())))
    assert [name for name in hosts if is_client(cast("Any", SimpleNamespace(spec=spec)), name)] == ["c0"]
    attached = object.__new__(AttachedCluster)
    attached.spec = cast("Any", spec)
    for roles, clients in ((["n0", "c0"], ["c0"]), (["n0"], [])):
        attached.inventory = cast(
            "Any",
            SimpleNamespace(with_role=lambda _, roles=roles: [SimpleNamespace(name=name) for name in roles]),
        )
        assert [name for name in hosts if is_client(attached, name)] == clients


@pytest.mark.parametrize(("lost", "outcome"), [("0 1", Outcome.PASS), ("0 2", Outcome.FAIL)])
def test_a_link_that_loses_datagrams_is_red_and_one_late_answer_is_not(lost: str, outcome: Outcome) -> None:
    def host(name: str) -> SimpleNamespace:
        channel = SimpleNamespace(close=lambda: None, ask=lambda _line, timeout_s: b"7")
        run = lambda argv, timeout_s: SimpleNamespace(stdout=lost[: len(argv[5:]) - 1])  # noqa: E731
        return SimpleNamespace(name=name, address=name, channel=lambda _argv: channel, run=run)

    hosts = {name: host(name) for name in ("n0", "n1", "n2")}
    stage = stage_of(SimpleNamespace(hosts=hosts, patience=1.0))
    network.observe_losses(stage)
    assert CHECKS["observations"](stage.recorder.events()).outcome is outcome


@pytest.mark.slow
def test_the_programs_count_the_datagrams_that_get_no_answer() -> None:
    with subprocess.Popen(
        [sys.executable, "-u", "-c", network._ECHO, "127.0.0.1"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as echo:
        assert echo.stdin
        assert echo.stdout
        echo.stdin.write(b"port\n")
        echo.stdin.flush()
        port = echo.stdout.readline().decode().strip()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
            silent.bind(("127.0.0.1", 0))
            ends = ["127.0.0.1", port, "127.0.0.1", str(silent.getsockname()[1])]
            argv = [sys.executable, "-c", network._ASK, "0.2", "20", *ends]
            assert subprocess.run(argv, capture_output=True, check=True).stdout.split() == [b"0", b"4"]
        echo.kill()
