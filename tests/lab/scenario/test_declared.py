"""What a scenario must have recorded: derived from its source, declared, and missed when it is not there."""

import linecache
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

from cephlab.lab.checks import Outcome
from cephlab.lab.history.history import History, Recorder
from cephlab.lab.scenario.declared import _read, must_see, unseen
from cephlab.lab.scenario.scenario import Scenario, Stage, verdict_of

ARCHS = ("x86_64", "aarch64")
NOBODY: tuple[str, ...] = ()
LABEL = "of the module"
label = "of the module, with the name of a local variable"


def ours(function: Callable[..., None]) -> FunctionType:
    """A function of this module as if it were a suite's."""
    assert isinstance(function, FunctionType)
    function.__module__ = "cephlab.suites.made_up"
    return function


def note(recorder: Recorder, what: str, got: int) -> None:
    recorder.observe(f"{what}: size", got=got, wanted=1)


@contextmanager
def step(recorder: Recorder) -> Iterator[None]:
    recorder.witness("steps", got=1, least=1)
    yield


for helper in (note, step.__wrapped__):  # type: ignore[attr-defined]
    ours(helper)


def for_certain(stage: Stage, name: str, numbers: Sequence[int]) -> None:
    def at_first() -> int:
        return numbers[0]  # does not leave the function around it

    with step(stage.recorder):
        note(stage.recorder, f"image {name}", at_first())
    for arch in ARCHS:
        stage.recorder.figure(f"rate on {arch} {LABEL}", 1.0, "s")
    try:
        note(stage.recorder, what="at the end", got=1)
    finally:
        stage.recorder.observe("left", got=len(numbers), wanted=0)


def perhaps(stage: Stage, numbers: Sequence[int]) -> None:
    label = str(numbers)
    stage.recorder.observe(f"of its own {label}", got=1, wanted=1)
    for each in numbers:
        note(stage.recorder, "in a loop", each)
    for nobody in NOBODY:
        note(stage.recorder, nobody, 1)
    if numbers:
        note(stage.recorder, "under a condition", 1)
    try:
        note(stage.recorder, "may break off", 1)
    except ValueError:
        numbers = ()
    _ = [stage.recorder.observe("in a list", got=each, wanted=1) for each in numbers]  # type: ignore[func-returns-value]
    _ = numbers or stage.recorder.observe("instead", got=1, wanted=1)  # type: ignore[func-returns-value]
    if len(numbers) > 9:
        return
    note(stage.recorder, "after it may have left", 1)


def either(stage: Stage, numbers: Sequence[int]) -> None:
    if numbers:
        note(stage.recorder, "both", 1)
        note(stage.recorder, "one", 1)
    else:
        note(stage.recorder, "both", 2)


def test_what_a_function_cannot_leave_out_is_derived() -> None:
    derived = must_see(partial(ours(for_certain), name="a.b"))
    assert derived == (
        "steps",
        r"image\ a\.b:\ size",
        r"rate\ on\ .*\ of\ the\ module",
        r"at\ the\ end:\ size",
        "left",
    )
    assert must_see(for_certain)[1] == r"image\ .*:\ size"


def test_what_it_may_leave_out_is_not() -> None:
    assert must_see(ours(perhaps)) == (r"of\ its\ own\ .*",)
    assert must_see(ours(either)) == (r"both:\ size",)


def test_a_source_that_was_edited_after_its_import_shows_nothing(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text(SOURCE)
    scope: dict[str, Any] = {"__name__": "cephlab.suites.edited"}
    exec(compile(SOURCE, str(file), "exec"), scope)
    assert must_see(scope["run"]) == ("one",)
    _read.cache_clear()
    file.write_text("# a line more\n" * 4 + SOURCE)
    linecache.checkcache()
    assert must_see(scope["run"]) == ()


SOURCE = """
def other(stage):
    stage.recorder.observe("two", got=stage.tier, wanted=1)


def run(stage):
    stage.recorder.observe("one", got=len(stage.cluster), wanted=1)


def last(stage):
    stage.recorder.observe("three", got=1, wanted=1)
"""


def test_what_is_declared_comes_first_and_once() -> None:
    assert must_see(either, ("more .*", r"both:\ size")) == ("more .*", r"both:\ size")


def test_a_function_from_elsewhere_shows_nothing() -> None:
    assert must_see(print) == ()
    assert must_see(lambda stage: stage) == ()


def run_of(sees: Sequence[str], *seen: str, got: int = 1) -> Sequence[str]:
    recorder = History().recorder("demo.x")
    recorder.record("began", goal="", cluster="c", check="observations", sees=list(sees))
    for what in seen:
        recorder.observe(what, got=got, wanted=1)
    recorder.record("ended")
    verdict = verdict_of(recorder.events())
    return verdict.outcome, verdict.reason


def test_a_scenario_that_ended_without_it_is_inconclusive() -> None:
    assert run_of(["size of .*", "left"], "size of a", "left")[0] is Outcome.PASS
    outcome, reason = run_of(["size of .*", "left"], "size of a")
    assert outcome is Outcome.INCONCLUSIVE
    assert reason == "it ended without recording what it must: nothing matches 'left'"
    assert run_of(["left"], "left over")[0] is Outcome.INCONCLUSIVE


def test_something_wrong_outranks_what_is_missing() -> None:
    assert run_of(["left"], "size", got=2)[0] is Outcome.FAIL


def test_figures_witnesses_and_kinds_of_events_count() -> None:
    recorder = History().recorder("demo.x")
    recorder.figure("rate", 1.0, "s")
    recorder.witness("operations", got=1, least=1)
    recorder.record("gtest_case", case="a")
    assert unseen(recorder.events(), ["rate", "operations", "gtest_case", "more"]) == ["more"]


def test_a_scenario_says_what_it_must_see() -> None:
    scenario = Scenario("demo.x", "", "", ours(either), sees=("more",))
    assert scenario.must_see == ("more", r"both:\ size")
