"""Defines a scenario: what it shows, on which cluster, what it does, and which check judges what it recorded.

A scenario whose suite swallows errors is refused, because it could fail half-way and pass by what it saw before.
"""

import ast
import inspect
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, partial
from pathlib import Path
from typing import Any

from cephlab.lab.base.clock import TimeLimit, watched
from cephlab.lab.base.errors import CephTrouble, LabError, SpecError, Unavailable
from cephlab.lab.checks import CHECKS, READ_WITNESSES, Outcome, Verdict, merge
from cephlab.lab.checks.aftermath import aftermath
from cephlab.lab.checks.observations import observations
from cephlab.lab.checks.witnessed import witnesses
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.watch import Watch
from cephlab.lab.history.history import Event, Recorder
from cephlab.lab.scenario.declared import must_see, unseen
from cephlab.lab.scenario.topology import PLAIN, Topology
from cephlab.lab.spec.clusterspec import Capability


class Tier(StrEnum):
    """How much time a run may take. The full tier includes everything of the quick tier."""

    QUICK = "quick"
    FULL = "full"


@dataclass(frozen=True)
class Stage:
    """What a scenario works with. rng: its own, from the run's seed and its name; scratch: an empty directory.

    profile: name or file of the hardware profile that results are compared with; empty for none. changes: `PLACE=VALUE`
    settings that change the profile. limit: time limit of its whole run. earlier: what an interrupted attempt recorded,
    if this run continues it.
    """

    raised: Cluster | None
    recorder: Recorder
    rng: random.Random
    scratch: Path
    tier: Tier = Tier.QUICK
    profile: str = ""
    changes: tuple[str, ...] = ()
    limit: TimeLimit | None = None
    earlier: Sequence[Event] = ()

    @property
    def cluster(self) -> Cluster:
        """The scenario's cluster; SpecError if its topology is NOWHERE."""
        if self.raised is None:
            what = f"{self.recorder.scenario} has no cluster"
            raise SpecError(what, "its topology is NOWHERE", "give it another topology")
        return self.raised


@dataclass(frozen=True)
class Scenario:
    """name: `suite.topic[-variant]`. goal, method: one sentence each, shown in the report.

    spoils: the cluster is not reused after it. only_releases: release -> why it does not apply to others; empty: it
    applies to all. expects: error lines that it causes in daemon logs, as regular expression -> why. sees: names of
    observations, figures and witnesses without which it shows nothing, as regular expressions of the whole name; names
    that its source always records can be left out. lasts_s: duration of its load by tier, if the user may make it
    longer than in any earlier pass; its time limit grows by the same amount. asked: reads another setting that the user
    makes for it in the environment; SpecError if that cannot be used. memory_bytes: about what its own programs take on
    this machine, beside the cluster, if that is gigabytes.
    """

    name: str
    goal: str
    method: str
    run: Callable[[Stage], None]
    check: str = "observations"
    tier: Tier = Tier.QUICK
    topology: Topology = PLAIN
    needs: frozenset[Capability] = frozenset()
    spoils: bool = False
    only_releases: Mapping[str, str] = field(default_factory=dict)
    expects: Mapping[str, str] = field(default_factory=dict)
    sees: tuple[str, ...] = ()
    lasts_s: Callable[[Tier], float] | None = None
    asked: Callable[[Tier], object] | None = None
    memory_bytes: int = 0

    @property
    def must_see(self) -> tuple[str, ...]:
        """All that it must have recorded; see lab/scenario/declared.py."""
        return must_see(self.run, self.sees)

    @property
    def suite(self) -> str:
        return self.name.partition(".")[0]


def run_scenario(scenario: Scenario, stage: Stage) -> Verdict:
    """Run a scenario, then judge what it recorded.

    A LabError that the scenario raises is raised again. Exception: if only a capability is missing and the scenario had
    already seen something wrong, the verdict is returned.
    """
    about = {"goal": scenario.goal, "check": scenario.check, "sees": list(scenario.must_see)}
    name = stage.raised.name if stage.raised is not None else ""
    stage.recorder.record("began", cluster=name, any_arch=scenario.topology.any_arch, **about)
    if stage.raised is None:  # no cluster to watch, and no Ceph to blame
        with stage.recorder.history.on_stage(stage.recorder.scenario):
            scenario.run(stage)
        stage.recorder.record("ended")
        return verdict_of(stage.recorder.events())
    watch = Watch(stage.cluster, limit=stage.limit)
    try:
        with stage.recorder.history.on_stage(stage.recorder.scenario), watched(watch):
            scenario.run(stage)
        watch.tell()
    except LabError as raised:
        error = watch.cause(raised)
        record_raised(stage.recorder, error, blame_for(error), error.what)
        verdict = verdict_of(stage.recorder.events())
        if blame_for(error) is Blame.LACK and verdict.outcome is Outcome.FAIL:
            return verdict
        if error is not raised:
            raise error from raised
        raise
    stage.recorder.record("ended")
    return verdict_of(stage.recorder.events())


class Blame(StrEnum):
    """What is to blame if a scenario does not finish. LACK: this machine or provider lacks a capability."""

    CEPH = "ceph"
    LAB = "lab"
    LACK = "lack"
    INTERRUPTION = "interruption"


def blame_for(error: LabError) -> Blame:
    """What is to blame for an error."""
    if isinstance(error, CephTrouble):
        return Blame.CEPH
    return Blame.LACK if isinstance(error, Unavailable) else Blame.LAB


