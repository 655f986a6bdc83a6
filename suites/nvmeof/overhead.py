"""CPU and latency of a 4 KiB write through a gateway, compared with krbd and librbd on the initiator."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.blockstack import devices
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.providers.base import RunsMachines
from cephlab.lab.providers.host import Host, HostProcess
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.telemetry.accounting import whole_s
from cephlab.lab.telemetry.statistics import interval, ratio_of_means, width
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob
from cephlab.suites.krbd.beside import ClientLoad, TwoClients
from cephlab.suites.nvmeof.stand import IMAGE, INITIATOR, POOL, Stand, from_first, scenario_on_pair, standing

BLOCK_BYTES = 4096
WRITTEN_BYTES = 4 * MIB
BESIDE = "beside"
KRBD, LIBRBD, NVMEOF = "krbd", "librbd", "nvmeof"
LEAST_ROUNDS = 2
BUDGET_S = 12.0
"""Time for all rounds, before patience."""
LONGEST_S = 36.0
"""The same if the machine is so busy that there are too few writes by BUDGET_S."""
NARROW = 0.05
LEAST_OPERATIONS = 100
_FOREVER_S = 3600
SHARED = Bound("recorded only: latency on shared CPUs depends on what else runs", basis=Basis.NOTED)
OTHER_KIND = Bound("recorded only: librbd runs in a program, the gateway and krbd in a kernel", basis=Basis.NOTED)
WHY = "a write through a gateway passes krbd too, and before it a network and a second machine"


@dataclass(frozen=True)
class OnTheWay(TwoClients):
    """As `TwoClients`, with the CPU time of every machine between the load and the OSDs. machines: their names."""

    machines: tuple[str, ...] = ()

    def cpu_s(self) -> float:
        lab = own(self.cluster).lab
        if not isinstance(lab, RunsMachines):
            raise Unavailable("the CPU time of a whole machine is not available here", hint="use --lab qemu")
        return sum(whole_s(lab.machine_pid(name)) for name in self.machines)


def beside_krbd(stage: Stage, gateway: Arch) -> None:
    """Write through the gateway, krbd and librbd alternately on the initiator, until the ratio of costs is known."""
    costs: dict[str, list[float]] = {KRBD: [], LIBRBD: [], NVMEOF: []}
    waits: dict[str, list[float]] = {name: [] for name in costs}
    operations = dict.fromkeys(costs, 0.0)
    with standing(stage, from_first(gateway)) as stand, mapped(stage, stand) as device:
        host = stand.initiator.host
        loads = {KRBD: load(host, device), LIBRBD: by_library(stage, host), NVMEOF: load(host, stand.device)}
        machines = (INITIATOR, stand.pair.serving.name)
        pair = OnTheWay(stage.cluster, BLOCK_BYTES, loads, machines)
        idle = pair.at_rest()
        budget, last = (clock.Deadline.after(seconds * stage.cluster.patience) for seconds in (BUDGET_S, LONGEST_S))
        rounds = 0
        while rounds < LEAST_ROUNDS or not enough(operations, costs, budget, last):
            for name in loads:
                turn = pair.turn(name, idle)
                operations[name] += turn.operations
                costs[name] += turn.costs
                waits[name].append(fio.parse(host.read(output(host, name))).latency_mean_s)
            rounds += 1
    if min(map(len, costs.values())) < 2:
        raise LabBroken("too few writes were answered", f"writes: {operations}", "try again on a quieter machine")
    for name, count in operations.items():
        stage.recorder.witness(f"writes by {name}", got=count, least=LEAST_OPERATIONS)
    judge(stage.recorder, "CPU of initiator and gateway for one write", costs, Bound(WHY, 1.0, basis=Basis.SHAPE))
    judge(stage.recorder, "wait for one write", waits, SHARED)


def judge(recorder: Recorder, what: str, costs: dict[str, list[float]], bound: Bound) -> None:
    """Record the cost of each client, and the ratio of the gateway to each of the others.

    The ratio to krbd has a bound that its whole interval must meet. The ratio to librbd is recorded only.
    """
    for name, values in costs.items():
        side = interval(values)
        emulated = Bound("recorded only: measured on simulated machines, not on gateway hardware", basis=Basis.NOTED)
        recorder.figure(f"{what}, {name}", side.mean, "s", emulated, interval=side.ends)
    for name in sorted(costs.keys() - {NVMEOF}):
        ratio = ratio_of_means(costs[NVMEOF], costs[name])
        limit = bound if name == KRBD else OTHER_KIND
        recorder.figure(f"{what}, {NVMEOF} over {name}", ratio.mean, "", limit, interval=ratio.ends)


def enough(
    operations: Mapping[str, float], costs: dict[str, list[float]], budget: clock.Deadline, last: clock.Deadline
) -> bool:
    """Whether the ratio is known or the budget is spent. With too few writes so far, only `last` ends the rounds."""
    if min(operations.values()) < LEAST_OPERATIONS:
        return last.passed()
    return budget.passed() or narrow(costs)


def narrow(costs: dict[str, list[float]]) -> bool:
    """Whether the interval of the ratio is narrow enough."""
    return min(map(len, costs.values())) > 1 and width(ratio_of_means(costs[NVMEOF], costs[KRBD])) <= NARROW


@contextmanager
def mapped(stage: Stage, stand: Stand) -> Iterator[PurePosixPath]:
    """A second image, mapped by the initiator's own kernel. Both images are written first: a first write costs more."""
    cluster, node = stage.cluster, stand.initiator.node
    cluster.client.rbd_create(POOL, BESIDE, WRITTEN_BYTES, features=1)
    for image in (IMAGE, BESIDE):
        cluster.client.rbd_write(POOL, image, stage.rng.randbytes(WRITTEN_BYTES), 0)
    device = devices.map_image(cluster, node, POOL, BESIDE)
    try:
        yield device
    finally:
        devices.unmap_image(cluster, node, device)


