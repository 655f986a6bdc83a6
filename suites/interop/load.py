"""Load on a mixed cluster: clients of both architectures write blocks with checksums, and all blocks are read back."""

from contextlib import ExitStack

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.workloads.fioverify import FioVerify, Witness

LOAD_S = {Tier.QUICK: 5.0, Tier.FULL: 180.0}
RATE_IOPS = 40
"""Writes a second of each client. At this rate an emulated OSD on a shared machine has no slow operations."""
IMAGE_BYTES = 64 << 20
LEAST_PER_S = 1.0
"""Least blocks of each client per second. With fewer there was no real load."""
PG_NUM = 16

CLUSTERS = {"2+1": (2, 1), "1+2": (1, 2)}
"""Numbers of nodes of this machine's architecture and of the other."""


def loaded(stage: Stage, load_s: float | None = None) -> None:
    """Let fio write from a client of each architecture, read all back on that client, and compare the view of both.

    load_s: seconds of load, instead of the tier's.
    """
    cluster, seconds = stage.cluster, LOAD_S[stage.tier] if load_s is None else load_s
    with ExitStack() as stack:
        # Each client has its own pool, because the first object in the pool shows that its client has started to write.
        own = {arch: stack.enter_context(pools.pool(cluster, f"load-{arch}", pg_num=PG_NUM)) for arch in Arch}
        loads = [FioVerify(cluster, stage.recorder, witness(stage, own[arch], arch)) for arch in Arch]
        for load in loads:
            load.prepare()
        with ExitStack() as running:
            for load in loads:
                running.enter_context(load.running())
            SYSTEM.sleep(seconds)
        for load in loads:
            least = max(1.0, LEAST_PER_S * seconds / cluster.patience)
            stage.recorder.witness(f"blocks written to {load.witness.image}", got=load.written, least=least)
            examine(stage, load)
        pgs = [pg for pool in own.values() for pg in pools.pgs_of(cluster, pool)]
    led = {cluster.host_of(f"osd.{pg.acting_primary}").arch for pg in pgs}
    stage.recorder.witness("architectures that led a PG", got=len(led), least=len(Arch))


def examine(stage: Stage, load: FioVerify) -> None:
    """Read back what a client wrote, and compare what the clients of both architectures read."""
    load.verify()
    image = load.witness.image
    views = {arch: stage.cluster.client_for(arch).rbd_digest(load.witness.pool, image, IMAGE_BYTES) for arch in Arch}
    title = f"{image} as a client of {Arch.AARCH64} reads it"
    stage.recorder.observe(title, got=views[Arch.AARCH64], wanted=views[Arch.X86_64])
    load.clean()


def witness(stage: Stage, pool: str, arch: Arch) -> Witness:
    """What the client of an architecture writes."""
    bare = (node for node in stage.cluster.spec.nodes if not (node.osds or node.mon or node.mgr))
    node = next(machine.name for machine in bare if machine.arch is arch)
    seed = stage.rng.randrange(1 << 30)
    return Witness(pool, node, seed, image=f"load-{arch}", size_bytes=IMAGE_BYTES, rate_iops=RATE_IOPS)


def scenario(name: str) -> Scenario:
    native, foreign = CLUSTERS[name]
    return Scenario(
        name=f"interop.load[nodes={name}]",
        goal="A mixed cluster takes load from clients of both architectures without an error or a wrong byte.",
        method=f"Lets fio write from a client of each for {LOAD_S[Tier.QUICK]:.0f} s, in the full tier for "
        f"{LOAD_S[Tier.FULL]:.0f} s; reads every block back by its checksum; compares what both clients read.",
        run=loaded,
        check="witnessed",
        tier=Tier.QUICK if native > foreign else Tier.FULL,  # each scenario raises its own cluster
        topology=Topology(native=native, foreign=foreign, clients=True),
    )


SCENARIOS = tuple(scenario(name) for name in CLUSTERS)
