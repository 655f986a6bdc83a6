"""Records what happened, in order: an append-only list of events that checks read later and archives keep."""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from cephlab.lab.base.clock import SYSTEM, Clock
from cephlab.lab.base.errors import SpecError, unwritable
from cephlab.lab.base.given import json_text, read_text
from cephlab.lab.base.numbers import how_many
from cephlab.lab.base.redaction import without_secrets
from cephlab.lab.history.sources import refuse_same_source

_OWN_NAME = "record with the stage's own recorder"


@dataclass(frozen=True)
class Event:
    """One thing that happened. at_s: seconds since the history began; data: JSON values only."""

    scenario: str
    at_s: float
    kind: str
    data: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        return json_text({"scenario": self.scenario, "at_s": round(self.at_s, 6), "kind": self.kind, "data": self.data})


class History:
    """Events of a whole run, written to disk line by line. Several threads may append."""

    def __init__(self, path: Path | None = None, clock: Clock = SYSTEM, *, earlier: Sequence[Event] = ()) -> None:
        """earlier: events already in the file, from the run that this one continues. Time continues after them."""
        self._path = path
        self._clock = clock
        self._began = clock.monotonic() - max((event.at_s for event in earlier), default=0.0)
        self._lock = threading.Lock()
        self._events: list[Event] = list(earlier)
        self._on_stage = ""

    @contextmanager
    def on_stage(self, scenario: str) -> Iterator[None]:
        """Inside the block, only this scenario's name may be used to record."""
        self._on_stage = scenario
        try:
            yield
        finally:
            self._on_stage = ""

    def record(self, scenario: str, kind: str, data: Mapping[str, Any]) -> Event:
        """Append one event and write it to the file at once, so that a killed run keeps what it saw.

        Raises LabBroken, and keeps nothing of the event, if the file cannot be written. SpecError for a name other than
        the running scenario's, because the event would be judged as part of the other scenario.
        """
        if self._on_stage not in ("", scenario):
            raise SpecError(
                f"{self._on_stage} records under the name of another scenario", f"{kind} of {scenario!r}", _OWN_NAME
            )
        with self._lock:
            line = Event(scenario, self._clock.monotonic() - self._began, kind, data).to_json()
            if self._path is not None:
                _append(self._path, without_secrets(line.encode()) + b"\n")
            # Only what is in the file is judged: its lists for tuples, and nothing that the caller changes later.
            event = Event(**json.loads(line))
            self._events.append(event)
        return event

    @property
    def began_s(self) -> float:
        """When it began, on its clock. A later reading of that clock minus this is an `at_s`."""
        return self._began

    def events(self, scenario: str | None = None) -> tuple[Event, ...]:
        with self._lock:
            return tuple(e for e in self._events if scenario is None or e.scenario == scenario)

    def recorder(self, scenario: str) -> Recorder:
        return Recorder(self, scenario)


class Phase(StrEnum):
    """Phase of a step. BEGAN and ENDED: a step that takes time. REACHED: a step that takes none."""

    BEGAN = "began"
    ENDED = "ended"
    REACHED = "reached"


class Basis(StrEnum):
    """What a limit is based on, even if the limit does not apply on the hosts of a run.

    CORRECTNESS: Ceph's promises, its settings or arithmetic; the limit holds on any machine. SHAPE: a ratio of values
    that one run measured. PROFILE: what the hosts can do according to the current profile; another profile gives
    another limit. NOTED: there is no limit and the figure is not judged; `why` of its bound says why not.
    """

    CORRECTNESS = "correctness"
    SHAPE = "shape"
    PROFILE = "profile"
    NOTED = "noted"


@dataclass(frozen=True)
class Bound:
    """The limits of a figure. least, most: None for no limit; why: where they come from, or why there is no limit.

    derivation: lines that show how they were calculated. basis: given by every scenario of a suite.
    """

    why: str = ""
    least: float | None = None
    most: float | None = None
    derivation: Sequence[str] = ()
    basis: Basis | None = None

    @property
    def judges(self) -> bool:
        """Whether there is a limit to judge by."""
        return self.least is not None or self.most is not None


UNBOUND = Bound()


