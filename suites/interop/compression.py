"""BlueStore compression and checksum types: a primary of one architecture writes, a primary of the other reads."""

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.telemetry.counters import of_osds
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.matrix import arch_of, observe_primaries
from cephlab.suites.interop.mirror import Mirror

COMPRESSION = ("snappy", "zlib", "zstd", "lz4")
CHECKSUMS = ("crc32c", "xxhash64")
CHECKSUM_NUMBERS = {"xxhash32": 2, "xxhash64": 3, "crc32c": 4, "crc32c_16": 5, "crc32c_8": 6}
"""Numbers in an onode: `Checksummer::CSumType` in Ceph's src/common/Checksummer.h."""

ALL_CHECKSUMS = tuple(sorted(CHECKSUM_NUMBERS))
OBJECT_BYTES = 512 << 10  # at least eight blobs (bluestore_compression_max_blob_size is 64 KiB at most)
PATCH_BYTES = 5000  # a partial overwrite, so part of a compressed blob stays in use
PATCH_AT = 100_000  # in the middle of a blob
WORDS = 64  # a vocabulary so small that every algorithm reaches the required ratio of 0.875
WORD_BYTES = 16
PG_NUM = 4

EXPECTED = {
    **DEAD_COUNT,
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|PG_DEGRADED)\)": (
        "The scenario stopped that OSD to read its store."
    ),
}


def compressed(stage: Stage, writer: Arch) -> None:
    """Write an object per algorithm with primaries on `writer`; read all with primaries on the other."""
    cluster = stage.cluster
    with pools.pool(cluster, "packed", pg_num=PG_NUM, options={"compression_mode": "force"}) as pool:
        mirror = Mirror(cluster.client, pool)
        with pools.primary_on(cluster, writer, pool):
            # All objects get the same content, so that only the algorithm can change the compressed size.
            content, patch = wordy(stage.rng, OBJECT_BYTES), wordy(stage.rng, PATCH_BYTES)
            growth = [write(cluster, mirror, "compression_algorithm", name, content, patch) for name in COMPRESSION]
        for osd in cluster.osd_ids():
            # Equal sizes for different algorithms would mean that the OSD never changed its algorithm.
            sizes = {by_osd[osd]["compressed_bytes"] for by_osd in growth}
            what = f"algorithms with different compressed sizes on osd.{osd} ({arch_of(cluster, osd)})"
            stage.recorder.witness(what, got=len(sizes - {0}), least=len(COMPRESSION))
        read = read_by_other(stage, mirror, writer)
        stage.recorder.witness("compressed blobs read back", got=read["decompressions"], least=len(COMPRESSION))


def checksummed(stage: Stage, writer: Arch, algorithms: Sequence[str]) -> None:
    """Write an object per checksum type with primaries on `writer`; read all from primaries of the other."""
    cluster = stage.cluster
    with pools.pool(cluster, "summed", pg_num=PG_NUM) as pool:
        with pools.primary_on(cluster, writer, pool):
            mirror = filled(stage, pool, "csum_type", algorithms)
        read = read_by_other(stage, mirror, writer)
        stage.recorder.witness("checksums verified on reading", got=read["verifications"], least=len(algorithms))


def stored(stage: Stage, on: Arch) -> None:
    """Write an object per checksum type, and observe the type of each in the store of one OSD."""
    cluster = stage.cluster
    with pools.pool(cluster, "stored", pg_num=1) as pool:
        filled(stage, pool, "csum_type", ALL_CHECKSUMS)
        acting = pools.locate(cluster, pool, ALL_CHECKSUMS[0])["acting"]
        look_inside(stage, next(osd for osd in cluster.osd_ids(on) if osd in acting), pool)


def filled(stage: Stage, pool: str, option: str, algorithms: Sequence[str]) -> Mirror:
    """Write an object for each algorithm, named after it, while the pool uses that algorithm."""
    mirror = Mirror(stage.cluster.client, pool)
    for algorithm in algorithms:
        content, patch = wordy(stage.rng, OBJECT_BYTES), wordy(stage.rng, PATCH_BYTES)
        write(stage.cluster, mirror, option, algorithm, content, patch)
    return mirror


def look_inside(stage: Stage, osd: int, pool: str) -> None:
    """Observe the checksum types of each object in an OSD's store, read by the tool of the OSD's own architecture."""
    cluster = stage.cluster
    where = {name: str(pools.locate(cluster, pool, name)["pgid"]) for name in CHECKSUM_NUMBERS}
    cluster.stop(f"osd.{osd}")
    try:
        store = ObjectStore(cluster.daemon(f"osd.{osd}"), cluster.patience)
        for name, number in CHECKSUM_NUMBERS.items():
            types = checksum_types(store.dump(where[name], name))
            stage.recorder.observe(f"checksum types of {name} in the store", got=sorted(types), wanted=[number])
    finally:
        cluster.start(f"osd.{osd}")
    stage.recorder.witness("objects checked in the store", got=len(where), least=len(ALL_CHECKSUMS))
    pools.wait_clean(cluster)


