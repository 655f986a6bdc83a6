"""Compares requirements with a profile: for each limit the prediction, its interval, and what limits it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning import imbalance, placement
from cephlab.tuning.limits import recovery_factor, trusted_factor
from cephlab.tuning.model import predict
from cephlab.tuning.profile import MachineClass, Profile
from cephlab.tuning.profilefile import Hardware
from cephlab.tuning.recovery import recovery_in_place, recovery_of_largest, recovery_time, refuse_more_than_a_node
from cephlab.tuning.requirements import (
    Amount,
    CapacityRequirement,
    LoadRequirement,
    ObjectsRequirement,
    PowerRequirement,
    RecoveryRequirement,
    Requirement,
)
from cephlab.tuning.trust import trust_in as trusted_load
from cephlab.tuning.units import Measure, digits, show, terabytes
from cephlab.tuning.watts import watts_under
from cephlab.tuning.workload import OPERATIONS, Shape

OBJECT_RATIOS = (275e9 * 318 / 10_000 / 8.8e9,)
"""Objects at which metadata spilled, formula below over published (references/rhcs-10b.toml): the only figure."""


@dataclass(frozen=True)
class Trust:
    """Factors by which predicted recovery times and numbers of objects may be off. Loads have factors of their own."""

    recovery: float
    objects: float


def trust_in(demands: Sequence[Demand], find: Callable[[str], Profile]) -> Trust:
    """The model's errors where no test beds can be left out, from publications; for loads see `load_factor`."""
    return Trust(
        recovery_factor(demands, find),
        trusted_factor(OBJECT_RATIOS),
    )


@dataclass(frozen=True)
class Answer:
    """One limit and its prediction, both in the unit of `kind`. low, high: the true figure lies between them.

    limited_by: what would have to be larger; steps: the arithmetic; doubts: sentences on what the figure leaves out;
    no_interval: why there is none.
    """

    metric: str
    kind: Measure
    value: float
    low: float
    high: float
    limited_by: str
    least: float | None = None
    most: float | None = None
    steps: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    no_interval: str = ""

    @property
    def outcome(self) -> Outcome:
        """Pass where the whole interval is inside the limit, fail where it is outside, else inconclusive."""
        if (self.least is not None and self.high < self.least) or (self.most is not None and self.low > self.most):
            return Outcome.FAIL
        if (self.least is not None and self.low < self.least) or (self.most is not None and self.high > self.most):
            return Outcome.INCONCLUSIVE
        return Outcome.PASS

    @property
    def required(self) -> str:
        """The limit, for a reader."""
        if self.least is not None:
            return f"at least {words(self.least, self.kind)}"
        return f"at most {words(self.most or 0.0, self.kind)}"

    @property
    def predicted(self) -> str:
        """The prediction with its interval, for a reader."""
        value, low, high = (words(figure, self.kind) for figure in (self.value, self.low, self.high))
        if low == high:
            return f"{value} ({self.no_interval})" if self.no_interval else value
        return f"{value} ({low} to {high})"


def words(value: float, kind: Measure) -> str:
    """A figure for a reader, in the usual unit for its size: terabytes, hours, minutes."""
    if math.isinf(value):
        return "infinity"
    if kind is Measure.BYTES:
        return terabytes(value)
    if kind is Measure.TIME and value >= 120:
        return f"{digits(value / 3600, 3)} h" if value >= 7200 else f"{value / 60:,.3g} min"
    return show(value, kind)


def _least(answer: Answer, limit: Amount) -> Answer:
    return replace(answer, least=limit.value)


def _most(answer: Answer, limit: Amount) -> Answer:
    return replace(answer, most=limit.value)


def _hosts(answer: Answer, hosts: int, wanted: int, doubts: Sequence[str]) -> Answer:
    """Open the interval towards the limit: CRUSH's default rule has too few hosts, so the prediction cannot decide."""
    low, high = (0.0, answer.high) if answer.least is not None else (answer.low, math.inf)
    merged = tuple(dict.fromkeys((*doubts, *answer.doubts)))
    return replace(answer, low=low, high=high, limited_by=f"hosts: {hosts} for {wanted} shards", doubts=merged)


def _placed(answer: Answer, profile: Profile, shape: Shape) -> Answer:
    """A prediction can pass only for a pool that CRUSH's default rule can place."""
    doubts = placement.doubts(profile, shape)
    return _hosts(answer, placement.hosts(profile), shape.copies, doubts) if doubts else answer


