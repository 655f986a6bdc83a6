"""What the cephfs suite says of clients and metadata servers that are wrong on purpose."""

import re
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage, seeded
from cephlab.suites.cephfs import SCENARIOS, ranks
from cephlab.suites.cephfs.across import take_topics
from cephlab.suites.cephfs.model import FsModel
from cephlab.suites.cephfs.topics import TOPICS
from cephlab.suites.cephfs.walk import WalkModel, walk_names
from cephlab.suites.interop.walks.live import LOOK_EVERY, Line
from cephlab.suites.interop.walks.printing import program
from cephlab.suites.interop.walks.scenarios import FULL_STEPS
from cephlab.suites.interop.walks.walk import LOOK, Refused, Step, Unfit, answer_of, draw, fitting, take

SIDES = ("x86_64", "aarch64")


@dataclass
class Tree:
    """A file system in memory. loses: an operation that it says it did, and did not."""

    loses: str = ""
    model: FsModel = field(default_factory=FsModel)

    def begin(self) -> None:
        self.model = FsModel()

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        if operation == self.loses:
            # It refuses what it would have refused.
            return answer_of(deepcopy(self.model), Step("", operation, arguments))
        return answer_of(self.model, Step("", operation, arguments))


@dataclass
class Client:
    """A client of such a tree. spoils: what it makes of an answer."""

    tree: Tree
    spoils: Callable[[str, Any], Any] = lambda _operation, answer: answer

    def begin(self, _place: str) -> None:
        self.tree.begin()

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        return self.spoils(operation, self.tree.ask(operation, arguments))


def judged(tree: Tree, tmp_path: Path, spoils: Callable[[str, Any], Any] | None = None) -> Verdict:
    recorder = History().recorder("cephfs.across")
    stage = Stage(None, recorder, Random(7), tmp_path)
    sides = {side: Client(tree) for side in SIDES}
    if spoils:
        sides["aarch64"].spoils = spoils
    take_topics(stage, cast("dict[str, Line]", sides), *SIDES)
    return CHECKS["observations"](recorder.events())


def red(verdict: Verdict) -> set[str]:
    """Topics that went wrong."""
    assert verdict.outcome is Outcome.FAIL, verdict
    return {topic for topic in TOPICS if any(f"of {topic}," in line for line in verdict.derivation)}


@pytest.mark.slow
def test_an_honest_tree_passes(tmp_path: Path) -> None:
    assert judged(Tree(), tmp_path).outcome is Outcome.PASS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lost", "topics"),
    [
        ("rename", {"names", "links", "renames", "snapshots"}),
        ("truncate", {"contents", "links", "snapshots"}),
        ("link", {"links"}),
        ("removexattr", {"xattrs"}),
        ("flock", {"locks"}),
        ("range", {"locks"}),
        ("quota", {"quotas"}),
        ("snap", {"snapshots"}),
    ],
)
def test_a_server_that_loses_an_operation_is_found(lost: str, topics: set[str], tmp_path: Path) -> None:
    assert red(judged(Tree(loses=lost), tmp_path)) == topics


@pytest.mark.slow
def test_a_client_that_does_not_see_long_names_is_found(tmp_path: Path) -> None:
    def short(operation: str, answer: Any) -> Any:
        return {path: what for path, what in answer.items() if len(path) < 200} if operation == LOOK else answer

    assert red(judged(Tree(), tmp_path, short)) == {"names"}


@pytest.mark.slow
def test_a_client_that_reads_its_own_past_is_found(tmp_path: Path) -> None:
    """It goes on with what it saw at its first look of a tree that held something."""
    seen: list[Any] = []

    def stale(operation: str, answer: Any) -> Any:
        if operation != LOOK or not answer:
            return answer
        seen.append(answer)
        return seen[0]

    assert red(judged(Tree(), tmp_path, stale)) >= {"names", "renames", "snapshots"}


@pytest.mark.parametrize(("lost", "outcome"), [("", Outcome.PASS), ("rename", Outcome.FAIL), ("link", Outcome.FAIL)])
def test_what_is_lost_between_two_servers_is_found(lost: str, outcome: Outcome, tmp_path: Path) -> None:
    recorder = History().recorder("cephfs.two-active")
    sides = cast("dict[str, Line]", dict.fromkeys(SIDES, Client(Tree(loses=lost))))
    take_topics(Stage(None, recorder, Random(7), tmp_path), sides, *SIDES, topics=ranks.TOPICS)
    assert CHECKS["observations"](recorder.events()).outcome is outcome


def walk_model() -> WalkModel:
    return WalkModel(["a", "é" * 100, "b c"])


def walk_steps(seed: int, length: int = 200) -> tuple[Step, ...]:
    return draw(walk_model(), Random(seed), SIDES, length, LOOK_EVERY)


