"""CephFS mounts through the kernel or ceph-fuse: the mount and a libcephfs client see each other's changes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from itertools import permutations, product
from pathlib import PurePosixPath

from cephlab.lab.ceph import conf
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.mds import FILE_SYSTEM, MDS
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.cephfs.across import take_topics
from cephlab.suites.cephfs.stand import EXPECTED, requests, served_by, wait_active
from cephlab.suites.cephfs.topics import TOPICS, Topic
from cephlab.suites.interop.walks.live import Line, lines

TWO = (("n0", (MDS.kind,)), ("n1", (MDS.kind,)))
GUESTS = Topology(native=2, foreign=0, services=TWO, lone_client=True)
"""The client has its own machine, because its kernel may have to write dirty pages that a daemon there waits for."""
MIXED_GUESTS = Topology(native=1, foreign=1, services=TWO, clients=True)
FUSED = replace(GUESTS, role_sets=("ceph", "fuse"))
KERNEL, FUSE, LIBRARY = "kernel", "fuse", "library"
WHOLE_WRITES = {name: topic for name, topic in TOPICS.items() if name != "quotas"}
"""For ceph-fuse: the kernel splits a write into pieces, and each fits the quota because Ceph counts usage later."""
_MOUNT_S = 60.0


@contextmanager
def mounted(cluster: Cluster, host: Host) -> Iterator[PurePosixPath]:
    """Mount the lab's file system with a host's kernel during the block; yields the folder."""
    folder, timeout_s = host.directory / "cephfs", _MOUNT_S * cluster.patience
    host.run(["modprobe", "ceph"])
    host.make_directory(folder)
    user = cluster.client_name.removeprefix("client.")
    options = f"conf={conf.conf_path(host)},ms_mode=prefer-crc"
    host.run(["mount", "-t", "ceph", f"{user}@.{FILE_SYSTEM}=/", str(folder), "-o", options], timeout_s=timeout_s)
    try:
        yield folder
    finally:
        host.run(["umount", "-f", str(folder)], timeout_s=timeout_s)


@contextmanager
def fused(cluster: Cluster, host: Host) -> Iterator[PurePosixPath]:
    """Mount the lab's file system with ceph-fuse on a host during the block; yields the folder."""
    folder, timeout_s = host.directory / "cephfs-fuse", _MOUNT_S * cluster.patience
    host.run(["modprobe", "fuse"])
    host.make_directory(folder)
    who = ["-n", cluster.client_name, "-c", str(conf.conf_path(host)), "--client_fs", FILE_SYSTEM]
    host.run(["ceph-fuse", *who, str(folder)], timeout_s=timeout_s)
    try:
        yield folder
    finally:
        host.run(["umount", str(folder)], timeout_s=timeout_s)


Mount = Callable[[Cluster, Host], AbstractContextManager[PurePosixPath]]


@contextmanager
def mounts(cluster: Cluster, hosts: dict[str, Host], mount: Mount = mounted) -> Iterator[dict[str, Line]]:
    """A side for each host. Each works through its own mount."""
    with ExitStack() as undo:
        folders = {side: undo.enter_context(mount(cluster, host)) for side, host in hosts.items()}
        on = {side: (hosts[side], {"folder": str(folder)}) for side, folder in folders.items()}
        yield undo.enter_context(lines("mounted", on, cluster.patience))


def beside_library(stage: Stage, side: str, mount: Mount, topics: Mapping[str, Topic]) -> None:
    """Run each topic twice with a mount on the client machine and a libcephfs program; each starts once."""
    cluster = stage.cluster
    [server] = wait_active(cluster)
    client, library = cluster.hosts["c0"], cluster.hosts["n0"]
    settings = {"conf": str(conf.conf_path(library)), "name": cluster.client_name}
    before = requests(cluster, server)
    with (
        mounts(cluster, {side: client}, mount) as first,
        lines("cephfs", {LIBRARY: (library, settings)}, cluster.patience) as second,
    ):
        sides = {**first, **second}
        steps = sum(take_topics(stage, sides, *pair, topics=topics) for pair in permutations(sides))
        handled = requests(cluster, server) - before
        note_stale(stage, first)
    stage.recorder.witness("requests to the metadata server", got=handled, least=steps)


def across(stage: Stage, mds: Arch, primary: Arch) -> None:
    """Run every topic twice between the kernels of two machines, one of each architecture."""
    cluster = stage.cluster
    server = served_by(cluster, mds)
    hosts = {host.arch.value: host for host in (cluster.hosts["c0"], cluster.hosts["c1"])}
    with pools.led_by(cluster, primary), mounts(cluster, hosts) as sides:
        before = requests(cluster, server)
        steps = sum(take_topics(stage, sides, first, second) for first, second in permutations(sides))
        handled = requests(cluster, server) - before
        note_stale(stage, sides)
    stage.recorder.witness(f"requests to the {mds} metadata server", got=handled, least=steps)


def note_stale(stage: Stage, kernels: Mapping[str, Line]) -> None:
    """Record kernel reads that were wrong until the kernel asked for the file size: a defect of the client's kernel.

    It is not a fault of the cluster. The cluster's content is compared through the reads after it.
    """
    for side, line in kernels.items():
        for path, offset, size, before, after in line.ask("stale", {}):
            where = f"{size} bytes at {offset} of {path}"
            stage.recorder.record("defect", kernel=side, seen=f"{where}: {before}", done=f"size asked for: {after}")


def wrong_answers(sides: tuple[str, ...], topics: Mapping[str, Topic] = TOPICS) -> tuple[str, ...]:
    """The observations that a run with these sides must have."""
    return tuple(f"wrong answers of {topic}, begun by {side}" for topic, side in product(topics, sides))


SCENARIOS = (
    Scenario(
        name="cephfs.kernel",
        goal="The kernel client and libcephfs see the same file system.",
        method="A kernel mount in a guest and a libcephfs program work alternately on the same trees and check what "
        "the other did: contents, names, attributes, links, renames, locks, quotas, snapshots.",
        run=partial(beside_library, side=KERNEL, mount=mounted, topics=TOPICS),
        check="witnessed",
        topology=GUESTS,
        needs=frozenset({Capability.OWN_KERNEL}),
        sees=wrong_answers((KERNEL, LIBRARY)),
        expects=EXPECTED,
    ),
    Scenario(
        name="cephfs.fuse",
        goal="ceph-fuse and libcephfs see the same file system.",
        method="As cephfs.kernel without quotas, with a ceph-fuse mount in a guest; Debian has it only for x86_64.",
        run=partial(beside_library, side=FUSE, mount=fused, topics=WHOLE_WRITES),
        check="witnessed",
        tier=Tier.FULL,
        topology=FUSED,
        needs=frozenset({Capability.OWN_KERNEL}),
        sees=wrong_answers((FUSE, LIBRARY), WHOLE_WRITES),
        expects=EXPECTED,
    ),
    *(
        Scenario(
            name=f"cephfs.kernel-across[mds={mds},primary={primary}]",
            goal="Kernels of both architectures see the same file system, whatever the MDS and the primary OSDs are.",
            method="As cephfs.kernel, between the kernels of two guests, one of each architecture.",
            run=partial(across, mds=mds, primary=primary),
            check="witnessed",
            tier=Tier.FULL,
            topology=MIXED_GUESTS,
            needs=frozenset({Capability.OWN_KERNEL, Capability.FOREIGN_ARCH}),
            sees=wrong_answers(tuple(arch.value for arch in Arch)),
            expects=EXPECTED,
        )
        for mds, primary in ((host_arch(), host_arch().other), (host_arch().other, host_arch()))
    ),
)
