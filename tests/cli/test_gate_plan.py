"""`gate --plan` refuses what the gate refuses, and warns of what is not looked at."""

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.fixtures.plan import PlannedScenario
from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.images.image import Image
from cephlab.lab.report.page import render_report
from cephlab.lab.spec.arch import host_arch
from tests.fake_provider import FakeProvider, providers
from tests.lab.archive.test_archive import GOOD, write

ROW = PlannedScenario("interop.some-scenario[writer=aarch64,reader=x86_64]", "a goal", 1, 3, 1 << 30)

JOB = """
name = "mine"
source = "by hand"

[options]
osd_memory_targt = "1073741824"

[[benches]]
name = "some"
block_bytes = [4096]
pool = ""
runtime_s = 1
"""


class Absent(FakeProvider):
    """A lab that does not work here."""

    def unavailable(self, spec: object = None) -> Unavailable | None:
        return Unavailable("no LXD answers here")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr("cephlab.fixtures.plan.plan", lambda _request: [ROW])
    return World(Home(tmp_path / "home"), providers(FakeProvider(broken=AssertionError("nothing is raised"))))


def gate(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["gate", *arguments], obj=world)


@pytest.mark.parametrize("manner", ["--plan", "--list"])
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--release", "nosuch"], "unknown release 'nosuch'"),
        (["--on", "a b"], "--on: 'a b' names no host"),
        (["--on", "lab1,lab1"], "--on: lab1 is named twice"),
        (["--scale-model"], "--scale-model needs a profile"),
        (["--archive", "{used}"], "is not empty"),
        (["--archive", "{used}/file"], "cannot be the folder of an archive"),
    ],
)
def test_a_plan_refuses_as_the_gate(
    world: World, tmp_path: Path, manner: str, arguments: list[str], sentence: str
) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").write_text("in use")
    given = [argument.format(used=tmp_path / "used") for argument in arguments]
    done = gate(world, manner, *given)
    assert done.exit_code == 2, done.output
    assert sentence in done.stderr
    assert done.stdout == ""


def test_a_plan_warns_of_a_lab_that_does_not_work_here(world: World) -> None:
    absent = World(world.home, {**world.providers, "lxd": Absent})
    done = gate(absent, "--plan", "--lab", "lxd")
    assert done.exit_code == 0, done.output
    assert "--lab lxd does not work here, so the gate would be refused: no LXD answers here" in done.stderr
    assert "warning" not in gate(world, "--plan").stderr


@pytest.mark.parametrize("manner", ["--plan", "--list"])
def test_a_plan_refuses_the_settings_of_a_job_as_the_gate(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manner: str
) -> None:
    job = tmp_path / "job.toml"
    job.write_text(JOB)
    done = gate(world, manner, "--job", str(job))
    assert done.exit_code == 0, done.output
    assert "the job's settings were not checked: no image of reef is cached" in done.stderr
    pulled = gate(world, manner, "--job", str(job), "--image", "quay.io/ceph/ceph:v18")
    assert "the job's settings were not checked: no image of quay.io/ceph/ceph:v18 is cached" in pulled.stderr
    image = Image("reef", host_arch(), "1" * 64, tmp_path)
    monkeypatch.setattr("cephlab.lab.cluster.raising.cached_images", lambda *_spec: {host_arch(): image})
    monkeypatch.setattr("cephlab.lab.cluster.optionnames.known_options", lambda *_image: {"osd_memory_target"})
    done = gate(world, manner, "--job", str(job))
    assert done.exit_code == 2, done.output
    assert "reef has no option 'osd_memory_targt'" in done.stderr
    assert "did you mean osd_memory_target?" in done.stderr


def test_a_plan_says_that_other_machines_were_not_asked(world: World) -> None:
    there, here = gate(world, "--plan", "-j", "3", "--on", "nosuch"), gate(world, "--plan", "-j", "3")
    assert "whether nosuch can be reached" in there.stderr
    assert "one by one on each machine" in there.stdout
    assert "one by one;" in here.stdout


@pytest.mark.slow
def test_an_archive_in_which_nothing_failed_is_named(world: World, tmp_path: Path) -> None:
    writer = write(tmp_path / "fine", GOOD)
    writer.seal(render_report)
    done = gate(world, "--plan", "--rerun-failed", str(tmp_path / "fine"))
    assert done.exit_code == 2
    assert f"there is nothing to repeat of {tmp_path / 'fine'}" in done.stderr
    assert "all its scenarios passed or were skipped: 1" in done.stderr


def test_a_plan_without_clusters_counts_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "cephlab.fixtures.plan.plan", lambda _request: [PlannedScenario("profile.a", "a goal", 0, 0, 0)]
    )
    said = gate(world, "--plan", "-j", "1").stdout
    assert "1 scenario, no cluster, one by one\n" in said
    assert "GiB" not in said
    assert "raising the clusters" not in said


def test_names_of_scenarios_are_not_folded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.cli.output._WIDE", 60)
    for manner in ("--plan", "--list"):
        done = gate(world, manner)
        assert ROW.scenario in done.stdout
        assert "1 scenario" in done.stdout
        assert "1 scenarios" not in done.stdout