def held(requirement: Requirement, profile: Profile, demands: Sequence[Demand], trust: Trust) -> tuple[Answer, ...]:
    """One answer for each limit; SpecError where the model cannot express the requirement on that profile."""
    match requirement:
        case LoadRequirement():
            return _load(requirement, profile, demands)
        case RecoveryRequirement():
            return (_recovery(requirement, profile, trust),)
        case CapacityRequirement():
            return (_capacity(requirement, profile),)
        case ObjectsRequirement():
            return (_objects(requirement, profile, trust),)
        case PowerRequirement():
            full = watts_under(profile)
            watts, steps = full.watts, (f"power: all {profile.node_count} nodes at full load", *full.steps)
            answer = Answer("power of all nodes under load", Measure.POWER, watts, watts, watts, "nodes", steps=steps)
            return (_most(replace(answer, no_interval="declared watts, no interval"), requirement.at_most),)


def refuse_inexpressible(hardware: Hardware, demands: Sequence[Demand]) -> None:
    """SpecError, with file and key, for the first requirement that the model cannot express on that hardware."""
    for number, requirement in enumerate(hardware.requirements):
        try:
            held(requirement, hardware.profile, demands, Trust(1, 1))
        except SpecError as error:
            raise SpecError(
                f"{hardware.path}: the model cannot express the requirement {requirement.name}",
                f"requirements.{number}: {error.what}: {error.detail}",
                error.hint or "docs/requirements.md says what it can express",
            ) from None


PERCENTILE = "99th percentile"
MARKOV_P99 = 100.0
"""Markov's inequality: at most 1 in 100 operations takes 100 times the mean or more."""


def load_factor(wanted: LoadRequirement, profile: Profile) -> float:
    """How far a load's rate and mean latency may be off. Reads and writes together count as a mix."""
    shapes = wanted.shapes
    flows = {shape.flow for _, shape in shapes}
    if len(flows) > 1 and not shapes[0][1].through_gateway:
        return trusted_load(profile, replace(shapes[0][1], operation=OPERATIONS[-1])).factor
    return max(trusted_load(profile, shape).factor for _, shape in shapes)


def _load(wanted: LoadRequirement, profile: Profile, demands: Sequence[Demand]) -> tuple[Answer, ...]:
    """A mix is predicted as if its operations took turns, which is slower than in parallel: 1 / sum(share / rate)."""
    predictions = [(share, predict(demands, profile, shape)) for share, shape in wanted.shapes]
    ops = 1 / sum(share / each.ops for share, each in predictions)
    slowest = max(predictions, key=lambda pair: pair[0] / pair[1].ops)[1]
    mean_s, factor = wanted.clients * wanted.depth / ops, load_factor(wanted, profile)
    steps = tuple(line for _, each in predictions for line in each.derivation.lines())
    doubts = tuple(dict.fromkeys(line for _, each in predictions for line in (*each.trust.outside, *each.unknown)))
    if len(predictions) > 1:
        shares = " + ".join(f"{share:g} / {each.ops:,.0f}" for share, each in predictions)
        steps += (f"mix, taking turns: 1 / ({shares}) = {ops:,.0f} ops/s",)

    def rate(metric: str, kind: Measure, value: float) -> Answer:
        low, high = value / factor, value * factor
        return Answer(metric, kind, value, low, high, slowest.bottleneck, steps=steps, doubts=doubts)

    def waits(metric: str, low: float, high: float) -> Answer:
        return Answer(metric, Measure.TIME, mean_s, low, high, slowest.bottleneck, steps=steps, doubts=doubts)

    answers: list[Answer] = []
    if wanted.at_least:
        unit = wanted.bs if wanted.at_least.kind is Measure.RATE else 1
        answers.append(_least(rate("throughput", wanted.at_least.kind, ops * unit), wanted.at_least))
    if wanted.mean_at_most:
        mean = waits("mean latency", mean_s / factor, mean_s * factor)
        answers.append(_most(mean, wanted.mean_at_most))
    if wanted.p99_at_most:
        # The model has means only. A 99th percentile below the mean is not expected; the upper end is Markov's bound.
        p99 = waits(f"{PERCENTILE} (predicted: the mean)", mean_s / factor, mean_s * factor * MARKOV_P99)
        answers.append(_most(p99, wanted.p99_at_most))
    if wanted.per_watt_at_least:
        watts = watts_under(profile, predictions[0][1].utilisation if len(predictions) == 1 else None)
        steps += (f"power, by the model: {watts.watts:,.0f} W", *watts.steps)
        answers.append(_least(rate("work per watt", Measure.WORK, ops / watts.watts), wanted.per_watt_at_least))
    return tuple(_placed(answer, profile, slowest.shape) for answer in answers)


