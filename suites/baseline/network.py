"""The network between every two nodes: TCP throughput by iperf3, and unfragmented datagrams as large as the MTU."""

import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations, product
from pathlib import PurePosixPath
from signal import SIGKILL
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Bound
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.tunables.machine import Machine
from cephlab.suites.baseline.rated import Port, stream_speed
from cephlab.suites.machines import is_client

PORT = 5201  # iperf3's own
SECONDS: Mapping[Tier, int] = {Tier.QUICK: 1, Tier.FULL: 10}
CLUSTER_NETWORK = " over the cluster network"
LEAST_BYTES = MIB
"""About a second at 10 Mbit/s. Fewer bytes mean that nothing flowed."""

_START_S = 20.0
_UDP_HEADERS = 28
_LARGEST_DATAGRAM = 65507

# argv: address. Answers the first line with its port, and every further line with the size of the next datagram.
_RECEIVE = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as inbox:
    inbox.bind((sys.argv[1], 0))
    inbox.settimeout(5)
    for number, _ in enumerate(sys.stdin):
        try:
            print(len(inbox.recv(65536)) if number else inbox.getsockname()[1], flush=True)
        except TimeoutError:
            print(0, flush=True)
"""

# argv: address, port and size, repeated. Sends a datagram that must not be fragmented to each; prints a word for each.
_SEND = """
import errno, socket, sys
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
    out.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
    for address, port, size in zip(*[iter(sys.argv[1:])] * 3):
        try:
            out.sendto(bytes(int(size)), (address, int(port)))
            print("sent")
        except OSError as error:
            print(errno.errorcode[error.errno])
"""

# argv: address. Answers the first line with its port, and sends back every datagram.
_ECHO = """
import socket, sys
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
    box.bind((sys.argv[1], 0))
    sys.stdin.readline()
    print(box.getsockname()[1], flush=True)
    while True:
        box.sendto(*box.recvfrom(100))
"""

# argv: seconds for an answer, number of datagrams; address and port, repeated. Prints how many got none, for each.
_ASK = """
import socket, sys
for address, port in zip(*[iter(sys.argv[3:])] * 2):
    lost = 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as box:
        box.settimeout(float(sys.argv[1]))
        for number in range(int(sys.argv[2])):
            box.sendto(b"%d" % number, (address, int(port)))
            try:
                while int(box.recv(100)) != number:
                    pass
            except TimeoutError:
                lost += 1
                if lost > 3:
                    break
    print(lost)
"""
_ANSWER_S, _EXCHANGES, _SPARE = 1.0, 500, 1
"""A link that loses 1 % of packets loses 10 in so many exchanges. An answer takes a millisecond, emulated ones too."""


@dataclass(frozen=True)
class TcpStream:
    """One TCP stream. seconds: at the receiver; retransmits: None if the sender's kernel does not report them."""

    received_bytes: int
    seconds: float
    retransmits: int | None

    @property
    def mbit_s(self) -> float:
        return self.received_bytes * 8 / self.seconds / 1e6


def run_throughput(stage: Stage) -> None:
    """Run one stream between every two nodes, both ways, and between the OSDs' own addresses if they have any."""
    cluster = stage.cluster
    for host in cluster.hosts.values():
        require_iperf(host)
    between_osds = osd_addresses(cluster)
    own = [(cluster.hosts[name], address) for name, address in between_osds.items()]
    for via, known in (("", [(host, host.address) for host in cluster.hosts.values()]), (CLUSTER_NETWORK, own)):
        for left, right in combinations([port_of(host, address) for host, address in known], 2):
            for reverse in (False, True):
                sender, receiver = (right, left) if reverse else (left, right)
                ends = {"sender": sender.host.name, "receiver": receiver.host.name}
                flow = stream(cluster, left, right, SECONDS[stage.tier], reverse=reverse)
                stage.recorder.record("flow", **ends, via=via.strip(), retransmits=flow.retransmits)
                limit = stream_speed(stage, [sender], receiver, between_osds=bool(via))
                title = f"{sender.host.name} to {receiver.host.name}{via}: TCP, one stream"
                note_flow(stage, title, flow.received_bytes, flow.mbit_s, limit)


def osd_addresses(cluster: Cluster) -> dict[str, str]:
    """Machine -> its address on a cluster network: what its OSDs tell each other, if it is not what clients use."""
    addresses: dict[str, str] = {}
    for osd in cluster.client.mon("osd dump")["osds"]:
        public, own = (_addresses(osd[key]) for key in ("public_addrs", "cluster_addrs"))
        if osd["up"] and not public & own:
            addresses[cluster.host_of(f"osd.{osd['osd']}").name] = min(own)
    return addresses


def _addresses(known: Mapping[str, Any]) -> set[str]:
    """IP addresses of `{addrvec: [{addr: IP:PORT, ...}, ...]}`; those of IPv6 are in brackets."""
    return {entry["addr"].rpartition(":")[0].strip("[]") for entry in known["addrvec"]}