def record_raised(recorder: Recorder, error: BaseException, blame: Blame, what: str) -> None:
    """Record the error that ends a scenario, unless it is already recorded."""
    data = _trouble(error, blame, what)
    if _last_raised(recorder.events()) != data:
        recorder.record("raised", **data)


def record_unseen(recorder: Recorder, error: LabError) -> None:
    """Record that a scenario's leftovers could not be examined."""
    recorder.record("unseen", **_trouble(error, blame_for(error), error.what))


def _trouble(error: BaseException, blame: Blame, what: str) -> dict[str, str]:
    detail = error.detail if isinstance(error, LabError) else ""
    return {"error": type(error).__name__, "blame": blame.value, "what": what, "detail": detail}


def _last_raised(events: Sequence[Event]) -> Mapping[str, Any]:
    return next((event.data for event in reversed(events) if event.kind == "raised"), {})


def last_blame(events: Sequence[Event]) -> str | None:
    """What is to blame for a scenario that did not finish; None if it finished, or the history does not say."""
    return _last_raised(events).get("blame")


def verdict_of(events: Sequence[Event]) -> Verdict:
    """The verdict on one scenario's events: its error or the verdict of its check, merged with that on what it left.

    What it left behind does not count if the lab or the user ended it.
    """
    own = _own_verdict(events)
    left = aftermath(events) if last_blame(events) in (None, Blame.CEPH) else None
    return merge([own, *([left] if left else [])])


def _own_verdict(events: Sequence[Event]) -> Verdict:
    kinds = {event.kind: event.data for event in events}
    if "raised" in kinds:
        return _raised(kinds["raised"], events)
    if "began" not in kinds:
        return Verdict(Outcome.INCONCLUSIVE, "it never started")
    if "ended" not in kinds:
        return Verdict(Outcome.INCONCLUSIVE, "it was interrupted")
    check = kinds["began"]["check"]
    if check not in CHECKS:
        return Verdict(Outcome.INCONCLUSIVE, f"there is no check called {check!r}")
    verdict = CHECKS[check](events)
    # Without a check of the witnesses, a scenario could pass although its load never ran.
    unread = "witness" in kinds and check not in READ_WITNESSES
    verdict = merge([verdict, witnesses(events)]) if unread else verdict
    missing = tuple(f"nothing matches {name!r}" for name in unseen(events, kinds["began"].get("sees", ())))
    if missing and verdict.outcome is Outcome.PASS:
        return Verdict(Outcome.INCONCLUSIVE, f"it ended without recording what it must: {missing[0]}", missing)
    return verdict


def _raised(data: Mapping[str, Any], events: Sequence[Event]) -> Verdict:
    """The verdict on a scenario that did not finish. Something wrong that it had seen outranks a missing capability."""
    before = observations(events)
    if before.outcome is Outcome.FAIL and data["blame"] in (Blame.LACK, Blame.INTERRUPTION):
        return before
    outcome = Outcome.FAIL if data["blame"] == Blame.CEPH else Outcome.INCONCLUSIVE
    reason = f"the lab broke: {data['what']}" if data["blame"] == Blame.LAB else data["what"]
    return Verdict(outcome, reason, tuple(data["detail"].splitlines()))


def seeded(seed: int, name: str) -> random.Random:
    """The random source of one scenario: the same for the same seed, whatever else runs."""
    return random.Random(f"{seed}/{name}")


BROAD = {"BaseException", "Exception", "AssertionError", "LabError", "LabBroken", "CephTrouble", "NotReached"}
"""Errors that say that something went wrong, but not what."""
_QUIET = (ast.Pass, ast.Continue, ast.Break)


def refuse_swallowing(run: Callable[..., object]) -> None:
    """SpecError, with the lines, if a module in the folder of a scenario's function drops a broad error."""
    while isinstance(run, partial):
        run = run.func
    file = inspect.getsourcefile(run)
    lines = _swallowing(Path(file).parent) if file is not None else ()
    if lines:
        raise SpecError(
            "a suite swallows errors, so its scenarios could not fail",
            "\n".join(lines),
            "catch only the specific error that is expected, and record what it shows",
        )


@cache
def _swallowing(folder: Path) -> tuple[str, ...]:
    return tuple(
        f"{path}:{line}: {what}" for path in sorted(folder.glob("*.py")) for line, what in _lines(path.read_text())
    )


def _lines(source: str) -> Iterator[tuple[int, str]]:
    """(line, text) of each handler that does nothing, and of each call of `suppress`, for a broad error."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ExceptHandler):
            caught = _names(node.type) if node.type is not None else {"BaseException"}
            if caught & BROAD and all(isinstance(step, _QUIET) or _is_docstring(step) for step in node.body):
                yield node.lineno, f"except {', '.join(sorted(caught))}"
        elif isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "suppress":
            caught = {name for argument in node.args for name in _names(argument)}
            if caught & BROAD:
                yield node.lineno, ast.unparse(node)


def _names(node: ast.expr) -> set[str]:
    """The last words of the names in an expression."""
    parts = node.elts if isinstance(node, ast.Tuple) else [node]
    return {ast.unparse(part).rpartition(".")[2] for part in parts}


def _is_docstring(step: ast.stmt) -> bool:
    return isinstance(step, ast.Expr) and isinstance(step.value, ast.Constant)
