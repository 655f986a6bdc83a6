"""A walk: random steps, taken through several sides, compared with a model, and shortened when an answer differs.

Only the model decides which steps are possible, so that a seed gives the same walk on every cluster. A step that makes
no sense after another was left out does not fit, and is skipped. So any part of a walk is a walk and can be tried.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Protocol

from cephlab.lab.base.errors import SpecError

LOOK = "look"
"""The operation that answers with the whole state. Every side has it."""


class Unfit(Exception):
    """A step that the model's state does not allow. It is left out."""


class Refused(Exception):
    """A step that Ceph must refuse. The argument is the word that the side answers, for example `ENOENT`."""


class Model(Protocol):
    """What the service must answer. It has a method `do_NAME(**arguments)` for each operation of its sides.

    This method returns the wanted answer as JSON types, or raises Unfit or Refused and changes nothing.
    looking: the arguments of every look. side: which side takes the step, for what a side has of its own.
    """

    side: str

    @property
    def looking(self) -> Mapping[str, Any]: ...

    def draw(self, rng: Random) -> tuple[str, dict[str, Any]]:
        """Draw an operation and its arguments. Most of them fit."""
        ...

    def do_look(self, **looking: Any) -> Any:
        """The whole state."""
        ...


@dataclass(frozen=True)
class Step:
    """One operation through one side. side: its name; arguments: JSON types."""

    side: str
    operation: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Wanted:
    """A step and the answer that it must get."""

    step: Step
    answer: Any


@dataclass(frozen=True)
class Difference:
    """The first wrong answer of a walk. taken: the steps up to and including it."""

    taken: tuple[Wanted, ...]
    got: Any

    @property
    def last(self) -> Wanted:
        return self.taken[-1]


Take = Callable[[Step], Any]
"""Takes a step on a live service and returns its answer."""
Walks = Callable[[Sequence[Step]], Difference | None]
"""Tries steps in a place that is empty at the start."""


def content(seed: int, size: int) -> bytes:
    """The bytes that a step writes. The sides compute the same bytes (`inside/replay.py`)."""
    return hashlib.shake_128(str(seed).encode()).digest(size)


def told(data: bytes | bytearray) -> str:
    """Content in the form of answers: its size, and the start of its SHA-256."""
    return f"{len(data)}:{hashlib.sha256(data).hexdigest()[:16]}"


def answer_of(model: Model, step: Step) -> Any:
    """The wanted answer, in JSON types. It moves the model to the state after the step. Raises Unfit."""
    model.side = step.side
    try:
        answer = getattr(model, f"do_{step.operation}")(**step.arguments)
    except Refused as refused:
        answer = {"refused": str(refused)}
    return json.loads(json.dumps(answer))


def fitting(model: Model, steps: Sequence[Step]) -> tuple[Wanted, ...]:
    """The steps that fit, taken in order, each with its wanted answer. model: a fresh one."""
    wanted = []
    for step in steps:
        try:
            wanted.append(Wanted(step, answer_of(model, step)))
        except Unfit:
            continue
    return tuple(wanted)


def draw(model: Model, rng: Random, sides: Sequence[str], length: int, look_every: int) -> tuple[Step, ...]:
    """Draw a walk of `length` steps, each through a random side. At times another side looks, and at the end all do.

    model: a fresh one, used up afterwards. SpecError if the model draws too few steps that fit.
    """
    steps: list[Step] = []
    since = count = 0
    while since < length:
        count += 1
        if count > 100 * length:
            raise SpecError(f"{type(model).__name__} draws steps that do not fit", f"{since} of {length} steps fit")
        model.side = rng.choice(sides)
        step = Step(model.side, *model.draw(rng))
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
    """Take the steps that fit, up to the first answer that differs from the model's. model: a fresh one."""
    wanted = fitting(model, steps)
    for number, entry in enumerate(wanted):
        got = taking(entry.step)
        if got != entry.answer:
            return Difference(wanted[: number + 1], got)
    return None


def shrink(first: Difference, tries: Walks, enough: Callable[[int], bool]) -> tuple[Difference, int]:
    """Find a shorter walk that still goes wrong. Returns it and the number of tries. enough: whether to stop trying.

    It leaves out steps, first halves, then quarters and so on down to single steps. Then it lowers numbers and moves
    steps to the first side. It repeats both until neither gives a walk that still goes wrong.
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
    """The shortest walk that goes wrong so far."""

    best: Difference
    tries: Walks
    enough: Callable[[int], bool]
    tried: int = 0

    @property
    def steps(self) -> list[Step]:
        return [wanted.step for wanted in self.best.taken]

    def goes_wrong(self, steps: Sequence[Step]) -> bool:
        """Whether these steps go wrong in the same operation. If so, they are the best so far.

        A wrong answer of another operation may be another defect. After enough tries, it tries no more.
        """
        if self.enough(self.tried):
            return False
        self.tried += 1
        difference = self.tries(steps)
        if difference is None or difference.last.step.operation != self.best.last.step.operation:
            return False
        self.best = difference
        return True

    def left_out(self, size: int) -> bool:
        """Leave out `size` steps at a time, starting at the end. Returns whether any could be left out."""
        shorter, end = False, len(self.best.taken)
        while end > 0:
            steps = self.steps
            end = min(end, len(steps))
            begin = max(0, end - size)
            shorter |= self.goes_wrong(steps[:begin] + steps[end:])
            end = begin
        return shorter

    def simplified(self) -> bool:
        """Replace steps by simpler ones, one at a time. Returns whether any could be replaced."""
        simpler, number = False, 0
        while number < len(self.best.taken):
            steps = self.steps
            candidates = simpler_steps(steps[number], steps[0].side)
            if any(self.goes_wrong([*steps[:number], step, *steps[number + 1 :]]) for step in candidates):
                simpler = True
            else:
                number += 1
        return simpler


def simpler_steps(step: Step, side: str) -> list[Step]:
    """The step through `side`, with a number lowered or a list shortened. Each is simpler, so that replacing ends.

    Seeds stay, because content from a low seed is no simpler. A look keeps its arguments, which say what to look at.
    """
    candidates = [] if step.side == side else [replace(step, side=side)]
    for key, value in step.arguments.items() if step.operation != LOOK else ():
        if isinstance(value, list) and len(value) > 1:
            shorter = [value[:number] + value[number + 1 :] for number in range(len(value))]
            candidates += [replace(step, arguments={**step.arguments, key: some}) for some in shorter]
        if key == "seed" or isinstance(value, bool) or not isinstance(value, int) or value <= 0:
            continue
        lower = [number for number in (0, 1, value // 2, value - 1) if number < value]
        candidates += [replace(step, arguments={**step.arguments, key: number}) for number in dict.fromkeys(lower)]
    return candidates
