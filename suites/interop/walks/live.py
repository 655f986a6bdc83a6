"""Takes walks on a live cluster, with a program on a host for each side and a new place for each try."""

import json
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import CephTrouble, CommandFailed, CommandTimedOut, try_all
from cephlab.lab.providers.host import Channel, Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.interop.walks.printing import program
from cephlab.suites.interop.walks.walk import Difference, Model, Step, draw, shrink, take

LOOK_EVERY = 8
"""Number of steps between two looks at the whole state."""
MOST_TRIES, SHRINK_S, MOST_SHRINK_S = 200, 60.0, 300.0
"""Limits for shortening a walk that goes wrong, whichever comes first. SHRINK_S is before patience, MOST_SHRINK_S after
it: the verdict is known by then, and only the program that shows it gets shorter. With a patience of 10 to 19 a gate
would otherwise wait as many minutes for that.
"""
_ASK_S = 120.0
_END_S = 30.0
"""Time for a side to give back what it holds, before patience."""
CRASHES = (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL)
"""Signals that end a program because of its own code. Others, as SIGKILL, come from outside."""
_TAIL_LINES = 20


class ClientDied(CephTrouble):
    """A client crashed in an operation. It runs Ceph's libraries, and Python does not crash by itself."""

    def __init__(self, name: str, operation: str, arguments: Mapping[str, Any], ended: CommandFailed) -> None:
        """name: of the signal."""
        self.name = name
        self.tail = ended.stderr.splitlines()[-_TAIL_LINES:]
        detail = "\n".join([f"{ended.what}; arguments of {operation}: {dict(arguments)}; its last errors:", *self.tail])
        super().__init__(f"a client died of {name} during {operation}", detail, "an emulated one: try a native one too")


def crash_of(code: int) -> str:
    """The signal of `CRASHES` that ended a program; empty if none did. Some hosts report 128 more than its number."""
    number = -code if code < 0 else code - 128
    return next((crash.name for crash in CRASHES if crash == number), "")


@dataclass(frozen=True)
class Line:
    """The connection to a side's program on a host."""

    channel: Channel
    patience: float

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """The program's answer. ClientDied if it crashed."""
        request = json.dumps([operation, dict(arguments)]).encode()
        try:
            return json.loads(self.channel.ask(request, timeout_s=_ASK_S * self.patience))
        except CommandFailed as ended:
            if name := crash_of(ended.code):
                raise ClientDied(name, operation, arguments, ended) from ended
            raise

    def begin(self, place: str) -> None:
        """Go to an empty place."""
        self.ask("begin", {"place": place})


@contextmanager
def lines(kind: str, on: Mapping[str, tuple[Host, Mapping[str, str]]], patience: float) -> Iterator[dict[str, Line]]:
    """Run a program for each side. on: side -> its host and settings."""
    source = program(kind).encode()
    with ExitStack() as undo:
        ends: dict[str, Line] = {}
        programs = []
        for side, (host, settings) in on.items():
            script = host.directory / f"walk-{kind}-{side}.py"
            host.push(source, script)
            undo.callback(host.remove, script)
            client = Client(host, ["python3", str(script), "serve"], settings)
            undo.callback(client.close)
            programs.append(client)
            ends[side] = Line(client, patience)
            ends[side].ask("settings", settings)
        yield ends
        try_all(partial(client.end, _END_S * patience) for client in programs)


class Client:
    """A side's program on a host. After it has ended, the next question starts it again, so that others can follow."""

    def __init__(self, host: Host, argv: Sequence[str], settings: Mapping[str, str]) -> None:
        self._name = f"the client on {host.name}"
        self._start = partial(host.channel, argv)
        self._settings = json.dumps(["settings", dict(settings)]).encode()
        self._channel = self._start()

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        if not self.alive():
            self.close()
            self._channel = self._start()
            # Not on a command line, since some are secret.
            self._channel.ask(self._settings, timeout_s=timeout_s)
        return self._channel.ask(line, timeout_s=timeout_s)

    def alive(self) -> bool:
        return self._channel.alive()

    def end(self, timeout_s: float) -> None:
        """Give back what the side holds in the cluster, if it lives. CephTrouble if it cannot, or crashes.

        `close` kills a program that takes longer than a moment. A killed client of CephFS holds up the metadata server
        that takes over next, until `mds_reconnect_timeout`.
        """
        if not self.alive():
            return
        try:
            self._channel.ask(json.dumps(["end", {}]).encode(), timeout_s=timeout_s)
        except CommandTimedOut as late:
            hint = "a client that cannot unmount waits for something of its own: look at its log and its threads"
            raise CephTrouble(
                f"{self._name} cannot leave the cluster within {timeout_s:g} s", str(late), hint
            ) from late
        except CommandFailed as ended:
            if name := crash_of(ended.code):
                raise ClientDied(name, "end", {}, ended) from ended
            raise

    def close(self) -> None:
        self._channel.close()


@dataclass(frozen=True)
class Walking:
    """Walks of one kind. model: makes a fresh model, the same each time; prefix: of the names of places.

    settings: those that a program needs to take a walk as its sides did, none of them secret.
    """

    kind: str
    model: Callable[[], Model]
    sides: Mapping[str, Line]
    prefix: str
    settings: Mapping[str, str] = field(default_factory=dict)
    _numbers: Iterator[int] = field(default_factory=count)

    def tries(self, steps: Sequence[Step]) -> Difference | None:
        """Take steps in a new place."""
        place = f"{self.prefix}{next(self._numbers)}"
        for side in self.sides.values():
            side.begin(place)
        return take(self.model(), steps, self._answer)

    def _answer(self, step: Step) -> Any:
        """The answer to a step. The death of a client is a wrong answer, so that the walk is shortened."""
        try:
            return self.sides[step.side].ask(step.operation, step.arguments)
        except ClientDied as died:
            return {"the client died of": died.name, "its last errors": died.tail}


def walk(stage: Stage, walking: Walking, length: int) -> None:
    """Take a random walk. If an answer is wrong, shorten the walk and record it with a program that reproduces it."""
    steps = draw(walking.model(), stage.rng, tuple(walking.sides), length, LOOK_EVERY)
    kind = walking.kind
    for side in walking.sides:
        operations = Counter(step.operation for step in steps if step.side == side)
        stage.recorder.witness(f"operations of {kind} through {side}", got=len(operations), least=3)
    first = walking.tries(steps)
    if first is None:
        stage.recorder.observe(f"wrong answers on a walk over {kind}", got=wrong_of(first), wanted=[], of=len(steps))
        return
    deadline = Deadline.after(min(SHRINK_S * stage.cluster.patience, MOST_SHRINK_S))
    difference, tried = shrink(first, walking.tries, enough=lambda tried: tried >= MOST_TRIES or deadline.passed())
    last = difference.last
    name = printed(stage, walking, difference)
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


def printed(stage: Stage, walking: Walking, difference: Difference) -> str:
    """Record a program that reproduces the difference. The run keeps it with the scenario's logs. Returns its name."""
    about = f"{stage.recorder.scenario}: the last answer of these {len(difference.taken)} steps is not the wanted one."
    source = program(walking.kind, difference.taken, about=about, settings=walking.settings)
    name = f"walk-{walking.kind}.py"
    stage.recorder.program(name, source)
    return name
