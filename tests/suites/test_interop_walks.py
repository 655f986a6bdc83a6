"""Walks: a seed draws the same again, a wrong side is found and the walk shortened, what is printed runs by itself."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cephlab.suites import s3
from cephlab.suites.interop.walks import s3_model
from cephlab.suites.interop.walks.printing import INSIDE, program
from cephlab.suites.interop.walks.rados_model import RadosModel
from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.s3_model import S3Model
from cephlab.suites.interop.walks.scenarios import SCENARIOS
from cephlab.suites.interop.walks.walk import (
    LOOK,
    Difference,
    Model,
    Step,
    Unfit,
    Wanted,
    answer_of,
    draw,
    fitting,
    shrink,
    take,
)

SIDES = ("x86_64", "aarch64")
LENGTH, LOOK_EVERY, SEED = 48, 8, 11
MOST_STEPS_LEFT = 9
"""To roll a group back takes create, join, write, snap, write, rollback, look; a rename and a copy may come between."""

MODELS: dict[str, Callable[[], Any]] = {
    "rados": lambda: RadosModel(Random(3), omap=True),
    "rados-moving": lambda: RadosModel(Random(3), omap=True, moving=True),
    "rados-text": lambda: RadosModel(Random(3), omap=True, text_keys=True),
    "rbd": lambda: RbdModel(Random(3)),
    "s3": lambda: S3Model(Random(3)),
    "s3-versions": lambda: S3Model(Random(3), versioned=True),
}


def kind_of(name: str) -> str:
    """The kind of the program of a model."""
    return name.partition("-")[0]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a part of an upload is at least matters to gateways alone, and hashing it takes time."""
    monkeypatch.setattr(s3_model, "PART_BYTES", 50)


def drawn(kind: str, seed: int = SEED) -> tuple[Step, ...]:
    return draw(MODELS[kind](), Random(seed), SIDES, LENGTH, LOOK_EVERY)


# What is drawn


@pytest.mark.parametrize("kind", MODELS)
def test_a_seed_draws_the_same_walk_again_and_another_one_another(kind: str) -> None:
    assert drawn(kind) == drawn(kind)
    assert drawn(kind) != drawn(kind, SEED + 1)


@pytest.mark.parametrize("kind", MODELS)
def test_every_operation_of_a_side_is_drawn_and_goes_through_both(kind: str) -> None:
    source = program(kind_of(kind))
    known = set(re.findall(r"def (?:op|add)_(\w+)\(", source))
    alike = [name for name in MODELS if kind_of(name) == kind_of(kind)]
    steps = [step for name in alike for seed in range(30) for step in drawn(name, seed)]
    parts = {operation for step in steps if step.operation == "compound" for operation, _ in step.arguments["parts"]}
    assert {step.operation for step in steps} | parts == known
    assert {step.side for step in steps} == set(SIDES)


@pytest.mark.parametrize("kind", MODELS)
def test_all_steps_of_a_walk_fit_and_it_ends_with_a_look_by_every_side(kind: str) -> None:
    steps = drawn(kind)
    assert [each.step for each in fitting(MODELS[kind](), steps)] == list(steps)
    assert [(step.side, step.operation) for step in steps[-2:]] == [(side, LOOK) for side in SIDES]
    looks = [number for number, step in enumerate(steps) if step.operation == LOOK][:-2]
    assert len(looks) == LENGTH // LOOK_EVERY
    assert all(steps[number - 1].side != steps[number].side for number in looks), "what one did the other looks at"


