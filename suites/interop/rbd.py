"""Block device images across architectures: snapshots, clones, diffs and LUKS."""

import errno
from dataclasses import dataclass
from functools import partial

from cephlab.lab.ceph.client import RadosClient, RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.interop.matrix import observe_client
from cephlab.suites.interop.sides import sha

IMAGE_BYTES = 8 * MIB  # eight objects of 1 MiB
WRITES = 6
WRITE_BYTES = 300_000  # sometimes crosses an object border, and is no multiple of a sector
DISCARD_FROM, DISCARD_BYTES = MIB + (64 << 10), 5 * MIB + (64 << 10)  # whole objects and parts of two
LUKS_BYTES = 40 * MIB  # including 16 MiB for a LUKS2 header
LUKS_DATA_BYTES = 2 * MIB
SECTOR_BYTES = 512
PG_NUM = 4
HELD_AT = (0, 3 * MIB - 1000)


@dataclass
class WantedImage:
    """An image and the content that it must have."""

    pool: str
    image: str
    content: bytearray

    def discard(self, client: RadosClient, offset: int, length: int) -> None:
        """Discard a range of the image and the model."""
        client.rbd_discard(self.pool, self.image, offset, length)
        self.content[offset : offset + length] = bytes(length)

    def scribble(self, stage: Stage, client: RadosClient) -> None:
        """Make random writes to the image and the model."""
        for _ in range(WRITES):
            data, offset = stage.rng.randbytes(WRITE_BYTES), stage.rng.randrange(len(self.content) - WRITE_BYTES)
            client.rbd_write(self.pool, self.image, data, offset)
            self.content[offset : offset + len(data)] = data


def images(stage: Stage, writer: Arch) -> None:
    """Make an image, a snapshot, a clone and diffs on one architecture; read and apply them on the other."""
    cluster = stage.cluster
    observe_client(stage, writer)
    made_by, read_by = cluster.client_for(writer), cluster.client_for(writer.other)
    with pools.pool(cluster, "images", pg_num=PG_NUM) as pool:
        base = WantedImage(pool, "base", bytearray(IMAGE_BYTES))
        made_by.rbd_create(pool, base.image, IMAGE_BYTES)
        base.scribble(stage, made_by)
        made_by.rbd_snap(pool, base.image, "first")
        snapped = WantedImage(pool, base.image, bytearray(base.content))
        base.scribble(stage, made_by)
        base.discard(made_by, DISCARD_FROM, DISCARD_BYTES)
        made_by.rbd_clone(pool, base.image, "first", "clone")
        clone = WantedImage(pool, "clone", bytearray(snapped.content))
        clone.scribble(stage, made_by)
        for reader in (read_by, made_by):
            by = f"read by {reader.host.arch}"
            expect(stage, reader, base, f"image {by}")
            expect(stage, reader, snapped, f"snapshot {by}", snap="first")
            expect(stage, reader, clone, f"clone {by}")
        read_by.rbd_create(pool, "copy", IMAGE_BYTES)
        carry(stage, pool, writer, ["base@first"])
        expect(stage, made_by, WantedImage(pool, "copy", snapped.content), "copy from a full diff")
        carry(stage, pool, writer, ["--from-snap", "first", "base"])
        title = "copy from a diff between snapshot and image"
        expect(stage, made_by, WantedImage(pool, "copy", base.content), title)
        expect(stage, made_by, WantedImage(pool, "copy", snapped.content), "the copy's own snapshot", snap="first")
        held(stage, pool, made_by, read_by)


def held(stage: Stage, pool: str, holder: RadosClient, other: RadosClient) -> None:
    """Keep an image open with its exclusive lock: another client reads what was flushed, and may not write."""
    disk = WantedImage(pool, "held", bytearray(IMAGE_BYTES))
    holder.rbd_create(pool, disk.image, IMAGE_BYTES)
    pieces = [(offset, stage.rng.randbytes(WRITE_BYTES)) for offset in HELD_AT]
    for offset, data in pieces:
        disk.content[offset : offset + len(data)] = data
    holder.rbd_hold(pool, disk.image, pieces)
    try:
        expect(stage, other, disk, "what the holder of the lock has flushed")
        answer = "allowed"
        try:
            other.rbd_write(pool, disk.image, b"x", 0)
        except RadosError as error:
            if error.errno != errno.EROFS:
                raise
            answer = "refused"
        stage.recorder.observe("a write by a client without the exclusive lock", got=answer, wanted="refused")
    finally:
        holder.rbd_release(disk.image)


