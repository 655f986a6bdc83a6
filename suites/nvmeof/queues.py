"""Rates through one gateway against requests in flight, queues, gateway CPUs and namespaces: they rise, then are flat.

Every setting runs once in every round, and only rates of the same round are compared: other work on the machine
changes from minute to minute, and all rates change with it.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from os import cpu_count
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.blockstack.initiator import Connecting, Initiator
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.providers.base import RunsMachines
from cephlab.lab.providers.host import Host
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import MIB, Capability, ClusterSpec
from cephlab.lab.telemetry.accountants import busy_cpu_s
from cephlab.lab.telemetry.accounting import whole_s
from cephlab.lab.telemetry.regression import Ratio, paired
from cephlab.lab.telemetry.statistics import CONFIDENCE
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob
from cephlab.suites.nvmeof.single import SHARED, Shown, shown
from cephlab.suites.nvmeof.smallest import SmallTopology
from cephlab.suites.nvmeof.stand import LATE, POOL

INITIATOR, GATEWAY, CEPH = "c0", "c1", "n0"
CPUS = 4
"""CPUs of the initiator and of the gateway: the kernel makes no more queues than there are CPUs."""
IMAGE_BYTES = 4 * MIB
BLOCK_BYTES = 4096
RAMP_S, RUN_S = 1.0, 5.0
HEAD_S, LOOK_S = 3.0, 2.5
"""When the CPU time is measured after fio starts, and for how long: the middle of its run."""
_END_S = 60.0
LEAST_ROUNDS, MOST_ROUNDS = 6, 16
BUDGET_S = 30.0
"""Time for all rounds, before patience."""
NARROW = 0.1
LEAST_OPERATIONS = 10
LEAST_GAIN, LEAST_STEP, MOST_LAST = 1.2, 0.7, 1.3
"""Limits on a rate over the rate before it: for the step that must gain, for any step, for the last at the ceiling."""
FULL = 0.8
"""CPUs are the ceiling if at least this share of them is in use."""
MACHINES = {"the initiator": INITIATOR, "the gateway": GATEWAY, "Ceph's machine": CEPH}
ALL = "the machine that runs all of them"


@dataclass(frozen=True)
class SweptTopology(SmallTopology):
    """Ceph, initiator and gateway on a machine each; the last two have enough CPUs for several queues."""

    def lay_out(self, release: str, image: str | None, *, in_memory: bool) -> ClusterSpec:
        spec = super().lay_out(release, image, in_memory=in_memory)
        cores = dict.fromkeys((INITIATOR, GATEWAY), CPUS)
        return replace(spec, nodes=tuple(replace(node, cores=cores.get(node.name)) for node in spec.nodes))


@dataclass(frozen=True)
class Setting:
    """The setting of one measurement. cores: CPUs of the gateway; namespaces: how many the requests are spread over."""

    in_flight: int = 16
    queues: int = CPUS
    cores: int = CPUS
    namespaces: int = 1


@dataclass(frozen=True)
class Axis:
    """What is varied, all else as in `Setting()`. of: its field; words: its name; gains: if the first step must."""

    of: str
    words: str
    values: tuple[int, ...]
    gains: bool = False

    @property
    def settings(self) -> dict[int, Setting]:
        return {value: replace(Setting(), **{self.of: value}) for value in self.values}


AXES = (
    Axis("in_flight", "requests in flight", (1, 4, 16, 32), gains=True),
    Axis("queues", "queues", (1, 2, 4)),
    Axis("cores", "CPUs of the gateway", (1, 2, 4)),
    Axis("namespaces", "namespaces", (1, 2, 4)),
)


@dataclass(frozen=True)
class Turn:
    """What fio did at one setting. full: the share of each machine's CPUs that was in use."""

    rate: float
    operations: int
    full: Mapping[str, float]


