"""Power cut of a guest's host during recorded writes: the image holds everything that the cache mode guarantees."""

import hashlib
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.cluster.attach.cluster import AttachedCluster
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci.hypervisor.command import CacheMode, device
from cephlab.suites.hci.hypervisor.guest import GuestGone, HostedGuest, not_in_time
from cephlab.suites.hci.hypervisor.inside import BLOCK_BYTES, content, place
from cephlab.suites.hci.stand import ROLE_SETS, TWO_COPIES, GuestTopology, disk, guest_node, hypervisor, images

MOST_AT_ONCE = 6
FLUSHED_SHARE = 0.3
"""The share of requests that flush. After the others, data stays in the cache if the cache mode allows it."""
_ANSWER_S = 240.0
_JOIN_S = 300.0


@dataclass(frozen=True)
class WrongBlocks:
    """Wrong blocks of an image, by number. unacknowledged: how many blocks are there although not guaranteed."""

    lost: tuple[int, ...]
    made_up: tuple[str, ...]
    unacknowledged: int


def compare(data: bytes, seed: int, begun: int, promised: int) -> WrongBlocks:
    """Compare an image, initially empty, with a ledger. begun: blocks sent; promised: blocks that must be there."""
    blocks = len(data) // BLOCK_BYTES
    where = {place(seed, number, blocks): number for number in range(begun)}
    lost, made_up, more = [], [], 0
    for at in range(0, len(data), BLOCK_BYTES):
        piece, number = data[at : at + BLOCK_BYTES], where.get(at)
        empty = not piece.strip(b"\0")
        if number is not None and empty and number < promised:
            lost.append(number)
        elif number is not None and piece == content(seed, number):
            more += number >= promised
        elif not empty:
            made_up.append(f"byte {at}: {piece[:16].hex()}")
    return WrongBlocks(tuple(sorted(lost)), tuple(made_up), more)


