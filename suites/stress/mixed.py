"""Load of blocks, objects and S3 at a part of the cluster's capacity, with readings of every daemon."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base.clock import Deadline
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import data_of
from cephlab.lab.providers.host import Host
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.osd import OSD
from cephlab.lab.services.prometheus import PROMETHEUS
from cephlab.lab.services.rgw import RGW
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import MIB, Capability
from cephlab.lab.telemetry.daemons import read_daemons, require_read
from cephlab.lab.workloads import fio, fiolatency, image
from cephlab.lab.workloads.fio import FioJob, RunningFio, RunningProgram
from cephlab.lab.workloads.image import BlockImage
from cephlab.lab.workloads.s3load import RunningS3Load
from cephlab.suites.stress import buckets, resumed, series
from cephlab.suites.stress.length import LEAST_EVERY_S, Length, lasts_s, length_of
from cephlab.suites.stress.share import note_share

POOL = "stress"
PG_NUM = 16
IMAGE_BYTES = 64 * MIB
OBJECT_BYTES = 16 << 10
UNCACHED = {"rbd_cache": "false"}

CALIBRATE_S = 10.0
"""Full load before the run: the rates follow from it, caches fill, and threads start."""
SHARE = 0.25
"""Share of the full load. At a half, other work on a busy machine kept the load below its rate, and an operation cost
28 % more at the end of five minutes (docs/measured/stress.md)."""

SMALL_MEMTABLES = ("bluestore_rocksdb_options_annex", "max_total_wal_size=16777216,write_buffer_size=1048576")
SMALL_MON_CACHE = (("mon_memory_autotune", "false"), ("rocksdb_cache_size", "16777216"))
"""With Ceph's default the cache of a monitor's database fills up to 512 MiB with what it writes, so the memory of
a healthy monitor grows for many hours under a small load (docs/measured/stress.md)."""
SETTLING = (SMALL_MEMTABLES, *SMALL_MON_CACHE, ("debug_rocksdb", "1/5"))
"""With its defaults an OSD fills a log of 1 GiB and as many memtables before it flushes the first, so a healthy OSD's
database and memory grow for the first quarter of an hour under a small load. At its default log level RocksDB logs
35 KiB with every flush, which would hide a line a second."""
LEAST_RATE = 2
SHORT_S, SHORT_CALIBRATE_S = 4.0, 1.0
"""Lengths of the run that shows that everything can be read."""
LEAST_SHARE = 0.9
"""Share of the planned load time."""
MARGIN_S = 60.0


@dataclass(frozen=True)
class Client:
    """A job of the load, and its host."""

    host: Host
    job: FioJob


def stress(stage: Stage) -> None:
    """Load a cluster, and judge every series over time."""
    shared = Capability.HARDWARE not in stage.cluster.provider.capabilities()
    length = length_of(lasts_s(stage.tier))
    length = length.after(resumed.take_over(stage.recorder, stage.earlier, shared=shared))
    values = run(stage, length)
    series.declare(stage.recorder, values, length.hours, shared=shared)


def readable(stage: Stage) -> None:
    """Load a cluster for seconds; observe that each series of a stress run has a value at every look."""
    length = length_of(SHORT_S)
    run(stage, length, SHORT_CALIBRATE_S)
    readings = [data["values"] for data in data_of(stage.recorder.events(), "reading")]
    for name in dict.fromkeys(name for reading in readings for name in reading):
        got = [reading[name] for reading in readings if name in reading]
        missing = sum(value is None for value in got)
        stage.recorder.observe(f"{name}: looks without a value", got=missing, wanted=0, of=len(got))


Meanwhile = Callable[[Stage, Sequence[RunningProgram], Length], series.Values]
"""What to do until a load ends; returns the last values of the series that it read."""


def run(
    stage: Stage, length: Length, calibrate_s: float = CALIBRATE_S, meanwhile: Meanwhile | None = None
) -> series.Values:
    """Run the load and record its readings; returns the last value of every series. meanwhile: replaces `sampled`."""
    if meanwhile is None:
        require_read(stage.cluster, looked_at(stage.cluster).values())
    s3 = buckets.client_of(stage)
    with loaded(stage) as clients:
        rates, s3_rate = calibrated(stage, clients, s3, calibrate_s)
        began_s = time.time()
        running = [start(client, rate, length) for client, rate in zip(clients, rates, strict=True)]
        objects = s3.start(s3_rate, length) if s3.gateways else None
        values = (meanwhile or sampled)(stage, [*running, *([objects] if objects else [])], length)
        for client, program in zip(clients, running, strict=True):
            values |= finished(stage, client, program, length, began_s)
        if objects:
            values |= finished_s3(stage, objects, length, began_s)
    draw(stage)
    return values


@contextmanager
def loaded(stage: Stage) -> Iterator[list[Client]]:
    """A pool with an image, and the jobs of the load, spread over the load nodes in turn."""
    cluster = stage.cluster
    with pools.pool(cluster, POOL, pg_num=PG_NUM), ExitStack() as undo:
        node = cluster.load_nodes()[0]
        blocks = BlockImage(POOL, "blocks", IMAGE_BYTES)
        image.create(cluster, node, blocks)
        undo.callback(image.remove, cluster, blocks)
        image.precondition(cluster, node, blocks, passes=1)
        nodes = cluster.load_nodes()
        yield [
            Client(cluster.hosts[nodes[number % len(nodes)]], job) for number, job in enumerate(jobs(cluster, stage))
        ]


def jobs(cluster: Cluster, stage: Stage) -> Sequence[FioJob]:
    """Blocks written, blocks read, objects written."""
    block = FioJob(
        name="block writes",
        pool=POOL,
        target="blocks",
        pattern="randwrite",
        block_bytes=4096,
        depth=4,
        size_bytes=IMAGE_BYTES,
        seed=stage.rng.randrange(1 << 31),
        options=UNCACHED,
        client=cluster.client_name,
        more={"norandommap": "1"},
    )
    reads = replace(block, name="block reads", pattern="randread", seed=stage.rng.randrange(1 << 31))
    objects = replace(block, name="object writes", engine="rados", block_bytes=OBJECT_BYTES, size_bytes=16 * MIB)
    return block, reads, replace(objects, seed=stage.rng.randrange(1 << 31))


def calibrated(stage: Stage, clients: Sequence[Client], s3: buckets.S3Client, seconds: float) -> tuple[list[int], int]:
    """Operations a second for each job, and for S3: SHARE of what each did when all ran together at full load."""
    running = [begin(client, {}, seconds) for client in clients]
    objects = s3.begin("calibrate", seconds) if s3.gateways else None
    timeout_s = (seconds + MARGIN_S) * stage.cluster.patience
    full = {
        client.job.name: program.finish(timeout_s=timeout_s).iops
        for client, program in zip(clients, running, strict=True)
    }
    if objects:
        full[buckets.NAME] = buckets.rate_of(objects.finish(timeout_s=timeout_s))
    rates = {name: max(LEAST_RATE, round(SHARE * iops)) for name, iops in full.items()}
    for name, iops in full.items():
        stage.recorder.record("calibrated", job=name, full_iops=iops, rate=rates[name])
    return [rates[client.job.name] for client in clients], rates.get(buckets.NAME, 0)


def begin(client: Client, more: Mapping[str, str], seconds: float) -> RunningFio:
    """Start a job. more: options of fio."""
    base = folder_of(client)
    # fio's engine for objects does not read it from the environment, as the one for images does.
    own = {"conf": str(base / "ceph.conf")} if client.job.engine == "rados" else {}
    job = replace(client.job, name=base.name, runtime_s=seconds, more={**client.job.more, **own, **more})
    return fio.start(client.host, job)


def folder_of(client: Client) -> PurePosixPath:
    """The folder in which `fio.start` keeps a job's files."""
    return client.host.directory / "fio" / client.job.name.replace(" ", "-")