@dataclass
class Bench:
    """One initiator and one gateway. queues, cores: the current setting; devices: of all namespaces."""

    stage: Stage
    shown: Shown
    pattern: str
    queues: int = 0
    cores: int = CPUS
    devices: list[PurePosixPath] = field(default_factory=list)
    cores_of_ceph: float = field(init=False)

    def __post_init__(self) -> None:
        self.cores_of_ceph = self.stage.cluster.hosts[CEPH].facts().cores

    @property
    def host(self) -> Host:
        return self.stage.cluster.hosts[INITIATOR]

    def turn(self, setting: Setting) -> Turn:
        """Apply a setting, run fio, and measure CPU use during the run."""
        self.arrange(setting)
        with fio.start(self.host, self.job(setting)).killed_on_error() as running:
            clock.SYSTEM.sleep(HEAD_S)
            before = self.look()
            clock.SYSTEM.sleep(LOOK_S)
            after = self.look()
            result = running.finish(timeout_s=_END_S * self.stage.cluster.patience)
        took_s = after["at"] - before["at"]
        counts = zip(before, (CPUS, setting.cores, self.cores_of_ceph, cpu_count() or 1), strict=False)
        full = {name: (after[name] - before[name]) / took_s / count for name, count in counts}
        return Turn(result.iops, result.operations, full)

    def look(self) -> dict[str, float]:
        """CPU seconds used so far by each simulated machine and by this machine, and the time of reading."""
        lab = own(self.stage.cluster).lab
        if not isinstance(lab, RunsMachines):
            raise Unavailable("the CPU time of a whole machine is not available here", hint="use --lab qemu")
        spent = {name: whole_s(lab.machine_pid(node)) for name, node in MACHINES.items()}
        return {**spent, ALL: busy_cpu_s(), "at": clock.SYSTEM.monotonic()}

    def arrange(self, setting: Setting) -> None:
        """Switch CPUs of the gateway on and off, and reconnect if the number of queues changes."""
        if setting.cores != self.cores:
            self.switch_cpus(setting.cores)
        if setting.queues != self.queues:
            self.connect(setting.queues)

    def switch_cpus(self, count: int) -> None:
        """Keep `count` CPUs of the gateway online."""
        gateway = self.stage.cluster.hosts[GATEWAY]
        for number in range(1, CPUS):
            wanted = b"1" if number < count else b"0"
            gateway.run(["tee", f"/sys/devices/system/cpu/cpu{number}/online"], stdin=wanted)
        self.cores = count
        on = int(gateway.run(["nproc"]).stdout)
        self.stage.recorder.observe("CPUs of the gateway that are online", got=on, wanted=count)

    def connect(self, queues: int) -> None:
        """Connect with this number of I/O queues."""
        initiator = Initiator(self.stage.cluster, INITIATOR, Connecting(digests=False, queues=queues))
        initiator.disconnect(self.shown.volume)
        initiator.connect(self.shown.volume, [self.shown.gateway])
        self.devices = initiator.devices(self.shown.volume, self.shown.namespaces)
        self.queues = queues
        _, paths = initiator.look(self.shown.volume)
        queue_counts = [path.queues for path in paths]
        self.stage.recorder.observe("I/O queues that the kernel made", got=queue_counts, wanted=[queues])

    def job(self, setting: Setting) -> FioJob:
        """fio with a thread on each CPU of the initiator, because each CPU uses one queue."""
        jobs = min(CPUS, setting.in_flight)
        bound = {"cpus_allowed": f"0-{CPUS - 1}", "cpus_allowed_policy": "split"}
        return FioJob(
            name="queues",
            pool=POOL,
            target=":".join(map(str, self.devices[: setting.namespaces])),
            pattern=self.pattern,
            block_bytes=BLOCK_BYTES,
            depth=setting.in_flight // jobs,
            size_bytes=IMAGE_BYTES * setting.namespaces,
            runtime_s=RUN_S,
            jobs=jobs,
            seed=self.stage.rng.randrange(1 << 31),
            engine="libaio",
            client=self.stage.cluster.client_name,
            more={"thread": "1", "ramp_time": f"{RAMP_S:g}", "norandommap": "1", **bound},
        )


@contextmanager
def bench(stage: Stage, axis: Axis, pattern: str) -> Iterator[Bench]:
    """One gateway and one initiator; at the end, the gateway's CPUs are online again and the initiator disconnects."""
    count = max(setting.namespaces for setting in axis.settings.values())
    with shown(stage, GATEWAY, [INITIATOR], count, IMAGE_BYTES) as behind:
        stand = Bench(stage, behind, pattern)
        try:
            yield stand
        finally:
            Initiator(stage.cluster, INITIATOR).disconnect(behind.volume)
            if stand.cores != CPUS:
                stand.switch_cpus(CPUS)


def swept(stage: Stage, axis: Axis, pattern: str) -> None:
    """Run rounds of all settings, every second round in reverse, until the ratios are known or the budget is spent."""
    turns: dict[int, list[Turn]] = {value: [] for value in axis.values}
    with bench(stage, axis, pattern) as stand:
        budget = clock.Deadline.after(BUDGET_S * stage.cluster.patience)
        for number in range(MOST_ROUNDS):
            order = list(axis.settings.items())
            for value, setting in reversed(order) if number % 2 else order:
                turns[value].append(stand.turn(setting))
            if number + 1 >= LEAST_ROUNDS and (budget.passed() or narrow(axis, rates_of(turns))):
                break
    rates = rates_of(turns)
    fewest = min(turn.operations for of_value in turns.values() for turn in of_value)
    stage.recorder.witness("operations of the slowest turn", got=fewest, least=LEAST_OPERATIONS)
    note_rates(stage.recorder, axis, pattern, rates)
    judge(stage.recorder, axis, rates, fullest(turns[axis.values[-1]]))


