"""PG exports: a PG moves from an OSD of one architecture to an OSD of the other, in both directions."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from cephlab.lab.base.errors import LabBroken, try_all
from cephlab.lab.base.workers import Workers
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.compression import COMPRESSION, wordy
from cephlab.suites.interop.edges import XATTR_NAME_BYTES, as_text, binary_keys, texts
from cephlab.suites.interop.pg_export import Exported, read_export
from cephlab.suites.interop.recovery import PAIRS
from cephlab.suites.interop.sides import ArchSide, sha, sides

PG_NUM = 16  # enough that there is a PG to move in each direction
OBJECTS = 40  # two or three in each PG
OMAP_KEYS = 25  # the edge cases of edges.binary_keys and some random keys
NAME_BYTES = 1000
OBJECT_BYTES = 10_000
HEAD_SNAP = -2  # ceph-objectstore-tool's value for an object that is not a clone


@dataclass(frozen=True)
class Journey:
    """The move of one PG from the store of one OSD into that of another OSD, which lacks the PG."""

    pgid: str
    giver: Daemon
    taker: Daemon

    @property
    def label(self) -> str:
        return f"{self.giver.host.arch} to {self.taker.host.arch}"


@dataclass(frozen=True)
class Given:
    """What was written to an object. data: sha256 of its content; omap: key in hexadecimal -> sha256 of its value."""

    data: str
    omap: Mapping[str, str]


@dataclass(frozen=True)
class Travelled:
    """sent, kept: the exports from giver and taker; listed: the taker's objects as `name@snap`."""

    sent: Mapping[str, Exported]
    listed: list[str]
    kept: Mapping[str, Exported]


def run(stage: Stage) -> None:
    """Stop an OSD of each architecture, exchange a PG between their stores, and start them again."""
    cluster = stage.cluster
    packed = {"compression_mode": "force", "compression_algorithm": stage.rng.choice(COMPRESSION)}
    with (
        pools.pool(cluster, "exports", PAIRS, pg_num=PG_NUM, options=packed) as pool,
        sides(cluster, "exports") as between,
    ):
        wanted = fill(stage, pool)
        cluster.settle()  # all OSDs at one map, because a store refuses an export with a newer map
        journeys = choose(cluster, pool)
        with stopped(cluster, [journey.giver for journey in journeys]):
            travelled = travel(journeys, between)
        for journey in journeys:
            in_pg = {name: wanted_object for (pgid, name), wanted_object in wanted.items() if pgid == journey.pgid}
            note(stage.recorder, journey, travelled[journey.giver.name], in_pg)


def fill(stage: Stage, pool: str) -> dict[tuple[str, str], Given]:
    """Write objects of random names with attributes, omap and a clone each. (pgid, `name@snap`) -> what was written."""
    client, rng = stage.cluster.client, stage.rng
    first = {name: wordy(rng, OBJECT_BYTES + n) for n, name in enumerate(texts(rng, OBJECTS, NAME_BYTES))}
    omaps = {name: {key: wordy(rng, 300) for key in binary_keys(rng, OMAP_KEYS)} for name in first}
    for name, data in first.items():
        client.write_full(pool, name, data)
        client.set_xattr(pool, name, rng.choice(texts(rng, 10, XATTR_NAME_BYTES)), wordy(rng, 100))
        client.set_omap(pool, name, {as_text(key): value for key, value in omaps[name].items()})
    client.snap_create(pool, "before")
    for name in first:
        client.write(pool, name, b"changed", 4093)  # across the end of a block
    wanted = {}
    for name, data in first.items():
        pgid = str(pools.locate(stage.cluster, pool, name)["pgid"])
        omap = {key.hex(): sha(value) for key, value in omaps[name].items()}
        wanted[pgid, f"{name}@1"] = Given(sha(data), omap)  # the pool's first snapshot
        wanted[pgid, f"{name}@head"] = Given(sha(data[:4093] + b"changed" + data[4100:]), omap)
    return wanted


def choose(cluster: Cluster, pool: str) -> list[Journey]:
    """For each architecture, a PG that its first OSD holds and the first OSD of the other architecture lacks."""
    first = {arch: cluster.osd_ids(arch)[0] for arch in cluster.spec.archs}
    placed = cluster.client.mon("pg ls-by-pool", poolstr=pool)["pg_stats"]
    journeys = []
    for giver, taker in zip(first.values(), reversed(first.values()), strict=True):
        fitting = [pg for pg in placed if giver in pg["acting"] and taker not in pg["acting"]]
        if not fitting:
            raise LabBroken(f"none of {len(placed)} PGs is on osd.{giver} but not on osd.{taker}")
        fullest = max(fitting, key=lambda pg: int(pg["stat_sum"]["num_objects"]))
        journeys.append(Journey(fullest["pgid"], cluster.daemon(f"osd.{giver}"), cluster.daemon(f"osd.{taker}")))
    return journeys


