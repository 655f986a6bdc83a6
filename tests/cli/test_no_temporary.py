"""Where no folder for temporary files can be written, what needs one is refused in one sentence, before any work."""

import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home, temporary_folder
from cephlab.lab.providers.local import LocalProvider
from tests.cli.test_cli_clusters import call
from tests.lab.archive.test_archive import GOOD, sealed

STORAGE = Path(__file__).resolve().parents[2] / "examples/storage-3n.toml"


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As with TMPDIR, /tmp, /var/tmp and the current folder on file systems that are read only."""
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "gone"), "/proc"])


@pytest.mark.usefixtures("nowhere")
def test_the_folders_that_were_tried_are_named(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="no folder for temporary files can be written") as refused:
        temporary_folder()
    assert refused.value.detail == f"tried {tmp_path}/gone, /proc"
    assert "set TMPDIR" in refused.value.hint
    with pytest.raises(SpecError, match="no folder for temporary files"):
        LocalProvider().leftovers(Home(tmp_path / "home"))


@pytest.mark.usefixtures("nowhere")
def test_a_gate_is_refused_before_it_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CEPHLAB_HOME", str(tmp_path / "home"))
    ended = CliRunner().invoke(app, ["gate", "--suite", "profile", "--profile", str(STORAGE)])
    assert ended.exit_code == 2, ended.output
    assert ended.stderr.startswith("error: no folder for temporary files can be written\n"), ended.stderr
    assert list((tmp_path / "home" / "archive").iterdir()) == []


@pytest.mark.usefixtures("nowhere")
def test_series_says_it_too(world: World) -> None:
    sealed(world.home.archive / "a", GOOD)
    ended = call(world, "series")
    assert (ended.exit_code, "no folder for temporary files can be written" in ended.stderr) == (2, True), ended.stderr
