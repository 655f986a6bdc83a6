"""The fio commands of the Proxmox VE Ceph benchmark of 2020, unchanged except for size, time and device."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from statistics import fmean

from cephlab.lab.base.numbers import how_many
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites import gains
from cephlab.suites.hci import claims
from cephlab.suites.hci.hypervisor.command import CacheMode, device
from cephlab.suites.hci.hypervisor.guest import HostedGuest
from cephlab.suites.hci.load import GuestRun, at_rest, received_bytes, run_all
from cephlab.suites.hci.stand import IMAGE_BYTES, POOL, TOPOLOGY, copies_on, disk, hypervisor, images, words_on
from cephlab.tuning.workload import Shape

_PVE = "Proxmox VE Ceph benchmark 2020, appendix"
SECONDS = {Tier.QUICK: 6, Tier.FULL: 16}
"""Length of each run; the paper's is 600 s."""
JOBS = (1, 4)
GUESTS = {Tier.QUICK: (1, 2), Tier.FULL: (1, 3, 6)}
"""Guests at the same time; the paper has six, on three nodes."""
CACHES = (CacheMode.NONE, CacheMode.WRITEBACK)
TURNS = {
    "none": CacheMode.NONE,
    "writeback": CacheMode.WRITEBACK,
    "writeback, again": CacheMode.WRITEBACK,
    "none, again": CacheMode.NONE,
}
"""Where rates are judged: a cluster that gets steadily slower or faster is as slow for one mode as for the other."""
END_S = 240.0
"""Time for fio to start and to end in an emulated guest on a busy machine."""
LEAST_OPERATIONS = 30
"""For one run of one guest: an emulated guest on a busy machine does few large operations per second."""

RATE, LATENCY, CPU = "operations per second", "mean latency, seconds", "host's CPU for one operation, seconds"
SPEED = "recorded only: it depends on the machine, and on whether the guest is emulated"
COST = "recorded only: for comparing runs on this machine; native code even if the guest is emulated"


@dataclass(frozen=True)
class GuestSetting:
    """One published command. pattern: fio's rw; size: the block size as the paper writes it."""

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
        """The paper's command. psync has one operation in flight for each job at any iodepth."""
        return (
            f"fio --ioengine=psync --filename={device} --size={IMAGE_BYTES // MIB}M --time_based --name=fio "
            f"--group_reporting --runtime={seconds} --direct=1 --sync=1 --rw={self.pattern} --bs={self.size} "
            f"--numjobs={jobs} --iodepth=1 --output-format=json"
        ).split()


SIZES = ("4K", "4M")
VM = tuple(GuestSetting(f"{_PVE} 5.2", pattern, size) for size in SIZES for pattern in ("write", "read"))
MULTI = tuple(GuestSetting(f"{_PVE} 5.3", pattern, size) for size in SIZES for pattern in ("randwrite", "randread"))
SEVERAL = (*VM, *MULTI)
"""With several guests the paper ran the sequential commands too (5.2), and all of them with one job and with four."""


Points = Mapping[CacheMode, Mapping[int, list[list[GuestRun]]]]
"""Cache mode -> place on the axis -> for each turn of the mode, the result of each guest."""


def one_guest(stage: Stage, setting: GuestSetting) -> None:
    """Run a setting in one guest with a disk in each cache mode, with one job and with four."""
    points = measured(stage, setting, [(jobs, 1, jobs) for jobs in JOBS])
    draw(stage, f"{setting.pattern} of {setting.size} in one guest, against jobs", points, "jobs")
    for jobs in JOBS:
        claim_cache(stage, setting, points, jobs, f"1 guest, {how_many(jobs, 'job')}", jobs)


