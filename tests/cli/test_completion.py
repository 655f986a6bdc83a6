"""What a shell is offered after an option or a command."""

from datetime import datetime
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer._completion_shared import get_completion_script

from cephlab.cli.enter import completions
from cephlab.cli.main import NAME, app
from cephlab.lab.base import process
from cephlab.lab.base.home import HOME_VARIABLE, Home
from tests.cli.test_help import leaves
from tests.fake_provider import kept_cluster


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))
    return Home(tmp_path / "home").ensure()


def offered(words: list[str], incomplete: str = "") -> list[str]:
    """What may follow those words, as typer's completion finds it for every shell."""
    from typer._completion_classes import BashComplete

    command: Any = typer.main.get_command(app)
    shell = BashComplete(command, {}, NAME, "_CEPHLAB_COMPLETE")
    return [item.value for item in shell.get_completions(words, incomplete)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "some"),
    [
        (["up", "--lab"], {"auto", "local", "container"}),
        (["gate", "--lab"], {"auto", "local", "ssh"}),
        (["up", "--release"], {"reef", "tentacle", "pacific"}),
        (["image", "build"], {"reef"}),
        (["gate", "--suite"], {"interop", "block", "all"}),
        (["gate", "--tier"], {"quick", "full"}),
        (["gate", "--profile"], {"kunpeng920"}),
        (["predict", "--profile"], {"kunpeng920"}),
        (["tune", "show"], set()),
        (["down"], {"one"}),
        (["status"], {"one"}),
        (["logs"], {"one"}),
        (["measure", "--lab"], {"auto", "local", "container"}),
        (["predict", "--release"], {"reef", "squid"}),
        (["explain", "--op"], {"randrw70"}),
        (["predict", "--sweep"], {"depth", "clients"}),
        (["measure", "--op"], {"randread", "put", "seq"}),
        (["measure", "--beside"], {"baseline", "reef"}),
        (["measure", "--disks"], {"memory"}),
        (["tune", "measure", "--arch"], {"aarch64"}),
        (["image", "build", "--roles"], {"ceph", "database"}),
        (["image", "kernel"], {"pages64k"}),
        (["up", "--deploy"], {"microceph"}),
        (["probe", "--kind"], {"nvme"}),
        (["report", "--defect"], {"keepalive-wraps"}),
    ],
)
def test_values_are_offered(home: Home, words: list[str], some: set[str]) -> None:
    kept_cluster(home)
    values = offered(words)
    assert values
    assert some <= set(values)


def test_archives_and_images_are_offered(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home.archive / "run").mkdir()
    (home.archive / "run" / "manifest.json").write_text("{}")
    for words in (["gate", "--resume"], ["gate", "--rerun-failed"]):
        assert offered(words) == [str(home.archive / "run")]
    image = SimpleNamespace(release="reef", key="0123456789abcdef")
    monkeypatch.setattr("cephlab.lab.images.store.ImageStore.list", lambda _store: [image])
    assert offered(["image", "rm"]) == ["0123456789ab", "reef"]


def test_nodes_and_daemons_of_the_named_cluster_are_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = SimpleNamespace(hosts={"n1": 1, "n0": 0}, daemons={"osd.0": 0, "mon.a": 1})
    monkeypatch.setattr("cephlab.cli.world.World.cluster", lambda _world, name: {"one": cluster}[name])
    assert offered(["shell", "one"]) == ["n0", "n1"]
    assert offered(["logs", "one"]) == ["mon.a", "osd.0"]
    assert offered(["logs", "one"], "o") == ["osd.0"]


def test_a_shell_on_a_node_gets_the_completion_of_ceph(tmp_path: Path) -> None:
    folder = tmp_path / "usr/share/bash-completion/completions"
    folder.mkdir(parents=True)
    (folder / "ceph").write_text("complete -W 'osd mon' ceph\n")
    host: Any = SimpleNamespace(root=PurePosixPath(tmp_path))
    done = process.run(["bash", "--norc", "-c", f"{completions(host)}complete -p"])
    assert done.stdout.strip() == "complete -W 'osd mon' ceph"
    assert done.stderr == "", "programs without a completion are passed over"


@pytest.mark.parametrize(("shell", "name"), [("bash", "cephlab"), ("zsh", "_cephlab"), ("fish", "cephlab.fish")])
def test_the_wheel_brings_what_a_shell_loads(shell: str, name: str) -> None:
    brought = (Path(__file__).parents[2] / "ci" / "completion" / name).read_text()
    made = get_completion_script(prog_name=NAME, complete_var="_CEPHLAB_COMPLETE", shell=shell)
    assert brought == f"{made}\n"


def test_what_does_not_begin_so_is_not_offered() -> None:
    assert offered(["up", "--release"], "re") == ["reef"]
    assert offered(["gate", "--suite"], "in") == ["interop"]


def test_a_home_that_cannot_be_read_offers_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "file"))
    assert offered(["down"]) == []


FREE = {
    *("KEY=VALUE", "PLACE=VALUE", "REF", "SIZE", "K+M", "N/M", "EXPR", "FILE|LIST", "DATE"),
    *("MACHINE:PORT", "MACHINE:/dev/NAME", "ARCH:COUNT,...", "HOST", "-- CMD", "ARGS"),
}
"""Placeholders of what is written and not chosen."""
NEW_NAMES = {"up --name", "profile init NAME"}


def test_every_text_that_is_chosen_is_completed() -> None:
    """What is no number and no file is written freely, and says so by its placeholder, or is completed."""
    silent = {
        f"{' '.join(path)} {param.opts[0] if param.opts[0].startswith('-') else param.metavar}"
        for path, command in leaves()
        for param in command.get_params(typer.Context(command))
        if param.type_descriptor.annotation in (str, datetime)
        and param.metavar not in FREE
        and param._custom_shell_complete is None
    }
    assert silent == NEW_NAMES