def carry(stage: Stage, pool: str, source: Arch, what: list[str]) -> None:
    """Export a diff on a host of one architecture and import it into `copy` on a host of the other."""
    cluster = stage.cluster
    here, there = cluster.host_with(source), cluster.host_with(source.other)
    exported, imported = here.directory / "interop.diff", there.directory / "interop.diff"
    *options, image = what
    try:
        cluster.tool(here.name, "rbd", "export-diff", "--no-progress", *options, f"{pool}/{image}", str(exported))
        there.push(here.read(exported), imported)
        cluster.tool(there.name, "rbd", "import-diff", "--no-progress", str(imported), f"{pool}/copy")
    finally:
        here.remove(exported)
        there.remove(imported)


def expect(stage: Stage, reader: RadosClient, disk: WantedImage, what: str, *, snap: str | None = None) -> None:
    digest = reader.rbd_digest(disk.pool, disk.image, len(disk.content), snap=snap)
    stage.recorder.observe(what, got=digest, wanted=sha(disk.content), reader=reader.host.arch.value)


def luks(stage: Stage, writer: Arch, kind: str) -> None:
    """Format and fill an image on one architecture; open it on the other with and without the passphrase."""
    cluster = stage.cluster
    made_by, read_by = cluster.client_for(writer), cluster.client_for(writer.other)
    with pools.pool(cluster, "locked", pg_num=PG_NUM) as pool:
        data = stage.rng.randbytes(LUKS_DATA_BYTES)
        key = (kind, stage.rng.randbytes(12).hex())
        made_by.rbd_create(pool, "image", LUKS_BYTES)
        made_by.rbd_encrypt(pool, "image", key)
        made_by.rbd_write(pool, "image", data, 0, encryption=key)
        wanted = sha(data)
        for reader in (read_by, made_by):
            digest = reader.rbd_digest(pool, "image", len(data), encryption=key)
            stage.recorder.observe(f"{kind} opened by {reader.host.arch}", got=digest, wanted=wanted)
        # The whole of it: the content follows a header of up to 16 MiB, which is different in any case.
        places = [(offset, MIB) for offset in range(0, LUKS_BYTES, MIB)]
        raw = b"".join(read_by.rbd_look(pool, "image", places)["pieces"])
        plain, encrypted = sectors(data), sectors(raw)
        title = f"sectors that {kind} shows without the passphrase"
        stage.recorder.observe(title, got=len(plain & encrypted), wanted=0, of=len(plain))
        filled = len(raw) - raw.count(0)
        stage.recorder.witness(f"bytes of the {kind} image that are not zero", got=filled, least=LUKS_DATA_BYTES // 2)


def sectors(data: bytes) -> set[bytes]:
    return {data[at : at + SECTOR_BYTES] for at in range(0, len(data), SECTOR_BYTES)}


def scenarios(writer: Arch) -> tuple[Scenario, ...]:
    reader = writer.other
    return (
        Scenario(
            name=f"interop.rbd[writer={writer},reader={reader}]",
            goal=f"{reader} reads the images, snapshots, clones and diffs of {writer} bit for bit.",
            method=f"Writes an image, a snapshot and a clone on {writer}, and discards a part; reads them and imports "
            f"diffs on {reader}. Holds an image with its exclusive lock and flushes it; reads and tries to write on "
            f"{reader}.",
            run=partial(images, writer=writer),
        ),
        *(
            Scenario(
                name=f"interop.rbd-{kind}[writer={writer},reader={reader}]",
                goal=f"{reader} opens and reads an image that {writer} formatted with {kind.upper()}.",
                method=f"Formats and writes the encrypted image on {writer}; reads on both with the passphrase, and on "
                f"{reader} without it.",
                run=partial(luks, writer=writer, kind=kind),
                check="witnessed",
                # Deriving a key takes seconds by design, and far longer under an emulator.
                tier=Tier.FULL,
            )
            for kind in ("luks1", "luks2")
        ),
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario for arch in Arch for scenario in scenarios(arch))
