"""Forty-eight images behind one gateway for six clients: every image is served, and no client gets another's data.

Each client runs one fio with a thread for each of its images, one request in flight, at a rate that a small machine
can keep up with.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.workers import Workers
from cephlab.lab.blockstack.initiator import Connecting, Initiator
from cephlab.lab.blockstack.nvmeof import Namespace
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB, Capability, ClusterSpec
from cephlab.lab.telemetry.regression import paired
from cephlab.lab.telemetry.statistics import CONFIDENCE
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioResult
from cephlab.suites.nvmeof.single import SHARED, Shown, shown
from cephlab.suites.nvmeof.stand import LATE, POOL, GatewayTopology

GATEWAY = "c0"
CLIENTS = 6
IMAGES_EACH = 8
IMAGE_BYTES = 256 << 10
BLOCK_BYTES = 4096
CONNECTING = Connecting(keep_alive_s=30, digests=False)
"""A long keep-alive, because with forty-eight requests in flight a busy machine answers it late."""
MEMORY_BYTES = {"n0": 2048 * MIB, GATEWAY: 1536 * MIB}
CLIENT_BYTES = 768 * MIB
PATTERNS = ("randwrite", "randread")
RATE = 20
"""Most requests per second for each image."""
RAMP_S, RUN_S = 4.0, 6.0
_END_S = 60.0
ROUNDS = 4
LEAST_OPERATIONS = 3
"""Operations of the slowest image, over all rounds."""
LEAST_SHARE = 0.2
"""The same limit as for RBD clients (`block.clients`)."""
LEAST_OF_ONE = 0.7

Turn = Mapping[str, Mapping[str, FioResult]]
"""Client -> image -> fio's result for it."""


@dataclass(frozen=True)
class ManyClientsTopology(GatewayTopology):
    """One machine with all of Ceph, one for the gateway, and small client machines. machines: number of clients."""

    machines: int = CLIENTS

    @property
    def bare(self) -> tuple[Arch, ...]:
        return (host_arch(),) * (1 + self.machines)

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        spec = super().lay_out(release, image, in_memory=in_memory)
        small = {"memory_bytes": CLIENT_BYTES, "cores": 1.0}
        nodes = (
            replace(node, **(small if node.name not in MEMORY_BYTES else {"memory_bytes": MEMORY_BYTES[node.name]}))
            for node in spec.nodes
        )
        return replace(spec, nodes=tuple(nodes))


@dataclass(frozen=True)
class Client:
    """An initiator with images of its own. devices: by image."""

    initiator: Initiator
    devices: Mapping[str, PurePosixPath]

    @property
    def name(self) -> str:
        return self.initiator.node

    def load(self, pattern: str) -> dict[str, FioResult]:
        """Run one fio to its end. LabBroken with fio's output if it fails."""
        host = self.initiator.host
        output = host.directory / "fio-images"
        host.remove(output)
        timeout_s = (RAMP_S + RUN_S + _END_S) * self.initiator.cluster.patience
        result = host.run(argv(self.devices, pattern, output), timeout_s=timeout_s, check=False)
        if not host.exists(output):
            raise LabBroken(f"fio left no result on {self.name}", result.stdout + result.stderr)
        return fio.parse_each(host.read(output))


def argv(devices: Mapping[str, PurePosixPath], pattern: str, output: PurePosixPath) -> list[str]:
    """One fio with a thread for each image, which writes the image's name over and over."""
    shared = {
        "ioengine": "psync",
        "direct": "1",
        "thread": "1",
        "rw": pattern,
        "bs": str(BLOCK_BYTES),
        "size": str(IMAGE_BYTES),
        "norandommap": "1",
        "scramble_buffers": "0",
        "rate_iops": str(RATE),
        "time_based": "1",
        "runtime": f"{RUN_S:g}",
        "ramp_time": f"{RAMP_S:g}",
    }
    words = ["fio", "--output-format=json", f"--output={output}", "--name=global"]
    words += [f"--{key}={value}" for key, value in shared.items()]
    for image, device in devices.items():
        words += [f"--name={image}", f"--filename={device}", f'--buffer_pattern="{image}"']
    return words


@contextmanager
def clients_of(stage: Stage, behind: Shown, names: Sequence[str]) -> Iterator[list[Client]]:
    """Connect every client, and yield each with the devices of its own images."""
    with ExitStack() as undo, Workers(max_workers=len(names), thread_name_prefix="clients") as workers:
        initiators = [Initiator(stage.cluster, name, CONNECTING) for name in names]
        for initiator in initiators:
            undo.callback(initiator.disconnect, behind.volume)
        list(workers.map(lambda initiator: initiator.connect(behind.volume, [behind.gateway]), initiators))
        shares = shares_of(behind.namespaces, len(names))
        devices_of = workers.map(lambda initiator, share: initiator.devices(behind.volume, share), initiators, shares)
        yield [
            Client(initiator, dict(zip((namespace.image for namespace in share), devices, strict=True)))
            for initiator, share, devices in zip(initiators, shares, devices_of, strict=True)
        ]


def shares_of(namespaces: Sequence[Namespace], count: int) -> list[Sequence[Namespace]]:
    """Split namespaces into equal shares for `count` clients."""
    each = len(namespaces) // count
    return [namespaces[at : at + each] for at in range(0, each * count, each)]


