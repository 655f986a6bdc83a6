"""What the site says of files' keys and of commands is what the program does; what docs/adding.md names is there."""

import importlib.util
import re
import sys
import tomllib
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from pydantic import BaseModel, Field

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
ADDING = (DOCS / "adding.md").read_text()


def _hooks() -> Any:
    spec = importlib.util.spec_from_file_location("site_hooks", DOCS / "hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


hooks = _hooks()


def page(name: str) -> str:
    text: str = hooks.on_page_markdown((DOCS / name).read_text())
    return text


def section(title: str) -> str:
    """A part of the page of file formats, as the site shows it."""
    return page("reference/files.md").split(f"\n## {title}\n")[1].split("\n## ")[0]


def shown_keys(title: str, table: str) -> set[str]:
    """The keys of one table of a file format."""
    rows = next(part for part in section(title).split("\n**")[1:] if table in part.split("**")[0].split(", "))
    return set(re.findall(r"^\| `(\w+)` \|", rows, re.MULTILINE))


def test_every_place_for_keys_becomes_a_table() -> None:
    text = page("reference/files.md")
    assert "<!-- keys:" not in text
    assert text.count("| key | value | default |") > len(hooks.PLACE.findall((DOCS / "reference/files.md").read_text()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "files"),
    [
        ("Hardware profile", "tuning/profiles/*.toml"),
        ("Publication", "tuning/references/*.toml"),
        ("Tuning", "tuning/tunings/*.toml"),
        ("Image recipes", "lab/images/recipes.toml"),
        ("Known results of Ceph's own tests", "suites/cephtests/known-gtest.toml"),
        ("Expected skips", "suites/expected-skips.toml"),
        ("Allowed log lines", "suites/allowed-log-lines.toml"),
    ],
)
def test_keys_that_shipped_files_use_are_shown(title: str, files: str) -> None:
    paths = sorted(ROOT.glob(files))
    assert paths
    for path in paths:
        assert set(tomllib.loads(path.read_text())) <= shown_keys(title, "The file"), path


@pytest.mark.slow
def test_inner_tables_are_shown_by_their_path() -> None:
    example = tomllib.loads(next(iter(sorted((ROOT / "tuning/profiles").glob("*.toml")))).read_text())
    disks = {key for node in example["nodes"] for disk in node.get("disks", ()) for key in disk}
    assert disks
    assert disks <= shown_keys("Hardware profile", "`[[nodes.disks]]`")
    releases = tomllib.loads((ROOT / "lab/images/recipes.toml").read_text())["releases"].values()
    assert {key for release in releases for key in release} <= shown_keys("Image recipes", "`[releases.NAME]`")
    assert shown_keys("Image recipes", "`[role_sets.NAME]`") == {"archs", "packages", "programs"}


@pytest.mark.slow
def test_a_key_says_what_it_takes() -> None:
    profile = section("Hardware profile")
    assert re.search(r"\| `memory` \| .*units: B, KB, .*\*\*required\*\* \|", profile)
    assert re.search(r"\| `mtu_bytes` \| integer, at least 576, at most 65536 \| `1500` \|", profile)
    assert re.search(
        r"\| `roles` \| a list of: `mon`, `mgr`, `osd`, `nvmeof`, `client` \| \*\*required\*\* \|", section("Inventory")
    )


class _Bounded(BaseModel):
    size: int
    share: Annotated[float, Field(gt=0, le=1)] = 0.5


def test_bounds_and_defaults_are_those_of_the_model() -> None:
    described = {key.name: (hooks.takes(key.hint), key.default) for key in hooks.keys(_Bounded)}
    assert described == {"size": ("integer", None), "share": ("number, above 0, at most 1", "`0.5`")}


def test_the_page_of_commands_has_every_command() -> None:
    from cephlab.cli.main import app

    headings = re.findall(r"^##+ `cephlab (.+)`$", page("reference/cli.md"), re.MULTILINE)
    group: Any = typer.main.get_command(app)
    wanted = set(group.commands)
    for name, command in group.commands.items():
        wanted |= {f"{name} {inner}" for inner in getattr(command, "commands", {})}
    assert set(headings) == wanted
    assert len(headings) == len(wanted)


def test_constants_that_adding_names_are_in_the_files_that_it_names() -> None:
    named = re.findall(r"`([\w./-]+)`: `(\w+)`", ADDING)
    assert len(named) >= 6
    assert [(path, name) for path, name in named if name not in (ROOT / path).read_text()] == []


def test_folders_that_adding_puts_new_files_into_exist() -> None:
    named = re.findall(r"`([\w./-]*)NAME[\w./-]*`", ADDING)
    folders = {name for name in named if "/" in name}
    assert len(folders) >= 6
    assert [name for name in folders if not (ROOT / name).is_dir()] == []