BACKFILL_FULL = 0.9
"""mon_osd_backfillfull_ratio's default: an OSD that is fuller takes in no backfill."""

UNPUBLISHED = "no publication has a recovery by the nodes that are left: the estimate follows from one into a new node"


def _recovery(wanted: RecoveryRequirement, profile: Profile, trust: Trust) -> Answer:
    """All remaining nodes may recover together, at most hosts / lost times as fast as the replacement nodes alone.

    high: infinite where CRUSH's default rule has no host for a shard.
    """
    guard, lost = wanted.protection, wanted.nodes_lost
    doubts: tuple[str, ...] = ()
    shape = guard.shape("write", _WHOLE_BYTES * (guard.k or 1))
    placement.refuse_impossible(profile, shape)
    data_bytes, hosts = on_each(wanted, profile), placement.hosts(profile)
    recovery = recovery_of_largest(profile, data_bytes, nodes_lost=lost, share=wanted.share, k=guard.k)
    steps, quickest_s = recovery.derivation.lines(), recovery.seconds
    if not wanted.replaced:
        hosts -= lost
    if not wanted.replaced and hosts >= shape.copies:
        uneven = imbalance.taken_over(profile, shape, lost)
        among = recovery_in_place(profile, data_bytes, nodes_lost=lost, share=wanted.share, shape=shape, uneven=uneven)
        quickest_s *= lost / hosts
        steps.append(f"recovered by the {hosts} hosts that are left: at least x {lost} / {hosts} = {quickest_s:,.0f} s")
        if among.ideal.seconds < quickest_s:
            quickest_s = among.ideal.seconds
            steps.append(f"they are faster than the lost ones, and nothing holds them up: {quickest_s:,.0f} s")
        steps += (f"by the hosts that are left, {line}" for line in among.careful.derivation.lines())
        # What a new node like the slowest could take in by itself, those that are left can take in together.
        alone = recovery_time(profile, data_bytes, nodes_lost=lost, share=wanted.share, k=guard.k)
        recovery, doubts = min(alone, among.careful, key=lambda each: each.seconds), (UNPUBLISHED,)
    low, high = quickest_s / trust.recovery, recovery.seconds * trust.recovery
    answer = Answer(
        "time to recover", Measure.TIME, recovery.seconds, low, high, recovery.limit, steps=tuple(steps), doubts=doubts
    )
    answer = _most(answer, wanted.at_most)
    if hosts >= shape.copies and (full := too_full(wanted, profile)):
        answer = replace(answer, high=math.inf, limited_by="room on the nodes that are left", doubts=(*doubts, full))
    if wanted.replaced or hosts >= shape.copies:
        return _placed(answer, profile, shape)
    undersized = (
        f"{guard} on the {how_many(hosts, 'host that is left', 'hosts that are left')}: CRUSH's default rule puts each "
        "shard on a different host and leaves PGs undersized until the lost machines are replaced; with "
        "`replaced = true` the time counts from then."
    )
    return _hosts(answer, hosts, shape.copies, [undersized])


def too_full(wanted: RecoveryRequirement, profile: Profile) -> str:
    """Why the nodes that are left have no room for what the lost ones held, in words; empty where they have."""
    if wanted.replaced:
        return ""
    guard, rest = wanted.protection, placement.without_largest(profile, wanted.nodes_lost)
    shape = guard.shape("write", _WHOLE_BYTES * (guard.k or 1))
    most = max(zip((each.weight for each in profile.nodes), placement.copies_held(profile, shape.copies), strict=True))
    # What a node holds of each object changes from its part of the whole cluster to its part of what is left of it.
    whole_bytes = on_each(wanted, profile) / most[1]
    then = zip(rest.nodes, placement.copies_held(rest, shape.copies), strict=True)
    mean, name = max((whole_bytes * part / machine.weight, machine.name) for machine, part in then if machine.osds)
    fullest = mean * imbalance.busiest(profile, shape)
    if fullest <= BACKFILL_FULL:
        return ""
    return (
        f"the disks of {name} that are left would be {percent(mean, '.0f')} full on average, and the fullest "
        f"{percent(fullest, '.0f')}: Ceph moves nothing onto a disk that is more than {percent(BACKFILL_FULL, '.0f')} "
        "full (mon_osd_backfillfull_ratio)"
    )


