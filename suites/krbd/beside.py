"""CPU cost of an operation through the kernel's RBD client, compared with librbd on the same machine, alternately.

The machine is a process on this one. All of its CPU time counts, kernel and threads together, without its idle CPU.
"""

import itertools
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.blockstack import devices
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.base import RunsMachines
from cephlab.lab.providers.host import HostProcess
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.telemetry.accounting import whole_s
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.statistics import interval, ratio_of_means, width
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob, Progress
from cephlab.lab.workloads.image import BlockImage
from cephlab.suites.hci.claims import EMULATED
from cephlab.suites.hci.hypervisor.command import drivers
from cephlab.suites.hci.hypervisor.guest import not_in_time
from cephlab.suites.hci.load import moved_bytes
from cephlab.suites.hci.papers import MULTI, VM, GuestSetting
from cephlab.suites.hci.stand import IMAGE_BYTES, NODE, TOPOLOGY, images, through_librbd
from cephlab.suites.krbd import claims

BATCH_S = 2.0
BATCHES = 3
"""Batches in a turn."""
LEAST_ROUNDS = 2
BUDGET_S = {Tier.QUICK: 120.0, Tier.FULL: 180.0}
NARROW = 0.05
"""Measuring stops when the half width of the ratio's interval is at most this share of the ratio."""
MOST, CLEAR = 1.0, 1.5
"""The limit on krbd's cost over librbd's; and by what factor the interval must clear it to stop early."""
LEAST_IN_BATCH = 10
LEAST_OPERATIONS = 200
IDLE_S = 5.0
_APPEAR_S = 120.0
LOG_LAG_S = 1.5
"""fio must log before the first sample and after the last one, and the clocks of the two machines differ."""
_END_S = 60.0
_FOREVER_S = 3600
CLIENTS = ("krbd", "librbd")
QEMU = "qemu"
"""The provider whose machines run on the real processor if KVM is available."""

SMALL_BYTES = 64 << 10
"""Up to this size, the cost per request dominates; beyond it, the cost per byte."""

BY_RATE = "recorded only: the rates of both clients are judged instead, by the paper's claim"
WHY = "the kernel's client serves a request without the threads of a library in between"


@dataclass(frozen=True)
class ClientLoad:
    """An endless load from one of the two clients. start: starts it; log: where fio logs the end of each request.

    Without a log, operations are counted by the bytes that OSDs moved, which takes a while on a busy machine.
    """

    start: Callable[[], HostProcess]
    log: PurePosixPath | None = None


@dataclass(frozen=True)
class MachineLook:
    """A sample of the machine. at_s: since the epoch; operations: 0 if a log counts them."""

    at_s: float
    cpu_s: float
    operations: int


@dataclass(frozen=True)
class Turn:
    """One turn of a client. costs: CPU seconds per operation in each batch; rates: operations per second in each."""

    operations: float
    costs: list[float]
    rates: list[float]


