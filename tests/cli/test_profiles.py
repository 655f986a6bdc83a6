"""`cephlab profile`: what there is, what it says, and a copy to start from."""

import json
from pathlib import Path

import pytest

from cephlab.cli.world import World
from cephlab.tuning.profilefile import load_profile
from tests.cli.test_cli_clusters import call


def test_shipped_profiles_and_own_ones_are_listed(world: World) -> None:
    assert call(world, "profile", "init", "mine", "--like", "kunpeng920").exit_code == 0
    rows = {row["name"]: row for row in json.loads(call(world, "profile", "ls", "--json").stdout)["profiles"]}
    assert rows["mine"]["whose"] == "own"
    assert rows["kunpeng920"]["whose"] == "shipped"
    assert rows["mine"]["nodes"] == rows["kunpeng920"]["nodes"] == 3
    assert "mine" in call(world, "profile", "ls").stdout


def test_a_copy_has_the_figures_and_their_sources(world: World) -> None:
    path = Path(call(world, "profile", "init", "mine", "--like", "kunpeng920").stdout.strip())
    copied, theirs = load_profile(path), world.profile("kunpeng920")
    assert copied.name == "mine"
    assert copied.nodes == theirs.nodes
    again = call(world, "profile", "init", "mine")
    assert again.exit_code == 2
    assert "already exists" in again.stderr


@pytest.mark.parametrize("name", ["Mine", "a b", "../x", ""])
def test_a_name_that_names_no_profile_is_refused(world: World, name: str) -> None:
    result = call(world, "profile", "init", name)
    assert result.exit_code == 2
    assert "is not a valid name for a profile" in result.stderr
    assert list(world.home.profiles.glob("**/*")) == []


def test_a_copy_does_not_hide_what_ships(world: World) -> None:
    result = call(world, "profile", "init", "kunpeng920")
    assert result.exit_code == 2
    assert "kunpeng920 ships with cephlab" in result.stderr
    assert list(world.home.profiles.glob("*.toml")) == []


def test_a_profile_that_cannot_be_read_does_not_hide_the_others(world: World) -> None:
    world.home.profiles.mkdir()
    (world.home.profiles / "broken.toml").write_text("name = 3")
    shown = call(world, "profile", "ls").stdout
    assert "cannot be read" in shown
    assert "kunpeng920" in shown


def test_each_figure_is_shown_with_its_source(world: World) -> None:
    value = json.loads(call(world, "profile", "show", "kunpeng920", "--json").stdout)
    assert value["missing"]
    assert all(figure["value"] and figure["source"] for figure in value["figures"].values())
    shown = call(world, "profile", "show", "kunpeng920").stdout
    assert all(place in shown for place in value["figures"])
    assert call(world, "profile", "show", "moon").exit_code == 2