@pytest.mark.parametrize("kind", MODELS)
def test_any_part_of_a_walk_is_a_walk(kind: str) -> None:
    steps = drawn(kind)
    rng = Random(1)
    for _ in range(20):
        part = rng.sample(steps, k=len(steps) // 3)
        rest = iter(part)
        assert all(each.step in rest for each in fitting(MODELS[kind](), part)), "what fits is taken in order"


# Wrong sides. A fake service is a second model that is told what was asked, and a defect of one side.


class Service:
    """Answers as it should, but for what `spoil` makes of a step or of an answer."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def take(self, step: Step) -> Any:
        try:
            return answer_of(self.model, step)
        except Unfit:
            return {"refused": "unfit"}


class Dropping(Service):
    """One operation through one side is answered and not done. It refuses what it would have refused."""

    def __init__(self, model: Any, operation: str) -> None:
        super().__init__(model)
        self.operation = operation

    def take(self, step: Step) -> Any:
        if step.operation == self.operation and step.side == SIDES[1]:
            return Service(deepcopy(self.model)).take(step)
        return super().take(step)


class Spoiling(Service):
    """What a side answers to a look or a list is changed."""

    def __init__(self, model: Any, spoil: Callable[[Any], Any]) -> None:
        super().__init__(model)
        self.spoil = spoil

    def take(self, step: Step) -> Any:
        answer = super().take(step)
        return self.spoil(answer) if step.side == SIDES[1] and step.operation in (LOOK, "list") else answer


class Stale(Service):
    """One side looks at what there was before the last step of the other one."""

    before: Any = None

    def take(self, step: Step) -> Any:
        if step.operation == LOOK and step.side == SIDES[1] and self.before is not None:
            return self.before
        if step.operation != LOOK:
            self.before = super().take(replace(step, operation=LOOK, arguments=self.model.looking))
        return super().take(step)


class Halfway(Service):
    """A compound operation that is refused leaves what its parts before did."""

    def take(self, step: Step) -> Any:
        answer = super().take(step)
        if step.operation == "compound" and isinstance(answer, dict):
            for operation, arguments in step.arguments["parts"]:
                part = {"name": step.arguments["name"], **arguments}
                if isinstance(super().take(Step(step.side, operation, part)), dict):
                    break
        return answer


def later_in_snapshots(answer: Any) -> Any:
    """Every snapshot of everything shows what is there now."""
    return {key: answer["now"] if key.startswith("at ") else value for key, value in answer.items()}


def later_in_image_snapshots(answer: Any) -> Any:
    return {name: later_in_snapshots(image) for name, image in answer.items()}


def backwards(answer: Any) -> Any:
    """Listed in the wrong order; a look's list too."""
    return [list(reversed(part)) for part in answer] if answer and isinstance(answer[0], list) else answer


def without_zero_length(answer: Any) -> Any:
    """A look that passes over what is empty."""
    now = {name: value for name, value in answer["now"].items() if not str(value[0]).startswith("0:")}
    return {**answer, "now": now}


BROKEN: dict[str, tuple[str, Callable[[Any], Service]]] = {
    **{
        f"{kind}: {operation} dropped": (kind, lambda model, operation=operation: Dropping(model, operation))  # type: ignore[misc]
        for kind, operations in {
            "rados": (
                *("truncate", "zero", "append", "remove_xattr", "clear_omap", "rollback", "snap"),
                *("same", "create", "remove_omap_range", "compound"),
                *("lock", "notify", "set_version", "refer", "add"),
            ),
            "rbd": (
                *("discard", "write_zeroes", "resize", "rollback", "flatten", "rename", "carry"),
                *("deep_copy", "rename_snap", "shelve", "migrate", "abort"),
                *("note", "drop_note", "seize", "join", "group_snap", "group_rollback", "halt"),
            ),
            "s3": ("put", "copy", "recopy", "delete", "delete_many", "multipart", "tag", "part", "complete", "abort"),
            "s3-versions": ("versioning", "delete", "delete_version", "copy_version"),
        }.items()
        for operation in operations
    },
    **{f"{kind}: stale": (kind, Stale) for kind in MODELS},
    "rados: half of a refused operation": ("rados", Halfway),
    "rados: later data in a snapshot": ("rados", lambda model: Spoiling(model, later_in_snapshots)),
    "rbd: later data in a snapshot": ("rbd", lambda model: Spoiling(model, later_in_image_snapshots)),
    "s3: lists backwards": ("s3", lambda model: Spoiling(model, backwards)),
    "rados: empty objects not seen": ("rados", lambda model: Spoiling(model, without_zero_length)),
}


def tried(kind: str, service: Callable[[Any], Service], steps: Sequence[Step]) -> Difference | None:
    return take(MODELS[kind](), steps, service(MODELS[kind]()).take)


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_a_sound_service_is_not_found_fault_with(kind: str) -> None:
    assert [tried(kind, Service, drawn(kind, seed)) for seed in range(5)] == [None] * 5


@pytest.mark.slow
@pytest.mark.parametrize("defect", BROKEN)
def test_a_defect_is_found_and_shown_in_a_few_steps(defect: str) -> None:
    kind, service = BROKEN[defect]
    difference = next(filter(None, (tried(kind, service, drawn(kind, seed)) for seed in range(80))))
    least, _ = shrink(difference, lambda steps: tried(kind, service, steps), lambda count: count > 1000)
    assert len(least.taken) <= MOST_STEPS_LEFT, [each.step for each in least.taken]
    assert tried(kind, service, [each.step for each in least.taken]) == least
    for left_out in range(len(least.taken)):
        rest = [each.step for number, each in enumerate(least.taken) if number != left_out]
        assert tried(kind, service, rest) is None, "no step can be left out"


def test_shortening_stops_when_it_is_enough_and_keeps_what_goes_wrong() -> None:
    kind, service = BROKEN["rados: append dropped"]
    difference = next(filter(None, (tried(kind, service, drawn(kind, seed)) for seed in range(80))))
    least, count = shrink(difference, lambda steps: tried(kind, service, steps), lambda count: count >= 3)
    assert count == 3
    assert tried(kind, service, [each.step for each in least.taken]) == least


def test_what_does_not_go_wrong_again_is_kept_whole() -> None:
    difference = Difference(fitting(MODELS["rados"](), drawn("rados")), got="once")
    least, _ = shrink(difference, lambda steps: None, lambda count: False)
    assert least == difference


# Printed programs, run as anybody would, with a stand-in for librados

FAKE = """
import os
STORE, DROPS = {}, os.environ.get("DROPS")
class Error(Exception): pass
class ObjectNotFound(Error): errno = 2
MAX_ERRNO = 4095
class ObjectExists(Error): pass
class NoData(Error): pass
LIBRADOS_SNAP_HEAD = None
class Item:
    locator_key = None
    def __init__(self, key): self.key = key
class Ioctx:
    def set_namespace(self, name): self.objects = STORE.setdefault(name, {})
    def set_read(self, snap): pass
    def set_locator_key(self, key): pass
    def close(self): pass
    def append(self, name, data):
        self.objects[name] = self.objects.get(name, b"") + (b"" if DROPS else data)
    def stat(self, name):
        if name not in self.objects: raise ObjectNotFound()
        return len(self.objects[name]), None
    def remove_object(self, name):
        self.stat(name)
        del self.objects[name]
    def read(self, name, length, offset=0):
        self.stat(name)
        return self.objects[name][offset:offset + length]
    def get_xattrs(self, name): return []
    def list_objects(self): return [Item(name) for name in self.objects]
    def list_snaps(self): return []
class Rados:
    def __init__(self, conffile, name): assert (conffile, name) == ("here", "client.me"), (conffile, name)
    def connect(self): pass
    def shutdown(self): pass
    def list_pools(self): return ["walk"]
    def wait_for_latest_osdmap(self): pass
    def open_ioctx(self, pool): return Ioctx()
"""


def printed(folder: Path) -> Path:
    steps = [
        Step("a", "append", {"name": "né", "seed": 5, "size": 3}),
        Step("a", "read", {"name": "né", "offset": 1, "size": 9}),
        Step("a", "look", {"names": ["né", "x"], "omap": False}),
        Step("a", "remove", {"name": "né"}),
        Step("a", "read", {"name": "né", "offset": 0, "size": 1}),
    ]
    (folder / "rados.py").write_text(FAKE)
    path = folder / "walk.py"
    path.write_text(program("rados", fitting(RadosModel(Random(1), omap=True), steps), settings={"conf": "here"}))
    return path


def ran(path: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, str(path), "name=client.me", *arguments]
    return subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=60)


