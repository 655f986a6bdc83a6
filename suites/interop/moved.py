"""An OSD's disk moves to the other architecture, which reads a store that it never wrote."""

from __future__ import annotations

from collections import Counter
from functools import partial

from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.interop.compression import ALL_CHECKSUMS, COMPRESSION, PG_NUM, counters, filled, look_inside
from cephlab.suites.interop.matrix import arch_of, led_by_one, other
from cephlab.suites.interop.mirror import Mirror

EXPECTED = {
    r"log_channel\(cluster\) log \[WRN\] : Health check (failed|update): .*\((OSD_DOWN|OSD_HOST_DOWN|PG_DEGRADED)\)": (
        "The scenario stopped that OSD to move its disks."
    ),
}


def run(stage: Stage, writer: Arch) -> None:
    """Fill pools, move an OSD of `writer` to a machine of the other architecture, and let only that OSD lead."""
    cluster, recorder, reader = stage.cluster, stage.recorder, other(writer)
    osd = cluster.osd_ids(writer)[0]
    with (
        pools.pool(cluster, "packed", pg_num=PG_NUM, options={"compression_mode": "force"}) as packed,
        pools.pool(cluster, "summed", pg_num=PG_NUM) as summed,
    ):
        compressed = filled(stage, packed, "compression_algorithm", COMPRESSION)
        checksummed = filled(stage, summed, "csum_type", ALL_CHECKSUMS)
        pools.wait_clean(cluster)
        packed_bytes = counters(cluster)[osd]["compressed_bytes"]
        recorder.witness(f"bytes that {writer} compressed on osd.{osd}", got=packed_bytes, least=1)
        move(cluster, osd, cluster.host_with(reader).name)
        recorder.observe(f"architecture of osd.{osd} now", got=arch_of(cluster, osd).value, wanted=reader.value)
        with led_by_one(cluster, osd, (packed, summed)):
            read = reading(cluster, osd, stage, (compressed, checksummed))
        recorder.witness("compressed blobs that it read", got=read["decompressions"], least=len(COMPRESSION))
        recorder.witness("checksums that it verified", got=read["verifications"], least=len(ALL_CHECKSUMS))
        look_inside(stage, osd, summed)


def move(cluster: Cluster, osd: int, target: str) -> None:
    """Move an OSD's disks to another machine. It keeps its PGs, because it keeps its place in the CRUSH map."""
    who = f"osd.{osd}"
    cluster.client.mon("config set", who=who, name="osd_crush_update_on_start", value="false")
    cluster.stop(who)
    own(cluster).move_osd(osd, target)
    pools.wait_clean(cluster)


def reading(cluster: Cluster, osd: int, stage: Stage, mirrors: tuple[Mirror, ...]) -> Counter[str]:
    """Read everything. Returns what that added to the OSD's counters."""
    before = counters(cluster)[osd]
    for mirror in mirrors:
        mirror.verify(cluster.client, stage.recorder, f"read by osd.{osd} after its disks moved")
    return counters(cluster)[osd] - before


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"interop.moved[writer={writer},reader={other(writer)}]",
        goal="BlueStore of one architecture reads what that of the other compressed and checksummed.",
        method=f"Fills an OSD of {writer} by every algorithm, moves its disks to {other(writer)}, reads from it alone.",
        run=partial(run, writer=writer),
        check="witnessed",
        tier=Tier.FULL,
        needs=frozenset({Capability.MOVE_DISK}),
        spoils=True,
        expects=EXPECTED,
    )
    for writer in Arch
)