def several_guests(stage: Stage, setting: GuestSetting) -> None:
    """Run a setting in one guest and in several, each with its own disks; in the full tier also with four jobs."""
    counts = GUESTS[stage.tier]
    for jobs in JOBS if stage.tier is Tier.FULL else JOBS[:1]:
        points = measured(stage, setting, [(count, count, jobs) for count in counts])
        draw(
            stage,
            f"{setting.pattern} of {setting.size} with {how_many(jobs, 'job')}, against number of guests",
            points,
            "guests",
        )
        for count in counts[1:]:
            claim_cache(stage, setting, points, count, f"{how_many(count, 'guest')}, {how_many(jobs, 'job')}", jobs)
        judged = hypervisor(stage.cluster).parts.kvm
        for cache, places in points.items():
            fewest, most = (claims.rate_of(places[count]) for count in (counts[0], counts[-1]))
            label = f"{how_many(counts[-1], 'guest')}, {how_many(jobs, 'job')}, cache={cache}"
            copies = copies_on(stage.cluster).size
            alone, together = (load_of(setting, guests, jobs, copies) for guests in (counts[0], counts[-1]))
            bound = gains.of_growth(stage, alone, together, claims.SEVERAL)
            claims.note_guests(stage.recorder, label, (most, fewest), bound, judged=judged)


def load_of(setting: GuestSetting, guests: int, jobs: int, copies: int) -> Shape:
    """The load of `guests` guests on the cluster: with psync each job has one operation in flight."""
    return Shape(setting.pattern, setting.block_bytes, guests, jobs, replicas=copies)


def claim_cache(stage: Stage, setting: GuestSetting, points: Points, place: int, label: str, jobs: int) -> None:
    """Compare the rates with and without writeback, at one place of the axis, with the paper's claim, if any."""
    large = setting.block_bytes >= MIB
    claim = claims.WRITEBACK.get((setting.pattern, large))
    if claim is None or (not large and jobs != claims.FOUR_JOBS):
        return
    writeback, none = (claims.rate_of(points[cache][place]) for cache in (CacheMode.WRITEBACK, CacheMode.NONE))
    judged = hypervisor(stage.cluster).parts.kvm
    claims.note_writeback(stage.recorder, label, claim, (writeback, none), writes=setting.writes, judged=judged)


def measured(stage: Stage, setting: GuestSetting, places: Sequence[tuple[int, int, int]]) -> Points:
    """Run a setting in each cache mode. places: (place on the axis, number of guests, jobs in each)."""
    points: dict[CacheMode, dict[int, list[list[GuestRun]]]] = {cache: defaultdict(list) for cache in CACHES}
    turns = list(TURNS) if hypervisor(stage.cluster).parts.kvm else list(TURNS)[: len(CACHES)]
    with guests_of(stage, max(count for _, count, _ in places)) as guests:
        idle = at_rest(guests)
        received = received_bytes(stage.cluster, POOL) if setting.writes else 0.0
        for place, count, jobs in places:
            for turn in turns:
                label = f"cache={turn}, {how_many(count, 'guest')}, {how_many(jobs, 'job')}"
                runs = loaded(stage, setting, turn, guests[:count], idle[:count], jobs)
                for index, run in enumerate(runs):
                    note_run(stage, f"{label}, guest {index + 1}", run)
                points[TURNS[turn]][place].append(runs)
                if setting.writes:
                    before, received = received, received_bytes(stage.cluster, POOL)
                    written = sum(run.result.write.bytes for run in runs)
                    note_reached(stage, label, (received - before) / written if written else 0.0, alone=jobs == 1)
    return points


@contextmanager
def guests_of(stage: Stage, count: int) -> Iterator[list[HostedGuest]]:
    """Guests with one disk for each cache mode, so that modes are compared in the same guest, minutes apart."""
    with images(stage.cluster, count * len(CACHES)) as all_images:
        shares = [all_images[number::count] for number in range(count)]
        disks = [[disk(image, cache) for image, cache in zip(share, CACHES, strict=True)] for share in shares]
        with hypervisor(stage.cluster).guests(disks) as guests:
            yield guests


def loaded(
    stage: Stage,
    setting: GuestSetting,
    turn: str,
    guests: Sequence[HostedGuest],
    idle: Sequence[float],
    jobs: int,
) -> list[GuestRun]:
    """Run the command in these guests together. turn: a key of TURNS; idle: the result of `at_rest` for each."""
    seconds, number = SECONDS[stage.tier], CACHES.index(TURNS[turn])
    return run_all(
        guests, idle, number, setting.argv(device(number), jobs, seconds), (seconds + END_S) * stage.cluster.patience
    )