def on_each(wanted: RecoveryRequirement, profile: Profile) -> float:
    """Bytes on each lost node; SpecError where no node holds that much."""
    if wanted.bytes is None:
        return (wanted.fill or 0.0) * profile.heaviest
    refuse_more_than_a_node(profile, wanted.bytes.value, "bytes")
    return wanted.bytes.value


_WHOLE_BYTES = 1 << 22
"""A write that fills whole stripes for any k: small objects take more space, as each shard is rounded up."""


def _capacity(wanted: CapacityRequirement, profile: Profile) -> Answer:
    """Each machine takes its share of the shards (placement); the first machine at `fill` sets the capacity.

    low: placement groups are uneven, so its fullest disk is at `fill` before the mean of its disks.
    """
    shape = wanted.protection.shape("write", _WHOLE_BYTES * (wanted.protection.k or 1))
    rooms = [
        (
            wanted.fill * load.machine.weight / ((load.primary + load.replica) * shape.shard_bytes / shape.block_bytes),
            load,
        )
        for load in placement.loads(profile, shape)
        if load.machine.osds
    ]
    room, first = min(rooms, key=lambda pair: pair[0])
    uneven = imbalance.busiest(profile, shape)
    shards = first.primary + first.replica
    steps = (
        f"usable: {wanted.fill:g} x {show(first.machine.weight, Measure.BYTES)} of {first.machine.name} / "
        f"({shards:.4g} shards x {shape.shard_bytes / shape.block_bytes:.4g} of the payload) = "
        f"{show(room, Measure.BYTES)}; the fullest disk has {uneven:.4f} times the mean   [{placement.SOURCE}]",
    )
    answer = Answer(
        "usable capacity", Measure.BYTES, room, room / uneven, room, f"disks of {first.machine.name}", steps=steps
    )
    return _placed(_least(answer, wanted.at_least), profile, shape)


LEVEL_BYTES, LEVEL_FACTOR = float(1 << 30), 8
"""max_bytes_for_level_base and its multiplier in Reef's bluestore_rocksdb_options."""


def whole_levels(db_bytes: float, level_bytes: float = LEVEL_BYTES, factor: int = LEVEL_FACTOR) -> float:
    """Bytes of the RocksDB levels that fit whole, each `factor` times the one before; all bytes where none does."""
    fitting, level = 0.0, level_bytes
    while fitting + level <= db_bytes:
        fitting, level = fitting + level, level * factor
    return fitting or db_bytes


def _objects(wanted: ObjectsRequirement, profile: Profile, trust: Trust) -> Answer:
    """Metadata is spread in proportion to the data; the machine whose OSDs are full first sets the count."""
    machines = [machine for machine in profile.nodes if machine.osds]
    bare = [machine.name for machine in machines if not machine.metadata_disks]
    if bare:
        raise SpecError(
            f"{profile.name} has nodes without metadata disks",
            f"disks with role metadata of {', '.join(bare)}: missing; without them nothing can spill over",
        )

    def count(usable: Callable[[float], float]) -> tuple[float, MachineClass]:
        each = [
            (
                usable(_db_bytes(machine)) * machine.osds / (wanted.metadata.value * machine.weight / profile.weight),
                machine,
            )
            for machine in machines
        ]
        return min(each, key=lambda pair: pair[0])

    known = wanted.db.value if wanted.db else None
    high, first = count(lambda db_bytes: min(known or db_bytes, db_bytes))
    low, _ = count(lambda db_bytes: min(known or whole_levels(db_bytes), db_bytes))
    db_bytes = _db_bytes(first)
    steps = (
        f"metadata: {profile.osds} OSDs x {show(known or whole_levels(db_bytes), Measure.BYTES)} to "
        f"{show(known or db_bytes, Measure.BYTES)} of {show(db_bytes, Measure.BYTES)} / {wanted.metadata} an object "
        f"[{wanted.metadata.source}] = {low:,.0f} to {high:,.0f} objects",
    )
    ends = low / trust.objects, high * trust.objects
    limited_by = f"metadata disks of {first.name}"
    answer = Answer("objects before metadata spills", Measure.OBJECTS, low, *ends, limited_by, steps=steps)
    return _least(answer, wanted.at_least)


def _db_bytes(machine: MachineClass) -> float:
    """Bytes of metadata disk for each OSD."""
    return sum(disks.count * disks.size.value for disks in machine.metadata_disks) / machine.osds
