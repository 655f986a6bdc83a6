"""What the walk whose metadata servers crash wants, and that it finds servers and clients that lose something."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from random import Random
from typing import Any

import pytest

from cephlab.suites.cephfs.model import EXCLUSIVE, Inode
from cephlab.suites.cephfs.walk_moved import FAIL, KILL, MovedModel
from cephlab.suites.interop.walks.live import LOOK_EVERY
from cephlab.suites.interop.walks.printing import program
from cephlab.suites.interop.walks.scenarios import FULL_STEPS
from cephlab.suites.interop.walks.walk import Refused, Step, Unfit, answer_of, draw, take

SIDES = ("x86_64", "aarch64")


def moved_model() -> MovedModel:
    return MovedModel(["a", "é" * 100, "b c"])


def steps_of(seed: int) -> tuple[Step, ...]:
    return draw(moved_model(), Random(seed), SIDES, FULL_STEPS, LOOK_EVERY)


def test_an_evicted_client_loses_its_files_and_locks_and_nobody_else_does() -> None:
    model = moved_model()
    model.do_write("a", seed=1, size=9, offset=0)
    for model.side in SIDES:
        model.do_open("a", slot=0, append=False)
    model.side = SIDES[0]
    model.do_put(slot=0, seed=2, size=5, offset=9)
    model.do_lock(slot=0, kind=EXCLUSIVE)
    model.do_range("a", EXCLUSIVE, start=0, length=4, owner=1)
    model.side = SIDES[1]
    model.do_range("a", EXCLUSIVE, start=4, length=4, owner=1)
    model.side = SIDES[0]
    model.do_evict()
    with pytest.raises(Unfit):
        model.do_get(slot=0, offset=0, size=1)
    with pytest.raises(Refused, match="EAGAIN"):
        model.do_range("a", EXCLUSIVE, start=4, length=1, owner=1)
    model.side = SIDES[1]
    model.do_lock(slot=0, kind=EXCLUSIVE)
    model.do_range("a", EXCLUSIVE, start=0, length=4, owner=2)
    assert model.do_about(slot=0) == [14, 1]


def test_no_client_is_evicted_that_has_a_file_open_whose_time_of_change_was_set() -> None:
    model = moved_model()
    model.side = SIDES[0]
    model.do_write("a", seed=1, size=9, offset=0)
    model.do_utimes("a", atime=1, mtime=2)
    model.do_open("a", slot=0, append=False)
    with pytest.raises(Unfit):
        model.do_evict()
    model.do_put(slot=0, seed=1, size=2, offset=0)
    model.do_evict()
    assert not model.handles


@pytest.mark.parametrize("holding", ["", "d"])
def test_nothing_below_a_snapshot_is_renamed_or_unlinked(holding: str) -> None:
    model = moved_model()
    model.do_mkdir("d")
    for name in ("d/a", "d/b"):
        model.do_write(name, seed=1, size=2, offset=0)
    model.do_write("a", seed=1, size=2, offset=0)
    model.do_snap(holding, "s1")
    for left_out in (partial(model.do_unlink, "d/a"), partial(model.do_rename, "d/a", "b")):
        with pytest.raises(Unfit):
            left_out()
    with pytest.raises(Unfit):
        model.do_rename("a", "d/c")
    model.do_drop(holding, "s1")
    model.do_rename("d/a", "b")
    model.do_unlink("d/b")
    assert set(model.do_look()) == {"a", "b", "d"}


def test_what_is_beside_a_snapshot_may_be_renamed() -> None:
    model = moved_model()
    for name in ("d", "d2"):
        model.do_mkdir(name)
    model.do_snap("d", "s1")
    model.do_write("d2/a", seed=1, size=2, offset=0)
    model.do_rename("d2/a", "a")
    model.do_rename("d", "e")
    assert {"a", "d2", "e", "e/.snap/s1"} == set(model.do_look())


@pytest.mark.slow
def test_walks_fail_servers_in_both_ways_evict_both_clients_and_make_no_stripes() -> None:
    evicted = set()
    for seed in range(3):
        steps = steps_of(seed)
        assert {step.arguments["how"] for step in steps if step.operation == "fail"} == {KILL, FAIL}
        assert {step.arguments["count"] for step in steps if "count" in step.arguments} == {1}
        evicted |= {step.side for step in steps if step.operation == "evict"}
        sound = moved_model()
        assert take(moved_model(), steps, partial(answer_of, sound)) is None
    assert evicted == set(SIDES)


def test_a_printed_program_has_these_steps() -> None:
    assert all(f"def op_{operation}(self" in program("cephfs") for operation in ("fail", "evict"))


def inodes(model: MovedModel) -> list[Inode]:
    return [inode for _, inode in model.root.tree_with_itself()]


def loses_the_last(model: MovedModel, before: MovedModel) -> None:
    """A server that lost its journal: the tree is what it was before the last step."""
    model.root = before.root
    model.handles = before.handles


def loses_locks(model: MovedModel, _before: MovedModel) -> None:
    for inode in inodes(model):
        inode.flocks.clear()
        inode.ranges.clear()


def loses_unsynced(model: MovedModel, _before: MovedModel) -> None:
    """Files that are kept open have lost what was written to them."""
    for handle in model.handles.values():
        handle.inode.data.clear()


LOSSES: dict[str, tuple[str, Callable[[MovedModel, MovedModel], None]]] = {
    "a server that loses the last step": ("fail", loses_the_last),
    "a server that loses locks": ("fail", loses_locks),
    "a server that loses what was not synced": ("fail", loses_unsynced),
    "an eviction that loses what was synced": ("evict", loses_unsynced),
}


@pytest.mark.slow
@pytest.mark.parametrize("loss", LOSSES)
def test_a_walk_finds_what_a_crash_loses(loss: str) -> None:
    operation, loses = LOSSES[loss]

    def goes_wrong(seed: int) -> bool:
        broken, before = moved_model(), moved_model()

        def taking(step: Step) -> Any:
            nonlocal before
            if step.operation == operation:
                loses(broken, before)
            else:
                before = deepcopy(broken)
            try:
                return answer_of(broken, step)
            except Unfit:
                return "a step that does not fit"

        return take(moved_model(), steps_of(seed), taking) is not None

    assert any(goes_wrong(seed) for seed in range(3))