@pytest.mark.slow
def test_a_printed_program_takes_the_walk_and_says_what_was_answered_wrong(tmp_path: Path) -> None:
    path = printed(tmp_path)
    sound = ran(path)
    assert (sound.returncode, sound.stdout) == (0, "5 steps, every answer as wanted\n"), sound.stderr
    wrong = ran(path, DROPS="1")
    assert wrong.returncode == 1, wrong.stderr
    first, got, wanted = wrong.stdout.splitlines()
    assert first == "step 2 of 5, read through a, {'name': 'né', 'offset': 1, 'size': 9}"
    assert got.split() == ["got", '"0:e3b0c44298fc1c14"']
    assert wanted.startswith('wanted "2:')


@pytest.mark.slow
def test_a_side_of_a_printed_program_may_run_elsewhere(tmp_path: Path) -> None:
    path = printed(tmp_path)
    elsewhere = f"a.run=env DROPS=1 {sys.executable} {path}"
    assert ran(path, elsewhere).returncode == 1
    assert ran(path, elsewhere.replace("DROPS=1", "DROPS=")).returncode == 0
    assert ran(path, "b.conf=/elsewhere").returncode == 0, "another side's setting"
    refused = ran(path, "nonsense")
    assert (refused.returncode, "key=value" in refused.stderr) == (2, True)