@dataclass(frozen=True)
class TwoClients:
    """The same operation through the kernel's client and through librbd. loads: by name of the client."""

    cluster: Cluster
    block_bytes: int
    loads: Mapping[str, ClientLoad]

    def cpu_s(self) -> float:
        """CPU time of the machine so far."""
        lab = own(self.cluster).lab
        if not isinstance(lab, RunsMachines):
            what = "the CPU time of a whole machine is not available here"
            raise Unavailable(what, f"hosts of {self.cluster.provider_name}", "use --lab uml or --lab qemu")
        return whole_s(lab.machine_pid(NODE))

    def at_rest(self) -> float:
        """CPU seconds per second of the idle machine."""
        before = self._look(counting=False)
        clock.SYSTEM.sleep(IDLE_S)
        after = self._look(counting=False)
        return (after.cpu_s - before.cpu_s) / (after.at_s - before.at_s)

    def turn(self, name: str, idle: float) -> Turn:
        """Run some batches of one client. idle: CPU seconds per second of the idle machine."""
        load, before = self.loads[name], self._operations()
        running = load.start()
        try:
            clock.wait(
                self._operations,
                lambda now: now >= before + LEAST_IN_BATCH,
                what=f"the first operations of {name}",
                timeout_s=_APPEAR_S * self.cluster.patience,
                timed_out=not_in_time,
            )
            clock.SYSTEM.sleep(LOG_LAG_S)
            looks = self._looks(name, running, counting=load.log is None)
            clock.SYSTEM.sleep(LOG_LAG_S)
        finally:
            # On SIGINT fio ends its jobs, which have the device open, before it ends itself.
            running.signal(signal.SIGINT)
            if not running.wait(_END_S):
                running.signal(signal.SIGKILL)
                running.wait(_END_S)
        if load.log is None:
            return turn_of(looks, lambda before, after: float(after.operations - before.operations), idle)
        progress = fio.parse_progress(self.cluster.hosts[NODE].read(load.log).decode())
        return turn_of(covered(looks, progress), lambda before, after: progress.between(before.at_s, after.at_s), idle)

    def _looks(self, name: str, running: HostProcess, *, counting: bool) -> list[MachineLook]:
        looks = [self._look(counting=counting)]
        for _ in range(BATCHES):
            clock.SYSTEM.sleep(BATCH_S)
            if not running.alive():
                raise LabBroken(f"the load of {name} ended too early", f"on {NODE}")
            looks.append(self._look(counting=counting))
        return looks

    def _look(self, *, counting: bool) -> MachineLook:
        if not counting:
            return MachineLook(time.time(), self.cpu_s(), 0)
        # The OSDs count at some moment between the request and the answer.
        began, before = time.time(), self.cpu_s()
        operations = self._operations()
        return MachineLook((began + time.time()) / 2, (before + self.cpu_s()) / 2, operations)

    def _operations(self) -> int:
        """Operations, from the bytes that OSDs moved: a kernel splits a large operation into several requests."""
        return int(moved_bytes(self.cluster) / self.block_bytes)


def covered(looks: Sequence[MachineLook], progress: Progress) -> list[MachineLook]:
    """The samples taken while fio was running. Before that, OSDs serve librbd while it opens the image."""
    if not progress.times_s:
        return []
    return [look for look in looks if progress.times_s[0] <= look.at_s <= progress.times_s[-1]]


def turn_of(looks: Sequence[MachineLook], counted: Callable[[MachineLook, MachineLook], float], idle: float) -> Turn:
    """Costs and rates of the batches, without idle CPU. A batch with too few operations is left out."""
    operations, costs, rates = 0.0, [], []
    for before, after in itertools.pairwise(looks):
        moved, took_s = counted(before, after), after.at_s - before.at_s
        if moved >= LEAST_IN_BATCH:
            operations += moved
            costs.append((after.cpu_s - before.cpu_s - idle * took_s) / moved)
            rates.append(moved / took_s)
    return Turn(operations, costs, rates)


