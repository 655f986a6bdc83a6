"""What a command did or knows is shown also where it did not succeed in all of it."""

import json
import locale
import signal
import subprocess
import sys
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.cli import clusters
from cephlab.cli import main as command
from cephlab.cli.output import Output, reporting
from cephlab.cli.world import World
from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.images.image import Image
from cephlab.lab.images.store import ImageStore
from cephlab.lab.spec.arch import Arch
from tests.cli.test_cli_clusters import call
from tests.fake_provider import FakeProvider, abandoned_run, kept_cluster


def test_what_was_pruned_before_an_error_is_in_the_same_json(world: World, fake: FakeProvider) -> None:
    for name in ("a-stuck", "b-lost"):
        abandoned_run(world.home, name)
    fake.holding, fake.stuck = {"a-stuck", "b-lost"}, {"a-stuck"}
    result = call(world, "prune", "--json")
    value = json.loads(result.stdout)
    assert result.exit_code == 3
    assert [line for line in value["removed"] if line.startswith("b-lost: ")]
    assert "a process does not die" in value["error"]["detail"]


def test_images_that_were_removed_before_an_error_are_named(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    images = [Image("reef", arch, f"{arch}-key", world.home.images, {}) for arch in Arch]

    def remove(_store: ImageStore, image: Image) -> None:
        if image is images[1]:
            raise LabBroken("the disk is read-only")

    monkeypatch.setattr(ImageStore, "list", lambda _store: images)
    monkeypatch.setattr(ImageStore, "remove", remove)
    text = call(world, "image", "rm", "reef")
    assert text.exit_code == 3
    assert text.stdout == "removed reef for x86_64 (x86_64-key)\n"
    assert "then remove reef again" in text.stderr
    value = json.loads(call(world, "image", "rm", "reef", "--json").stdout)
    assert [image["arch"] for image in value["removed"]] == ["x86_64"]
    assert "the disk is read-only" in value["error"]["detail"]


def test_a_daemon_that_died_is_named_where_ceph_does_not_answer(
    world: World, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    def silent(_cluster: object) -> None:
        raise RadosError("command on n0", "TimedOut", 110, "")

    monkeypatch.setattr(clusters, "ask", silent)
    fake.lab = kept_cluster(world.home, dead=["osd.1"])
    result = call(world, "status", "one")
    assert result.exit_code == 1
    assert "error: osd.1 on n1 died" in result.stderr
    fake.lab = kept_cluster(world.home, "two")
    assert "error: command on n0 failed with TimedOut" in call(world, "status", "two").stderr


def test_a_state_that_was_cut_is_no_traceback(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    state = world.home.runs / "one" / "cluster.json"
    state.write_text(state.read_text()[:99])
    [row] = json.loads(call(world, "ls", "--json").stdout)["clusters"]
    assert (row["state"], row["why"]) == ("unreachable", f"{state} is not JSON")
    result = call(world, "status", "one")
    assert result.exit_code == 2
    assert "hint: remove the cluster: cephlab down one" in result.stderr


def test_numbers_that_json_does_not_have_are_null(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True).json({"high": float("inf"), "each": [(float("nan"), 1.5)], "none": None})
    assert json.loads(capsys.readouterr().out) == {"high": None, "each": [[None, 1.5]], "none": None}


def test_a_line_that_is_half_written_is_followed_as_one(
    world: World, fake: FakeProvider, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.lab = kept_cluster(world.home)
    parts = iter((b"first\nse", b"cond\n"))

    def sleep(_seconds: float) -> None:
        part = next(parts, None)
        if part is None:
            raise KeyboardInterrupt
        cast("Any", fake.lab).hosts["n0"].files["/lab/n0/log/osd.0.log"] += part

    monkeypatch.setattr("cephlab.cli.enter.SYSTEM", SimpleNamespace(sleep=sleep, monotonic=SYSTEM.monotonic))
    result = call(world, "logs", "one", "osd.0", "-n", "1", "-f")
    assert result.stdout.splitlines() == ["osd.0 line 100", "osd.0: first", "osd.0: second"]


CTRL_C_WHILE_LOADING = """
import os, signal, sys
class Finder:
    def find_spec(self, name, *_):
        if name == "cephlab.cli.main":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Finder())
from cephlab.__main__ import main
main()
"""


def test_ctrl_c_before_a_command_begins_is_no_traceback() -> None:
    # The tests may run in the background of a script, which ignores SIGINT.
    argv = ["env", "--default-signal=INT", sys.executable, "-c", CTRL_C_WHILE_LOADING]
    ended = subprocess.run(argv, capture_output=True, check=False)
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, b"")


def test_ctrl_c_is_caught_again_once_a_command_begins() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        with reporting(as_json=False):
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_locale_that_is_not_utf_8_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(locale, "getpreferredencoding", lambda _setlocale: "ISO-8859-1")
    assert command.run(["ls", "--json"]) == 2
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["detail"], "PYTHONUTF8=1" in error["hint"]) == ("its encoding: ISO-8859-1", True)


def test_what_the_machine_refuses_outside_a_command_is_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(**_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(command, "app", full)
    monkeypatch.setattr(locale, "getpreferredencoding", lambda _setlocale: "utf8")
    assert command.run(["--help"]) == 3
    assert "No space left on device" in capsys.readouterr().err
