"""What prune finds of killed runs and removes, beside what others put where it looks."""

import os
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import docker
import pytest

from cephlab.cli.world import World
from cephlab.lab.base import process
from cephlab.lab.base.errors import CleanupFailed, LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import HOME_MARK, RUN_VARIABLE, Run, RunId, Runs
from cephlab.lab.cluster.prune import Fate, remove, survey, sweep
from cephlab.lab.providers.container.engine import Engine
from cephlab.lab.providers.container.removal import runs_present as runs_in_engine
from cephlab.lab.providers.guest import lab as guests
from cephlab.lab.providers.local import LocalProvider, memory
from cephlab.lab.providers.local.provider import _short, remove_run
from cephlab.lab.providers.ssh import lab as ssh
from cephlab.lab.spec.inventory import Machine
from tests.cli.test_cli_clusters import call
from tests.fake_provider import FakeProvider, abandoned_run, providers
from tests.strangers import Strangers

GUEST = {guests.GUEST_VARIABLE: "1"}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home").ensure()


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The temporary folder, of a short name; and no packet filter, which is the whole machine's."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        monkeypatch.setattr("cephlab.lab.providers.packets.obstacle", lambda: "not here")
        yield Path(folder)


class Sleepers:
    """Processes that do nothing, for a while."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._started: list[process.LocalProcess] = []

    def start(self, env: dict[str, str]) -> process.LocalProcess:
        self._started.append(process.start_command(process.Command(("sleep", "60"), env), self._log))
        return self._started[-1]

    def end(self) -> None:
        for sleeper in self._started:
            sleeper.kill()
            sleeper.wait(5)


@pytest.fixture
def sleepers(tmp_path: Path) -> Iterator[Sleepers]:
    started = Sleepers(tmp_path / "log")
    yield started
    started.end()


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A neighbour's file."""
    path = tmp_path / "victim" / "file"
    path.parent.mkdir()
    path.touch()
    return path


def local(home: Home) -> World:
    return World(home, {"local": LocalProvider})


def short_name(run_id: str) -> str:
    return f"cephlab-{os.getuid()}-{run_id}"


@pytest.mark.slow
@pytest.mark.parametrize("run_id", ["../../victim", "..", ".", "", "../images"])
def test_an_id_in_an_environment_that_is_a_path_removes_nothing(
    home: Home, temporary: Path, victim: Path, sleepers: Sleepers, run_id: str
) -> None:
    sleepers.start({RUN_VARIABLE: run_id, HOME_MARK: str(home.path), **GUEST})
    assert guests.runs_present(home) == set()
    result = call(local(home), "prune")
    assert (result.exit_code, result.stdout) == (0, "nothing to remove\n")
    assert victim.exists()
    assert home.images.is_dir()


def test_a_process_with_the_home_and_no_id_is_passed_over(home: Home, temporary: Path, sleepers: Sleepers) -> None:
    sleepers.start({HOME_MARK: str(home.path), **GUEST})
    assert guests.runs_present(home) == set()
    assert LocalProvider().leftovers(home) == set()


