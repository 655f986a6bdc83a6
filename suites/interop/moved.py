"""The disk of an OSD moves to the other architecture, which reads a store that it did not write."""

from collections import Counter
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.interop.compression import ALL_CHECKSUMS, COMPRESSION, PG_NUM, counters, filled, look_inside, wordy
from cephlab.suites.interop.edges import sizes, texts
from cephlab.suites.interop.matrix import arch_of, led_by_one
from cephlab.suites.interop.mirror import Mirror

NAMED = 12
OMAP_KEYS = 20
STAYS = "osd_crush_update_on_start"
"""If false, an OSD that starts on another machine keeps its place in the CRUSH map, and so its PGs."""

EXPECTED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|PG_DEGRADED)\)": (
        "The scenario stopped that OSD to move its disks."
    ),
}


def run(stage: Stage, writer: Arch, tier: Tier) -> None:
    """Fill pools, move an OSD of `writer` to the other architecture, read with it as the only primary, move it back.

    tier: the scenario's own. The full tier tests every checksum type, and checks the types in the store.
    """
    cluster, recorder, reader = stage.cluster, stage.recorder, writer.other
    osd = cluster.osd_ids(writer)[0]
    home = cluster.host_of(f"osd.{osd}").name
    sums = ALL_CHECKSUMS if tier is Tier.FULL else ()
    with (
        pools.pool(cluster, "packed", pg_num=PG_NUM, options={"compression_mode": "force"}) as packed,
        pools.pool(cluster, "summed", pg_num=PG_NUM) as summed,
    ):
        compressed = filled(stage, packed, "compression_algorithm", COMPRESSION)
        checksummed = filled(stage, summed, "csum_type", sums)
        attribute(stage, checksummed)
        pools.wait_clean(cluster)
        packed_bytes = counters(cluster)[osd]["compressed_bytes"]
        recorder.witness(f"bytes that {writer} compressed on osd.{osd}", got=packed_bytes, least=1)
        move(cluster, osd, cluster.host_with(reader).name)
        recorder.observe(f"architecture of osd.{osd} now", got=arch_of(cluster, osd).value, wanted=reader.value)
        with led_by_one(cluster, osd, (packed, summed)):
            read = reading(cluster, osd, stage, (compressed, checksummed))
        recorder.witness(f"compressed blobs that osd.{osd} read", got=read["decompressions"], least=len(COMPRESSION))
        recorder.witness(f"checksums that osd.{osd} verified", got=read["verifications"], least=len(sums) or 1)
        if sums:
            look_inside(stage, osd, summed)
        move(cluster, osd, home)
        cluster.client.mon("config rm", who=f"osd.{osd}", name=STAYS)


def attribute(stage: Stage, mirror: Mirror) -> None:
    """Write names, attributes and omaps of many lengths. RocksDB keeps them in blocks that it compresses with LZ4."""
    for name, size in zip(texts(stage.rng, NAMED, 1000), sizes(stage.rng, NAMED), strict=True):
        mirror.full(name, stage.rng.randbytes(100))
        mirror.xattr(name, "note", wordy(stage.rng, size))
        mirror.omap(name, {f"key-{number}": wordy(stage.rng, 500) for number in range(OMAP_KEYS)})


def move(cluster: Cluster, osd: int, target: str) -> None:
    """Move an OSD's disks to another machine. It keeps its PGs, because it keeps its place in the CRUSH map."""
    who = f"osd.{osd}"
    cluster.client.mon("config set", who=who, name=STAYS, value="false")
    cluster.stop(who)
    own(cluster).move_osd(osd, target)
    pools.wait_clean(cluster)


def reading(cluster: Cluster, osd: int, stage: Stage, mirrors: tuple[Mirror, ...]) -> Counter[str]:
    """Read everything. Returns how much the OSD's counters grew."""
    before = counters(cluster)[osd]
    for mirror in mirrors:
        mirror.verify(cluster.client, stage.recorder, f"read by osd.{osd} after its disks moved")
    return counters(cluster)[osd] - before


def scenario(tier: Tier, writer: Arch) -> Scenario:
    reader = writer.other
    everything = tier is Tier.FULL
    return Scenario(
        name=f"interop.moved{'-all' if everything else ''}[writer={writer},reader={reader}]",
        goal="An OSD of one architecture reads the compressed and checksummed data, and the RocksDB data, that the "
        "other architecture wrote to its disks.",
        method=f"Writes with every compression{' and every checksum type' if everything else ''}, and attributes and "
        f"omaps, to an OSD of {writer}; moves its disks to {reader}; reads with it as sole primary; moves them back.",
        run=partial(run, writer=writer, tier=tier),
        check="witnessed",
        tier=tier,
        needs=frozenset({Capability.MOVE_DISK}),
        expects=EXPECTED,
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario(tier, writer) for tier in Tier for writer in Arch)