def compared(stage: Stage, make: Callable[[Cluster, BlockImage, PurePosixPath], TwoClients], title: str) -> None:
    """Measure both clients alternately until the interval of the ratio is narrow or the budget is spent.

    The quick tier also ends when the verdict on costs is clear, if rates are not judged on this machine.
    """
    cluster, recorder = stage.cluster, stage.recorder
    costs: dict[str, list[float]] = {name: [] for name in CLIENTS}
    rates: dict[str, list[float]] = {name: [] for name in CLIENTS}
    operations = dict.fromkeys(CLIENTS, 0.0)
    with mapped(cluster) as (image, device):
        pair = make(cluster, image, device)
        idle = pair.at_rest()
        why_not, writes = why_not_judged(cluster), "write" in title
        by_rate = claims.judges_krbd(writes=writes, why_not=why_not)
        brief = stage.tier is Tier.QUICK and pair.block_bytes <= SMALL_BYTES and not by_rate
        deadline = clock.Deadline.after(BUDGET_S[stage.tier] * cluster.patience)
        rounds = 0
        while rounds < LEAST_ROUNDS or not (deadline.passed() or narrow(costs) or (brief and clear(costs))):
            for name in CLIENTS:
                turn = pair.turn(name, idle)
                operations[name] += turn.operations
                costs[name] += turn.costs
                rates[name] += turn.rates
            rounds += 1
    if min(map(len, costs.values())) < 2:
        raise LabBroken("too few requests were answered", f"operations: {operations}", "try again on a quieter machine")
    for name in CLIENTS:
        recorder.witness(f"operations of {name}", got=operations[name], least=LEAST_OPERATIONS)
        cost = interval(costs[name])
        what = f"CPU of the machine for one operation, {name}"
        bound = Bound("recorded only: it depends on the kind of machine", basis=Basis.NOTED)
        recorder.figure(what, cost.mean, "s", bound, interval=(cost.low, cost.high))
    why = "recorded only: it is subtracted from the costs"
    recorder.figure("CPU of the machine at rest", idle, "s/s", Bound(why, basis=Basis.NOTED))
    sides = {name: interval(measured) for name, measured in rates.items()}
    claims.note_krbd(recorder, sides, writes=writes, why_not=why_not)
    if pair.block_bytes > SMALL_BYTES:
        write_down(stage, costs, of_bytes(crc32c_driver(cluster.hosts[NODE].run(["cat", "/proc/crypto"]).stdout)))
    else:
        note_small(stage, costs, by_rate=by_rate)
    lines = [
        Line("CPU for one operation, seconds", name, tuple((float(at), cost) for at, cost in enumerate(costs[name], 1)))
        for name in CLIENTS
    ]
    record_series(recorder, title, lines, axis="batch", marks={}, words=f"{rounds} turns each")


def why_not_judged(cluster: Cluster) -> str:
    """Why the rates of both clients on this machine do not compare with the paper's; empty if KVM runs it."""
    if cluster.hosts[NODE].emulated:
        return EMULATED
    return "" if cluster.provider_name == QEMU else claims.OTHER_KERNEL


def krbd_over_librbd(costs: Mapping[str, list[float]]) -> Interval:
    """krbd's cost over librbd's, with its interval."""
    return ratio_of_means(costs["krbd"], costs["librbd"])


def narrow(costs: Mapping[str, list[float]]) -> bool:
    """Whether the interval of the ratio is narrow enough; never with fewer than two batches of each."""
    return min(map(len, costs.values())) > 1 and width(krbd_over_librbd(costs)) <= NARROW


def clear(costs: Mapping[str, list[float]]) -> bool:
    """Whether the verdict on the ratio is clear; never with fewer than two batches of each."""
    if min(map(len, costs.values())) < 2:
        return False
    ratio = krbd_over_librbd(costs)
    return ratio.high * CLEAR <= MOST or ratio.low >= MOST * CLEAR


def note_small(stage: Stage, costs: Mapping[str, list[float]], *, by_rate: bool) -> None:
    """Record the costs of small blocks. They are judged unless the rates are. by_rate: whether the rates are judged."""
    if by_rate:
        write_down(stage, costs, BY_RATE)
    else:
        judge(stage, costs)


def judge(stage: Stage, costs: Mapping[str, list[float]]) -> None:
    """Judge krbd over librbd: pass if the whole interval is below 1, fail if it is above, else inconclusive."""
    _note_ratio(stage, costs, Bound(WHY, most=MOST, basis=Basis.SHAPE))


def write_down(stage: Stage, costs: Mapping[str, list[float]], why: str) -> None:
    """Record krbd over librbd without a verdict. why: the reason."""
    _note_ratio(stage, costs, Bound(why, basis=Basis.NOTED))


def of_bytes(driver: str) -> str:
    """Why large blocks have no verdict: the faster checksum decides."""
    return f"recorded only: at this size the checksum decides, and this kernel computes it with {driver}"


def _note_ratio(stage: Stage, costs: Mapping[str, list[float]], bound: Bound) -> None:
    ratio = krbd_over_librbd(costs)
    stage.recorder.figure("CPU for one operation, krbd over librbd", ratio.mean, "", bound, interval=ratio.ends)


