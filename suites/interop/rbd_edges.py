"""Block device images with all kinds of names and sizes, and their snapshots, across architectures."""

from dataclasses import dataclass, field
from functools import partial
from random import Random

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.edges import ODD_PG_NUM, PG_NUM, texts
from cephlab.suites.interop.matrix import observe_client

IMAGE_NAME_BYTES = 2000
"""The object `rbd_id.NAME` keeps an image's id, so this must not exceed the limit of an object's name."""
SNAP_NAME_BYTES = 1000
IMAGES = 8
SNAPS = 2
ORDERS = (12, 16, 20, 22, 25)
"""Object sizes from 4 KiB, the smallest that RBD allows, to 32 MiB, the largest, as powers of two."""
TIB = 1 << 40
PIECE = 5  # bytes written at an edge, on both sides of it


@dataclass
class Wanted:
    """An image. pieces: offset -> byte written there; snaps: snapshot -> the pieces that it kept."""

    name: str
    size: int
    order: int
    pieces: dict[int, bytes] = field(default_factory=dict)
    snaps: dict[str, dict[int, bytes]] = field(default_factory=dict)


def run(stage: Stage, writer: Arch) -> None:
    """Make images on one architecture, write at the edges of their objects, read the same places on both."""
    cluster = stage.cluster
    observe_client(stage, writer)
    made_by = cluster.client_for(writer)
    with pools.pool(cluster, "edges", pg_num=PG_NUM) as pool:
        images = [make(stage.rng, made_by, pool, wanted) for wanted in draw(stage.rng)]
        for reader in (cluster.client_for(writer.other), made_by):
            names = sorted(wanted.name for wanted in images)
            stage.recorder.observe(f"images listed by {reader.host.arch}", got=reader.rbd_list(pool), wanted=names)
            for wanted in images:
                look(stage, reader, pool, wanted)


def draw(rng: Random) -> list[Wanted]:
    """Images with random names and all sizes. Names have no / and @, which separate pool, image and snapshot."""
    names = rng.sample(texts(rng, 4 * IMAGES, IMAGE_NAME_BYTES, but="/@"), k=IMAGES)
    names[0] = texts(rng, 4 * IMAGES, IMAGE_NAME_BYTES, but="/@")[-1]
    images = []
    for number, name in enumerate(dict.fromkeys(names)):
        order = rng.choice(ORDERS)
        images.append(Wanted(name, image_sizes(order)[number % len(image_sizes(order))], order))
    return images


def image_sizes(order: int) -> list[int]:
    """Sizes in bytes: 0, 1, around a sector, around an object, and as many objects as keep the object map small."""
    piece = 1 << order
    return [0, 1, 513, piece - 1, piece, piece + 1, 3 * piece + 511, min(TIB + 1, piece * (1 << 16) + 1)]


def edges_of(size: int, order: int) -> list[int]:
    """Offsets where something begins or ends: the image, its first object, its last object."""
    piece = 1 << order
    last = (size - 1) // piece * piece if size else 0
    starts = {0, 1, piece - 2, last - 2, size - PIECE}
    return sorted(start for start in starts if 0 <= start <= size - PIECE)


def make(rng: Random, client: RadosClient, pool: str, wanted: Wanted) -> Wanted:
    """Create an image; write at its edges, with snapshots in between."""
    client.rbd_create(pool, wanted.name, wanted.size, order=wanted.order)
    places = edges_of(wanted.size, wanted.order)
    for snap in rng.sample(texts(rng, 4 * SNAPS, SNAP_NAME_BYTES), k=SNAPS):
        for place in rng.sample(places, k=len(places) // 2 + 1 if places else 0):
            data = rng.randbytes(PIECE)
            client.rbd_write(pool, wanted.name, data, place)
            overlay(wanted.pieces, place, data)
        client.rbd_snap(pool, wanted.name, snap)
        wanted.snaps[snap] = dict(wanted.pieces)
    return wanted


def overlay(content: dict[int, bytes], place: int, data: bytes) -> None:
    """Write data byte by byte, because places of a small image overlap. content: offset -> one byte."""
    content.update({place + number: data[number : number + 1] for number in range(len(data))})


def look(stage: Stage, reader: RadosClient, pool: str, wanted: Wanted) -> None:
    """Observe size, snapshots and every place, of the image and of each snapshot."""
    places = [(place, PIECE) for place in edges_of(wanted.size, wanted.order)]
    short = f"name of {len(wanted.name.encode())} bytes, {wanted.size} bytes in objects of {1 << wanted.order}"
    for snap, content in ((None, wanted.pieces), *wanted.snaps.items()):
        looked = reader.rbd_look(pool, wanted.name, places, snap=snap)
        expected = [b"".join(content.get(place + n, b"\0") for n in range(PIECE)).hex() for place, _ in places]
        stage.recorder.observe(
            f"{short}{f', snapshot name of {len(snap.encode())} bytes' if snap else ''}, read by {reader.host.arch}",
            got=[looked["size"], looked["order"], looked["snaps"], [piece.hex() for piece in looked["pieces"]]],
            wanted=[wanted.size, wanted.order, sorted(wanted.snaps), expected],
        )


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"interop.rbd-edges[writer={writer},reader={writer.other}]",
        goal=f"{writer.other} reads images and snapshots of {writer}, whatever their names and sizes.",
        method=f"Draws names of up to {IMAGE_NAME_BYTES} bytes and sizes from 0 to 1 TiB; writes around the borders of "
        f"objects, between snapshots, on {writer}; lists and reads them on both.",
        run=partial(run, writer=writer),
        expects=ODD_PG_NUM,
    )
    for writer in Arch
)
