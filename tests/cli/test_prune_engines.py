"""An engine that hangs is told of by prune, which cannot know what it holds; one that is not there holds nothing."""

import json
import socket
import socketserver
import threading
import time
from collections.abc import Collection, Iterator
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from cephlab.cli.world import World
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Silent
from cephlab.lab.providers.container import engine as engines
from cephlab.lab.providers.container.engine import connect, find_engine
from cephlab.lab.providers.container.provider import ContainerProvider
from cephlab.lab.providers.lxd import LxdProvider
from cephlab.lab.providers.lxd.server import connect as connect_lxd
from cephlab.lab.providers.lxd.transport import Address
from tests.cli.test_cli_clusters import call
from tests.fake_provider import FakeProvider, abandoned_run, providers

SOON_S = 20.0
REMEDY = "the engine holds cephlab/reef:1, which is not in this cache; if no other home needs it: docker rmi it"
SILENCE_S = 0.1
"""How long the tests wait for an engine that says nothing, where users wait seconds."""


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").ensure()


@pytest.fixture
def path() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        yield Path(folder) / "engine.sock"


@pytest.fixture
def hung(path: Path) -> Iterator[Path]:
    """A socket that takes connections and never says a word."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen(8)
        yield path


@pytest.fixture
def stale(path: Path) -> Path:
    """A socket whose engine was killed."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
    return path


class Greeting(BaseHTTPRequestHandler):
    """Says what it is, and hangs when it is asked about anything."""

    over = threading.Event()

    def do_GET(self) -> None:
        if not self.path.endswith(("/_ping", "/version")):
            self.over.wait(60)
            return
        body = json.dumps({"ApiVersion": "1.41"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "a socket"

    def log_message(self, *_arguments: object) -> None:
        """Nobody reads it."""


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True


@pytest.fixture
def half_hung(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(engines, "_ANSWER_S", SILENCE_S)
    monkeypatch.setattr(Greeting, "over", threading.Event())
    with Server(str(path), Greeting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield path
        finally:
            Greeting.over.set()
            server.shutdown()
            thread.join()


def world(home: Home, path: Path) -> World:
    """One whose engine is at a path."""
    container = ContainerProvider(find=lambda: connect(f"unix://{path}", {}, patience_s=SILENCE_S))
    return World(home, {**providers(FakeProvider(holding={"stray"})), "container": lambda: container})


@pytest.mark.slow
@pytest.mark.parametrize("state", ["hung", "half_hung"])
@pytest.mark.parametrize("options", [(), ("--dry-run",)])
def test_prune_names_an_engine_that_does_not_answer(
    home: Home, state: str, options: tuple[str, ...], request: pytest.FixtureRequest
) -> None:
    asked = world(home, request.getfixturevalue(state))
    began = time.monotonic()
    result = call(asked, "prune", *options)
    assert time.monotonic() - began < SOON_S
    assert result.exit_code == 3
    assert "container was not checked" in result.stderr
    assert "stray" in result.stdout
    assert "nothing to remove" not in call(asked, "prune", *options).stdout
    told = json.loads(call(asked, "prune", "--json", *options).stdout)
    assert "container was not checked" in told["error"]["detail"]


@pytest.mark.slow
@pytest.mark.parametrize("state", ["hung", "half_hung"])
def test_what_may_be_in_a_silent_engine_is_not_forgotten(
    home: Home, state: str, request: pytest.FixtureRequest
) -> None:
    abandoned_run(home, "lost", provider="")
    began = time.monotonic()
    result = call(world(home, request.getfixturevalue(state)), "prune")
    assert time.monotonic() - began < SOON_S
    assert (result.exit_code, (home.runs / "lost").is_dir()) == (3, True)


@pytest.mark.parametrize("state", ["stale", "path"])
def test_an_engine_that_is_not_there_holds_nothing(home: Home, state: str, request: pytest.FixtureRequest) -> None:
    result = call(world(home, request.getfixturevalue(state)), "prune")
    assert (result.exit_code, result.stdout) == (0, "removed stray: process of stray\n")


def test_of_two_engines_the_hung_one_is_told_of(hung: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed = hung.with_name("killed.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(killed))
    monkeypatch.setattr(engines, "candidates", lambda *_: [f"unix://{killed}", f"unix://{hung}"])
    monkeypatch.setattr(engines, "connect", partial(connect, patience_s=SILENCE_S))
    with pytest.raises(Silent, match=r"engine\.sock does not answer"):
        find_engine({})


def test_an_lxd_that_hangs_is_told_of_and_one_that_was_killed_is_not(home: Home, hung: Path) -> None:
    asked = LxdProvider(find=lambda: [connect_lxd(Address(f"unix://{hung}"), patience_s=SILENCE_S)])
    with pytest.raises(Silent, match="does not answer"):
        asked.leftovers(home)
    killed = hung.with_name("killed.sock")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(killed))
    gone = LxdProvider(find=lambda: [connect_lxd(Address(f"unix://{killed}"), patience_s=SILENCE_S)])
    assert isinstance(gone.unavailable(), Unavailable)
    assert gone.leftovers(home) == frozenset()


class Keeper(FakeProvider):
    """An engine with an image of another home."""

    def forget_image(self, image: Image) -> list[str]:
        raise AssertionError(f"{image.key} was removed")

    def other_images(self, keys: Collection[str]) -> list[str]:
        return [REMEDY] if "1" not in keys else []


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=str)
def test_an_image_of_another_home_is_only_counted(home: Home, options: tuple[str, ...]) -> None:
    said = call(World(home, providers(Keeper())), "prune", *options)
    assert said.exit_code == 0, said.output
    assert "rmi" not in said.output
    assert "engines hold 1 image of other homes, or of none; `cephlab prune --all --dry-run` lists them" in said.stderr
    assert "engines hold" not in call(World(home, providers(FakeProvider())), "prune", *options).output


def test_with_all_an_image_of_another_home_is_told_with_what_removes_it(home: Home) -> None:
    world = World(home, providers(Keeper()))
    assert REMEDY in call(world, "prune", "--all", "--dry-run").stderr
    assert json.loads(call(world, "prune", "--json").stdout)["copies"] == [REMEDY]