def checksum_types(dump: Mapping[str, Any]) -> set[int]:
    """The checksum types in an onode that ceph-objectstore-tool dumped."""
    return {int(extent["blob"]["csum_type"]) for extent in dump["onode"]["extents"]}


def write(
    cluster: Cluster, mirror: Mirror, option: str, algorithm: str, content: bytes, patch: bytes
) -> dict[int, Counter[str]]:
    """Set the pool's algorithm and write an object. Returns how much each OSD's counters grew."""
    cluster.client.mon("osd pool set", pool=mirror.pool, var=option, val=algorithm)
    # An OSD reports a map before its PGs use it, and until then they compress as before. Its next statistics come only
    # after its PGs use the map, so waiting for them is enough.
    cluster.settle()
    pools.wait_clean(cluster)
    before = counters(cluster)
    mirror.full(algorithm, content)
    mirror.write(algorithm, patch, PATCH_AT)
    after = counters(cluster)
    return {osd: after[osd] - before[osd] for osd in after}


def read_by_other(stage: Stage, mirror: Mirror, writer: Arch) -> Counter[str]:
    """Read all with primaries on the other architecture. Returns how much the counters of its OSDs grew."""
    cluster = stage.cluster
    reader = writer.other
    with pools.primary_on(cluster, reader, mirror.pool):
        observe_primaries(stage, mirror.pool, reader)
        before = counters(cluster)
        mirror.verify(cluster.client, stage.recorder, f"read from {reader} after {writer} led the writes")
        after = counters(cluster)
    return sum((after[osd] - before[osd] for osd in cluster.osd_ids(reader)), Counter())


def counters(cluster: Cluster) -> dict[int, Counter[str]]:
    """BlueStore's counters of every OSD since it started."""
    names = {"compressed_bytes": "compressed", "decompressions": "decompress_lat", "verifications": "csum_lat"}
    dumps = of_osds(cluster).items()
    return {osd: Counter({name: int(dump[f"bluestore.{key}"]) for name, key in names.items()}) for osd, dump in dumps}


def wordy(rng: Random, size: int) -> bytes:
    """Bytes that compress well and differ from seed to seed."""
    vocabulary = [rng.randbytes(WORD_BYTES) for _ in range(WORDS)]
    return b"".join(rng.choices(vocabulary, k=size // WORD_BYTES + 1))[:size]


def scenarios(writer: Arch) -> tuple[Scenario, ...]:
    reader = writer.other
    return (
        Scenario(
            name=f"interop.checksum-types[on={writer}]",
            goal=f"BlueStore on {writer} stores each object with the checksum type of its pool.",
            method=f"Writes an object for each of {', '.join(ALL_CHECKSUMS)}; stops an OSD and dumps their onodes.",
            run=partial(stored, on=writer),
            check="witnessed",
            # The tool takes tenths of a second natively. Emulated, it takes as long as the rest of the scenario.
            tier=Tier.QUICK if writer is host_arch() else Tier.FULL,
            expects=EXPECTED,
        ),
        Scenario(
            name=f"interop.compression[writer={writer},reader={reader}]",
            goal="BlueStore of each architecture decompresses what it compressed itself, whichever led the writes.",
            method=f"Writes with forced {', '.join(COMPRESSION)} led by {writer}, overwrites a part, reads from "
            f"{reader}. The scenarios moved and messenger-compressed test data compressed by the other architecture.",
            run=partial(compressed, writer=writer),
            check="witnessed",
        ),
        *(
            Scenario(
                name=f"interop.checksums{suffix}[writer={writer},reader={reader}]",
                goal="Data written with each checksum type through a primary of one architecture reads back intact "
                "through a primary of the other.",
                method=f"Writes with {', '.join(types)} in a pool led by {writer}; reads from {reader}, which verifies "
                "the checksums. The scenario checksum-types checks the types in a store.",
                run=partial(checksummed, writer=writer, algorithms=types),
                check="witnessed",
                tier=tier,
            )
            for tier, suffix, types in ((Tier.QUICK, "", CHECKSUMS), (Tier.FULL, "-all", ALL_CHECKSUMS))
        ),
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario for writer in Arch for scenario in scenarios(writer))
