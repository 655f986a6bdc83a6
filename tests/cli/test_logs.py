"""`cephlab logs`: as many lines as were asked for, each with its source, and an end when the cluster is gone."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.cli.up import last_words
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.gateway import S3_FILE
from cephlab.lab.cluster.own import OwnCluster
from tests.cli.test_cli_clusters import call
from tests.fake_provider import FakeProvider, abandoned_run, kept_cluster, providers
from tests.fake_raising import KEY_LINE

ACCESS, SECRET_KEY = "K3J5H7G9F1D3S5A7P9O1", "madeup/madeup/madeup/madeup/madeup/40char"


@pytest.fixture
def world(tmp_path: Path, fake: FakeProvider) -> World:
    made = World(Home(tmp_path / "home").ensure(), providers(fake))
    fake.lab = kept_cluster(made.home)
    return made


def print_beside(fake: FakeProvider, text: str) -> None:
    """As if osd.0 had printed this beside its log."""
    assert fake.lab is not None
    fake.lab.hosts["n0"].files["/lab/n0/log/osd.0.out"] = text.encode()


def test_each_source_has_its_name_and_no_more_lines_than_asked_for(world: World, fake: FakeProvider) -> None:
    print_beside(fake, "".join(f"printed {number}\n" for number in range(9)))
    shown = call(world, "logs", "one", "osd.0", "-n", "3").stdout.splitlines()
    assert shown == [
        "==> osd.0 <==",
        *(f"osd.0 line {number}" for number in (98, 99, 100)),
        "==> osd.0 output <==",
        *(f"printed {number}" for number in (6, 7, 8)),
    ]
    value = json.loads(call(world, "logs", "one", "osd.0", "-n", "1", "--json").stdout)["logs"]
    assert value == {"osd.0": ["osd.0 line 100"], "osd.0 output": ["printed 8"]}


def test_one_source_needs_no_name(world: World) -> None:
    assert call(world, "logs", "one", "osd.0", "-n", "3").stdout.splitlines() == [
        f"osd.0 line {number}" for number in (98, 99, 100)
    ]


def test_following_shows_what_comes_and_ends_with_the_cluster(
    world: World, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        if len(sleeps) == 1:
            print_beside(fake, "it spoke\n")
        else:
            shutil.rmtree(world.home.runs / "one")

    monkeypatch.setattr(type(SYSTEM), "sleep", lambda _clock, seconds: sleep(seconds))
    result = call(world, "logs", "one", "osd.0", "-n", "1", "-f")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == ["osd.0 line 100", "osd.0 output: it spoke"]
    assert result.stderr.splitlines()[-1] == "one is gone"
    assert len(sleeps) == 2


def test_following_ends_when_a_host_does_not_answer_any_more(
    world: World, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(_host: object, _path: object) -> bytes:
        raise LabBroken("no such container")

    assert fake.lab is not None
    kind = type(fake.lab.hosts["n0"])
    monkeypatch.setattr(type(SYSTEM), "sleep", lambda _clock, _s: monkeypatch.setattr(kind, "read", gone))
    result = call(world, "logs", "one", "osd.0", "-f")
    assert result.exit_code == 0
    assert "one can no longer be read: no such container" in result.stderr


def test_the_status_of_an_abandoned_run_says_prune(world: World) -> None:
    abandoned_run(world.home, "lost")
    result = call(world, "status", "lost")
    assert result.exit_code == 2
    assert "error: lost is abandoned" in result.stderr
    assert "`cephlab prune`" in result.stderr
    assert "wait for it" not in result.stderr


def test_whole_logs_are_saved_without_the_keys_of_the_cluster_and_of_its_s3_user(
    world: World, fake: FakeProvider, tmp_path: Path
) -> None:
    print_beside(fake, f"{KEY_LINE}\nx {ACCESS} y {SECRET_KEY} z\n")
    client = world.home.runs / "one" / "client"
    client.mkdir()
    (client / S3_FILE).write_text(json.dumps({"access_key": ACCESS, "secret_key": SECRET_KEY}))
    result = call(world, "logs", "one", "--save", str(tmp_path / "kept"), "--json")
    saved = json.loads(result.stdout)
    assert saved["folder"] == str(tmp_path / "kept")
    written = {path.name: path.read_text() for path in (tmp_path / "kept").iterdir()}
    assert saved["files"] == sorted(written)
    assert written["n0-osd.0.log"].splitlines() == [f"osd.0 line {number}" for number in range(1, 101)]
    assert written["n0-osd.0.out"] == "key = [key removed]\nx [key removed] y [key removed] z\n"
    assert len(written) == 6


def test_saved_logs_may_be_those_of_one_daemon_and_their_folder_must_be_new(world: World, tmp_path: Path) -> None:
    first = call(world, "logs", "one", "osd.1", "--save", str(tmp_path / "kept"))
    assert first.stdout == f"1 file in {tmp_path}/kept\n"
    assert [path.name for path in (tmp_path / "kept").iterdir()] == ["n1-osd.1.log"]
    again = call(world, "logs", "one", "--save", str(tmp_path / "kept"))
    assert (again.exit_code, "the folder of logs must be new" in again.stderr) == (2, True)
    both = call(world, "logs", "one", "--save", str(tmp_path / "more"), "-f")
    assert (both.exit_code, "--save and --follow" in both.stderr) == (2, True)


def test_a_host_that_is_gone_does_not_hide_why_a_cluster_did_not_come_up() -> None:
    def tail(lines: int) -> str:
        raise LabBroken("n1 does not answer")

    daemons = {
        "osd.0": SimpleNamespace(name="osd.0", host=SimpleNamespace(name="n0"), log_tail=lambda lines: f"last {lines}"),
        "osd.1": SimpleNamespace(name="osd.1", host=SimpleNamespace(name="n1"), log_tail=tail),
    }
    assert last_words(cast("OwnCluster", SimpleNamespace(daemons=daemons))).splitlines() == [
        "last log lines of osd.0 on n0:",
        "last 4",
        "last log lines of osd.1 on n1:",
        "(cannot be read: n1 does not answer)",
    ]
