"""Names, attributes and omap keys of every length and alphabet, written by one architecture and read by the other."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import cycle, product

from cephlab.lab.ceph.client import RadosClient, RadosError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import edges
from cephlab.suites.interop.matrix import observe_client
from cephlab.suites.interop.mirror import Mirror, difference

NAMES = 40
SNAPPED = 6  # objects that exist when the snapshot is made, and that are read at it
ATTRIBUTES = 24
PLACES = 24  # objects in namespaces, with and without locator keys
PATCHES = 12
PAGE = 100  # omap keys per request of a reader
FAR = edges.OBJECT_BYTES - 1
"""Offset of the last byte that an object may have."""


@dataclass(frozen=True)
class Placed:
    """An object in a namespace, placed by a locator key if it has one."""

    namespace: str
    locator: str
    name: str
    content: bytes


def run(stage: Stage, writer: Arch, kind: PoolKind) -> None:
    """Write everything from one architecture's client; read it from the other's client, then from the writer's own."""
    cluster = stage.cluster
    observe_client(stage, writer)
    made_by = cluster.client_for(writer)
    with pools.pool(cluster, "names", kind, pg_num=edges.PG_NUM) as pool:
        mirror = Mirror(made_by, pool)
        fill(stage, mirror)
        placed = fill_places(stage, made_by, pool)
        omaps = {} if kind.erasure else fill_omaps(stage, mirror)
        made_by.within(namespace="far").write(pool, "far", b"\x5a", FAR)
        for reader in (cluster.client_for(writer.other), made_by):
            by = f"read by {reader.host.arch}"
            missed = read_or_say(partial(mirror.verify, reader, stage.recorder, by))
            stage.recorder.observe(f"objects that cannot be {by}", got=missed or "none", wanted="none")
            read_places(stage, reader, pool, placed)
            for name, pairs in omaps.items():
                read_omap(stage, reader, pool, name, pairs)
            end = reader.within(namespace="far").read(pool, "far", 10, FAR - 3)
            stage.recorder.observe(f"end of an object of {FAR + 1} bytes {by}", got=end.hex(), wanted="0000005a")
        mirror.drop_snaps()


def read_or_say(read: partial[None]) -> str:
    """Read, and return librados' error if it refused. The objects before the refused one are observed all the same."""
    try:
        read()
    except RadosError as error:
        return error.detail[-200:]
    return ""


def fill(stage: Stage, mirror: Mirror) -> None:
    """Write objects of every size under names of every length, attributes, a snapshot, and partial writes at edges."""
    rng = stage.rng
    names = edges.texts(rng, NAMES, edges.NAME_BYTES)
    rng.shuffle(names)
    for number, (name, size) in enumerate(zip(names, edges.sizes(rng, NAMES), strict=True)):
        mirror.full(name, rng.randbytes(size))
        if number + 1 == SNAPPED:
            mirror.snap(rng.choice(edges.texts(rng, ATTRIBUTES, 1000)))
    for name in names[:SNAPPED]:
        mirror.append(name, b"after the snapshot")
    keys = edges.texts(rng, ATTRIBUTES, edges.XATTR_NAME_BYTES)
    for name, (key, size) in zip(cycle(names[:3]), zip(keys, edges.sizes(rng, ATTRIBUTES), strict=True), strict=False):
        mirror.xattr(name, key, rng.randbytes(size))
    for size, offset in zip(edges.sizes(rng, PATCHES), edges.sizes(rng, PATCHES), strict=True):
        if size:
            mirror.write(names[-1], rng.randbytes(size), offset)


def fill_places(stage: Stage, client: RadosClient, pool: str) -> list[Placed]:
    """Write objects of one name in many namespaces, and objects that a locator key places."""
    rng = stage.rng
    namespaces = edges.namespaces(rng, PLACES)
    names = edges.texts(rng, PLACES, edges.NAME_BYTES)
    locators = [text if number % 2 else "" for number, text in enumerate(edges.texts(rng, PLACES, edges.NAME_BYTES))]
    placed = [
        Placed(namespace, locator, "same" if number % 3 else name, rng.randbytes(100))
        for number, (namespace, locator, name) in enumerate(zip(namespaces, locators, names, strict=True))
    ]
    for place in placed:
        client.within(namespace=place.namespace, locator=place.locator).write_full(pool, place.name, place.content)
    return placed