@pytest.mark.slow
def test_what_a_walk_draws_fits_and_reaches_every_operation() -> None:
    walks = [walk_steps(seed) for seed in range(4)]
    assert walks[3] == walk_steps(3)
    elsewhere = {"quota", "pin", "flock", "fail", "evict", "synced"}
    known = {line.split("def op_")[1].split("(")[0] for line in program("cephfs").splitlines() if "def op_" in line}
    assert {step.operation for steps in walks for step in steps} == known - elsewhere
    for steps in walks:
        sound = walk_model()
        assert take(walk_model(), steps, partial(answer_of, sound)) is None


def drops(operation: str) -> Callable[[WalkModel, Step], Any]:
    """Answer an operation through one side, and do nothing."""
    return lambda model, step: answer_of(
        deepcopy(model) if (step.operation, step.side) == (operation, SIDES[1]) else model, step
    )


def unsynced(model: WalkModel, step: Step) -> Any:
    """Others do not see what a side writes to a file that it keeps open."""
    if step.operation != LOOK or step.side == SIDES[1] or not model.handles:
        return answer_of(model, step)
    old = deepcopy(model)
    for (side, _), handle in old.handles.items():
        if side != step.side:
            handle.inode.data.clear()
    return answer_of(old, step)


BROKEN: dict[str, Callable[[WalkModel, Step], Any]] = {
    **{
        f"{operation} dropped": drops(operation)
        for operation in (
            *("write", "append", "truncate", "punch", "put", "cut", "chmod", "chown", "utimes", "lay"),
            *("setxattr", "rename_snap", "lock", "range", "shut"),
        )
    },
    "unsynced data not seen": unsynced,
}


@pytest.mark.slow
@pytest.mark.parametrize("defect", BROKEN)
def test_a_walk_finds_what_is_wrong(defect: str) -> None:
    def goes_wrong(seed: int) -> bool:
        broken = walk_model()

        def taking(step: Step) -> Any:
            try:
                return BROKEN[defect](broken, step)
            except Unfit:
                return "a step that does not fit"

        return take(walk_model(), walk_steps(seed), taking) is not None

    assert any(goes_wrong(seed) for seed in range(20))


def mount_of(folder: Path) -> Any:
    """The side that works through a mount, on a folder without CephFS's snapshots."""
    source: dict[str, Any] = {"__name__": "side"}
    exec(program("mounted"), source)  # as hosts run it

    class Plain(source["Side"]):  # type: ignore[misc, name-defined, valid-type]
        def names_in(self, path: str) -> list[str]:
            return [] if path.endswith(".snap") else list(super().names_in(path))

    side = Plain({"folder": str(folder)})
    side.ask = lambda operation, arguments: source["answer"](side, operation, dict(arguments))
    return side


@pytest.mark.parametrize("name", ["links", "renames", "locks"])
def test_a_mount_answers_as_the_model_does(name: str, tmp_path: Path) -> None:
    sides = {side: mount_of(tmp_path) for side in SIDES}
    for side in sides.values():
        side.begin("place")
    steps = list(TOPICS[name](*SIDES, Random(3)))
    difference = take(FsModel(), steps, lambda step: sides[step.side].ask(step.operation, step.arguments))
    for side in sides.values():
        side.close()
    assert difference is None