@dataclass(frozen=True)
class Recorder:
    """A history for one scenario: it writes under the scenario's name and reads only the scenario's events."""

    history: History
    scenario: str

    def record(self, kind: str, **data: Any) -> Event:
        return self.history.record(self.scenario, kind, data)

    def observe(self, what: str, *, got: Any, wanted: Any, of: int | None = None, **data: Any) -> None:
        """Record a fact together with the wanted value; the check `observations` judges it later.

        of: how many things were checked. Required if the wanted value is empty (`wanted=[]`): an empty result shows
        nothing if nothing was checked. SpecError for a comparison that cannot fail.
        """
        refuse_same_source(sys._getframe(1), what, got, wanted)
        self.record("observation", what=what, got=got, wanted=wanted, **({} if of is None else {"of": of}), **data)

    def witness(self, what: str, *, got: float, least: float) -> None:
        """Record evidence that the load was real; without it the check `witnessed` finds the run inconclusive.

        SpecError if least is not above 0, because then no evidence would be enough.
        """
        if not least > 0:
            raise SpecError(f"a witness that cannot be missing: {what}", f"got least={least:g}, wanted: above 0")
        self.record("witness", what=what, got=got, least=least)

    def figure(
        self,
        metric: str,
        value: float,
        unit: str,
        bound: Bound = UNBOUND,
        *,
        interval: tuple[float, float] | None = None,
    ) -> None:
        """Record a measured value and its limits. interval: range that the true value lies in; omit it if exact."""
        low, high = interval or (value, value)
        of_bound = {"least": bound.least, "most": bound.most, "why": bound.why, "derivation": list(bound.derivation)}
        of_bound |= {"basis": bound.basis.value} if bound.basis else {}
        self.record("figure", metric=metric, value=value, low=low, high=high, unit=unit, **of_bound)

    def limit(self, metric: str, high: float, unit: str, why: str, *, basis: Basis) -> None:
        """Record the most that a metric may be: one that the check `service` computes, or the figure of that name.

        SpecError for the basis NOTED, which says that there is no limit.
        """
        if basis is Basis.NOTED:
            raise SpecError(f"a limit that limits nothing: {metric}", f"got basis={basis}, wanted: what it rests on")
        self.record("limit", metric=metric, high=high, unit=unit, why=why, basis=basis.value)

    def step(self, name: str, phase: Phase = Phase.REACHED, seconds: float | None = None) -> None:
        """Record where a scenario is; the report draws it over time. seconds: duration of the step, at its end."""
        self.record("step", name=name, phase=phase.value, seconds=seconds)

    def program(self, name: str, source: str) -> None:
        """Record a program that reproduces what was found; a run keeps it as a file with the scenario's logs."""
        self.record("program", name=name, source=source)

    def programs(self) -> dict[str, bytes]:
        """Every recorded program, by its file name."""
        return {e.data["name"]: e.data["source"].encode() for e in self.events() if e.kind == "program"}

    def events(self) -> tuple[Event, ...]:
        return self.history.events(self.scenario)


_EITHER = re.compile(r"\b(\d+) (\w+)\(s\)")


def _counted(name: str) -> str:
    """A name in today's spelling, so that runs of any age can be compared. Older names put `(s)` after a noun."""
    return _EITHER.sub(lambda match: how_many(int(match[1]), match[2]), name)


def current(kind: str, data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The data of a figure, a series or a step in today's schema; older archives have other forms."""
    if kind == "figure":
        exact: dict[str, Any] = {"low": data.get("value"), "high": data.get("value"), "derivation": []}
        name = data.get("what", data.get("metric"))
        named = {"metric": _counted(name)} if isinstance(name, str) else {}
        kept = {key: value for key, value in data.items() if key not in ("what", "metric")}
        return {**exact, "least": None, "most": None, "why": "", **named, **kept}
    if kind == "series":
        return {**data, "title": _counted(data["title"])}
    if kind == "step":
        named = {"name": data["what"]} if "what" in data else {}
        kept = {key: value for key, value in data.items() if key not in ("what", "mix")}
        return {"phase": Phase.REACHED.value, "seconds": None, **named, **kept}
    return data


def data_of(events: Iterable[Event], kind: str) -> list[Mapping[str, Any]]:
    """The data of the events of a kind."""
    return [event.data for event in events if event.kind == kind]


def load_events(path: Path) -> tuple[Event, ...]:
    """Read a history file, without an incomplete line at its end; SpecError names the line that is not an event."""
    events = []
    for number, line in enumerate(whole_lines(path)[0], 1):
        try:
            raw = json.loads(line)
            events.append(Event(raw["scenario"], float(raw["at_s"]), raw["kind"], current(raw["kind"], raw["data"])))
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            what = f"{path}:{number} is not an event"
            raise SpecError(what, str(error), "check whether the file was edited") from error
    return tuple(events)


def whole_lines(path: Path) -> tuple[list[str], str]:
    """The complete lines of a history file, and the incomplete last line that a killed run or a full disk left."""
    *lines, rest = read_text(path, most_bytes=None).split("\n")
    return lines, rest


def _append(path: Path, line: bytes) -> None:
    before = path.stat().st_size if path.exists() else 0
    try:
        with path.open("ab") as sink:
            sink.write(line)
    except OSError as error:
        # Otherwise the next event would be appended to half a line.
        with suppress(OSError):
            os.truncate(path, before)
        raise unwritable(path, error) from error
