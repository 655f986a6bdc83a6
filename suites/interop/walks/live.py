"""Takes walks on a live cluster, with a program on a host for each side and a new place for each try."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from cephlab.lab.base.clock import Deadline
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.interop.walks.printing import program
from cephlab.suites.interop.walks.walk import Difference, Model, Step, draw, shrink, take

LOOK_EVERY = 8
"""Number of steps between two looks at the whole state."""
MOST_TRIES, SHRINK_S = 200, 60.0
"""Limits for shortening a walk that goes wrong, whichever comes first. The seconds are before patience."""
_ASK_S = 120.0


@dataclass(frozen=True)
class Line:
    """The connection to a side's program on a host."""

    channel: Channel
    patience: float

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        request = json.dumps([operation, dict(arguments)]).encode()
        return json.loads(self.channel.ask(request, timeout_s=_ASK_S * self.patience))

    def begin(self, place: str) -> None:
        """Go to an empty place."""
        self.ask("begin", {"place": place})


@contextmanager
def lines(kind: str, on: Mapping[str, tuple[Host, Mapping[str, str]]], patience: float) -> Iterator[dict[str, Line]]:
    """Run a program for each side. on: side -> its host and settings."""
    source = program(kind).encode()
    with ExitStack() as undo:
        ends = {}
        for side, (host, settings) in on.items():
            script = host.directory / f"walk-{kind}-{side}.py"
            host.push(source, script)
            undo.callback(host.remove, script)
            channel = host.channel(["python3", str(script), "serve"])
            undo.callback(channel.close)
            ends[side] = Line(channel, patience)
            ends[side].ask("settings", settings)  # not on a command line, since some are secret
        yield ends


@dataclass(frozen=True)
class Walking:
    """Walks of one kind. model: makes a fresh model, the same each time; prefix: of the names of places."""

    kind: str
    model: Callable[[], Model]
    sides: Mapping[str, Line]
    prefix: str
    _numbers: Iterator[int] = field(default_factory=count)

    def tries(self, steps: Sequence[Step]) -> Difference | None:
        """Take steps in a new place."""
        place = f"{self.prefix}{next(self._numbers)}"
        for side in self.sides.values():
            side.begin(place)
        return take(self.model(), steps, lambda step: self.sides[step.side].ask(step.operation, step.arguments))


def walk(stage: Stage, walking: Walking, length: int) -> None:
    """Take a random walk. If an answer is wrong, shorten the walk and record it with a program that reproduces it."""
    steps = draw(walking.model(), stage.rng, tuple(walking.sides), length, LOOK_EVERY)
    kind = walking.kind
    for side in walking.sides:
        taken = Counter(step.operation for step in steps if step.side == side)
        stage.recorder.witness(f"operations of {kind} through {side}", got=len(taken), least=3)
    first = walking.tries(steps)
    if first is None:
        stage.recorder.observe(f"wrong answers on a walk over {kind}", got=wrong_of(first), wanted=[], of=len(steps))
        return
    deadline = Deadline.after(SHRINK_S * stage.cluster.patience)
    difference, tried = shrink(first, walking.tries, enough=lambda tried: tried >= MOST_TRIES or deadline.passed())
    last = difference.last
    name = printed(stage, kind, difference)
    steps_left = f"{len(difference.taken)} of {len(first.taken)} steps, see {name} in the archive's logs"
    stage.recorder.observe(
        f"walk over {kind}, {steps_left}: {last.step.operation} through {last.step.side}",
        got=difference.got,
        wanted=last.answer,
        tried=tried,
        first=wrong_of(first),
    )


def wrong_of(difference: Difference | None) -> list[Any]:
    """A wrong answer in short, for the history."""
    if difference is None:
        return []
    step = difference.last.step
    return [step.operation, step.side, dict(step.arguments), difference.got, difference.last.answer]


def printed(stage: Stage, kind: str, difference: Difference) -> str:
    """Record a program that reproduces the difference. The run keeps it with the scenario's logs. Returns its name."""
    about = f"{stage.recorder.scenario}: the last answer of these {len(difference.taken)} steps is not the wanted one."
    source = program(kind, difference.taken, about=about)
    name = f"walk-{kind}.py"
    stage.recorder.program(name, source)
    return name
