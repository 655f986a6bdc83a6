"""What a client may do beyond its caps, and clones that nobody trims: the interop suite goes red."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import NotReached
from cephlab.lab.ceph.client import CephCommandFailed, RadosClient, RadosError
from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.cluster import pools
from cephlab.suites.interop import keys, objects
from tests.fake_stage import stage_of


class Bounded:
    """A client whose cluster refuses what its caps forbid, except for one kind of deed."""

    def __init__(self, lax: str = "", space: str = "") -> None:
        self.lax, self.space = lax, space

    def within(self, *, namespace: str) -> "Bounded":
        return Bounded(self.lax, namespace)

    def _refused(self, deed: str) -> None:
        if deed != self.lax:
            raise RadosError(deed, "PermissionError", 1, "")

    def read(self, _pool: str, _name: str, _length: int) -> None:
        if self.space != keys.OPEN:
            self._refused("read")
        raise RadosError("read", "ObjectNotFound", keys.MISSING, "")

    def write_full(self, _pool: str, _name: str, _data: bytes) -> None:
        self._refused("write there" if self.space else "write")

    def command(self, target: str, prefix: str, **_: str) -> None:
        if self.lax != "command":
            raise CephCommandFailed(target, {"prefix": prefix}, -13, "access denied")


def bounds(client: Bounded) -> Verdict:
    stage = stage_of(SimpleNamespace())
    keys.observe_bounds(stage, cast("RadosClient", client), "keys")
    return CHECKS["observations"](stage.recorder.events())


def test_a_client_that_is_held_to_its_caps_passes() -> None:
    assert bounds(Bounded()).outcome is Outcome.PASS


@pytest.mark.parametrize("lax", ["read", "write", "write there", "command"])
def test_a_deed_beyond_the_caps_that_is_allowed_is_red(lax: str) -> None:
    verdict = bounds(Bounded(lax))
    assert verdict.outcome is Outcome.FAIL
    assert "allowed" in verdict.reason


def test_an_error_that_is_no_refusal_is_raised() -> None:
    def broken() -> None:
        raise RadosError("read", "Error", 5, "")

    with pytest.raises(RadosError):
        keys.answer_to(broken)


@pytest.mark.parametrize(("lax", "outcome"), [("", Outcome.PASS), ("write", Outcome.FAIL)])
def test_an_osd_that_serves_a_client_on_the_blocklist_is_red(
    lax: str, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, str]] = []
    cluster = SimpleNamespace(client=SimpleNamespace(mon=lambda _prefix, **words: asked.append(words)))
    monkeypatch.setattr(pools, "wait_map_in_use", lambda *_: asked.append({"blocklistop": "wait"}))
    client = Bounded(lax)
    client.call = lambda _: {"address": "127.0.0.1:0/7"}  # type: ignore[attr-defined]
    stage = stage_of(cluster)
    keys.observe_fenced(stage, cast("RadosClient", client), "keys")
    assert CHECKS["observations"](stage.recorder.events()).outcome is outcome
    assert [words["blocklistop"] for words in asked] == ["add", "wait", "rm"]


def holding(counts: list[int]) -> Any:
    """A cluster whose only PG has these numbers of clones, one look after the other; the last one stays."""

    def query(*_: str, **__: str) -> str:
        count = counts.pop(0) if len(counts) > 1 else counts[0]
        return f'{{"info": {{"stats": {{"stat_sum": {{"num_object_clones": {count}}}}}}}}}'

    return SimpleNamespace(client=SimpleNamespace(command=query), patience=0.01)


@pytest.mark.parametrize("counts", [[0], [3, 1, 0]])
def test_clones_that_are_trimmed_pass(monkeypatch: pytest.MonkeyPatch, counts: list[int]) -> None:
    monkeypatch.setattr(pools, "primaries", lambda *_: {"1.0": 0})
    monkeypatch.setattr(clock.SYSTEM, "sleep", lambda _: None)
    stage = stage_of(holding(counts))
    objects.observe_trimmed(stage, "objects")
    assert CHECKS["observations"](stage.recorder.events()).reason


def test_clones_that_nobody_trims_are_an_error_of_ceph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pools, "primaries", lambda *_: {"1.0": 0})
    with pytest.raises(NotReached, match="clones of dropped snapshots"):
        objects.observe_trimmed(stage_of(holding([3])), "objects")
