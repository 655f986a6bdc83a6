"""Metadata spills over to slow disks: the number of objects is predicted from RocksDB's levels, then measured."""

import re
from dataclasses import dataclass, replace
from functools import partial

from cephlab.lab.base.errors import CephTrouble, LabBroken
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.workloads.s3_load_program import FILL, FINAL
from cephlab.lab.workloads.s3load import Over, S3Load, constant
from cephlab.suites.archive.stand import UNIT_BYTES, ArchiveTopology, bluefs, opened, options_of
from cephlab.suites.object.stand import loaded, near
from cephlab.tuning.held import whole_levels

KIB = 1 << 10
_SUM = re.compile(r"\bSum +\d+/\d+ +([\d.]+) ([KMG]?B)\b")
_UNITS = {"B": 1, "KB": KIB, "MB": MIB, "GB": 1024 * MIB}
HEALTH = "BLUEFS_SPILLOVER"
OBJECT_BYTES = 1
"""Metadata does not depend on it."""
DB_BYTES = 48 * MIB
SLOW_BYTES = 1024 * MIB
RECORDED = Bound("depends on the release: recorded only; the paper has 10 KB on six OSDs", basis=Basis.NOTED)
TRUSTED = 1.5
"""Factor by which the prediction may be off. RocksDB compacts a level once it exceeds its size, and the new files exist
next to the ones they replace. The paper's figures are within 0.6 % of 8.8 billion, at sizes where neither matters."""
PROBES = 300
"""Objects of the first measurement, and of the second beyond it."""
STEP = 150
MOST_STEPS = 60
MORE = 450
"""Further objects after the spill-over, so that GETs read spilled metadata."""
WORKERS = 8


@dataclass(frozen=True)
class Levels:
    """How RocksDB lays out a database: L0 about as large as L1, each next level `multiplier` times larger.

    policy: bluestore_volume_selection_policy.
    """

    base_bytes: int
    multiplier: int
    policy: str

    @property
    def options(self) -> tuple[tuple[str, str], ...]:
        """Options of OSDs: files as small as the levels need them, one column family for all keys as in Nautilus."""
        annex = {
            "max_bytes_for_level_base": self.base_bytes,
            "max_bytes_for_level_multiplier": self.multiplier,
            "write_buffer_size": self.base_bytes,
            "min_write_buffer_number_to_merge": 1,
            "target_file_size_base": self.base_bytes,
            "level0_file_num_compaction_trigger": 2,
            "compression": "kNoCompression",
            "max_total_wal_size": 4 * MIB,
        }
        return (
            *(pair for pair in options_of(UNIT_BYTES) if pair[0] != "bluestore_rocksdb_options_annex"),
            ("bluestore_rocksdb_options_annex", ",".join(f"{key}={value}" for key, value in annex.items())),
            ("bluestore_rocksdb_cf", "false"),
            ("bluestore_volume_selection_policy", self.policy),
            ("bluefs_alloc_size", str(64 * KIB)),
            ("osd_max_pg_log_entries", "100"),
            ("osd_min_pg_log_entries", "100"),
            # So that RocksDB reports how much is in each level.
            ("rocksdb_perf", "true"),
            ("rocksdb_collect_compaction_stats", "true"),
        )

    def held_bytes(self, db_bytes: float) -> float:
        """Bytes of a database that stay on its device: L0, about as large as L1, and all levels that fit whole.

        Source: RocksDB's LevelCompactionBuilder::GetPathId. A level that does not fit goes to the next path whole.
        """
        return self.base_bytes + whole_levels(db_bytes - self.base_bytes, self.base_bytes, self.multiplier)


PAPER = Levels(512 * KIB, 10, "rocksdb_original")
"""The paper's levels, each ten times the one before; the first has a five-hundredth of the paper's size."""
USABLE = 0.95
"""Share of the device that RocksDB is told to use (BlueStore's OriginalVolumeSelector)."""


@dataclass(frozen=True)
class Met:
    """When the first OSD spilled over. after, by: objects at the last look without spill-over, at the first with it."""

    after: int
    by: int


def run(stage: Stage, levels: Levels) -> None:
    """Measure an object's metadata, predict, and put objects until an OSD spills over."""
    cluster = stage.cluster
    doors = opened(cluster)
    most = 2 * PROBES + STEP * MOST_STEPS + MORE
    load = S3Load(
        bucket="spill",
        objects=most,
        sizes=constant(OBJECT_BYTES),
        workers=WORKERS,
        seed=stage.rng.randrange(1 << 31),
        phases=(FILL,),
    )
    used = []
    for number in range(2):
        put(stage, doors, load, number * PROBES + 1, (number + 1) * PROBES)
        used.append(compacted(cluster))
    each = max((after - before) / PROBES for before, after in zip(*used, strict=True))
    room = levels.held_bytes(USABLE * DB_BYTES)
    stage.recorder.figure("metadata of an object on the fullest OSD", each, "bytes", RECORDED)
    spilt = until_spilt(stage, doors, load)
    compare(stage.recorder, spilt, levels, room, each)
    status = cluster.wait(lambda status: status.has(HEALTH), what=HEALTH, timeout_s=60)
    stage.recorder.observe(f"{HEALTH} once BlueFS uses slow disks", got=status.has(HEALTH), wanted=True)
    put(stage, doors, load, spilt.by + 1, spilt.by + MORE)
    read_cold(stage, doors, replace(load, objects=spilt.by + MORE, phases=(FINAL,)))
    cluster.client.mon("config set", who="osd", name="bluestore_warn_on_bluefs_spillover", value="false")


