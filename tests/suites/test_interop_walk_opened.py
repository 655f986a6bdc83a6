"""What the model of a walk over RBD wants of images that are open, and of their object maps."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.walk import Step, Unfit, answer_of, content, fitting
from tests.suites.test_interop_walk_models import IMAGE, SIDE, Steps, left_by, refused

OPEN: tuple[str, dict[str, Any]] = ("open", {"image": "a"})
LAYOUT = {"order": 12, "stripes": 1}


def test_an_image_that_is_open_is_not_removed_nor_moved() -> None:
    answer, model = left_by("rbd", [*IMAGE, OPEN, ("remove", {"image": "a"})])
    assert answer == refused("EBUSY")
    moving: Steps = [("migrate", {"image": "a", "to": "b", **LAYOUT}), ("rename", {"image": "a", "to": "b"})]
    for step in (*moving, OPEN):
        with pytest.raises(Unfit):
            answer_of(model, Step(SIDE, *step))
    left_by("rbd", [*IMAGE, OPEN, ("shut", {"image": "a"}), moving[0]])


MAP: Steps = [("feature", {"image": "a", "feature": "object-map", "on": on}) for on in (False, True)]
SNAPS: Steps = [("snap", {"image": "a", "snap": name}) for name in ("s", "t")]


@pytest.mark.parametrize(
    ("dropped", "unmapped"), [((), False), (("s",), False), (("t",), True), (("s", "renamed"), True)]
)
def test_a_snapshot_with_an_invalid_object_map_leaves_the_next_invalid_when_it_is_removed(
    dropped: tuple[str, ...], unmapped: bool
) -> None:
    steps: Steps = [*IMAGE, SNAPS[0], *MAP, ("rebuild", {"image": "a"}), SNAPS[1]]
    if dropped == ("t",):  # the other way round: the last snapshot is that with an invalid map
        steps = [*IMAGE, SNAPS[0], SNAPS[1], *MAP, ("rebuild", {"image": "a"})]
    renamed = [("rename_snap", {"image": "a", "snap": "t", "to": "renamed"})] if "renamed" in dropped else []
    drops = [("drop", {"image": "a", "snap": snap}) for snap in dropped]
    _, model = left_by("rbd", [*steps, *renamed, *drops])
    assert model.do_look(**model.looking)["a"]["unmapped"] is unmapped


def test_who_has_not_the_lock_rolls_nothing_back() -> None:
    _, model = left_by("rbd", [*IMAGE, ("snap", {"image": "a", "snap": "s"}), OPEN])
    rollback = "rollback", {"image": "a", "snap": "s"}
    with pytest.raises(Unfit):
        answer_of(model, Step("other", *rollback))
    assert answer_of(model, Step(SIDE, *rollback)) is None


def test_a_stream_is_of_one_side_and_others_only_snapshot_it() -> None:
    create: Steps = [("create", {"image": "a", "size": 2000, **LAYOUT}), OPEN]
    stream: tuple[str, dict[str, Any]] = ("stream", {"image": "a", "offset": 100, "blocks": 2})
    _, model = left_by("rbd", [*create, stream])
    cut_in = "cut_in", {"image": "a", "offset": 100, "blocks": 2, "write": True}
    assert answer_of(model, Step("other", *cut_in)) == "one moment"
    assert model.looking == {"but": ["a"]}
    assert model.do_look(**model.looking) == {}
    unfit: Steps = [
        cut_in,
        stream,
        ("shut", {"image": "a"}),
        ("write", {**IMAGE[1][1]}),
        ("look", {"but": []}),
    ]
    for step in unfit:
        with pytest.raises(Unfit):
            answer_of(model, Step(SIDE, *step))
    answer_of(model, Step(SIDE, "halt", {"seed": 3}))
    assert bytes(model.images["a"].data) == bytes(100) + content(3, 1536) + bytes(364)
    with pytest.raises(Unfit):
        answer_of(model, Step("other", *cut_in))


def test_a_side_does_not_use_the_new_part_of_an_image_before_it_knows_of_it() -> None:
    create: Steps = [("create", {"image": "a", "size": 9, **LAYOUT}), OPEN]
    _, model = left_by("rbd", create)
    answer_of(model, Step("other", "resize", {"image": "a", "size": 2000}))
    beyond: Steps = [
        ("write", {"image": "a", "seed": 1, "size": 2, "offset": 8}),
        ("read", {"image": "a", "size": 1, "offset": 9}),
        ("stream", {"image": "a", "offset": 0, "blocks": 1}),
    ]
    for step in (*beyond, ("deep_copy", {"image": "a", "to": "c", **LAYOUT})):  # the last: librbd-copy-outdated
        with pytest.raises(Unfit):
            answer_of(model, Step(SIDE, *step))
    answer_of(model, Step(SIDE, "look", {"but": []}))
    for step in beyond:
        answer_of(model, Step(SIDE, *step))


@pytest.mark.parametrize("alone", [True, False])
def test_a_side_knows_of_its_own_resize_only_if_no_other_has_the_image_open(alone: bool) -> None:
    _, model = left_by("rbd", [("create", {"image": "a", "size": 9, **LAYOUT}), OPEN])
    if not alone:
        answer_of(model, Step("other", *OPEN))
    answer_of(model, Step(SIDE, "resize", {"image": "a", "size": 2000}))
    write = Step(SIDE, "write", {"image": "a", "seed": 1, "size": 2, "offset": 8})
    assert len(fitting(model, [write])) == alone


@pytest.mark.parametrize(("blocks", "fits"), [(2, True), (3, False), (0, False)])
def test_a_stream_stays_in_its_image(blocks: int, fits: bool) -> None:
    steps: list[tuple[str, dict[str, Any]]] = [("create", {"image": "a", "size": 1536, **LAYOUT}), OPEN]
    steps.append(("stream", {"image": "a", "offset": 0, "blocks": blocks}))
    model: Any = RbdModel(Random(3))
    assert len(fitting(model, [Step(SIDE, *step) for step in steps])) == (3 if fits else 2)