def port_of(host: Host, address: str) -> Port:
    """A host on a network. An IPv6 address is not looked for on its interfaces."""
    patterns = [f"/sys/class/net/{{interface}}/{below}bonding/slaves" for below in ("", "lower_*/")]
    machine = Machine(host.name, host, "" if ":" in address else address)
    contents = [content for files in machine.read(patterns).values() for content in files.values()]
    return Port(host, address, any(isinstance(content, bytes) and len(content.split()) > 1 for content in contents))


def run_clients(stage: Stage) -> None:
    """Run one stream between each client machine and each node, both ways, then from all nodes at once to a client."""
    cluster = stage.cluster
    for host in cluster.hosts.values():
        require_iperf(host)
    hosts = cluster.hosts
    nodes = [port_of(hosts[node.name], hosts[node.name].address) for node in cluster.spec.nodes if node.osds]
    for client in (port_of(host, host.address) for name, host in hosts.items() if is_client(cluster, name)):
        for node, reverse in product(nodes, (False, True)):
            sender, receiver = (node, client) if reverse else (client, node)
            flow = stream(cluster, client, node, SECONDS[stage.tier], reverse=reverse)
            title = f"{sender.host.name} to {receiver.host.name}: TCP, one stream"
            note_flow(stage, title, flow.received_bytes, flow.mbit_s, stream_speed(stage, [sender], receiver))
        with Workers(max_workers=len(nodes), thread_name_prefix="iperf") as workers:
            sent = partial(stream, cluster, client, seconds=SECONDS[stage.tier], reverse=True)
            flows = list(workers.map(sent, nodes))
        received = min(flow.received_bytes for flow in flows)
        title = f"all nodes to {client.host.name} at once: TCP, one stream each"
        note_flow(stage, title, received, sum(flow.mbit_s for flow in flows), stream_speed(stage, nodes, client))


def note_flow(stage: Stage, title: str, received_bytes: int, mbit_s: float, limit: Bound) -> None:
    """Witness that every stream carried data, and record the rate. received_bytes: of the stream with the fewest."""
    stage.recorder.witness(f"{title}: bytes received", got=received_bytes, least=LEAST_BYTES)
    stage.recorder.figure(title, mbit_s, "Mbit/s", limit)


def require_iperf(host: Host) -> None:
    """Raise Unavailable if the image has no iperf3."""
    path = host.root / "usr/bin/iperf3"
    if host.run(["test", "-e", str(path)], check=False).code != 0:
        raise Unavailable("the image has no iperf3", f"looked for {path} on {host.name}", "build the image again")


def stream(cluster: Cluster, client: Port, server: Port, seconds: int, *, reverse: bool) -> TcpStream:
    """Run iperf3 from client to server. reverse: the server sends."""
    with serving(cluster, server):
        argv = ["iperf3", "--client", server.address, "--port", str(PORT), "--bind", client.address]
        argv += ["--time", str(seconds), "--json", *(["--reverse"] if reverse else [])]
        result = client.host.run(argv, timeout_s=seconds + _START_S * cluster.patience, check=False)
    return parse_flow(result.stdout, f"between {client.host.name} and {server.host.name}")


@contextmanager
def serving(cluster: Cluster, port: Port) -> Iterator[None]:
    """Run a server for one test on a host. It is killed afterwards."""
    host = port.host
    log: PurePosixPath = host.directory / "iperf3.log"
    host.remove(log)
    argv = ["iperf3", "--server", "--one-off", "--bind", port.address, "--port", str(PORT), "--forceflush"]
    process = host.spawn(argv, log=log)
    try:
        clock.wait(
            lambda: host.read(log).decode(errors="replace") if host.exists(log) else "",
            lambda text: "listening" in text,
            what=f"iperf3 on {host.name}",
            timeout_s=_START_S * cluster.patience,
            timed_out=lambda what, timeout_s, last: LabBroken(f"{what} does not listen in time", last),
        )
        yield
    finally:
        process.signal(SIGKILL)
        process.wait(_START_S)


def parse_flow(text: str, where: str) -> TcpStream:
    """Read the output of `iperf3 --json`. LabBroken with iperf3's own error if it failed."""
    try:
        report: dict[str, Any] = json.loads(text)
        if "error" in report:
            raise LabBroken(f"iperf3 failed {where}", str(report["error"]))
        sent, received = report["end"]["sum_sent"], report["end"]["sum_received"]
        return TcpStream(
            received_bytes=int(received["bytes"]),
            seconds=float(received["seconds"]),
            retransmits=sent.get("retransmits"),
        )
    except (json.JSONDecodeError, KeyError) as error:
        raise LabBroken(f"iperf3 printed no result {where}", text[-2000:]) from error


def run_mtu(stage: Stage) -> None:
    """Observe that all nodes have the same MTU, and that a datagram of that size arrives whole at every other node."""
    cluster = stage.cluster
    mtus = {host.name: mtu_of(host) for host in cluster.hosts.values()}
    for name, mtu in mtus.items():
        stage.recorder.observe(f"MTU of {name}", got=mtu, wanted=next(iter(mtus.values())))
    with inboxes(cluster) as ready:
        arrived = [deliver(stage, sender, ready, mtus) for sender in cluster.hosts.values()]
    stage.recorder.witness("datagrams that arrived", got=sum(arrived), least=1)
    observe_losses(stage)


