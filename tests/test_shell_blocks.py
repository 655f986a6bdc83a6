"""Profiles, suites, releases and places of figures that commands in the pages name exist."""

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from cephlab.fixtures.run import suite_names
from cephlab.lab.base.errors import SpecError
from cephlab.lab.cluster.deploy.microceph import CHANNELS
from cephlab.lab.images.recipe import RECIPES, read_recipes
from cephlab.tuning.profilefile import THIS_MACHINE, find_hardware
from tests.test_repository import ROOT, all_blocks

SUITES = {*suite_names(), "all"}
RELEASES = {"": set(read_recipes(RECIPES).releases), "microceph": set(CHANNELS)}
"""By `--deploy`."""
PROFILES = ("--profile", "--compare")
LINES = [(file, line) for file, block in all_blocks("bash") for line in block.splitlines()]


def given(line: str) -> Iterator[tuple[str, str]]:
    """(option, value) of each option of a command that has a value."""
    words = shlex.split(line, comments=True)
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if option.startswith("--"):
            yield option, value if equals else following


def unknown(line: str) -> list[str]:
    """What a command names although it does not exist."""
    options = list(given(line))
    changes = [value for option, value in options if option == "--set"]
    known = {"--suite": SUITES, "--release": RELEASES[dict(options).get("--deploy", "")]}
    wrong = [f"{option} {value}" for option, value in options if value not in known.get(option, (value,))]
    for option, value in options:
        if option in PROFILES and value != THIS_MACHINE and not of_the_reader(value):
            try:
                find_hardware(str(ROOT / value) if "/" in value else value, Path("/nonexistent"), changes)
            except SpecError as error:
                wrong.append(f"{option} {value}: {error}")
    return wrong


def of_the_reader(value: str) -> bool:
    """Whether a profile is a file that its reader has written: one in no folder of the repository."""
    return value.endswith(".toml") and "/" not in value


def test_what_commands_of_the_pages_name_exists() -> None:
    assert [f"{file}: {wrong}" for file, line in LINES for wrong in unknown(line)] == []


def test_there_are_names_to_look_at() -> None:
    options = [option for _, line in LINES for option, _ in given(line)]
    assert all(options.count(option) >= 1 for option in (*PROFILES, "--suite", "--release", "--set"))


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("cephlab gate --suite block --profile ampere-altra  # adds", "--profile ampere-altra: no profile is named"),
        ("cephlab predict --profile=ampere-altra", "--profile ampere-altra: no profile is named"),
        ("cephlab predict --profile kunpeng920 --compare kunpeng", "--compare kunpeng: no profile is named"),
        ("cephlab gate --profile examples/no-such.toml", "--profile examples/no-such.toml: "),
        ("cephlab gate --profile examples/storage-3n.toml --set node.count=4", "--profile examples/storage-3n.toml: "),
        ("tox -e interop -- suites/interop --release reeef", "--release reeef"),
        ("cephlab up --release squid", "--release squid"),
        ("cephlab up --deploy microceph --release pacific", "--release pacific"),
        ("cephlab gate --suite block --suite blocks", "--suite blocks"),
        ("cephlab gate --suite", "--suite "),
    ],
)
def test_a_name_that_does_not_exist_is_seen(line: str, wrong: str) -> None:
    (complaint,) = unknown(line)
    assert complaint.startswith(wrong)


@pytest.mark.parametrize(
    "line",
    [
        "cephlab gate --suite scale --profile mine.toml",
        "cephlab predict --profile this-machine --op randread",
        "cephlab gate --suite all --profile examples/storage-3n.toml --set nodes.count=4",
        "cephlab up --release reef --name demo",
        "cephlab up --deploy microceph --release squid",
    ],
)
def test_a_name_that_exists_or_is_the_readers_own_is_right(line: str) -> None:
    assert unknown(line) == []
