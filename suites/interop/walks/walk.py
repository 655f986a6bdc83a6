"""A walk: steps drawn against a model, taken through several sides, compared, and shortened when an answer differs.

The model alone decides which steps there are, so that a seed gives the same walk on every cluster. A step that makes no
sense after another was left out does not fit and is not taken: so any part of a walk is a walk, and can be tried.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from cephlab.lab.base.errors import SpecError

LOOK = "look"
"""The operation of every side that answers with the whole state."""


class Unfit(Exception):
    """A step that the model's state does not allow; it is left out."""


class Refused(Exception):
    """A step that Ceph has to refuse. Its argument is the word that the side answers, as `ENOENT`."""


class Model(Protocol):
    """What the service must answer. It has a method `do_NAME(**arguments)` for each operation of its sides.

    Such a method returns the wanted answer, which JSON can carry, or raises Unfit or Refused and changes nothing.
    looking: the arguments of every look.
    """

    @property
    def looking(self) -> Mapping[str, Any]: ...

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        """An operation and its arguments, mostly one that fits."""
        ...

    def do_look(self, **looking: Any) -> Any:
        """The whole state."""
        ...


@dataclass(frozen=True)
class Step:
    """One operation through one side. side: its name; arguments: what JSON can carry."""

    side: str
    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A step, and what has to be answered."""

    step: Step
    answer: Any


@dataclass(frozen=True)
class Difference:
    """The first wrong answer of a walk. taken: the steps up to it, it included."""

    taken: tuple[Wanted, ...]
    got: Any

    @property
    def last(self) -> Wanted:
        return self.taken[-1]


Take = Callable[[Step], Any]
"""Takes a step on a live service and returns its answer."""
Walks = Callable[[Sequence[Step]], Difference | None]
"""Tries steps in a place that is empty at first."""


def content(seed: int, size: int) -> bytes:
    """The bytes that a step writes; the sides make the same (`inside/replay.py`)."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def told(data: bytes | bytearray) -> str:
    """Content as answers tell it: its size, and the beginning of its SHA-256."""
    return f"{len(data)}:{hashlib.sha256(data).hexdigest()[:16]}"


def answer_of(model: Model, step: Step) -> Any:
    """What must be answered, in JSON's types; the model is in the state after it. Raises Unfit."""
    try:
        answer = getattr(model, f"do_{step.operation}")(**step.arguments)
    except Refused as refused:
        answer = {"refused": str(refused)}
    return json.loads(json.dumps(answer))


def fitting(model: Model, steps: Sequence[Step]) -> tuple[Wanted, ...]:
    """The steps that fit one after the other, each with its answer. model: a fresh one."""
    wanted = []
    for step in steps:
        try:
            wanted.append(Wanted(step, answer_of(model, step)))
        except Unfit:
            continue
    return tuple(wanted)


def draw(model: Model, rng: Random, sides: Sequence[str], length: int, look_every: int) -> tuple[Step, ...]:
    """A walk of so many steps, each through a drawn side, with looks by a side other than the last one, and by all.

    model: a fresh one, and used up afterwards. SpecError where the model draws nothing that fits.
    """
    steps: list[Step] = []
    since = drawn = 0
    while since < length:
        drawn += 1
        if drawn > 100 * length:
            raise SpecError(f"{type(model).__name__} draws steps that do not fit", f"{since} of {length} did")
        step = Step(rng.choice(sides), *model.draw(rng))
        try:
            answer_of(model, step)
        except Unfit:
            continue
        steps.append(step)
        since += 1
        if since % look_every == 0:
            steps.append(Step(rng.choice([side for side in sides if side != step.side]), LOOK, model.looking))
    return (*steps, *(Step(side, LOOK, model.looking) for side in sides))


def take(model: Model, steps: Sequence[Step], taking: Take) -> Difference | None:
    """Take what fits of the steps, up to the first answer that differs from the model's. model: a fresh one."""
    wanted = fitting(model, steps)
    for number, each in enumerate(wanted):
        got = taking(each.step)
        if got != each.answer:
            return Difference(wanted[: number + 1], got)
    return None


def shrink(first: Difference, tries: Walks, enough: Callable[[int], bool]) -> tuple[Difference, int]:
    """A shorter walk that goes wrong, and how often one was tried. enough: whether so many times are.

    Steps are left out, by halves, quarters and so on to single ones. Then numbers are lowered and steps given to the
    first side. Both are done again until neither leads to a walk that still goes wrong.
    """
    shrinking = _Shrinking(first, tries, enough)
    size = max(1, len(first.taken) // 2)
    while not enough(shrinking.tried):
        shorter = shrinking.left_out(size)
        if size > 1:
            size //= 2
        elif not shorter and not shrinking.simplified():
            break
    return shrinking.best, shrinking.tried


@dataclass
class _Shrinking:
    """The shortest walk so far."""

    best: Difference
    tries: Walks
    enough: Callable[[int], bool]
    tried: int = 0

    @property
    def steps(self) -> list[Step]:
        return [each.step for each in self.best.taken]

    def goes_wrong(self, steps: Sequence[Step]) -> bool:
        """Whether these do; then they are the best so far. No try is made where there were enough."""
        if self.enough(self.tried):
            return False
        self.tried += 1
        difference = self.tries(steps)
        self.best = difference or self.best
        return difference is not None

    def left_out(self, size: int) -> bool:
        """Leave out so many steps at a time, from the end on. Whether any could be."""
        shorter, end = False, len(self.best.taken)
        while end > 0:
            steps = self.steps
            end = min(end, len(steps))
            begin = max(0, end - size)
            shorter |= self.goes_wrong(steps[:begin] + steps[end:])
            end = begin
        return shorter

    def simplified(self) -> bool:
        """Replace steps by simpler ones, one at a time. Whether any could be."""
        simpler, number = False, 0
        while number < len(self.best.taken):
            steps = self.steps
            made = simpler_steps(steps[number], steps[0].side)
            if any(self.goes_wrong([*steps[:number], each, *steps[number + 1 :]]) for each in made):
                simpler = True
            else:
                number += 1
        return simpler


def simpler_steps(step: Step, side: str) -> list[Step]:
    """The step with a number lowered, a long text cut, or through a side. Each is simpler, so that it comes to an end.

    A seed is no size: what it makes is as odd with a low one.
    """
    made = [] if step.side == side else [replace(step, side=side)]
    for key, value in step.arguments.items():
        if key == "seed" or isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            continue
        lower = [each for each in (0, 1, value // 2, value - 1) if each < value]
        made += [replace(step, arguments={**step.arguments, key: each}) for each in dict.fromkeys(lower)]
    return made