def start(client: Client, rate: int, length: Length) -> RunningFio:
    """The same job at a steady rate, with its latencies over time."""
    logged = fiolatency.options(folder_of(client), length.every_s)
    return begin(client, {"rate_iops": str(rate), **logged}, length.seconds)


def looked_at(cluster: Cluster) -> dict[str, Daemon]:
    """The daemons whose series are judged."""
    return {name: daemon for name, daemon in cluster.daemons.items() if daemon.kind not in LOOKING}


def sampled(stage: Stage, running: Sequence[RunningProgram], length: Length) -> series.Values:
    """Look at every daemon until the load ends; returns the last values."""
    daemons = looked_at(stage.cluster)
    names = {name: daemon.kind for name, daemon in daemons.items()}
    osds = {name: daemon.host.arch for name, daemon in daemons.items() if daemon.kind == OSD.kind}
    peers = [[name for name, own in osds.items() if own is arch] for arch in Arch]
    began_s = at_s = time.time()
    before = read_daemons(stage.cluster)
    values: series.Values = {}

    def look() -> None:
        nonlocal at_s, before, values
        now, now_s = read_daemons(stage.cluster), time.time()
        values = series.of_daemons(names, before, now, now_s - at_s)
        values |= series.beside_peers(values, peers)
        before, at_s = now, now_s
        stage.recorder.record("reading", at_s=now_s - began_s, values=values)

    first, first_s, looks = before, began_s, 0
    while at_s - began_s < length.seconds and any(program.process.alive() for program in running):
        looks += 1
        # Looks have fixed times: on a busy machine each takes seconds, and pauses in between would leave too few.
        pause_s = max(LEAST_EVERY_S, began_s + looks * length.every_s - time.time())
        Deadline.after(pause_s).pause(pause_s)
        look()
    note_share(stage, first, before, at_s - first_s)
    stage.recorder.witness("looks at the daemons", got=looks, least=1)
    stage.recorder.witness("seconds of load", got=at_s - began_s, least=LEAST_SHARE * length.seconds)
    return values


