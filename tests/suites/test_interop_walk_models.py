"""What the models of walks want of operations that few steps would reach."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from cephlab.suites.interop.walks import s3_model
from cephlab.suites.interop.walks.rados_model import RadosModel, is_text
from cephlab.suites.interop.walks.rados_object import state_of
from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.s3_model import S3Model
from cephlab.suites.interop.walks.walk import (
    LOOK,
    Refused,
    Step,
    Unfit,
    answer_of,
    content,
    draw,
    fitting,
    simpler_steps,
    told,
)

SIDE = "x86_64"

Steps = Sequence[tuple[str, dict[str, Any]]]


def left_by(kind: str, steps: Steps) -> tuple[Any, Any]:
    """The last answer that is wanted of these steps, and the state that they leave. Every step must fit."""
    model: Any = RbdModel(Random(3)) if kind == "rbd" else RadosModel(Random(3), omap=True)
    wanted = fitting(model, [Step(SIDE, operation, arguments) for operation, arguments in steps])
    assert len(wanted) == len(steps)
    return wanted[-1].answer, model


FULL = {"name": "o", "seed": 1, "size": 9}
REFUSED = {
    "EFBIG": ["too_far", {}],
    "EEXIST": ["create", {}],
    "ERANGE": ["version", {"than": -1}],
    "EOVERFLOW": ["version", {"than": 1}],
    "ECANCELED": ["compare_omap", {"key": "61", "data": "62"}],
    "differs at 2": ["compare", {"offset": 7, "data": (content(1, 9)[7:] + b"x").hex()}],
}


@pytest.mark.parametrize("word", REFUSED)
def test_a_compound_operation_does_all_or_nothing(word: str) -> None:
    xattr = ["set_xattr", {"key": "k", "seed": 2, "size": 3}]
    answer, model = left_by("rados", [("full", FULL), ("compound", {"name": "o", "parts": [xattr, REFUSED[word]]})])
    assert (answer, model.objects["o"].xattrs) == ({"refused": word}, {})
    answer, model = left_by("rados", [("full", FULL), ("compound", {"name": "o", "parts": [xattr]})])
    assert (answer, model.objects["o"].xattrs) == (None, {"k": content(2, 3)})


def test_what_is_compared_with_an_object_beyond_its_end_is_zeros() -> None:
    zeros = {"name": "o", "offset": 8, "data": (content(1, 9)[8:] + bytes(3)).hex()}
    assert left_by("rados", [("full", FULL), ("compare", zeros)])[0] is None


def test_pages_of_an_omap_begin_after_a_key_and_have_a_prefix() -> None:
    keys = ["61", "6162", "6163", "62"]
    filled = ("set_omap", {"name": "o", "keys": keys, "seed": 1, "size": 4})

    def page(**page: Any) -> list[str]:
        return [key for key, _ in left_by("rados", [filled, ("page", {"name": "o", **page})])[0]]

    assert page(after="61", prefix="61", most=9) == ["6162", "6163"]
    assert page(after="", prefix="", most=2) == keys[:2]
    _, model = left_by("rados", [filled, ("remove_omap_range", {"name": "o", "begin": "6162", "end": "62"})])
    assert sorted(model.objects["o"].omap) == [b"a", b"b"], "the end of a range stays"


def taken(steps: Steps, sides: str) -> list[Any]:
    """The answers to steps that two sides, a and b, take on an object that is there."""
    model: Any = RadosModel(Random(3), omap=True)
    taking = [Step("a", "full", FULL), *(Step(side, *step) for side, step in zip(sides, steps, strict=True))]
    wanted = fitting(model, taking)
    assert len(wanted) == len(taking)
    return [each.answer for each in wanted[1:]]


def lock(kind: int = 1, *, tag: str = "t", renew: int = 0, brief: bool = False) -> tuple[str, dict[str, Any]]:
    return "lock", {"name": "o", "lock": "L", "kind": kind, "cookie": "c", "tag": tag, "renew": renew, "brief": brief}


UNLOCK: tuple[str, dict[str, Any]] = ("unlock", {"name": "o", "lock": "L", "cookie": "c"})
LOCKED: tuple[str, dict[str, Any]] = ("locked", {"name": "o", "lock": "L"})
BREAK: tuple[str, dict[str, Any]] = ("break_lock", {"name": "o", "lock": "L", "cookie": "c", "mine": False})


def refused(word: str) -> dict[str, str]:
    return {"refused": word}


def test_a_lock_belongs_to_a_side_until_it_gives_it_back_or_another_breaks_it_or_its_time_is_over() -> None:
    exclusive = taken([lock(), lock(), lock(), lock(renew=1), UNLOCK, LOCKED, BREAK, LOCKED], "abaabbbb")
    assert exclusive[:4] == [None, refused("EBUSY"), refused("EEXIST"), None]
    assert exclusive[4:] == [refused("ENOENT"), [1, "t", [["c", False]]], None, [1, "t", []]]
    assert taken([lock(2), lock(2, tag="u"), lock(2), LOCKED], "abba")[1:] == [
        *(refused("EBUSY"), None),
        [2, "t", [["c", False], ["c", True]]],
    ]
    assert taken([lock(brief=True), lock(2, renew=2), lock(2)], "abb") == [None, refused("ENOENT"), None]
    assert taken([lock(3), UNLOCK, LOCKED], "aab") == [None, None, refused("ENOENT")], "the object went with the lock"


def test_a_notification_reaches_the_watches_of_an_object_until_the_object_is_removed() -> None:
    watch, heard = ("watch", {"name": "o", "handle": "w0"}), ("heard", {"handle": "w0"})

    def notify(text: str) -> tuple[str, dict[str, Any]]:
        return "notify", {"name": "o", "text": text}

    steps = [
        watch,
        notify("1"),
        notify("2"),
        heard,
        heard,
        ("remove", {"name": "o"}),
        ("full", FULL),
        notify("3"),
        heard,
    ]
    assert taken(steps, "abbababba") == [*[None] * 3, ["1", "2"], [], *[None] * 3, []]


def test_references_versions_and_numbers_are_kept_as_classes_keep_them() -> None:
    refer, release = ((how, {"name": "o", "tag": "x", "implicit": True}) for how in ("refer", "release"))
    assert taken([refer, release, release, ("read", {"name": "o", "offset": 0, "size": 1})], "abab")[3] != refused(
        "ENOENT"
    )
    last = ("release", {"name": "o", "tag": "y", "implicit": True})
    assert taken([refer, release, last, refer], "abab")[3] == refused("ENOENT"), (
        "the object went with its last reference"
    )
    version = {"name": "o", "number": 7, "tag": "t"}
    _, model = left_by(
        "rados", [("full", FULL), ("set_version", version), ("next_version", {**version, "condition": 1})]
    )
    assert state_of(model.objects["o"])[1] == {"ceph.objclass.version": told(bytes.fromhex(VERSION_8_T))}
    number = {"name": "o", "key": "6e30"}
    _, model = left_by("rados", [("add", {**number, "by": "3.333333333333"}), ("multiply", {**number, "by": "1e10"})])
    assert model.objects["o"].omap == {b"n0": b"3.333333333e+10"}, "ten digits are kept of each result"


VERSION_8_T = "0101" + "0d000000" + "0800000000000000" + "01000000" + "74"
"""An obj_version as cls_version encodes it: number 8, tag t."""


@pytest.mark.parametrize(
    "wrong",
    [
        [["set_omap", {"keys": ["61"], "seed": 1, "size": 1}], ["remove_omap_range", {"begin": "61", "end": "62"}]],
        [["multiply", {"key": "61", "by": "2"}], ["remove_omap_range", {"begin": "61", "end": "62"}]],
        [["truncate", {"size": 5}], ["write", {"seed": 1, "size": 1, "offset": 0}]],
    ],
)
def test_steps_of_known_defects_are_left_out(wrong: list[Any]) -> None:
    """The list of known defects names what Ceph does instead."""
    model = RadosModel(Random(3), omap=wrong[-1][0] == "remove_omap_range")
    steps = [Step(SIDE, "full", FULL), Step(SIDE, "compound", {"name": "o", "parts": wrong})]
    assert len(fitting(model, steps)) == 1
    assert model.objects["o"].omap == {}, "a step that does not fit changes nothing"


IMAGE: Steps = [
    ("create", {"image": "a", "size": 9, "order": 12, "stripes": 1}),
    ("write", {"image": "a", "seed": 1, "size": 9, "offset": 0}),
]
MOVED: Steps = [*IMAGE, ("migrate", {"image": "a", "to": "b", "order": 13, "stripes": 2})]
CHANGED: tuple[str, dict[str, Any]] = ("write", {"image": "b", "seed": 2, "offset": 0, "size": 4})


def test_a_migration_can_be_used_at_once_and_an_abort_gives_the_name_and_layout_back() -> None:
    _, model = left_by("rbd", [*MOVED, CHANGED, ("commit", {"image": "b"})])
    assert (bytes(model.images["b"].data), model.images["b"].order) == (content(2, 4) + content(1, 9)[4:], 13)
    _, model = left_by("rbd", [*MOVED, CHANGED, ("abort", {"image": "b"})])
    assert (list(model.images), bytes(model.images["a"].data), model.images["a"].order) == (
        ["a"],
        content(2, 4) + content(1, 9)[4:],
        12,
    )


@pytest.mark.parametrize(
    ("during", "last"),
    [
        (("discard", {"image": "b", "offset": 0, "size": 4}), ("abort", {"image": "b"})),
        (("resize", {"image": "b", "size": 4}), ("resize", {"image": "b", "size": 9})),
        (("note", {"image": "b", "key": "k", "text": "t"}), ("abort", {"image": "b"})),
        (CHANGED, ("differ", {"image": "b", "since": "s", "at": "", "offset": 0, "size": 9, "whole": False})),
        (CHANGED, ("carry", {"image": "b", "since": "s", "snap": "t", "to": "c"})),
    ],
    ids=("zeroed", "cut", "noted", "differences", "carried"),
)
def test_a_walk_leaves_out_what_librbd_does_wrong_during_a_migration(
    during: tuple[str, dict[str, Any]], last: tuple[str, dict[str, Any]]
) -> None:
    snapped = [("snap", {"image": "a", "snap": snap}) for snap in "st"]
    steps = [*IMAGE, *snapped, MOVED[-1], during]
    _, model = left_by("rbd", steps)
    with pytest.raises(Unfit):
        answer_of(model, Step(SIDE, *last))
    settled = [(name, {**arguments, "image": "a"}) for name, arguments in (during, last) if name != "abort"]
    left_by("rbd", [*IMAGE, *snapped, *settled])


def test_a_snapshot_of_a_group_has_the_images_that_are_in_it() -> None:
    other: Steps = [("create", {"image": "c", "size": 3, "order": 12, "stripes": 1})]
    together: Steps = [*other, ("join", {"image": "a"}), ("group_snap", {"snap": "s"})]
    changed: Steps = [("write", {"image": image, "seed": 7, "size": 3, "offset": 0}) for image in "ac"]
    rolled: Steps = [("group_rollback", {"snap": "s"}), ("join", {"image": "c"}), ("members", {})]
    answer, model = left_by("rbd", [*IMAGE, *together, *changed, *rolled])
    assert answer == [["a", "c"], ["s"]]
    assert [bytes(model.images[image].data) for image in "ac"] == [content(1, 9), content(7, 3)]
    with pytest.raises(Refused, match="EBUSY"):
        model.do_migrate("a", "b", 12, 1)
    unfit: Steps = [("leave", {"image": "a"}), ("group_rollback", {"snap": "s"})]
    for step in (*unfit, ("remove", {"image": "c"}), ("shelve", {"image": "c"})):
        with pytest.raises(Unfit):
            answer_of(model, Step(SIDE, *step))


def test_a_clone_is_not_copied_while_its_parent_has_metadata_that_it_lacks() -> None:
    layout = {"order": 12, "stripes": 1}
    note: tuple[str, dict[str, Any]] = ("note", {"image": "a", "key": "k", "text": "t"})
    clone: Steps = [("snap", {"image": "a", "snap": "s"}), ("clone", {"image": "a", "snap": "s", "to": "c", **layout})]
    _, model = left_by("rbd", [*IMAGE, note, *clone, ("deep_copy", {"image": "c", "to": "d", **layout})])
    assert model.images["d"].notes == {"k": "t"}, "a clone begins with its parent's"
    _, model = left_by("rbd", [*IMAGE, *clone, note, ("shelve", {"image": "a"})])
    for operation in ("deep_copy", "migrate"):
        with pytest.raises(Unfit):
            answer_of(model, Step(SIDE, operation, {"image": "c", "to": "d", **layout}))


def test_a_name_to_which_an_image_may_return_is_not_given_away() -> None:
    for steps in (MOVED, [*IMAGE, ("shelve", {"image": "a"})]):
        _, model = left_by("rbd", steps)
        with pytest.raises(Unfit):
            model.do_create("a", 9, 12, 1)


@pytest.mark.parametrize("text_keys", [True, False])
def test_keys_of_omaps_are_text_where_the_binding_takes_no_others(text_keys: bool) -> None:
    model: Any = RadosModel(Random(3), omap=True, text_keys=text_keys)
    steps = draw(model, Random(3), ("a", "b"), 120, 8)
    pages = [bytes.fromhex(step.arguments["prefix"]) for step in steps if "prefix" in step.arguments]
    keys = [*map(bytes.fromhex, model.omap_keys), *pages]
    assert all(is_text(key) for key in keys) == text_keys
    assert ("compare_omap" in repr(steps)) != text_keys


def test_a_copy_has_the_snapshots_and_the_parent_of_its_source() -> None:
    layout = {"order": 12, "stripes": 1}
    cloned: Steps = [
        *IMAGE,
        ("snap", {"image": "a", "snap": "s"}),
        ("clone", {"image": "a", "snap": "s", "to": "c", **layout}),
    ]
    copied = [*cloned, ("snap", {"image": "c", "snap": "t"}), ("deep_copy", {"image": "c", "to": "d", **layout})]
    renamed = [*copied, ("rename_snap", {"image": "a", "snap": "s", "to": "u"}), ("rename", {"image": "a", "to": "e"})]
    _, model = left_by("rbd", renamed)
    assert (model.images["d"].parent, model.images["c"].parent) == (("e", "u"), ("e", "u"))
    assert model.images["d"].snaps == {"t": content(1, 9)}


def test_shortening_leaves_parts_of_a_compound_operation_out() -> None:
    step = Step("a", "compound", {"name": "o", "parts": [["create", {}], ["remove", {}]]})
    assert [each.arguments["parts"] for each in simpler_steps(step, "a")] == [[["remove", {}]], [["create", {}]]]
    assert simpler_steps(Step("a", LOOK, {"names": ["x", "y"]}), "a") == []


def test_a_bucket_keeps_versions_as_its_versioning_says() -> None:
    model = S3Model(Random(3), versioned=True)

    def put(seed: int) -> None:
        model.do_put("k", seed, 9, "n", {})

    put(1)
    model.do_versioning("Enabled")
    put(2)
    model.do_versioning("Suspended")
    put(3)
    assert [version.null for version in model.versions["k"]] == [True, False], "the first one had the ID null too"
    model.do_delete("k")
    with pytest.raises(Refused, match="NoSuchKey"):
        model.do_get("k")
    model.do_delete_version("k", 0)
    assert model.do_get("k")[0] == told(content(2, 9))


def test_an_upload_is_the_parts_that_it_is_completed_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_model, "PART_BYTES", 50)
    model = S3Model(Random(3))
    model.do_initiate("k", "n")
    for number, size in ((10, 60), (2, 50), (1, 7)):
        model.do_part("k", number, number, size)
    assert [entry[:2] for entry in model.do_parts("k", 1)] == [[1, 7], [2, 50], [10, 60]]
    with pytest.raises(Refused, match="EntityTooSmall"):
        model.do_complete("k")
    model.do_part("k", 1, 5, 50)
    model.do_complete("k")
    assert model.do_get("k")[0] == told(content(5, 50) + content(2, 50) + content(10, 60))
    assert model.do_tail("k", 60)[0] == told(content(10, 60))
    with pytest.raises(Unfit):
        model.do_complete("k")


def test_a_walk_leaves_out_what_a_gateway_is_known_to_answer_wrongly() -> None:
    model = S3Model(Random(3), versioned=True)
    model.do_initiate("a/b", "n")
    model.do_put("a/c", 1, 5, "n", {})
    model.do_put("b", 1, 5, "n", {})
    assert model.do_uploads("", "", 1) == [["a/b"], []]
    model.do_versioning("Enabled")
    for step in (
        lambda: model.do_uploads("", "/", 1),
        lambda: model.do_versions("", "/", 1),
        lambda: model.do_put_new("b", 1, 5, "n"),
    ):
        with pytest.raises(Unfit):
            step()
