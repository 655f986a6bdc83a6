"""A store that one architecture filled, whose disk then moves: the other reads what it never wrote."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from lab import clock, pools
from lab.arch import Arch
from lab.ceph.objectstore import ObjectStore
from lab.cluster import Cluster
from lab.scenario import Scenario, Stage, Tier
from lab.spec import Capability
from suites.interop.compression import (
    ALL_CHECKSUMS,
    COMPRESSION,
    OBJECT_BYTES,
    PATCH_BYTES,
    PG_NUM,
    Counters,
    counters,
    wordy,
    write,
)
from suites.interop.matrix import arch_of, other
from suites.interop.mirror import Mirror

LEAD_S = 60.0

CHECKSUM_NUMBERS = {"xxhash32": 2, "xxhash64": 3, "crc32c": 4, "crc32c_16": 5, "crc32c_8": 6}
"""As an onode has them: `Checksummer::CSumType` in Ceph's src/common/Checksummer.h."""

EXPECTED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|PG_DEGRADED)\)": (
        "The scenario stopped that OSD, to move its disks."
    ),
}


def run(stage: Stage, writer: Arch) -> None:
    """Fill pools, move an OSD of `writer` to a machine of the other architecture, and let it alone lead."""
    cluster, recorder, reader = stage.cluster, stage.recorder, other(writer)
    osd = cluster.osd_ids(writer)[0]
    with (
        pools.pool(cluster, "packed", pg_num=PG_NUM, options={"compression_mode": "force"}) as packed,
        pools.pool(cluster, "summed", pg_num=PG_NUM) as summed,
    ):
        compressed = filled(stage, packed, "compression_algorithm", COMPRESSION)
        checksummed = filled(stage, summed, "csum_type", ALL_CHECKSUMS)
        pools.wait_clean(cluster)
        packed_bytes = counters(cluster)[osd].compressed_bytes
        recorder.witness(f"bytes that {writer} compressed on osd.{osd}", got=packed_bytes, least=1)
        move(cluster, osd, cluster.host_with(reader).name)
        recorder.observe(f"architecture of osd.{osd} now", got=arch_of(cluster, osd).value, wanted=reader.value)
        with led_by_one(cluster, osd, (packed, summed)):
            read = reading(cluster, osd, stage, (compressed, checksummed))
        recorder.witness("compressed blobs that it read", got=read.decompressions, least=len(COMPRESSION))
        recorder.witness("checksums that it verified", got=read.verifications, least=len(ALL_CHECKSUMS))
        look_inside(stage, osd, summed, len(ALL_CHECKSUMS))


def filled(stage: Stage, pool: str, option: str, algorithms: tuple[str, ...]) -> Mirror:
    """An object for every algorithm, named as it, written while the pool has that one."""
    mirror = Mirror(stage.cluster.client, pool)
    for algorithm in algorithms:
        content, patch = wordy(stage.rng, OBJECT_BYTES), wordy(stage.rng, PATCH_BYTES)
        write(stage.cluster, mirror, option, algorithm, content, patch)
    return mirror


def move(cluster: Cluster, osd: int, target: str) -> None:
    """Put an OSD's disks into another machine; its PGs stay its own, as it keeps its place in the CRUSH map."""
    who = f"osd.{osd}"
    cluster.client.mon("config set", who=who, name="osd_crush_update_on_start", value="false")
    cluster.stop(who)
    cluster.move_osd(osd, target)
    pools.wait_clean(cluster)


@contextmanager
def led_by_one(cluster: Cluster, osd: int, names: tuple[str, ...]) -> Iterator[None]:
    """One OSD is the primary of every PG of some pools, inside the block."""
    others = [one for one in cluster.osd_ids() if one != osd]
    try:
        for one in others:
            cluster.client.mon("osd primary-affinity", id=one, weight=0.0)
        clock.wait(
            lambda: {primary for name in names for primary in pools.primaries(cluster, name).values()},
            lambda found: found == {osd},
            what=f"osd.{osd} leading everything",
            timeout_s=LEAD_S * cluster.patience,
            interval_s=0.2,
        )
        pools.wait_clean(cluster)
        yield
    finally:
        for one in others:
            cluster.client.mon("osd primary-affinity", id=one, weight=1.0)
        pools.wait_clean(cluster)


def reading(cluster: Cluster, osd: int, stage: Stage, mirrors: tuple[Mirror, ...]) -> Counters:
    """Read all of it; what that added to the OSD's counters."""
    before = counters(cluster)[osd]
    for mirror in mirrors:
        mirror.verify(cluster.client, stage.recorder, f"read by osd.{osd} after its disks moved")
    return counters(cluster)[osd] - before


def look_inside(stage: Stage, osd: int, pool: str, objects: int) -> None:
    """Observe which checksums the store has for each object, as the tool of its new architecture reads it."""
    cluster = stage.cluster
    where = {name: pools.locate(cluster, pool, name)["pgid"] for name in CHECKSUM_NUMBERS}
    cluster.stop(f"osd.{osd}")
    try:
        store = ObjectStore(cluster.daemon(f"osd.{osd}"), cluster.patience)
        for name, number in CHECKSUM_NUMBERS.items():
            found = checksum_types(store.dump(where[name], name))
            stage.recorder.observe(f"checksum types of {name} in the store", got=sorted(found), wanted=[number])
    finally:
        cluster.start(f"osd.{osd}")
    stage.recorder.witness("objects looked at in the store", got=len(where), least=objects)
    pools.wait_clean(cluster)


def checksum_types(dump: Mapping[str, Any]) -> set[int]:
    """The types in use in an object's onode, as ceph-objectstore-tool dumps it."""
    return {int(extent["blob"]["csum_type"]) for extent in dump["onode"]["extents"]}


def scenario(writer: Arch) -> Scenario:
    reader = other(writer)
    return Scenario(
        name=f"interop.moved[writer={writer},reader={reader}]",
        goal="What BlueStore of one architecture compressed and checksummed is read by that of the other.",
        method=f"Every algorithm on an OSD of {writer}; its disks move to {reader}, where it alone leads and is read.",
        run=partial(run, writer=writer),
        check="witnessed",
        tier=Tier.FULL,
        needs=frozenset({Capability.MOVE_DISK}),
        spoils=True,
        expects=EXPECTED,
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario(writer) for writer in Arch)