@contextmanager
def stopped(cluster: Cluster, daemons: Sequence[Daemon]) -> Iterator[None]:
    """Stop OSDs at the same map and mark them down. Afterwards start them and wait until the cluster is healthy."""
    client = cluster.client
    client.mon("osd set", key="nodown")
    try:
        cluster.wait_map(cluster.osd_ids())
        for daemon in daemons:
            cluster.stop(daemon.name)
    finally:
        client.mon("osd unset", key="nodown")
    try:
        client.mon("osd down", ids=[daemon.id for daemon in daemons])
        yield
    finally:
        try_all([*(partial(cluster.start, daemon.name) for daemon in daemons), cluster.wait_healthy])


def travel(journeys: Sequence[Journey], between: Mapping[Arch, ArchSide]) -> dict[str, Travelled]:
    """Export, import, list, and export again from the new store. Returns giver's name -> results.

    Both OSDs do each step at the same time. The giver of one PG is the taker of the other, and a store serves one tool
    at a time.
    """

    def export(daemon: Daemon, pgid: str, file: str) -> bytes:
        side = between[daemon.host.arch]
        store(side, daemon, "export", "--pgid", pgid, "--file", str(side.path(file)))
        return side.get(file)

    def arrive(journey: Journey, content: bytes) -> str:
        taker = between[journey.taker.host.arch]
        store(taker, journey.taker, "import", "--file", taker.put("in", content))
        return store(taker, journey.taker, "list", "--pgid", journey.pgid)

    with Workers(max_workers=len(journeys), thread_name_prefix="journey") as pool:
        sent = list(pool.map(lambda journey: export(journey.giver, journey.pgid, "out"), journeys))
        listed = list(pool.map(arrive, journeys, sent))
        kept = list(pool.map(lambda journey: export(journey.taker, journey.pgid, "again"), journeys))
    return {
        journey.giver.name: Travelled(read_export(out), listing(text), read_export(again))
        for journey, out, text, again in zip(journeys, sent, listed, kept, strict=True)
    }


def note(recorder: Recorder, journey: Journey, exports: Travelled, wanted: Mapping[str, Given]) -> None:
    """Observe the objects of one PG before and after its move. wanted: `name@snap` -> what was written."""
    direction, names = journey.label, sorted(wanted)
    recorder.observe(
        f"objects in the PG, {direction}", got=len(names) > 0, wanted=True, pgid=journey.pgid, objects=len(names)
    )
    for when, answers in (("in the export", exports.sent), ("after the import", exports.kept)):
        contents = {name: exported.data for name, exported in answers.items()}
        written = {name: wanted[name].data for name in names}
        recorder.observe(f"content {when}, {direction}", got=contents, wanted=written)
        odd = [name for name in names if name not in answers or answers[name].omap != wanted[name].omap]
        recorder.observe(f"objects with a wrong omap {when}, {direction}", got=odd, wanted=[], of=len(names))
    recorder.observe(f"objects listed after the import, {direction}", got=exports.listed, wanted=names)
    recorder.observe(
        f"content, attributes and omap after the import, {direction}",
        got={name: exported.everything for name, exported in exports.kept.items()},
        wanted={name: exported.everything for name, exported in exports.sent.items()},
    )


def store(side: ArchSide, daemon: Daemon, operation: str, *args: str) -> str:
    data = daemon.host.directory / daemon.name
    argv = ["--no-mon-config", "--data-path", str(data), "--op", operation, *args]
    return side.run("ceph-objectstore-tool", *argv, preload=daemon.preload)


def listing(output: str) -> list[str]:
    """The objects that `--op list` prints, as `name@snap`. The PG's own metadata object has no name."""
    entries = [json.loads(line)[1] for line in output.splitlines() if line.startswith("[")]
    named = [entry for entry in entries if entry["oid"]]
    return sorted(f"{e['oid']}@{'head' if e['snapid'] == HEAD_SNAP else e['snapid']}" for e in named)


SCENARIOS: tuple[Scenario, ...] = (
    Scenario(
        name="interop.encoding-pg-export",
        goal="A PG exported from an OSD of one architecture is unchanged after its import into an OSD of the other.",
        method="Writes compressed objects, stops an OSD of each architecture; ceph-objectstore-tool exports, imports, "
        "lists and exports again; compares contents and omaps with what was written.",
        run=run,
        sees=("objects in the PG, .*", "content, attributes and omap after the import, .*"),
        expects={
            r"Health check failed: nodown flag\(s\) set \(OSDMAP_FLAGS\)": "Both OSDs must stop at the same map.",
            r"\.osd e\d+ definitely_dead 0$": "The monitor logs that the scenario marked the stopped OSDs down.",
        },
    ),
)