@pytest.mark.slow
def test_processes_of_others_are_not_of_a_run(
    home: Home, temporary: Path, sleepers: Sleepers, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeper = sleepers.start({RUN_VARIABLE: "one", HOME_MARK: str(home.path), **GUEST})
    assert LocalProvider().leftovers(home) == guests.runs_present(home) == {"one"}
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    assert LocalProvider().leftovers(home) == guests.runs_present(home) == set()
    assert remove_run(home, RunId("one")) == []
    assert sleeper.alive()
    monkeypatch.undo()


@pytest.mark.parametrize("name", ["..", ".", "ssh-../..", "A"])
def test_a_link_named_after_a_path_removes_nothing(home: Home, temporary: Path, name: str) -> None:
    link = temporary / short_name(name).replace("/", "_")
    link.symlink_to(home.runs / "one" / "nodes")
    assert call(local(home), "prune").stdout == "nothing to remove\n"
    assert home.archive.is_dir()
    assert link.is_symlink()


@pytest.mark.slow
@pytest.mark.parametrize("target", ["runs/../../victim", "runs/other/nodes", "runs/one", "images"])
def test_a_link_to_anything_but_the_run_is_not_the_runs(home: Home, temporary: Path, victim: Path, target: str) -> None:
    link = temporary / short_name("one")
    link.symlink_to(home.path / target)
    assert LocalProvider().leftovers(home) == set()
    assert remove_run(home, RunId("one")) == []
    assert link.is_symlink()
    assert victim.exists()


def test_a_link_of_another_user_stays_and_stops_nothing(home: Home, temporary: Path, strangers: Strangers) -> None:
    for run_id in ("mine", "theirs"):
        (temporary / short_name(run_id)).symlink_to(home.runs / run_id / "nodes")
    strangers.own(temporary / short_name("theirs"))
    assert call(local(home), "prune").stdout == f"removed mine: {temporary / short_name('mine')}\n"
    assert [path.name for path in temporary.iterdir()] == [short_name("theirs")]


class Labelled:
    """An engine in which somebody has labelled things with this home."""

    def __init__(self, home: Home, *run_ids: str | None) -> None:
        ours = {"cephlab.home": str(home.path)}
        self.found = [{"Labels": {**ours, **({} if run_id is None else {"cephlab.run": run_id})}} for run_id in run_ids]
        self.api = self

    def containers(self, **_options: Any) -> list[dict[str, Any]]:
        return self.found

    networks = volumes = containers


def test_labels_that_are_no_ids_are_passed_over(home: Home) -> None:
    client = Labelled(home, "../../victim", "..", "", None, "one")
    assert runs_in_engine(Engine("unix:///fake", {}, cast("docker.DockerClient", client)), home) == {"one"}


def test_whatever_a_provider_says_only_ids_are_surveyed(home: Home, victim: Path) -> None:
    class Careless(FakeProvider):
        def leftovers(self, home: Home) -> Any:
            return frozenset({"../../victim", "..", "", "one"})

    findings, errors = survey(home, providers(Careless()))
    assert [finding.run.id for finding in findings] == ["one"]
    assert errors == []


def test_what_is_named_like_a_run_of_another_user_is_theirs(home: Home, strangers: Strangers) -> None:
    strangers.own(home.runs / "theirs").mkdir()
    fake = FakeProvider(holding={"theirs", "stray"})
    assert [finding.run.id for finding in survey(home, providers(fake))[0]] == ["stray"]
    result = call(World(home, providers(fake)), "prune", "--all")
    assert fake.holding == {"theirs"}
    assert (home.runs / "theirs").is_dir()
    assert f"skipped, because it is not a run of this user: {home.runs / 'theirs'}" in result.stderr


def test_a_stray_is_never_removed_by_path(home: Home) -> None:
    fake = FakeProvider(holding={"stray"})
    findings, _ = survey(home, providers(fake))
    assert [finding.fate for finding in findings] == [Fate.STRAY]
    Runs(home).create("local", "stray")  # by another process, meanwhile
    assert sweep(home, providers(fake), findings).removed == ("stray: process of stray",)
    assert (home.runs / "stray").is_dir()


def test_what_the_machine_refuses_to_remove_stops_nothing_else(home: Home) -> None:
    class Refused(FakeProvider):
        def prune(self, home: Home, run_id: RunId) -> list[str]:
            if run_id == "a":
                raise PermissionError(1, "Operation not permitted", "/tmp/a")
            return super().prune(home, run_id)

    for name in ("a", "b"):
        abandoned_run(home, name)
    result = call(World(home, providers(Refused(holding={"b"}))), "prune")
    assert result.exit_code == 3
    assert "Operation not permitted" in result.stderr
    assert "removed b: process of b" in result.stdout
    assert [run.id for run in Runs(home).all()] == ["a"]


def test_processes_that_do_not_die_keep_nothing_else(
    home: Home, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    link = temporary / short_name("one")
    link.symlink_to(home.runs / "one" / "nodes")

    def stuck(_marks: object) -> list[process.LocalProcess]:
        raise LabBroken("processes do not die: [7]")

    monkeypatch.setattr(process, "find_marked", stuck)
    with pytest.raises(CleanupFailed, match="do not die"):
        remove_run(home, RunId("one"))
    assert not link.is_symlink()


def test_a_machine_that_does_not_answer_keeps_none_of_the_others(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    class Connection:
        def __init__(self, machine: Machine, *_rest: object) -> None:
            self.machine = machine

        def python(self, *_arguments: object) -> list[str]:
            asked.append(self.machine.name)
            if self.machine.name == "m0":
                raise LabBroken("m0 does not answer")
            return ["process 7"]

        def close(self) -> None:
            """Nothing is open."""

    asked: list[str] = []
    monkeypatch.setattr(ssh, "SshConnection", Connection)
    machines = [cast("Machine", type("Named", (), {"name": name, "directory": "/x"})) for name in ("m0", "m1")]
    monkeypatch.setattr(ssh, "left_folders", lambda _prefix: [Path("/f0"), Path("/f1")])
    monkeypatch.setattr(ssh, "remove_tree", lambda folder: ["/f0/control: busy"] if folder == Path("/f0") else [])
    with pytest.raises(CleanupFailed) as failed:
        ssh.sweep(home, "one", machines)
    assert failed.value.errors == ("m0: m0 does not answer", "/f0/control: busy")
    assert asked == ["m0", "m1"]


# Disks in memory and short names are where anybody can write


def test_a_disk_in_memory_is_made_in_a_folder_of_this_user_alone(tmp_path: Path, strangers: Strangers) -> None:
    room, disks = tmp_path / "shm", tmp_path / "disks"
    for folder in (room, disks):
        folder.mkdir()
    memory.make(disks / "d0", "cephlab:1:one", 4096, room)
    memory.make(disks / "d1", "cephlab:1:one", 8192, room)
    place = memory.folder("cephlab:1:one", room)
    assert [(disks / name).stat().st_size for name in ("d0", "d1")] == [4096, 8192]
    assert place.stat().st_mode & 0o777 == 0o700
    strangers.own(place)
    with pytest.raises(LabBroken, match=r"is taken(.|\n)*got: drwx(.|\n)*wanted: a folder of this user"):
        memory.make(disks / "d2", "cephlab:1:one", 4096, room)
    assert memory.remove("cephlab:1:one", room) == []
    assert memory.marked("cephlab:1:", room) == set()
    assert len(list(place.iterdir())) == 2


def test_neither_a_link_nor_an_old_file_becomes_a_disk_in_memory(tmp_path: Path, victim: Path) -> None:
    room = tmp_path / "shm"
    room.mkdir()
    memory.folder("cephlab:1:one", room).symlink_to(victim.parent)
    with pytest.raises(LabBroken, match="is taken"):
        memory.make(tmp_path / "d0", "cephlab:1:one", 4096, room)
    assert memory.remove("cephlab:1:one", room) == []
    assert memory.marked("cephlab:1:", room) == set()
    own = memory.folder("cephlab:1:two", room)
    own.mkdir()
    (own / "d0").write_bytes(b"of a run that was killed")
    with pytest.raises(LabBroken, match="is taken"):
        memory.make(tmp_path / "d0", "cephlab:1:two", 4096, room)
    assert [path.name for path in victim.parent.iterdir()] == ["file"]
    assert memory.remove("cephlab:1:two", room) == [str(own)]


def test_the_probe_for_disks_in_memory_removes_no_file_of_others(tmp_path: Path) -> None:
    there = tmp_path / f"cephlab-probe-{os.getpid()}"
    there.touch()
    memory.obstacle(tmp_path)
    assert list(tmp_path.iterdir()) == [there]


@pytest.fixture
def deep(tmp_path: Path) -> Run:
    """A run whose directory is too long for sockets."""
    return Runs(Home(tmp_path / ("x" * 70))).create("local", "one")


def test_a_short_name_leads_to_the_run_again_and_again(deep: Run, temporary: Path) -> None:
    for _ in range(2):
        link = _short(deep)
        assert link == temporary / short_name("one")
        assert link.resolve() == deep.directory / "nodes"


def test_a_short_name_that_is_a_strangers_is_not_used(deep: Run, temporary: Path, strangers: Strangers) -> None:
    strangers.own(_short(deep))
    with pytest.raises(LabBroken, match=r"is taken(.|\n)*wanted: a link of this user to"):
        _short(deep)


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_short_name_that_is_anything_else_is_not_used(deep: Run, temporary: Path, victim: Path, kind: str) -> None:
    place = temporary / short_name("one")
    if kind == "file":
        place.touch()
    elif kind == "folder":
        place.mkdir()
    else:
        place.symlink_to(victim.parent)
    with pytest.raises(LabBroken, match="is taken"):
        _short(deep)
    assert victim.exists()


def test_prune_knows_no_deployer_and_has_its_work_undone_first(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    def off(run: Run) -> list[str]:
        assert run.directory.is_dir(), "the way to the machines is in there"
        return ["snap of m0"]

    monkeypatch.setattr("cephlab.lab.cluster.deploy.machines.remove_from_machines", off)
    run = abandoned_run(home, "one")
    removed = remove(home, run, providers(FakeProvider(holding={"one"})))
    assert removed == ["snap of m0", "process of one", f"directory {run.directory}"]
    source = (Path(__file__).resolve().parents[2] / "lab/cluster/prune.py").read_text()
    assert re.findall(r"(?i)microceph|snap|lab\.deploy\.\w+", source) == []