def note_run(stage: Stage, what: str, run: GuestRun) -> None:
    """Record the results of one guest, and witness that it did enough operations."""
    recorder, requests = stage.recorder, run.asked
    recorder.record("guest", what=what, reads=requests.reads, writes=requests.writes, flushes=requests.flushes)
    recorder.witness(f"operations, {what}", got=run.result.operations, least=LEAST_OPERATIONS)
    recorder.figure(f"throughput, {what}", run.result.iops, "operations/s", Bound(SPEED, basis=Basis.NOTED))
    recorder.figure(f"mean latency, {what}", run.result.main.latency_mean_s, "s", Bound(SPEED, basis=Basis.NOTED))
    cpu = run.cpu
    if cpu is not None:
        bounds = (cpu.low, cpu.high) if cpu.samples > 1 else None
        recorder.figure(
            f"host's CPU for one operation, {what}", cpu.mean, "s", Bound(COST, basis=Basis.NOTED), interval=bounds
        )


LEAST_REACHED = 0.99
MOST_REACHED = 1.1
"""The metadata updates of librbd are few bytes, for few large writes as well as for many small ones."""


def note_reached(stage: Stage, label: str, share: float, *, alone: bool) -> None:
    """Record the bytes that OSDs received per byte that a guest wrote. alone: there was only one job."""
    bound = Bound("recorded only: jobs write to the same blocks, and such writes may be merged", basis=Basis.NOTED)
    if alone:
        why = "the paper's writes are synchronous: each reaches the cluster before it is acknowledged, cached or not"
        bound = Bound(why, least=LEAST_REACHED, most=MOST_REACHED, basis=Basis.SHAPE)
    stage.recorder.figure(f"bytes to the cluster for one written, {label}", share, "", bound)


def draw(stage: Stage, title: str, points: Points, axis: str) -> None:
    """Draw a line for each cache mode in each panel: at each place the mean of its turns."""
    lines = []
    for cache, places in points.items():
        runs = {float(place): list(chain(*turns)) for place, turns in places.items()}
        rate = tuple((float(place), claims.rate_of(turns).mean) for place, turns in places.items())
        latency = tuple((place, fmean(run.result.main.latency_mean_s for run in each)) for place, each in runs.items())
        lines += [Line(RATE, cache.value, rate), Line(LATENCY, cache.value, latency)]
        cpu = [(place, [run.cpu.mean for run in each if run.cpu is not None]) for place, each in runs.items()]
        lines.append(Line(CPU, cache.value, tuple((place, fmean(each)) for place, each in cpu if each)))
    emulated = () if hypervisor(stage.cluster).parts.kvm else ("throughput and latency are from emulated guests",)
    record_series(stage.recorder, title, lines, axis=axis, marks={}, words=words_on(stage.cluster, *emulated))


def _vm(setting: GuestSetting) -> Scenario:
    return Scenario(
        name=f"hci.vm-linux[op={setting.pattern},size={setting.size}]",
        goal="Synchronous guest writes reach the cluster in every cache mode; writeback changes rates as published.",
        method=f"Runs {setting.source}, scaled: {setting.pattern} of {setting.size}, 1 and 4 jobs, both cache modes.",
        run=partial(one_guest, setting=setting),
        sees=tuple(f"operations, cache={cache}, .*" for cache in CACHES),
        check="figures",
        tier=Tier.QUICK if setting.size == "4K" else Tier.FULL,
        topology=TOPOLOGY,
    )


def _multi(setting: GuestSetting) -> Scenario:
    return Scenario(
        name=f"hci.multi-vm-linux[op={setting.pattern},size={setting.size}]",
        goal="Several guests on one node do more than one guest, and writeback changes their rates as published.",
        method=f"Runs {setting.source}, scaled: {setting.pattern} of {setting.size} in one guest and in several "
        "together, both cache modes; in the full tier with one job and with four.",
        run=partial(several_guests, setting=setting),
        sees=tuple(f"operations, cache={cache}, .*" for cache in CACHES),
        check="figures",
        tier=Tier.QUICK if setting.pattern == "randwrite" and setting.size == "4K" else Tier.FULL,
        topology=TOPOLOGY,
    )


SCENARIOS = (*map(_vm, VM), *map(_multi, SEVERAL))
