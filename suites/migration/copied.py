"""What OSDs copied without client load, by their own count, compared with the least that any cluster must move."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.telemetry.counters import of_osds
from cephlab.suites.migration.budget import TOLERANCE
from cephlab.suites.migration.movement import PlacedPg
from cephlab.suites.migration.trial import placement

COUNTER = "osd.push_out_bytes"
"""What an OSD sent of objects to OSDs that lack them, of all pools with copies. Writes of clients that find such an
object have it sent at once, so under load there is no least to compare with. Erasure code is not counted."""


@dataclass
class Copied:
    """Bytes that OSDs copied since this was made. A daemon that ends takes its count with it: see `leave`."""

    cluster: Cluster
    began: dict[int, float] = field(default_factory=dict)
    gone: float = 0.0

    def __post_init__(self) -> None:
        self.began = counts(self.cluster)

    def leave(self, osds: Iterable[int]) -> None:
        """Add what OSDs counted that are about to end. A new OSD may get the number of one of them."""
        for osd, count in counts(self.cluster, osds).items():
            self.gone += count - self.began.pop(osd, 0.0)

    @property
    def bytes(self) -> float:
        now = counts(self.cluster)
        return self.gone + sum(count - self.began.get(osd, 0.0) for osd, count in now.items())


def counts(cluster: Cluster, osds: Iterable[int] | None = None) -> dict[int, float]:
    """OSD -> bytes that it copied since it started."""
    return {osd: dump[COUNTER] for osd, dump in of_osds(cluster, osds).items()}


def placed(cluster: Cluster) -> list[PlacedPg]:
    """The placement of each PG of all pools, Ceph's own too. All of them must have copies."""
    pools = [pool["pool_name"] for pool in cluster.client.mon("osd dump")["pools"]]
    return [pg for pool in pools for pg in placement(cluster, pool, REPLICATED)]


def note_copied(recorder: Recorder, what: str, copied_bytes: float, least_bytes: float) -> None:
    """Record what was copied. More is wasted, and less is a copy that was not made."""
    why = f"{least_bytes:.0f} bytes by the maps before and after, of all pools, within a factor of {TOLERANCE:g}"
    bound = Bound(why, least=least_bytes / TOLERANCE, most=least_bytes * TOLERANCE, basis=Basis.CORRECTNESS)
    recorder.figure(f"copied_bytes[{what}]", round(copied_bytes), "B", bound)