@dataclass
class BlockLedger:
    """Numbered blocks that one guest writes to a disk, in order. size_bytes: of that disk, a power of two.

    begun, written, flushed: how many blocks were sent, acknowledged, and covered by an acknowledged flush.
    """

    guest: HostedGuest
    device: str
    size_bytes: int
    rng: random.Random
    begun: int = 0
    written: int = 0
    flushed: int = 0
    seed: int = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _unflushed: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        self.seed = self.rng.randrange(1 << 31)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write in the background during the block. If the guest ends, writing stops silently."""
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        try:
            yield
        finally:
            self._stop.set()
            worker.join(timeout=_JOIN_S)

    def flush_no_more(self) -> None:
        """Stop flushing, so that data stays in the cache if the cache mode allows it."""
        self._unflushed.set()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                flush = self.rng.random() < FLUSHED_SHARE and not self._unflushed.is_set()
                self.step(self.rng.randint(1, MOST_AT_ONCE), flush=flush)
        except GuestGone:
            return  # the request in flight was not acknowledged, so its blocks are not guaranteed

    def step(self, count: int, *, flush: bool) -> None:
        """Write some blocks. flush: then flush them and all earlier ones."""
        first, self.begun = self.begun, self.begun + count
        request = {"seed": self.seed, "first": first, "count": count, "flush": flush}
        blocks = self.size_bytes // BLOCK_BYTES
        self.guest.ask("write", timeout_s=_ANSWER_S, device=self.device, blocks=blocks, **request)
        self.written = self.begun
        if flush:
            self.flushed = self.begun


TOPOLOGY = GuestTopology(native=1, foreign=1, clients=True, role_sets=ROLE_SETS, any_arch=True)
"""Machines of both architectures store the data and read it back."""
scenario_on_both = partial(Scenario, check="witnessed", topology=TOPOLOGY)

READER = "c1"
"""The client of the other architecture in a lab."""
IMAGE_BYTES = 16 * MIB
"""A power of two, as the ledger needs."""
FLUSHED = (40, 80)
"""Blocks covered by a flush before the power cut; the seed decides how many."""
WAITING = 8
"""Blocks written after the last flush."""
WITHIN_S = 300.0
_SHOWN = 5

HOLDS_BACK = {
    # By default librbd caches no write before the first flush; a guest flushes as soon as it mounts a filesystem.
    "rbd_cache_writethrough_until_flush": "false",
    # The default since Octopus sends every write to the OSDs at once, and acknowledges it before it has arrived.
    "rbd_cache_policy": "writeback",
    # By default a dirty write is sent to the OSDs after a second; here only a flush sends it.
    "rbd_cache_max_dirty_age": "600",
}


def cut_power(stage: Stage, cache: CacheMode, claimed: CacheMode | None = None) -> None:
    """Cut the power of a writing guest, and look for the guaranteed blocks.

    told: the cache mode that decides what is guaranteed, if it is not `cache`.
    """
    recorder, cluster = stage.recorder, stage.cluster
    reader = reader_of(cluster)
    cluster.tool(reader, "rbd", "--version")  # if its machine may not be used, that is known before a guest is booted
    with images(cluster, 1, kind=TWO_COPIES, size_bytes=IMAGE_BYTES, written=False) as (image,):
        wanted = disk(image, cache, **HOLDS_BACK)
        with hypervisor(cluster).guests([[wanted]]) as (guest,):
            ledger = BlockLedger(guest, device(0), IMAGE_BYTES, stage.rng)
            goal = stage.rng.randint(*FLUSHED)
            within_s = WITHIN_S * cluster.patience
            with ledger.running():
                _wait(lambda: ledger.flushed >= goal, f"{goal} flushed blocks", within_s)
                ledger.flush_no_more()
                # A request that flushes may be in flight; data written after it stays in the cache.
                latest = ledger.begun + MOST_AT_ONCE
                _wait(lambda: ledger.written >= latest + WAITING, f"{WAITING} more blocks", within_s)
                guest.cut_power()
        promised = ledger.written if (claimed or cache) is CacheMode.NONE else ledger.flushed
        recorder.record("ledger", begun=ledger.begun, written=ledger.written, flushed=ledger.flushed, promised=promised)
        wrong = compare(read_back(stage, image), ledger.seed, ledger.begun, promised)
    recorder.record("read-back", by=reader, unacknowledged=wrong.unacknowledged)
    recorder.observe("guaranteed blocks that are lost", got=list(wrong.lost[:_SHOWN]), wanted=[], of=promised)
    recorder.observe(
        "blocks with content that was never written", got=list(wrong.made_up[:_SHOWN]), wanted=[], of=promised
    )
    recorder.witness("blocks guaranteed at the power cut", got=promised, least=FLUSHED[0])
    if cache is CacheMode.WRITEBACK:
        lost = ledger.begun - promised - wrong.unacknowledged
        recorder.witness("unflushed blocks that were lost with the cache", got=lost, least=1)


def _wait(reached: Callable[[], bool], what: str, within_s: float) -> None:
    clock.wait(reached, bool, what=f"the guest's {what}", timeout_s=within_s, timed_out=not_in_time)


def reader_of(cluster: Cluster) -> str:
    """The machine of the other client.

    On an attached cluster it has the other architecture if a client machine has; else it is another machine; else the
    same one.
    """
    if not isinstance(cluster, AttachedCluster):
        return READER
    own = guest_node(cluster)
    hosts = {name: cluster.hosts[name] for name in cluster.load_nodes()}
    return max(hosts, key=lambda name: (hosts[name].arch is not hosts[own].arch, name != own))


def read_back(stage: Stage, image: BlockImage) -> bytes:
    """The content of the image, read by the other client."""
    cluster = stage.cluster
    reader = reader_of(cluster)
    with exported(stage) as path:
        cluster.tool(reader, "rbd", "export", "--no-progress", image.spec, str(path))
        target = Path(stage.scratch) / "read-back"
        cluster.hosts[reader].pull(path, target)
        return target.read_bytes()


@contextmanager
def exported(stage: Stage) -> Iterator[PurePosixPath]:
    """A file on the reading client, removed at the end of the block."""
    host = stage.cluster.hosts[reader_of(stage.cluster)]
    path = host.directory / "exported"
    host.remove(path)
    try:
        yield path
    finally:
        host.remove(path)


def both_sides(stage: Stage, cache: CacheMode) -> None:
    """Read through the other client what a guest wrote before its shutdown, and the reverse."""
    recorder, cluster = stage.recorder, stage.cluster
    reader = reader_of(cluster)
    theirs = stage.rng.randbytes(IMAGE_BYTES)
    with images(cluster, 1, kind=TWO_COPIES, size_bytes=IMAGE_BYTES, written=False) as (image,):
        shared = BlockImage(image.pool, "given", IMAGE_BYTES)
        with exported(stage) as path:
            cluster.hosts[reader].push(theirs, path)
            cluster.tool(reader, "rbd", "import", "--no-progress", str(path), shared.spec)
        with hypervisor(cluster).guests([[disk(image, cache, **HOLDS_BACK), disk(shared, cache)]]) as (guest,):
            ledger = BlockLedger(guest, device(0), IMAGE_BYTES, stage.rng)
            while ledger.written < FLUSHED[0]:
                ledger.step(stage.rng.randint(1, 6), flush=False)
            digest = guest.run(["sha256sum", device(1)], timeout_s=WITHIN_S * cluster.patience).stdout.split()[0]
        # QEMU was told to end and closed the disk, so unflushed writes must be there as well.
        wrong = compare(read_back(stage, image), ledger.seed, ledger.begun, ledger.written)
    recorder.observe(
        "blocks written by the guest that the other client does not read",
        got=list(wrong.lost[:_SHOWN]),
        wanted=[],
        of=ledger.written,
    )
    recorder.observe(
        "blocks with content that was never written", got=list(wrong.made_up[:_SHOWN]), wanted=[], of=ledger.written
    )
    wanted = hashlib.sha256(theirs).hexdigest()
    recorder.observe("sha256 of the other client's image, read by the guest", got=digest, wanted=wanted)
    recorder.witness("blocks that the guest wrote", got=ledger.written, least=FLUSHED[0])


SCENARIOS = (
    scenario_on_both(
        name="hci.power-cut[cache=none]",
        goal="With cache=none, every acknowledged write of a guest survives a power cut of its host.",
        method="A guest writes numbered blocks; its QEMU is killed; a client reads back, in a lab of the other "
        "architecture.",
        run=partial(cut_power, cache=CacheMode.NONE),
    ),
    scenario_on_both(
        name="hci.power-cut[cache=writeback]",
        goal="With cache=writeback, every guest write before an acknowledged flush survives a power cut of its host.",
        method="As with cache=none, but librbd's cache writes nothing back by itself; looks for the flushed blocks.",
        run=partial(cut_power, cache=CacheMode.WRITEBACK),
    ),
    *(
        scenario_on_both(
            name=f"hci.both-sides[cache={cache}]",
            goal="A guest and another librbd client, in a lab of the other architecture, read what the other wrote.",
            method="A guest writes numbered blocks and reads an imported image; it shuts down, and the client reads.",
            run=partial(both_sides, cache=cache),
            tier=Tier.QUICK if cache is CacheMode.WRITEBACK else Tier.FULL,
        )
        for cache in (CacheMode.NONE, CacheMode.WRITEBACK)
    ),
)