@pytest.mark.parametrize("kind", MODELS)
def test_what_is_printed_is_python_for_every_kind(kind: str) -> None:
    steps = fitting(MODELS[kind](), drawn(kind))
    source = program(kind_of(kind), steps, about="a walk")
    scope: dict[str, Any] = {}
    begin, end = source.index("STEPS = ["), source.index("\n]\n") + 3
    exec(source[begin:end], scope)  # the steps alone: the rest wants Ceph's bindings
    assert [Wanted(Step(*each[:3]), each[3]) for each in scope["STEPS"]] == list(steps)
    compile(source, f"walk-{kind}.py", "exec")


def test_the_quick_tier_has_a_walk_of_each_kind() -> None:
    quick = {scenario.name for scenario in (*SCENARIOS, *s3.SCENARIOS) if scenario.tier == "quick"}
    assert {"interop.walk-rados", "interop.walk-rbd", "s3.walk"} <= quick


def test_a_walk_keeps_images_open() -> None:
    steps = draw(RbdModel(Random(3)), Random(5), SIDES, LENGTH, LOOK_EVERY)
    assert {"open", "stream"} <= {step.operation for step in steps}


def test_models_answer_to_the_protocol() -> None:
    models: list[Model] = [make() for make in MODELS.values()]
    assert all(model.do_look(**model.looking) is not None for model in models)


@pytest.mark.parametrize(
    ("rounds", "answer"),
    [
        ([2, 2, 1], "one moment"),
        ([1, 0, 0], "one moment"),
        ([3], "one moment"),
        ([2, 1, 2], [2, 1, 2]),
        ([1, 2], [1, 2]),
        ([3, 1], [3, 1]),
        ([2, 0], [2, 0]),
    ],
)
def test_a_snapshot_of_a_stream_shows_one_moment_of_it(rounds: list[int], answer: Any) -> None:
    source = (INSIDE / "rbd_opened.py").read_text().replace("import rbd\n", "")
    scope: dict[str, Any] = {}
    exec(source, scope)
    data = b"".join(scope["block_of"](number) if number else bytes(512) for number in rounds)
    assert scope["moment_of"](data) == answer
    for wrong in (data[:-1] + b"?", b"?" + data[1:]):
        assert scope["moment_of"](wrong) == "blocks that the stream did not write"


def test_an_answer_that_repeats_a_key_with_control_characters_is_read() -> None:
    """A gateway answered so to the beginning of an upload, as it was seen in a run."""
    scope: dict[str, Any] = {"__name__": "walk"}
    exec(program("s3"), scope)
    answer = b'<Init xmlns="urn:x"><Key>a&#x1;b&#9;&#x41;</Key><UploadId>2~&#x26;id</UploadId></Init>'
    assert (scope["text_of"](answer, "Key"), scope["text_of"](answer, "UploadId")) == ("a?b?A", "2~&id")
