"""What the command shows of clusters and how it removes them, against hosts that exist only as dictionaries."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from cephlab.cli.clusters import age_text, state_of
from cephlab.cli.main import app
from cephlab.cli.up import describe
from cephlab.cli.world import World
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import RunId, Runs, write_json
from cephlab.lab.cluster.deploy.stores import LIFE_S
from cephlab.lab.cluster.prune import Fate, fate_of, survey
from cephlab.lab.images.image import Image
from cephlab.lab.images.store import ImageStore
from cephlab.lab.spec.arch import Arch
from tests.fake_provider import FOREIGN, SECRET, FakeProvider, abandoned_run, kept_cluster, providers

COMMANDS = (
    "doctor image tune spec probe up ls status ceph shell logs down prune "
    "measure compare predict explain validate-model gate judge report summary series track archive profile import"
)


def call(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments), obj=world)


@pytest.mark.slow
def test_help_lists_every_command_with_a_sentence() -> None:
    group: Any = typer.main.get_command(app)
    assert set(group.commands) == set(COMMANDS.split())
    shown = CliRunner().invoke(app, ["--help"]).stdout
    for name, command in group.commands.items():
        assert f" {name} " in shown
        assert command.help


def leaves(command: Any) -> list[Any]:
    return (
        [leaf for subcommand in command.commands.values() for leaf in leaves(subcommand)]
        if hasattr(command, "commands")
        else [command]
    )


def test_every_command_has_json() -> None:
    leaf_commands = leaves(typer.main.get_command(app))
    assert len(leaf_commands) >= len(COMMANDS.split())
    assert [leaf.name for leaf in leaf_commands if "--json" not in {name for p in leaf.params for name in p.opts}] == []


def test_version() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.stdout.startswith("cephlab ")
    assert result.exit_code == 0


def test_status_of_a_healthy_cluster(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    result = call(world, "status", "one")
    assert result.exit_code == 0, result.output
    for text in ("HEALTH_OK", "3 up, 3 in of 3", "1 active+clean", f"n2 {FOREIGN} (emulated)", "osd.2"):
        assert text in result.stdout
    assert fake.lab.hosts["n0"].channels[0].closed


def test_status_of_what_a_killed_run_left_names_the_remedy(world: World) -> None:
    (world.home.runs / "half").mkdir(parents=True, mode=0o700)
    result = call(world, "status", "half")
    assert result.exit_code == 2
    assert "'half' is not a cluster" in result.stderr
    assert "cephlab prune" in result.stderr


def test_status_as_json(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    result = call(world, "status", "one", "--json")
    value = json.loads(result.stdout)
    assert sorted(value) == ["daemons", "died", "fsid", "image", "name", "provider", "release", "status"]
    assert value["status"]["health"] == "HEALTH_OK"
    assert [daemon["state"] for daemon in value["daemons"]] == ["running"] * 5
    assert SECRET not in result.stdout


def test_status_names_a_dead_daemon_with_its_last_log_lines(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, dead=["osd.1"], health="HEALTH_WARN")
    result = call(world, "status", "one")
    assert result.exit_code == 1
    assert "error: osd.1 on n1 died" in result.stderr
    assert "osd.1 line 100" in result.stderr
    assert "1 osds down" in result.stdout
    assert "died     osd.1" in result.stdout


def test_status_of_a_cluster_that_ran_out_of_disk_is_trouble_of_the_lab(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, dead=["osd.1"], health="HEALTH_WARN")
    fake.lab.hosts["n1"].free_bytes = 3 << 20
    result = call(world, "status", "one")
    assert result.exit_code == 3
    assert "and the disk below it is full\n  / has 3 MiB left\n" in result.stderr
    assert "died     osd.1" in result.stdout


def test_status_as_json_names_a_dead_daemon_too(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, dead=["osd.1"])
    result = call(world, "status", "one", "--json")
    value = json.loads(result.stdout)
    assert result.exit_code == 1
    assert value["died"] == ["osd.1"]
    assert "osd.1 line 100" in value["error"]["detail"]


def test_status_without_a_monitor_asks_nobody(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, dead=["mon.n0"])
    result = call(world, "status", "one")
    assert result.exit_code == 1
    assert "too few monitors are alive" in result.stdout
    assert fake.lab.hosts["n0"].channels == []


def test_status_is_red_when_ceph_is_not_well(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, health="HEALTH_WARN")
    assert call(world, "status", "one").exit_code == 1


@pytest.mark.parametrize("command", ["status", "logs", "ceph", "down"])
def test_an_unknown_cluster_is_named_with_those_that_exist(world: World, fake: FakeProvider, command: str) -> None:
    fake.lab = kept_cluster(world.home)
    result = call(world, command, "two")
    assert result.exit_code == 2
    assert "there is no cluster called 'two'" in result.stderr
    assert "clusters: one" in result.stderr
    assert "hint: name one of these" in result.stderr


def echo(argv: Sequence[str], env: Mapping[str, str], terminal: bool) -> Sequence[str]:
    """A program that shows how it was called, and ends with 7."""
    code = f"import os; os.write(1, {json.dumps([list(argv), dict(env), terminal])!r}.encode()); raise SystemExit(7)"
    return (sys.executable, "-c", code)


def test_ceph_passes_everything_on(world: World, fake: FakeProvider, capfd: pytest.CaptureFixture[str]) -> None:
    fake.lab = kept_cluster(world.home)
    fake.lab.hosts["n0"].runs = echo
    result = call(world, "ceph", "one", "osd", "tree", "--format", "json", "-h", "--name")
    assert result.exit_code == 7
    argv, env, terminal = json.loads(capfd.readouterr().out)
    assert argv == ["ceph", "-c", "/lab/n0/ceph.conf", "osd", "tree", "--format", "json", "-h", "--name"]
    assert env == {"CEPH_CONF": "/lab/n0/ceph.conf"}
    assert terminal is False


@pytest.mark.slow
def test_shell_runs_a_command_on_the_node(world: World, fake: FakeProvider, capfd: pytest.CaptureFixture[str]) -> None:
    fake.lab = kept_cluster(world.home)
    fake.lab.hosts["n2"].runs = echo
    for separator in ([], ["--"]):
        result = call(world, "shell", "one", "n2", *separator, "rados", "-p", "x", "ls")
        assert result.exit_code == 7
        assert json.loads(capfd.readouterr().out)[0] == ["rados", "-p", "x", "ls"]


def test_shell_names_the_nodes_when_there_is_no_such_one(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    result = call(world, "shell", "one", "n9")
    assert result.exit_code == 2
    assert "nodes: n0, n1, n2" in result.stderr


def test_logs_show_the_end(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    assert call(world, "logs", "one", "osd.2", "-n", "2").stdout == "osd.2 line 99\nosd.2 line 100\n"
    value = json.loads(call(world, "logs", "one", "--lines", "1", "--json").stdout)
    assert value["logs"]["mon.n0"] == ["mon.n0 line 100"]
    assert len(value["logs"]) == 5
    assert call(world, "logs", "one", "osd.9").exit_code == 2


def test_ls_shows_each_cluster_with_its_state(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home, dead=["osd.1"])
    abandoned_run(world.home, "lost")
    Runs(world.home).create("local", "mine")
    rows = {row["name"]: row for row in json.loads(call(world, "ls", "--json").stdout)["clusters"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "one": "degraded",
        "lost": "abandoned",
        "mine": "in use",
    }
    assert rows["one"]["release"] == "reef"
    text = call(world, "ls").stdout
    assert [line.split()[0] for line in text.splitlines()] == ["name", "lost", "mine", "one"]


def test_ls_goes_on_when_a_provider_does_not_answer(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home)
    row = json.loads(call(world, "ls", "--json").stdout)["clusters"][0]
    assert (row["state"], row["why"]) == ("unreachable", "the engine does not answer")


@pytest.mark.parametrize(
    ("alive", "word"), [([True, True], "running"), ([True, False], "degraded"), ([False], "dead"), ([], "dead")]
)
def test_states(alive: list[bool], word: str) -> None:
    assert state_of(alive) == word


@pytest.mark.parametrize(("seconds", "text"), [(0, "0 s"), (59, "59 s"), (61, "1 min"), (90000, "1 d"), (None, "?")])
def test_ages(seconds: int | None, text: str) -> None:
    assert age_text(seconds) == text


# Removing


def test_down_removes_a_cluster_once(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home)
    fake.holding = {"one", "other"}
    assert call(world, "down", "one").stdout == "one is gone\n"
    assert fake.holding == {"other"}
    again = call(world, "down", "one")
    assert again.exit_code == 2
    assert "there is no cluster called 'one'" in again.stderr
    assert "hint: `cephlab up` raises one" in again.stderr


def test_down_needs_no_state_file(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home)
    fake.holding = {"one"}
    Runs(world.home).get("one").state_file.unlink()
    value = json.loads(call(world, "down", "one", "--json").stdout)
    assert value["name"] == "one"
    assert value["removed"][0] == "process of one"
    assert fake.holding == set()


def test_down_keeps_the_directory_of_what_it_could_not_remove(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home)
    fake.stuck = {"one"}
    result = call(world, "down", "one")
    assert result.exit_code == 3
    assert "a process does not die" in result.stderr
    assert [run.id for run in world.runs.all()] == ["one"]


def test_down_leaves_a_run_to_the_process_that_owns_it(world: World, fake: FakeProvider) -> None:
    Runs(world.home).create("local", "mine")
    result = call(world, "down", "mine")
    assert result.exit_code == 2
    assert "mine is in use by the cephlab process" in result.stderr
    assert [run.id for run in world.runs.all()] == ["mine"]


def test_fates(world: World) -> None:
    kept_cluster(world.home, "kept")
    abandoned_run(world.home, "lost")
    live = Runs(world.home).create("local", "live")
    fates = {run.id: fate_of(run) for run in world.runs.all()}
    assert fates == {"kept": Fate.KEPT, "lost": Fate.ABANDONED, "live": Fate.LIVE}
    (live.directory / "owner.json").unlink()
    assert fate_of(live) is Fate.LIVE, "it was made a moment ago"
    write_json(
        live.directory / "owner.json", {"pid": 1, "birth": "boot/0", "kept": False, "provider": "local", "at": 0}
    )
    assert fate_of(live) is Fate.ABANDONED, "pid 1 is not the process that began at 0"


def test_prune_takes_what_is_abandoned_and_strays(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home, "kept")
    abandoned_run(world.home, "lost")
    Runs(world.home).create("local", "live")
    fake.holding = {"kept", "lost", "live", "stray"}
    dry = json.loads(call(world, "prune", "--dry-run", "--json").stdout)
    removed = ["lost (abandoned)", "stray (stray)"]
    assert dry == {"home": str(world.home.path), "copies": [], "unmerged": [], "would_remove": removed}
    assert fake.holding == {"kept", "lost", "live", "stray"}
    value = json.loads(call(world, "prune", "--json").stdout)
    assert value["errors"] == []
    assert value["removed"][0] == "lost: process of lost"
    assert fake.holding == {"kept", "live"}
    assert [run.id for run in world.runs.all()] == ["kept", "live"]
    assert call(world, "prune").stdout == "nothing to remove\n"


def test_prune_all_takes_kept_clusters_but_not_live_ones(world: World, fake: FakeProvider) -> None:
    kept_cluster(world.home, "kept")
    Runs(world.home).create("local", "live")
    fake.holding = {"kept", "live"}
    assert call(world, "prune", "--all").exit_code == 0
    assert fake.holding == {"live"}


def test_prune_goes_on_after_an_error_and_ends_with_3(world: World, fake: FakeProvider) -> None:
    abandoned_run(world.home, "a-stuck")
    abandoned_run(world.home, "b-lost")
    fake.holding = {"a-stuck", "b-lost"}
    fake.stuck = {"a-stuck"}
    result = call(world, "prune")
    assert result.exit_code == 3
    assert "removed b-lost: process of b-lost" in result.stdout
    assert "a-stuck: " in result.stderr
    assert "a process does not die" in result.stderr
    assert [run.id for run in world.runs.all()] == ["a-stuck"]


def test_prune_removes_half_built_images(world: World) -> None:
    scratch = world.home.images / ".scratch-reef-amd64-0123"
    scratch.mkdir(parents=True)
    assert "would remove image scratch folder" in call(world, "prune", "--dry-run").stdout
    assert scratch.exists()
    assert "scratch folder" in call(world, "prune").stdout
    assert not scratch.exists()


@pytest.mark.parametrize(("argv", "left"), [((), ["new"]), (("--all",), []), (("--dry-run",), ["new", "old"])])
def test_prune_removes_kept_stores_that_are_too_old_and_with_all_the_others(
    world: World, argv: Sequence[str], left: list[str]
) -> None:
    for name, age_s in (("new", 0.0), ("old", LIFE_S + 1)):
        record = {"fsid": "one", "release": 18, "made_at": time.time() - age_s}
        (world.home.stores / name).mkdir(parents=True)
        (world.home.stores / name / "stores.json").write_text(json.dumps(record))
    assert "the kept stores old" in call(world, "prune", *argv).stdout
    assert sorted(path.name for path in world.home.stores.glob("[!.]*")) == left


def test_a_run_that_names_no_provider_is_looked_for_everywhere(world: World, tmp_path: Path) -> None:
    first, second = FakeProvider("local", holding={"lost"}), FakeProvider("container", holding={"lost"})
    both = World(world.home, providers(first, second))
    abandoned_run(world.home, "lost", provider="")
    assert call(both, "prune").exit_code == 0
    assert (first.holding, second.holding) == (set(), set())


def test_survey_tells_of_a_provider_that_cannot_be_asked(world: World) -> None:
    class Mute(FakeProvider):
        def leftovers(self, home: Home) -> frozenset[RunId]:
            raise Unavailable("the engine is mute")

    abandoned_run(world.home, "lost")
    findings, errors = survey(world.home, providers(Mute()))
    assert [finding.fate for finding in findings] == [Fate.ABANDONED]
    assert errors == ["provider local was not checked: the engine is mute"]


# Images and the doctor


def test_images_of_an_empty_cache(world: World) -> None:
    assert call(world, "image", "ls").stdout == "no images\n"
    assert json.loads(call(world, "image", "ls", "--json").stdout) == {"images": []}
    result = call(world, "image", "rm", "reef")
    assert result.exit_code == 2
    assert "there is no image 'reef'" in result.stderr


def test_an_unknown_release_is_not_built(world: World) -> None:
    result = call(world, "image", "build", "hammer")
    assert result.exit_code == 2
    assert "unknown release 'hammer'" in result.stderr


def test_a_release_is_built_for_the_architectures_that_it_is_for(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Arch] = []

    def get(_store: ImageStore, _release: str, arch: Arch, **_: Any) -> Image:
        asked.append(arch)
        raise LabBroken("nothing is built here")

    monkeypatch.setattr(ImageStore, "get", get)
    assert call(world, "image", "build", "nautilus").exit_code != 0
    assert asked == [Arch.X86_64]


def test_the_doctor_ends_with_what_is_ready(world: World) -> None:
    value = json.loads(call(world, "doctor", "--json").stdout)
    assert {"name", "present", "detail", "remedy", "unlocks"} == set(value["needs"][0])
    assert isinstance(value["ready"], bool)
    assert ("\nready providers: " in call(world, "doctor").stdout) == value["ready"]


def test_a_raised_cluster_is_described_with_its_monitors_and_its_prometheus(world: World, fake: FakeProvider) -> None:
    fake.lab = kept_cluster(world.home)
    bare = describe(world.cluster("one"), seconds=1.0)
    assert (bare["mons"], bare["metrics"], bare["s3"]) == (["127.77.1.1:3300"], None, None)
    state_file = Runs(world.home).get(RunId("one")).state_file
    state = json.loads(state_file.read_text())
    state["daemons"].append({**state["daemons"][0], "name": "prometheus.n1", "node": "n1"})
    write_json(state_file, state)
    assert describe(world.cluster("one"), seconds=1.0)["metrics"] == "http://127.77.1.2:9090"