def crc32c_driver(listed: str) -> str:
    """The driver with which a kernel computes crc32c: the first by priority, from its /proc/crypto."""
    drivers = []
    for part in listed.split("\n\n"):
        fields = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in part.splitlines())}
        if fields.get("name") == "crc32c":
            drivers.append((int(fields["priority"]), fields["driver"]))
    return max(drivers)[1] if drivers else "no listed driver"


@contextmanager
def mapped(cluster: Cluster) -> Iterator[tuple[BlockImage, PurePosixPath]]:
    """A written image with only the features that every kernel knows, mapped by the client's kernel."""
    with images(cluster, 1, *devices.KRBD_FEATURES) as (image,):
        device = devices.map_image(cluster, NODE, image.pool, image.name)
        try:
            yield image, device
        finally:
            devices.unmap_image(cluster, NODE, device)


def by_fio(setting: GuestSetting, cluster: Cluster, image: BlockImage, device: PurePosixPath) -> TwoClients:
    """The paper's command on the mapped device, and the same load with fio's rbd engine instead of psync."""
    host = cluster.hosts[NODE]
    base = host.directory / "fio-krbd"
    timed = (f"--write_iops_log={base}", "--per_job_logs=0", "--log_unix_epoch=1")
    job = FioJob(
        name="beside",
        pool=image.pool,
        target=image.name,
        pattern=setting.pattern,
        block_bytes=setting.block_bytes,
        depth=1,
        size_bytes=IMAGE_BYTES,
        runtime_s=_FOREVER_S,
        options={"rbd_cache": "false"},
        client=cluster.client_name,
        timed=True,
    )
    argv = [*setting.argv(str(device), 1, _FOREVER_S), *timed]
    mapped_by_kernel = ClientLoad(lambda: host.spawn(argv, log=base), base.with_name(f"{base.name}_iops.log"))
    log = host.directory / "fio" / job.name / f"{fio.LOG}_iops.log"
    library = ClientLoad(lambda: fio.start(host, job).process, log)
    return TwoClients(cluster, setting.block_bytes, {"krbd": mapped_by_kernel, "librbd": library})


def by_qemu(setting: GuestSetting, cluster: Cluster, image: BlockImage, device: PurePosixPath) -> TwoClients:
    """QEMU's block layer on the mapped device, and with its rbd driver: the two choices of a hypervisor."""
    host = cluster.hosts[NODE]
    write = ("-w",) if setting.writes else ()
    argv = ("qemu-img", "bench", "-c", "1000000000", "-d", "1", "-s", str(setting.block_bytes), "-t", "none")
    spawn = partial(host.spawn, log=host.directory / "qemu-img", env=drivers(host.root, host.arch))
    loads = {
        name: ClientLoad(partial(spawn, (*argv, *write, "-f", "raw", target)))
        for name, target in (("krbd", str(device)), ("librbd", through_librbd(cluster, image)))
    }
    return TwoClients(cluster, setting.block_bytes, loads)


def _scenario(way: str, setting: GuestSetting, tier: Tier) -> Scenario:
    make = partial(by_qemu if way == "qemu-img" else by_fio, setting)
    title = f"{setting.pattern} of {setting.size} with {way}: krbd and librbd"
    goal = "An operation costs a machine less CPU through the kernel's RBD client than through librbd."
    if setting.block_bytes > SMALL_BYTES:
        goal = "The CPU cost of a large operation can be measured through the kernel's RBD client and through librbd."
    return Scenario(
        name=f"krbd.beside-librbd[way={way},op={setting.pattern},size={setting.size}]",
        goal=goal,
        method=f"Runs {setting.pattern} of {setting.size} with {way}, one in flight, through both clients alternately.",
        run=partial(compared, make=make, title=title),
        check="figures",
        tier=tier,
        topology=TOPOLOGY,
        needs=frozenset({Capability.OWN_KERNEL}),
        sees=tuple(f"CPU of the machine for one operation, {name}" for name in CLIENTS),
    )


SCENARIOS = (
    *(
        _scenario("fio", setting, Tier.QUICK if setting.size == "4K" and setting in VM else Tier.FULL)
        for setting in (*VM, *MULTI)
    ),
    *(_scenario("qemu-img", setting, Tier.FULL) for setting in VM),
)