def all_served(stage: Stage) -> None:
    """Run one client alone and all clients alternately; then check with librbd what each image holds."""
    cluster, recorder = stage.cluster, stage.recorder
    names = [name for name in cluster.hosts if name.startswith("c") and name != GATEWAY]
    alone: dict[str, list[Turn]] = {pattern: [] for pattern in PATTERNS}
    together: dict[str, list[Turn]] = {pattern: [] for pattern in PATTERNS}
    with shown(stage, GATEWAY, names, IMAGES_EACH * len(names), IMAGE_BYTES) as behind:
        with clients_of(stage, behind, names) as clients:
            for number in range(ROUNDS):
                for pattern in PATTERNS:
                    recorder.step(f"round {number + 1}: {pattern}")
                    alone[pattern].append(loaded(clients[:1], pattern))
                    together[pattern].append(loaded(clients, pattern))
        own_data(recorder, cluster, [namespace.image for namespace in behind.namespaces])
    for pattern in PATTERNS:
        judge(recorder, pattern, alone[pattern], together[pattern])


def loaded(clients: Sequence[Client], pattern: str) -> Turn:
    """Load all images of these clients at the same time."""
    with Workers(max_workers=len(clients), thread_name_prefix="fio") as workers:
        results = list(workers.map(lambda client: client.load(pattern), clients))
    return {client.name: result for client, result in zip(clients, results, strict=True)}


def judge(recorder: Recorder, pattern: str, alone: Sequence[Turn], together: Sequence[Turn]) -> None:
    """Check that every image is served, clients get similar rates, and all together are not slower than one.

    Ratios are formed within each round.
    """
    of_image: dict[str, int] = {}
    for image, result in (pair for turn in together for results in turn.values() for pair in results.items()):
        of_image[image] = of_image.get(image, 0) + result.operations
    slowest = min(of_image.values())
    recorder.witness(f"{pattern}: operations of the slowest of all images", got=slowest, least=LEAST_OPERATIONS)
    rates = {client: [rate_of(turn, client) for turn in together] for client in together[0]}
    sums = [sum(in_round) for in_round in zip(*rates.values(), strict=True)]
    of_one = [rate_of(turn, client) for turn in alone for client in turn]
    recorder.figure(f"{pattern}: rate of all clients", sum(sums) / len(sums), "operations/s", SHARED)
    recorder.figure(f"{pattern}: rate of one alone", sum(of_one) / len(of_one), "operations/s", SHARED)
    quickest, last = (pick(rates, key=lambda client: sum(rates[client])) for pick in (max, min))
    bound = Bound("clients with equal requests in flight share one gateway", LEAST_SHARE, basis=Basis.SHAPE)
    note(recorder, f"{pattern}: slowest client over quickest", rates[quickest], rates[last], bound)
    why = f"{len(rates)} clients send more than one; a lower rate is a cost per image or client (spdk/spdk issue 3547)"
    note(recorder, f"{pattern}: all clients over one alone", of_one, sums, Bound(why, LEAST_OF_ONE, basis=Basis.SHAPE))


def note(recorder: Recorder, what: str, under: Sequence[float], over: Sequence[float], bound: Bound) -> None:
    """Record a ratio formed in each round, with its interval over the rounds."""
    ratio = paired(under, over, confidence=CONFIDENCE)
    recorder.figure(what, ratio.value, "", bound, interval=ratio.ends)


def rate_of(turn: Turn, client: str) -> float:
    """Operations per second over all images of a client. LabBroken if there were none: no ratio could be formed."""
    rate = sum(result.iops for result in turn[client].values())
    if not rate:
        raise LabBroken(f"{client} got no answer at all", str(turn[client]), "try again on a quieter machine")
    return rate


def own_data(recorder: Recorder, cluster: Cluster, images: Sequence[str]) -> None:
    """Observe that every image holds its own name, which its client wrote, and that no image holds another's name."""
    contents = {
        image: names_in(cluster.client.rbd_look(POOL, image, [(0, IMAGE_BYTES)])["pieces"][0]) for image in images
    }
    own = [image for image, names in contents.items() if image in names]
    recorder.observe("images that hold what their client wrote", got=own, wanted=list(images))
    foreign = [image for image, names in contents.items() if names - {image}]
    recorder.observe("images that hold data of another image", got=foreign, wanted=[], of=len(images))


def names_in(data: bytes) -> set[str]:
    """Image names that fill whole blocks of some data. The initial content of images is random and matches no name."""
    blocks = {data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)}
    return {block[:8].decode() for block in blocks if block == block[:8] * (BLOCK_BYTES // 8) and block.isascii()}


SCENARIOS = (
    Scenario(
        name="nvmeof.six-clients",
        goal=f"One gateway serves {CLIENTS * IMAGES_EACH} images evenly to {CLIENTS} clients, and mixes up no data.",
        method=f"Runs one fio on each of {CLIENTS} small machines, with a thread for each of {IMAGES_EACH} images; one "
        "alone and all together, alternately; compares rates within rounds; reads with librbd what images hold.",
        run=all_served,
        check="figures",
        tier=Tier.FULL,
        topology=ManyClientsTopology(native=1, foreign=0),
        needs=frozenset({Capability.FABRICS}),
        expects=LATE,
        sees=tuple(
            rf"{pattern}: {what}"
            for pattern in PATTERNS
            for what in ("slowest client over quickest", "all clients over one alone")
        ),
    ),
)