def rates_of(turns: Mapping[int, Sequence[Turn]]) -> dict[int, list[float]]:
    """Operations per second by value of the axis. LabBroken if a turn had none, because no ratio could be formed."""
    rates = {value: [turn.rate for turn in of_value] for value, of_value in turns.items()}
    if not all(rate > 0 for of_value in rates.values() for rate in of_value):
        raise LabBroken("a load got no answer at all", f"rates: {rates}", "try again on a quieter machine")
    return rates


def fullest(turns: Sequence[Turn]) -> tuple[str, float]:
    """The machine with the highest average CPU use, and the share of its CPUs that was in use."""
    means = {name: sum(turn.full[name] for turn in turns) / len(turns) for name in turns[0].full}
    name = max(means, key=lambda each: means[each])
    return name, means[name]


def steps(axis: Axis, rates: Mapping[int, Sequence[float]]) -> dict[tuple[int, int], Ratio]:
    """For each value and the next: the ratio of their rates, formed in each round and combined."""
    return {pair: paired(rates[pair[0]], rates[pair[1]], confidence=CONFIDENCE) for pair in pairwise(axis.values)}


def narrow(axis: Axis, rates: Mapping[int, Sequence[float]]) -> bool:
    """Whether the interval of every ratio is narrow enough."""
    return all(ratio.high / ratio.value - 1 <= NARROW for ratio in steps(axis, rates).values())


def judge(recorder: Recorder, axis: Axis, rates: Mapping[int, Sequence[float]], ceiling: tuple[str, float]) -> None:
    """Compare each step with the expected shape: it gains where it must, never falls, and is flat at the ceiling."""
    name, share = ceiling
    why = "not judged: it names the ceiling, and a witness says whether that was reached"
    recorder.figure(f"CPUs of {name} in use, share", share, "", Bound(why, basis=Basis.NOTED))
    recorder.witness("share of CPUs in use on the busiest machine", got=share, least=FULL)
    for number, ((before, after), ratio) in enumerate(steps(axis, rates).items()):
        must_gain = axis.gains and number == 0
        least = LEAST_GAIN if must_gain else LEAST_STEP
        last = after == axis.values[-1] and share >= FULL
        why = "one request at a time leaves machines idle" if must_gain else "a higher setting must not be slower"
        why = f"the CPUs of {name} are in use, so that the rate cannot rise further" if last else why
        bound = Bound(why, least=least, most=MOST_LAST if last else None, basis=Basis.SHAPE)
        what = f"rate with {after} {axis.words} over {before}"
        recorder.figure(what, ratio.value, "", bound, interval=ratio.ends)


def note_rates(recorder: Recorder, axis: Axis, pattern: str, rates: Mapping[int, Sequence[float]]) -> None:
    """Record the rates, which depend on this machine, and draw them."""
    means = [(float(value), sum(measured) / len(measured)) for value, measured in rates.items()]
    for value, mean in means:
        recorder.figure(f"{pattern} with {value:g} {axis.words}", mean, "operations/s", SHARED)
    rounds = len(rates[axis.values[0]])
    title = f"{pattern} of 4 KiB through one gateway against {axis.words}"
    line = Line("operations a second", "measured", tuple(means))
    record_series(recorder, title, [line], axis=axis.words, marks={}, words=f"means of {rounds} rounds")
    each = [
        Line("operations a second", str(value), tuple((float(at), rate) for at, rate in enumerate(of_value, 1)))
        for value, of_value in rates.items()
    ]
    record_series(recorder, f"{title}, round by round", each, axis="round", marks={})


def _scenario(axis: Axis, pattern: str) -> Scenario:
    named = axis.of.replace("_", "-")
    return Scenario(
        name=f"nvmeof.queues[over={named},op={pattern}]",
        goal=f"With more {axis.words} the rate through one gateway does not fall, and it is flat once CPUs are full.",
        method=f"Runs {pattern} of 4 KiB with {', '.join(map(str, axis.values))} {axis.words} in each round; compares "
        "rates within a round, with an interval over rounds; names the machine with the busiest CPUs.",
        run=partial(swept, axis=axis, pattern=pattern),
        check="figures",
        tier=Tier.FULL,
        topology=SweptTopology(native=1, foreign=0),
        needs=frozenset({Capability.FABRICS}),
        expects=LATE,
        sees=(rf"rate with .* {axis.words} over .*",),
    )


SCENARIOS = (_scenario(AXES[0], "randwrite"), *(_scenario(axis, "randread") for axis in AXES))
