"""The fio commands of the Proxmox VE Ceph benchmark of 2020, word for word but for size, time and device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from lab.hypervisor.command import Cache, device
from lab.hypervisor.guest import Guest
from lab.scenario import Scenario, Stage, Tier
from lab.series import Line, record_series
from lab.spec import MIB
from suites.hci.load import Run, received_bytes, run_all
from suites.hci.stand import IMAGE_BYTES, TOPOLOGY, disk, hypervisor, images, note

_PVE = "Proxmox VE Ceph benchmark 2020, appendix"
SECONDS = {Tier.QUICK: 8, Tier.FULL: 16}
"""Of each run; the paper has 600."""
JOBS = (1, 4)
GUESTS = {Tier.QUICK: (1, 2), Tier.FULL: (1, 3, 6)}
"""At once; the paper has six, on three nodes."""
CACHES = (Cache.NONE, Cache.WRITEBACK)
END_S = 240.0
"""For fio to start and to end in an emulated guest beside other work."""
LEAST_OPERATIONS = 30
"""Of one run in one guest: an emulated one beside other work does few large operations in a second."""

RATE, LATENCY, CPU = "operations per second", "mean latency, seconds", "host's CPU for one operation, seconds"
SPEED = "speed of an emulated guest on a machine that others share: written down, not judged"
COST = "native code, whatever the guest is: written down, for comparing this machine's runs with each other"


@dataclass(frozen=True)
class Setting:
    """One published command. source: where; pattern: fio's rw; size: of a block, in the paper's words."""

    name: str
    source: str
    pattern: str
    size: str

    @property
    def writes(self) -> bool:
        return "write" in self.pattern

    @property
    def block_bytes(self) -> int:
        return int(self.size[:-1]) * {"K": 1 << 10, "M": MIB}[self.size[-1]]

    def argv(self, device: str, jobs: int, seconds: int) -> list[str]:
        """The paper's words; psync has one operation in flight for each job, whatever its depth says."""
        return [
            "fio",
            "--ioengine=psync",
            f"--filename={device}",
            f"--size={IMAGE_BYTES // MIB}M",
            "--time_based",
            "--name=fio",
            "--group_reporting",
            f"--runtime={seconds}",
            "--direct=1",
            "--sync=1",
            f"--rw={self.pattern}",
            f"--bs={self.size}",
            f"--numjobs={jobs}",
            "--iodepth=1",
            "--output-format=json",
        ]


VM = tuple(Setting("vm-linux", f"{_PVE} 5.2", pattern, size) for size in ("4K", "4M") for pattern in ("write", "read"))
MULTI = tuple(
    Setting("multi-vm-linux", f"{_PVE} 5.3", pattern, size)
    for size in ("4K", "4M")
    for pattern in ("randwrite", "randread")
)


Points = dict[Cache, list[tuple[float, list[Run]]]]
"""Cache mode -> (place on the axis, what each guest did)."""


def one_guest(stage: Stage, setting: Setting) -> None:
    """One guest with a disk in each cache mode, one job and four."""
    found: Points = {cache: [] for cache in CACHES}
    with guests_of(stage, 1) as guests:
        for jobs in JOBS:
            for cache in CACHES:
                found[cache].append((float(jobs), loaded(stage, setting, cache, guests, jobs)))
    draw(stage, f"{setting.pattern} of {setting.size} in one guest, against jobs", found, "jobs")


def several_guests(stage: Stage, setting: Setting) -> None:
    """From one guest to several, each with disks of its own and one job."""
    counts = GUESTS[stage.tier]
    found: Points = {cache: [] for cache in CACHES}
    with guests_of(stage, max(counts)) as guests:
        for count in counts:
            for cache in CACHES:
                found[cache].append((float(count), loaded(stage, setting, cache, guests[:count], 1)))
    draw(stage, f"{setting.pattern} of {setting.size}, against guests at once", found, "guests")


@contextmanager
def guests_of(stage: Stage, count: int) -> Iterator[list[Guest]]:
    """Guests that have a disk in each cache mode: what is compared runs in the same guest, minutes apart."""
    with images(stage.cluster, count * len(CACHES)) as made:
        shares = [made[number::count] for number in range(count)]
        disks = [[disk(one, cache) for one, cache in zip(share, CACHES, strict=True)] for share in shares]
        with hypervisor(stage.cluster).guests(disks) as guests:
            yield guests