def test_a_read_that_goes_by_an_old_size_is_told_and_not_taken_for_the_content(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side = mount_of(tmp_path)
    side.begin("place")
    side.ask("write", {"path": "a", "seed": 1, "size": 6, "offset": 0})
    whole = side.ask("read", {"path": "a", "offset": 0, "size": 6})
    assert side.ask("stale", {}) == []
    reads, old = side.all_from, [b""]
    monkeypatch.setattr(side, "all_from", lambda *words: old.pop() if old else reads(*words))
    assert side.ask("read", {"path": "a", "offset": 0, "size": 6}) == whole
    [[*where, before, after]] = side.ask("stale", {})
    assert (where, before.split(":")[0], after) == (["a", 0, 6], "0", whole)
    side.close()


def test_a_walk_draws_no_rename_that_has_to_be_refused() -> None:
    model = WalkModel(["a"])
    with pytest.raises(Unfit):
        model.do_rename("missing", "a")
    model.do_write("a", seed=1, size=2, offset=0)
    model.do_rename("a", "b")
    assert set(model.do_look()) == {"b"}


@pytest.mark.parametrize("above", ["link", "file"])
def test_no_step_goes_through_a_file_or_a_symbolic_link(above: str) -> None:
    model = FsModel()
    model.do_mkdir("there")
    model.do_symlink("there", "link")
    model.do_write("file", seed=1, size=0, offset=0)
    for step in (partial(model.do_write, seed=1, size=0, offset=0), model.do_mkdir, model.do_unlink, model.do_rmdir):
        with pytest.raises(Unfit):
            step(f"{above}/name")
    with pytest.raises(Unfit):
        model.do_read(f"{above}/name/below", offset=0, size=1)


def test_a_walk_replaces_no_name_of_a_file_that_has_another_and_renames_nothing_onto_itself() -> None:
    model = WalkModel(["a"])
    for name in ("a", "b"):
        model.do_write(name, seed=1, size=2, offset=0)
    model.do_link("a", "other")
    with pytest.raises(Unfit):
        model.do_rename("b", "other")
    model.do_unlink("a")
    model.do_rename("b", "other")
    assert set(model.do_look()) == {"other"}
    with pytest.raises(Unfit):
        model.do_rename("other", "other")


def test_a_walk_reads_and_truncates_no_directory_and_still_writes_to_one() -> None:
    model = WalkModel(["d"])
    model.do_mkdir("d")
    for left_out in (partial(model.do_read, offset=0, size=1), partial(model.do_truncate, size=2)):
        with pytest.raises(Unfit):
            left_out("d")
    with pytest.raises(Refused, match="EISDIR"):
        model.do_write("d", seed=1, size=2, offset=0)
    with pytest.raises(Refused, match="ENOENT"):
        model.do_read("missing", offset=0, size=1)


@pytest.mark.slow
def test_no_step_of_the_walk_that_hung_reads_a_directory() -> None:
    """The plain model's walk of the same seed does, so that this one is known to be able to."""
    read = {kind: refused_reads(kind) for kind in (FsModel, WalkModel)}
    assert "EISDIR" in read[FsModel]
    assert "EISDIR" not in read[WalkModel]


def refused_reads(kind: type[FsModel]) -> set[str]:
    """How reads are refused on the walk of `--seed 188970448`."""
    rng = seeded(188970448, "cephfs.walk")
    names = walk_names(Random(rng.randrange(1 << 31)))
    wanted = fitting(kind(names), draw(kind(names), rng, SIDES, FULL_STEPS, LOOK_EVERY))
    reads = [each.answer for each in wanted if each.step.operation == "read"]
    assert any(isinstance(answer, str) for answer in reads)
    return {answer["refused"] for answer in reads if isinstance(answer, dict)}


def test_a_link_that_may_be_refused_for_either_of_two_reasons_is_not_asked_for() -> None:
    model = FsModel()
    model.do_mkdir("d")
    model.do_write("a", seed=1, size=2, offset=0)
    for to in ("missing/b", "a"):
        with pytest.raises(Unfit):
            model.do_link("d", to)
    with pytest.raises(Refused, match="EPERM"):
        model.do_link("d", "b")
    with pytest.raises(Refused, match="EEXIST"):
        model.do_link("a", "d")


def test_what_a_client_is_known_to_get_wrong_is_not_asked_for() -> None:
    model = FsModel()
    model.do_write("a", seed=1, size=2, offset=0)
    model.do_link("a", "b")
    model.do_symlink("a", "soft")
    model.do_rename("a", "a")
    with pytest.raises(Unfit):
        model.do_rename("a", "b")
    with pytest.raises(Unfit):
        model.do_link("soft", "b")
    with pytest.raises(Unfit):
        model.do_snap("a", "s1")
    assert set(model.do_look()) == {"a", "b", "soft"}


def test_times_that_would_not_stay_are_not_set() -> None:
    model = WalkModel(["a"])
    model.side = SIDES[0]
    model.do_write("a", seed=1, size=2, offset=0)
    with pytest.raises(Unfit):
        model.do_truncate("a", size=3)
    model.do_truncate("a", size=3, mtime=7)
    assert model.do_look()["a"]["times"] == [None, 7 * 10**9]
    model.do_open("a", slot=0, append=False)
    with pytest.raises(Unfit):
        model.do_utimes("a", atime=1, mtime=2)
    model.do_truncate("a", size=1)
    model.do_shut(slot=0)
    model.do_utimes("a", atime=1, mtime=2)
    assert model.do_look()["a"]["times"] == [1, 2]


def test_no_snapshot_is_made_of_what_another_side_has_not_synced() -> None:
    model = WalkModel(["a"])
    model.side = SIDES[0]
    model.do_write("a", seed=1, size=2, offset=0)
    model.do_open("a", slot=0, append=False)
    model.side = SIDES[1]
    with pytest.raises(Unfit):
        model.do_snap("", "s1")
    model.side = SIDES[0]
    model.do_snap("", "s1")
    assert ".snap/s1/a" in model.do_look()


def test_an_owner_of_ranges_keeps_what_a_later_lock_leaves_of_an_earlier_one() -> None:
    model = FsModel()
    model.do_write("a", seed=1, size=2, offset=0)
    model.do_range("a", "exclusive", start=0, length=6, owner=1)
    model.do_range("a", "none", start=2, length=2, owner=1)
    model.do_range("a", "exclusive", start=2, length=2, owner=2)
    for start in (1, 4):
        with pytest.raises(Refused, match="EAGAIN"):
            model.do_range("a", "shared", start=start, length=1, owner=2)


def test_the_suites_scenarios_have_its_name() -> None:
    assert {scenario.suite for scenario in SCENARIOS} == {"cephfs"}


@pytest.mark.parametrize("thread", ["MDSRank", "OSD::osd_op_tp thread 0x7f0c"])
def test_only_a_soak_may_leave_a_daemon_that_missed_its_heartbeat(thread: str) -> None:
    line = f"heartbeat_map is_healthy '{thread}' had timed out after 15.000000954s"
    assert [each.name for each in SCENARIOS if any(re.search(words, line) for words in each.expects)] == ["cephfs.soak"]
