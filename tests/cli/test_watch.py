"""`cephlab status --watch`, and the health that `ls` shows of each cluster."""

import json
import shutil

import pytest

from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from tests.cli.test_cli_clusters import call
from tests.fake_provider import FakeProvider, kept_cluster


def health(world: World) -> str:
    [row] = json.loads(call(world, "ls", "--json").stdout)["clusters"]
    return str(row["health"])


def test_ls_shows_what_ceph_says(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, health="HEALTH_WARN")
    assert health(world) == "HEALTH_WARN"
    assert "HEALTH_WARN" in call(world, "ls").stdout
    assert all(channel.closed for host in fake.lab.hosts.values() for channel in host.channels)


def test_ls_asks_nobody_where_nobody_can_answer(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, dead=["mon.n0"])
    assert health(world) == "unknown"
    assert [host.channels for host in fake.lab.hosts.values()] == [[], [], []]


def test_the_watch_ends_with_the_cluster(world: World, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch) -> None:
    fake.lab = kept_cluster(world.home)
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 2:
            shutil.rmtree(world.home.runs / "one")

    monkeypatch.setattr(type(SYSTEM), "sleep", lambda _clock, seconds: sleep(seconds))
    result = call(world, "status", "one", "--watch")
    assert result.exit_code == 1
    assert "HEALTH_OK" in result.stdout
    assert result.stderr.splitlines()[-1] == "one is gone"
    assert len(sleeps) == 2


def test_a_watch_that_is_ended_says_how_it_was(
    world: World, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_clock: object, _seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(type(SYSTEM), "sleep", interrupt)
    for word, code in (("HEALTH_OK", 0), ("HEALTH_WARN", 1)):
        shutil.rmtree(world.home.runs, ignore_errors=True)
        fake.lab = kept_cluster(world.home, health=word)
        assert call(world, "status", "one", "--watch").exit_code == code


def test_a_watch_is_no_json(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    assert call(world, "status", "one", "--watch", "--json").exit_code == 2