def observe_losses(stage: Stage) -> None:
    """Exchange small datagrams between every two nodes, one after the other, so that no queue is ever full."""
    cluster = stage.cluster
    hosts = list(cluster.hosts.values())
    with ExitStack() as stack:
        ports = {}
        for host in hosts:
            channel = host.channel(["python3", "-u", "-c", _ECHO, host.address])
            stack.callback(channel.close)
            ports[host.name] = channel.ask(b"port", timeout_s=_START_S * cluster.patience).decode()
        for sender, *others in (hosts[number:] for number in range(len(hosts) - 1)):
            words = [word for host in others for word in (host.address, ports[host.name])]
            argv = ["python3", "-c", _ASK, str(_ANSWER_S * cluster.patience), str(_EXCHANGES), *words]
            lost = sender.run(argv, timeout_s=_START_S * cluster.patience).stdout.split()
            for host, count in zip(others, lost, strict=True):
                title = f"exchanges of datagrams between {sender.name} and {host.name} beyond {_SPARE} that lost one"
                stage.recorder.observe(title, got=max(0, int(count) - _SPARE), wanted=0, of=_EXCHANGES)


def mtu_of(host: Host) -> int:
    """The MTU of the interface with the host's address. Unavailable if the host does not show it."""
    pattern = "/sys/class/net/{interface}/mtu"
    for content in Machine(host.name, host, host.address).read([pattern])[pattern].values():
        if isinstance(content, bytes):
            return int(content)
    raise Unavailable(f"{host.name} does not show the MTU of {host.address}", pattern)


def largest_datagram(mtu: int) -> int:
    """The UDP payload that fills a packet: the MTU less the headers of IPv4 and UDP."""
    return min(_LARGEST_DATAGRAM, mtu - _UDP_HEADERS)


@contextmanager
def inboxes(cluster: Cluster) -> Iterator[Mapping[str, tuple[Channel, str]]]:
    """A socket on every host that reports the sizes of datagrams: host -> (channel, port)."""
    ready: dict[str, tuple[Channel, str]] = {}
    with ExitStack() as stack:
        for host in cluster.hosts.values():
            channel = host.channel(["python3", "-u", "-c", _RECEIVE, host.address])
            stack.callback(channel.close)
            ready[host.name] = (channel, channel.ask(b"port", timeout_s=_START_S * cluster.patience).decode())
        yield ready


def deliver(stage: Stage, sender: Host, ready: Mapping[str, tuple[Channel, str]], mtus: Mapping[str, int]) -> int:
    """Send every other host a datagram that must not be fragmented. Returns how many arrived."""
    timeout_s = _START_S * stage.cluster.patience
    others = [host for host in stage.cluster.hosts.values() if host is not sender]
    sizes = [largest_datagram(min(mtus[sender.name], mtus[host.name])) for host in others]
    words = [
        word
        for host, size in zip(others, sizes, strict=True)
        for word in (host.address, ready[host.name][1], str(size))
    ]
    answers = sender.run(["python3", "-c", _SEND, *words], timeout_s=timeout_s).stdout.split()
    arrived = 0
    for host, size, answer in zip(others, sizes, answers, strict=True):
        received = int(ready[host.name][0].ask(b"size", timeout_s=timeout_s)) if answer == "sent" else 0
        arrived += received > 0
        title = f"{size} bytes from {sender.name} to {host.name}, unfragmented"
        stage.recorder.observe(title, got=[answer, received], wanted=["sent", size])
    return arrived


SCENARIOS = (
    Scenario(
        name="baseline.network-throughput",
        goal="Any two nodes exchange data in both directions at the profile's rate, if a profile states one.",
        method="Runs one TCP stream of iperf3 between every two nodes in both directions, one after the other; and "
        "again between the addresses of OSDs on a cluster network, if the cluster has one.",
        run=run_throughput,
        topology=ANY_ARCH,
        check="figures",
        sees=(".* to .*: TCP, one stream",),
    ),
    Scenario(
        name="baseline.network-clients",
        goal="A client machine exchanges data with single nodes, and receives from all at once, at the profile's rate, "
        "if a profile states one.",
        method="Runs one TCP stream of iperf3 between each client machine and each node with OSDs, in both directions; "
        "then from all these nodes at once to each client machine.",
        run=run_clients,
        check="figures",
        tier=Tier.FULL,
        topology=replace(ANY_ARCH, lone_client=True),
        sees=(".* to .*: TCP, one stream", "all nodes to .* at once: .*"),
    ),
    Scenario(
        name="baseline.network-mtu",
        goal="All nodes have the same MTU, and the network carries packets of that size between any two and "
        "loses none.",
        method="Reads each node's MTU; sends a datagram that fills it and must not be fragmented from every node to "
        f"every other; exchanges {_EXCHANGES} small datagrams between every two, one after the other.",
        run=run_mtu,
        topology=ANY_ARCH,
        sees=("MTU of .*",),
        check="witnessed",
    ),
)
