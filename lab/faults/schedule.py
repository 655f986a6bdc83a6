"""Inflicts many faults one after another. A seed determines each target, its time and its duration."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.fault import Fault, Layout, inflict
from cephlab.lab.history.history import Recorder

EVENT = "thrash"
"""Kind of a schedule's events: {step, phase, faults}; phase: began, whole."""

RECOVERED_S = 180.0
"""If not every PG is clean this long after a step, the cluster has failed. Multiplied by patience."""

_ATTEMPTS = 100


@dataclass(frozen=True)
class Pace:
    """How long a step's faults last and the cluster rests afterwards: each (shortest, longest), in seconds."""

    hold_s: tuple[float, float] = (1.0, 8.0)
    rest_s: tuple[float, float] = (0.5, 4.0)


@dataclass(frozen=True)
class ThrashStep:
    """Faults that last together for hold_s seconds; then the cluster recovers and rests."""

    faults: tuple[Fault, ...]
    hold_s: float
    rest_s: float

    def __str__(self) -> str:
        struck = " + ".join(f"{fault.name} of {fault.target}" for fault in self.faults)
        return f"{struck} for {self.hold_s:.1f} s, then {self.rest_s:.1f} s of rest"


def plan(
    layout: Layout, rng: Random, menu: Sequence[type[Fault]], *, domains: int = 1, pace: Pace | None = None
) -> Iterator[ThrashStep]:
    """Endless steps, a pure function of the arguments and of the state of `rng`.

    domains: how many failure domains (nodes) may fail at a time; every redundant pool must survive 1. A step affects
    between one and that many, each with one fault. SpecError if no fault on the menu fits.
    """
    pace = pace or Pace()
    while True:
        wanted = rng.randint(1, domains)
        faults: list[Fault] = []
        for _ in range(_ATTEMPTS):
            fault = rng.choice(menu).aim(layout, rng)
            if fault is not None and _fits(fault, faults, layout, domains):
                faults.append(fault)
            if len(faults) == wanted:
                break
        if not faults:
            names = ", ".join(kind.name for kind in menu)
            raise SpecError("no fault on the menu fits", f"menu: {names}; nodes: {', '.join(layout.nodes)}")
        yield ThrashStep(tuple(faults), rng.uniform(*pace.hold_s), rng.uniform(*pace.rest_s))


def _fits(fault: Fault, others: Sequence[Fault], layout: Layout, domains: int) -> bool:
    """Whether a fault affects few enough nodes, and no node that another fault affects."""
    struck = fault.nodes(layout)
    before: frozenset[str] = frozenset().union(*(other.nodes(layout) for other in others))
    if len(struck | before) > domains or struck & before:
        return False
    # A fault that affects no node needs a cluster without any other fault.
    return not others or bool(struck and before)


def thrash(
    cluster: Cluster,
    recorder: Recorder,
    steps: Iterable[ThrashStep],
    *,
    seconds: float,
    least: int,
) -> int:
    """Carry out steps until `seconds` have passed; returns how many. At least `least`, because emulated steps are long.

    NotReached if the PGs are not all clean within RECOVERED_S after a step: the cluster did not recover.
    """
    over = Deadline.after(seconds)
    steps_done = 0
    for number, step in enumerate(steps):
        if over.passed() and steps_done >= least:
            break
        recorder.record(EVENT, step=number, phase="began", faults=str(step))
        with ExitStack() as stack:
            for fault in step.faults:
                stack.enter_context(inflict(fault, cluster, recorder))
            Deadline.after(step.hold_s).pause(step.hold_s)
        cluster.wait(lambda status: status.all_up, what=f"every OSD up after {step}", timeout_s=RECOVERED_S)
        pools.wait_clean(cluster, RECOVERED_S)
        recorder.record(EVENT, step=number, phase="whole", faults=str(step))
        Deadline.after(step.rest_s).pause(step.rest_s)
        steps_done += 1
    return steps_done
