"""Recovery bandwidth with osd_max_backfills from 1 to 16, compared with what two of the settings predict."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabError
from cephlab.lab.base.workers import repeated
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound, Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.suites.expected import DEAD_COUNT
from cephlab.suites.interop.messenger import await_option
from cephlab.suites.interop.mirror import Mirror
from cephlab.suites.interop.recovery import SHORT_LOGS, WRITES, note_cut_logs
from cephlab.suites.migration import movement
from cephlab.suites.migration.copied import Copied, note_copied, placed
from cephlab.suites.migration.swap import NATIVE_3, PAIRS, scenario_of_migration
from cephlab.suites.migration.trial import STILL, statistics
from cephlab.tuning.validate import TARGET_WORST

SWEEP = (1, 2, 4, 8, 16)
PG_NUM = 64
"""Enough that every OSD receives more PGs than the largest number of backfills at once."""
OBJECTS = 128
OBJECT_BYTES = 1 << 20
HEALTHY_S = 300.0
LOOK_S = 0.05
RESERVATIONS = ("local_reservations", "remote_reservations")
"""An OSD holds one for each PG that it backfills as the PG's primary, or receives."""

TOPOLOGY = replace(
    NATIVE_3,
    # mclock, the default scheduler since Quincy, ignores osd_max_backfills without this option.
    options=(*SHORT_LOGS, ("osd_mclock_override_recovery_settings", "true")),
)


@dataclass(frozen=True)
class Move:
    """All data moves off an OSD, or back. moved: bytes that OSDs copied; least: bytes that any cluster must move.

    at_once: most PGs that one OSD was seen to backfill at the same time.
    """

    moved: float
    least: float
    seconds: float
    at_once: int

    @property
    def rate(self) -> float:
        return self.moved / self.seconds


@dataclass(frozen=True)
class Leg:
    """The moves with one value of osd_max_backfills."""

    backfills: int
    moves: tuple[Move, ...]

    @property
    def rate(self) -> float:
        return self.moved / sum(move.seconds for move in self.moves)

    @property
    def low(self) -> float:
        return min(move.rate for move in self.moves)

    @property
    def moved(self) -> float:
        return sum(move.moved for move in self.moves)

    @property
    def least(self) -> float:
        return sum(move.least for move in self.moves)

    @property
    def at_once(self) -> int:
        return max(move.at_once for move in self.moves)