def read_places(stage: Stage, reader: RadosClient, pool: str, placed: Sequence[Placed]) -> None:
    """Observe that each object is where it was written, and that its namespace holds nothing else."""
    wrong = []
    for place in placed:
        within = reader.within(namespace=place.namespace, locator=place.locator)
        try:
            result = difference(within.read(pool, place.name), place.content)
        except RadosError as error:
            result = error.kind
        listed = within.list_objects(pool)
        if result != "equal" or listed != [place.name]:
            space = f"namespace {place.namespace[:20]!r} ({len(place.namespace.encode())} bytes)"
            wrong.append(f"{space}, locator {place.locator[:20]!r}: {result}, {len(listed)} listed")
    title = f"objects in namespaces and with locator keys that {reader.host.arch} reads differently"
    stage.recorder.observe(title, got=wrong[:3], wanted=[], of=len(placed), wrong=len(wrong))


def fill_omaps(stage: Stage, mirror: Mirror) -> dict[str, dict[bytes, bytes]]:
    """Write objects with various numbers of omap keys, one of them over a page, and one with a value of each size."""
    rng = stage.rng
    counts = [edges.OMAP_PAGE + 1, *rng.sample(edges.COUNTS, k=2)]
    omaps = {f"omap-{count}": {key: rng.randbytes(8) for key in edges.binary_keys(rng, count)} for count in counts}
    values = edges.sizes(rng, len(edges.SIZES))
    omaps["omap-values"] = {
        key: rng.randbytes(size) for key, size in zip(edges.binary_keys(rng, len(values)), values, strict=True)
    }
    for name, pairs in omaps.items():
        shuffled = rng.sample(sorted(pairs), k=len(pairs))
        # Not through the mirror, because its reader decodes keys as UTF-8.
        mirror.client.within(namespace="omap").set_omap(
            mirror.pool, name, {edges.as_text(key): pairs[key] for key in shuffled}
        )
    return omaps


def read_omap(stage: Stage, reader: RadosClient, pool: str, name: str, pairs: dict[bytes, bytes]) -> None:
    """Observe that an omap has all its pairs, read page by page, in the byte order of the keys."""
    wanted = [(key, hashlib.sha256(pairs[key]).hexdigest()) for key in sorted(pairs)]
    try:
        got = reader.within(namespace="omap").omap_in_order(pool, name, page=PAGE)
        result = "equal" if got == wanted else first_odd(got, wanted)
    except RadosError as error:
        result = error.kind
    stage.recorder.observe(f"{name} in order, read by {reader.host.arch}", got=result, wanted="equal", keys=len(pairs))


def first_odd(got: Sequence[tuple[bytes, str]], wanted: Sequence[tuple[bytes, str]]) -> str:
    """Describe the first pair that differs from the wanted one."""
    for number, (name, other_name) in enumerate(zip(got, wanted, strict=False)):
        if name != other_name:
            part = "key" if name[0] != other_name[0] else "value"
            return f"{part} {number} of {len(wanted)} is {name[0][:12]!r}, wanted {other_name[0][:12]!r}"
    return f"{len(got)} keys, wanted {len(wanted)}"


def scenario(writer: Arch, kind: PoolKind) -> Scenario:
    return Scenario(
        name=f"interop.names[writer={writer},reader={writer.other},pool={kind.name}]",
        goal=f"{writer.other} finds what {writer} wrote, whatever the names and sizes of objects, attributes, omap "
        "keys, namespaces and locators.",
        method=f"Draws names of 1 to {edges.NAME_BYTES} bytes, not only in ASCII, and sizes and counts around each "
        f"edge; writes from {writer}; lists and reads from both, omap keys in order.",
        run=partial(run, writer=writer, kind=kind),
        tier=Tier.FULL if kind.erasure else Tier.QUICK,
        expects=edges.ODD_PG_NUM,
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario(writer, kind) for kind, writer in product((REPLICATED, EC_2_1), Arch))