def put(stage: Stage, doors: list[Gateway], load: S3Load, first: int, last: int) -> None:
    """Put some of the objects, by their numbers."""
    part = replace(load, over={FILL: Over(objects=((first, last, 1.0),))})
    loaded(stage, f"objects {first} to {last}", near(stage.cluster), doors[:1], part)


def read_cold(stage: Stage, doors: list[Gateway], load: S3Load) -> None:
    """Drop the OSDs' caches, read everything back, and observe that metadata is read from slow disks."""
    cluster = stage.cluster
    for osd in cluster.osd_ids():
        cluster.client.command(f"osd.{osd}", "cache drop")
    before = [sum(bluefs(cluster, f"read_random_disk_bytes_{disk}")) for disk in ("db", "slow")]
    loaded(stage, "the last reading", near(cluster), doors, load)
    after = [sum(bluefs(cluster, f"read_random_disk_bytes_{disk}")) for disk in ("db", "slow")]
    fast, slow = (later - earlier for later, earlier in zip(after, before, strict=True))
    stage.recorder.observe("whether GETs take metadata from slow disks", got=slow > 0, wanted=True)
    why = Bound("depends on how much has spilled over: recorded only", basis=Basis.NOTED)
    stage.recorder.figure("metadata that a GET reads from slow disks", slow / load.objects, "bytes", why)
    stage.recorder.figure("metadata that a GET reads from fast disks", fast / load.objects, "bytes", why)


def compacted(cluster: Cluster) -> list[float]:
    """Bytes in the files of each OSD's RocksDB after a compaction, without its logs."""
    for osd in cluster.osd_ids():
        cluster.client.tell(f"osd.{osd}", "compact")
    # The answer repeats a key, so it cannot be read as JSON.
    dumps = [cluster.client.command(f"osd.{osd}", "dump_objectstore_kv_stats") for osd in cluster.osd_ids()]
    return [files_bytes(dump.decode()) for dump in dumps]


def files_bytes(answer: str) -> float:
    """The line `Sum` of RocksDB's table of levels, in bytes; LabBroken without one."""
    match = _SUM.search(answer)
    if match is None:
        raise LabBroken("RocksDB does not report its levels", answer[:500])
    return float(match[1]) * _UNITS[match[2]]


def until_spilt(stage: Stage, doors: list[Gateway], load: S3Load) -> Met:
    """Put objects step by step; CephTrouble where none has spilled over at the end."""
    stored = 2 * PROBES
    for _ in range(MOST_STEPS):
        put(stage, doors, load, stored + 1, stored + STEP)
        slow = bluefs(stage.cluster, "slow_used_bytes")
        stage.recorder.record(
            "spill", objects=stored + STEP, slow_bytes=slow, db_bytes=bluefs(stage.cluster, "db_used_bytes")
        )
        if any(slow):
            return Met(stored, stored + STEP)
        stored += STEP
    raise CephTrouble(f"no OSD has spilled over after {stored} objects", f"bytes of BlueFS on slow disks: {slow}")


def compare(recorder: Recorder, spilt: Met, levels: Levels, room: float, each: float) -> None:
    """Compare the measured count with the predicted one. room, each: bytes, of an OSD and of an object."""
    predicted = room / each
    recorder.figure(
        "objects when metadata spilled over / predicted",
        (spilt.after + spilt.by) / 2 / predicted,
        "",
        Bound(
            f"the prediction is trusted to a factor of {TRUSTED:g}",
            1 / TRUSTED,
            TRUSTED,
            (
                f"levels of {levels.base_bytes} bytes x {levels.multiplier} on {DB_BYTES} bytes, {levels.policy}",
                f"{room:.0f} bytes fit, at {each:.0f} bytes an object: {predicted:.0f} objects",
            ),
            basis=Basis.CORRECTNESS,
        ),
        interval=(spilt.after / predicted, spilt.by / predicted),
    )


SCENARIOS = (
    Scenario(
        name="archive.spill-over[levels=paper]",
        goal="Metadata spills over to slow disks after as many objects as RocksDB's levels predict, and Ceph warns.",
        method="Measures an object's metadata, predicts, puts objects until BlueFS uses slow disks, reads all back.",
        run=partial(run, levels=PAPER),
        check="figures",
        topology=ArchiveTopology(
            foreign=0, foreign_gateway=False, disk_bytes=SLOW_BYTES, db_bytes=DB_BYTES, options=PAPER.options
        ),
        spoils=True,
        expects={HEALTH: "The scenario fills RocksDB until it spills over, and waits for the monitor's warning."},
    ),
)