def loaded(stage: Stage, setting: Setting, cache: Cache, guests: Sequence[Guest], jobs: int) -> list[Run]:
    """The command in all of these guests at once; what was seen is noted."""
    cluster, seconds, number = stage.cluster, SECONDS[stage.tier], CACHES.index(cache)
    before = received_bytes(cluster)
    argv = setting.argv(device(number), jobs, seconds)
    runs = run_all(guests, number, argv, (seconds + END_S) * cluster.patience)
    reached = received_bytes(cluster) - before
    label = f"cache={cache}, {len(guests)} guest(s), {jobs} job(s)"
    for index, one in enumerate(runs):
        note_run(stage, f"{label}, guest {index + 1}", one)
    written = sum(one.result.write.bytes for one in runs)
    if setting.writes:
        note_reached(stage, label, reached / written if written else 0.0, alone=jobs == 1)
    return runs


def note_run(stage: Stage, what: str, run: Run) -> None:
    """What one guest did, and that it did enough."""
    recorder, asked = stage.recorder, run.asked
    recorder.record("guest", what=what, reads=asked.reads, writes=asked.writes, flushes=asked.flushes)
    recorder.witness(f"operations, {what}", got=run.result.operations, least=LEAST_OPERATIONS)
    note(recorder, f"throughput, {what}", run.result.iops, "operations/s", why=SPEED)
    note(recorder, f"mean latency, {what}", run.result.main.latency_mean_s, "s", why=SPEED)
    cpu = run.cpu
    if cpu is not None:
        bounds = (cpu.low, cpu.high) if cpu.samples > 1 else None
        note(recorder, f"host's CPU for one operation, {what}", cpu.mean, "s", why=COST, interval=bounds)


LEAST_REACHED = 0.99
MOST_REACHED = 1.1
"""Of a few large writes as of many small ones, librbd's bookkeeping is a small share in bytes."""


def note_reached(stage: Stage, label: str, share: float, *, alone: bool) -> None:
    """Bytes that the OSDs got for one that a guest wrote. alone: one job, whose writes cannot overtake each other."""
    what = f"bytes to the cluster for one written, {label}"
    if not alone:
        note(stage.recorder, what, share, "", why="jobs write the same places, which may be put together")
        return
    why = "the paper's writes are synchronous: each is on the cluster before it is acknowledged, cache or not"
    note(stage.recorder, what, share, "", least=LEAST_REACHED, most=MOST_REACHED, why=why)


def draw(stage: Stage, title: str, found: Points, axis: str) -> None:
    """A line for each cache mode in each panel."""
    lines = []
    for cache, points in found.items():
        rate = tuple((at, sum(run.result.iops for run in runs)) for at, runs in points)
        latency = tuple((at, sum(run.result.main.latency_mean_s for run in runs) / len(runs)) for at, runs in points)
        lines += [Line(RATE, cache.value, rate), Line(LATENCY, cache.value, latency)]
        cpu = [(at, [run.cpu.mean for run in runs if run.cpu is not None]) for at, runs in points]
        lines.append(Line(CPU, cache.value, tuple((at, sum(each) / len(each)) for at, each in cpu if each)))
    words = "throughput and latency are those of emulated guests" if not stage_has_kvm(stage) else ""
    record_series(stage.recorder, title, lines, axis=axis, marks={}, words=words)


def stage_has_kvm(stage: Stage) -> bool:
    return hypervisor(stage.cluster).parts.kvm


def _vm(setting: Setting) -> Scenario:
    return Scenario(
        name=f"hci.vm-linux[op={setting.pattern},size={setting.size}]",
        goal="A guest's synchronous writes reach the cluster whatever its disk's cache mode; what I/O costs the host.",
        method=f"{setting.source}, scaled: {setting.pattern} of {setting.size}, one job and four, both cache modes.",
        run=partial(one_guest, setting=setting),
        check="figures",
        tier=Tier.QUICK if setting.size == "4K" else Tier.FULL,
        topology=TOPOLOGY,
    )


def _multi(setting: Setting) -> Scenario:
    return Scenario(
        name=f"hci.multi-vm-linux[op={setting.pattern},size={setting.size}]",
        goal="Several guests on one node, each on its own image, and what an operation then costs the host.",
        method=f"{setting.source}, scaled: {setting.pattern} of {setting.size} in guests at once, both cache modes.",
        run=partial(several_guests, setting=setting),
        check="figures",
        tier=Tier.QUICK if setting.pattern == "randwrite" and setting.size == "4K" else Tier.FULL,
        topology=TOPOLOGY,
    )


SCENARIOS = (*map(_vm, VM), *map(_multi, MULTI))