def finished(stage: Stage, client: Client, running: RunningFio, length: Length, began_s: float) -> series.Values:
    """Record a job's latencies over time; returns the last values. began_s: its start, since the epoch."""
    if not ended(stage, client.job.name, running):
        return {}
    result = running.finish()
    stage.recorder.observe(f"errors of {client.job.name}", got=result.main.errors, wanted=0)
    stage.recorder.witness(client.job.name, got=result.operations, least=1)
    base = running.output.parent
    text = client.host.read(fiolatency.log_of(base)).decode()
    first_s = result.began_s or began_s
    windows = fiolatency.windows(text, first_s, first_s + result.main.seconds, length.every_s)
    values: series.Values = {}
    for window in windows[1:-1]:  # neither the first nor the last is whole
        latest = series.of_client(client.job.name, window)
        stage.recorder.record("reading", at_s=window.ended_s - began_s, values=latest)
        values |= latest
    return values


def finished_s3(stage: Stage, running: RunningS3Load, length: Length, began_s: float) -> series.Values:
    """The same for the S3 load."""
    if not ended(stage, buckets.NAME, running):
        return {}
    return buckets.record(stage, running.finish(timeout_s=MARGIN_S), length, began_s)


def ended(stage: Stage, name: str, running: RunningProgram) -> bool:
    """Whether a client ended once its time was over. One that does not is stuck: it waits for Ceph, or hangs."""
    by_itself = running.process.wait(MARGIN_S * stage.cluster.patience)
    stage.recorder.observe(f"{name} ended when its time was over", got=by_itself, wanted=True)
    if not by_itself:
        running.kill()
    return by_itself


DRAWN = ("rate", "mean latency", "p99 latency", "CPU of an operation", "CPU beside its peers", "memory", "DB", "log")


def draw(stage: Stage) -> None:
    """Draw the series in the report, those of one kind together."""
    readings = data_of(stage.recorder.events(), "reading")
    names = dict.fromkeys(name for data in readings for name in data["values"])
    for kind in DRAWN:
        lines = []
        for name in (name for name in names if name.rpartition(": ")[2] == kind):
            points = [(data["at_s"], data["values"].get(name)) for data in readings]
            known = tuple((at_s, value) for at_s, value in points if value is not None)
            lines.append(Line(f"{kind}, {series.KINDS[kind].unit}", name.partition(": ")[0], known))
        record_series(stage.recorder, f"{kind} over time", lines, axis="seconds", marks={})


METRICS = (
    ("n0", (EXPORTER.kind, PROMETHEUS.kind, RGW.kind)),
    ("n1", (EXPORTER.kind,)),
    ("n2", (EXPORTER.kind, RGW.kind)),
)
"""Exporters and their server, and a gateway of each architecture."""
LOOKING = (EXPORTER.kind, PROMETHEUS.kind)
"""The lab's own instruments: what they take is no drift of Ceph."""


@dataclass(frozen=True)
class AnyMixed(Topology):
    """A mixed cluster. An existing one is used as it is, with its own settings, without S3 and without exporters, and
    may have one architecture alone.
    """

    lone_client: bool = True
    any_arch: bool = field(default=True, compare=False)

    @property
    def made(self) -> str:
        return ""


ANY_MIXED = AnyMixed()
HOURS = replace(ANY_MIXED, options=SETTLING, services=METRICS)
scenario_of_hours = partial(Scenario, check="drift", topology=HOURS)

SCENARIOS = (
    scenario_of_hours(
        name="stress.readable",
        goal="Under load, every series by which a stress run is judged can be read at every look.",
        method=f"Loads the cluster with blocks, objects and S3 for {SHORT_S:g} s at a steady rate; reads every daemon.",
        run=readable,
        check="witnessed",
        topology=replace(ANY_MIXED, services=(("n0", (RGW.kind,)),)),
        sees=("looks at the daemons", "seconds of load", ".*: looks without a value"),
    ),
    scenario_of_hours(
        name="stress.mixed",
        goal="In hours of load nothing drifts: rates, latencies, CPU per operation, memory, files, stores, logs.",
        method="Loads the cluster with blocks, objects and S3 at a steady rate; judges the slope of every series.",
        run=stress,
        lasts_s=lasts_s,
        sees=("looks at the daemons", "seconds of load", "reading", "sampled"),
    ),
)
