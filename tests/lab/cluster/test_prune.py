"""Removing runs: what becomes of each, who is asked about it, and what an error leaves for a later time."""

from collections.abc import Collection
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base.errors import CephTrouble, CleanupFailed, LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId, Runs
from cephlab.lab.cluster import prune
from cephlab.lab.cluster.prune import Fate, SurveyedRun, fate_of, forget_copies, remove, stray_copies, survey, sweep
from cephlab.lab.images.image import Image
from tests.fake_provider import FakeProvider, abandoned_run, providers


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").ensure()


def kept_run(home: Home, name: str) -> Run:
    run = Runs(home).create("local", name)
    run.claim(provider="local", kept=True)
    return run


def test_each_run_has_its_fate_and_each_fate_its_word(home: Home) -> None:
    assert fate_of(Runs(home).create("local", "mine")) is Fate.LIVE
    assert fate_of(kept_run(home, "kept")) is Fate.KEPT
    assert fate_of(abandoned_run(home, "lost")) is Fate.ABANDONED
    findings, errors = survey(home, providers(FakeProvider(holding={"lost", "stray"})))
    assert [(finding.run.id, str(finding.fate), finding.holders) for finding in findings] == [
        ("kept", "kept", ()),
        ("lost", "abandoned", ()),
        ("mine", "live", ()),
        ("stray", "stray", ("local",)),
    ]
    assert errors == []


@pytest.mark.parametrize(
    ("fate", "doomed", "with_kept"),
    [
        (Fate.ABANDONED, True, True),
        (Fate.STRAY, True, True),
        (Fate.KEPT, False, True),
        (Fate.LIVE, False, False),
    ],
)
def test_a_live_run_is_never_removed_and_a_kept_one_only_if_asked_for(
    home: Home, fate: Fate, doomed: bool, with_kept: bool
) -> None:
    finding = SurveyedRun(Run(RunId("one"), home.runs / "one"), fate)
    assert finding.doomed(kept_too=False) is doomed
    assert finding.doomed(kept_too=True) is with_kept


def test_a_provider_that_cannot_be_asked_is_named(home: Home) -> None:
    class Mute(FakeProvider):
        def leftovers(self, home: Home) -> frozenset[RunId]:
            raise PermissionError("no")

    findings, errors = survey(home, providers(Mute("mute"), FakeProvider(holding={"stray"})))
    assert [finding.run.id for finding in findings] == ["stray"]
    assert errors == ["provider mute was not checked: no"]


def test_everything_of_every_run_is_removed_and_told(home: Home) -> None:
    local, lxd = FakeProvider(holding={"a", "b", "c"}), FakeProvider("lxd", holding={"a", "c"})
    a, b = abandoned_run(home, "a", provider=""), abandoned_run(home, "b")
    findings, _ = survey(home, providers(local, lxd))
    swept = sweep(home, providers(local, lxd), findings)
    assert swept.removed == (
        *("a: process of a", "a: process of a", f"a: directory {a.directory}"),
        *("b: process of b", f"b: directory {b.directory}"),
        *("c: process of c", "c: process of c"),
    )
    assert swept.errors == ()
    assert local.holding == lxd.holding == set()


def test_the_provider_that_a_run_names_is_asked_alone(home: Home) -> None:
    local, lxd = FakeProvider(holding={"one"}), FakeProvider("lxd", stuck={"one"})
    run = abandoned_run(home, "one")
    assert remove(home, run, providers(local, lxd)) == ["process of one", f"directory {run.directory}"]


@pytest.mark.parametrize("named", ["", "of another cephlab"])
def test_every_provider_is_asked_about_a_run_that_names_none_of_them(home: Home, named: str) -> None:
    local, lxd = FakeProvider(stuck={"one"}), FakeProvider("lxd", holding={"one"})
    run = abandoned_run(home, "one", provider=named)
    with pytest.raises(CleanupFailed) as error:
        remove(home, run, providers(local, lxd))
    assert error.value.errors == ("local: a process does not die\npid 7\nhint: look at the kernel's log",)
    assert lxd.holding == set(), "it goes on after an error"
    assert run.directory.is_dir(), "a later prune knows of it"


def test_a_run_without_a_directory_is_removed_without_one(home: Home) -> None:
    run = Run(RunId("one"), home.runs / "one")
    assert remove(home, run, providers(FakeProvider(holding={"one"}))) == ["process of one"]
    assert remove(home, run, providers(FakeProvider())) == []


def test_what_cannot_be_undone_leaves_the_rest_for_a_later_prune(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_run: Run) -> list[str]:
        raise CephTrouble("the machines do not answer")

    run, fake = abandoned_run(home, "one"), FakeProvider(holding={"one"})
    with monkeypatch.context() as patch:
        patch.setattr(prune, "undeploy", refuse)
        with pytest.raises(CleanupFailed, match="the machines do not answer"):
            remove(home, run, providers(fake))
    assert fake.holding == {"one"}
    assert run.directory.is_dir()


def test_a_directory_that_stays_is_an_error_of_the_clean_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def stay(_runs: Runs, run: Run) -> None:
        raise LabBroken(f"{run.directory} could not be removed")

    monkeypatch.setattr(Runs, "forget", stay)
    run = abandoned_run(home, "one")
    with pytest.raises(CleanupFailed, match="could not be removed"):
        remove(home, run, providers(FakeProvider(holding={"one"})))
    swept = sweep(home, providers(FakeProvider()), [SurveyedRun(run, Fate.ABANDONED)])
    assert (swept.removed, len(swept.errors)) == ((), 1)
    assert swept.errors[0].startswith("one: ")


class Keeper(FakeProvider):
    """A provider with copies of images."""

    def forget_image(self, image: Image) -> list[str]:
        return [f"{self.name}: copy of {image.key}"]

    def other_images(self, keys: Collection[str]) -> list[str]:
        return [f"{self.name}: copy of {key}" for key in ("k1", "k2", "k3") if key not in keys]


def test_copies_of_images_are_asked_for_where_they_are_kept() -> None:
    kept = providers(FakeProvider(), Keeper("lxd"), Keeper("lxd-vm"))
    first, second = (cast("Image", SimpleNamespace(key=key)) for key in ("k1", "k2"))
    assert forget_copies(kept, first) == ["lxd: copy of k1", "lxd-vm: copy of k1"]
    assert stray_copies(kept, [first, second]) == ["lxd: copy of k3", "lxd-vm: copy of k3"]