@dataclass
class Reserved:
    """The most PGs that one OSD backfilled at once, as a source or as a target, over many looks."""

    cluster: Cluster
    most: int = 0
    trouble: LabError | None = None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look again and again during the block. Raises what a look raised."""
        with repeated(self.look, LOOK_S, "reservations"):
            yield
        if self.trouble is not None:
            raise self.trouble

    def look(self) -> None:
        try:
            for osd in self.cluster.osd_ids():
                reservations = self.cluster.client.tell(f"osd.{osd}", "dump_recovery_reservations")
                self.most = max(self.most, *(len(reservations[side]["in_progress"]) for side in RESERVATIONS))
        except LabError as error:
            self.trouble = error


def predicted(slowest: Leg, fastest: Leg, backfills: int) -> float:
    """Predict bytes per second: proportional to the number of backfills at once, up to a ceiling.

    This is the law of `cephlab.tuning.recovery`. Both of its numbers, the rate of one backfill and the ceiling, are
    measured.
    """
    return min(slowest.rate / slowest.backfills * backfills, max(fastest.rate, slowest.rate))


def note_leg(recorder: Recorder, leg: Leg, slowest: Leg, fastest: Leg) -> None:
    """Record the bandwidth of a setting, and what the slowest and the fastest setting predict for it.

    Those two settings give the law its numbers and are not judged by it. The limit uses the low ends of their rates,
    because the machine may have been slower for a while: one setting reached 0.48 of what their means predict.
    """
    rate = predicted(slowest, fastest, leg.backfills)
    surely = min(slowest.low / slowest.backfills * leg.backfills, fastest.low)
    law = f"{slowest.rate:.3g} B/s with {slowest.backfills}, at most {fastest.rate:.3g} B/s with {fastest.backfills}"
    why = f"predicted {rate:.3g} B/s ({law}), at least {surely:.3g}; trusted to a factor of {TARGET_WORST:g}"
    calibrates = leg in (slowest, fastest)
    bound = (
        Bound("not judged: the prediction uses this number itself", basis=Basis.NOTED)
        if calibrates
        else Bound(why, least=round(surely / TARGET_WORST), basis=Basis.SHAPE)
    )
    interval = (round(leg.low), round(max(move.rate for move in leg.moves)))
    name = f"recovery bandwidth with osd_max_backfills={leg.backfills}"
    recorder.figure(name, round(leg.rate), "B/s", bound, interval=interval)


def note_at_once(recorder: Recorder, leg: Leg) -> None:
    """Record how many backfills ran at once. If the setting had no effect, all bandwidths would agree with the law."""
    least = min(leg.backfills, 2)
    why = "OSDs keep to the setting, and one above 1 lets more than one backfill run"
    bound = Bound(why, least=least, most=leg.backfills, basis=Basis.CORRECTNESS)
    recorder.figure(f"backfills at once with osd_max_backfills={leg.backfills}", leg.at_once, "PGs", bound)


def run(stage: Stage) -> None:
    """Take an OSD out and in with each setting, and time both moves until all PGs are clean."""
    cluster, recorder = stage.cluster, stage.recorder
    with pools.pool(cluster, STILL, PAIRS, pg_num=PG_NUM, options={"min_size": "1"}) as pool:
        mirror = Mirror(cluster.client, pool)
        for size in (*[1] * (WRITES - 1), OBJECT_BYTES):  # all but the last only cut the PGs' logs short
            for number in range(OBJECTS):
                mirror.full(f"o{number}", stage.rng.randbytes(size))
        cluster.settle()
        note_cut_logs(recorder, statistics(cluster, pool))
        legs = [leg(stage, backfills) for backfills in SWEEP]
        for swept in legs:
            recorder.record("sweep", backfills=swept.backfills, moves=[asdict(move) for move in swept.moves])
            note_leg(recorder, swept, legs[0], legs[-1])
            note_at_once(recorder, swept)
            name = f"osd_max_backfills={swept.backfills}"
            recorder.witness(f"bytes to move with {name}", got=swept.least, least=OBJECT_BYTES)
            note_copied(recorder, name, swept.moved, swept.least)
        mirror.verify(cluster.client, recorder, "after every move")


def leg(stage: Stage, backfills: int) -> Leg:
    """Take an OSD out and in again with one value of osd_max_backfills."""
    cluster = stage.cluster
    cluster.client.mon("config set", who="osd", name="osd_max_backfills", value=str(backfills))
    for osd in cluster.osd_ids():
        await_option(cluster, f"osd.{osd}", {"osd_max_backfills": str(backfills)})
    victim = str(cluster.osd_ids()[-1])
    return Leg(backfills, tuple(move(cluster, verb, victim) for verb in ("osd out", "osd in")))


def move(cluster: Cluster, verb: str, victim: str) -> Move:
    """Change the map, and wait until all PGs are clean again. verb: `osd out` or `osd in`."""
    cluster.settle()
    before, copied, reserved = placed(cluster), Copied(cluster), Reserved(cluster)
    with reserved.watched():
        began = SYSTEM.monotonic()
        cluster.client.mon(verb, ids=[victim])
        pools.wait_clean(cluster, HEALTHY_S)
        seconds = SYSTEM.monotonic() - began
    cluster.settle()
    least = movement.least_movement(before, placed(cluster)).least_bytes
    return Move(copied.bytes, least, seconds, reserved.most)


SCENARIOS: tuple[Scenario, ...] = (
    scenario_of_migration(
        name="migration.backfills",
        goal="More backfills at once restore lost copies faster, up to what the machine can take.",
        method="Takes an OSD out and in with osd_max_backfills from 1 to 16; counts backfills at once; "
        "compares three of the bandwidths with those that the slowest and the fastest setting predict.",
        run=run,
        check="figures",
        sees=tuple(
            f"{what} with osd_max_backfills={backfills}"
            for backfills in SWEEP
            for what in ("recovery bandwidth", "backfills at once")
        ),
        topology=TOPOLOGY,
        expects=DEAD_COUNT,
    ),
)