def output(host: Host, name: str) -> PurePosixPath:
    """The output file of fio for the last turn of a client."""
    return host.directory / "fio" / BESIDE / "out.json" if name == LIBRBD else host.directory / "fio-nvmeof"


def by_library(stage: Stage, host: Host) -> ClientLoad:
    """The same writes with fio's rbd engine, on the image that krbd maps; the two never run at the same time."""
    job = FioJob(
        name=BESIDE,
        pool=POOL,
        target=BESIDE,
        pattern="randwrite",
        block_bytes=BLOCK_BYTES,
        depth=1,
        size_bytes=WRITTEN_BYTES,
        runtime_s=_FOREVER_S,
        options={"rbd_cache": "false"},
        client=stage.cluster.client_name,
        timed=True,
    )
    return ClientLoad(lambda: fio.start(host, job).process, output(host, LIBRBD).with_name(f"{fio.LOG}_iops.log"))


def load(host: Host, device: PurePosixPath) -> ClientLoad:
    """Random writes to a device, one at a time with direct I/O, each of which is logged."""
    base = output(host, KRBD)
    argv = (
        f"fio --name=one --ioengine=psync --direct=1 --filename={device} --size={WRITTEN_BYTES} --rw=randwrite "
        f"--bs={BLOCK_BYTES} --time_based --runtime={_FOREVER_S} --output-format=json --write_iops_log={base} "
        f"--per_job_logs=0 --log_unix_epoch=1"
    ).split()

    def start() -> HostProcess:
        host.remove(base)
        return host.spawn(argv, log=base)

    return ClientLoad(start, base.with_name(f"{base.name}_iops.log"))


def _scenario(gateway: Arch, tier: Tier) -> Scenario:
    return scenario_on_pair(
        name=f"nvmeof.beside-krbd[gateway={gateway}]",
        goal="A write through a gateway costs at least as much CPU as a write through the initiator's own krbd.",
        method="Runs fio alternately on gateway, krbd and librbd, one write in flight; subtracts idle CPU.",
        run=partial(beside_krbd, gateway=gateway),
        check="figures",
        tier=tier,
    )


SCENARIOS = (_scenario(host_arch(), Tier.FULL), _scenario(host_arch().other, Tier.FULL))
