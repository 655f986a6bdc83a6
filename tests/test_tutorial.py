"""What the tutorial shows of a command's output has the shape that the command prints: all but the figures."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import NAME, app
from cephlab.cli.world import World
from cephlab.lab.base.home import Home
from tests.fake_provider import FakeProvider, kept_cluster, providers

TEXT = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text()
CUT = "[...]"


def shown() -> Iterator[tuple[str, list[str]]]:
    """(command, lines) of each output: it stands below the commands that print it, of which it is the first's."""
    for commands, output in re.findall(r"```bash\n((?:(?!```).)*?)```\n\n```text\n(.*?)```", TEXT, re.DOTALL):
        yield commands.splitlines()[0], output.splitlines()


SHOWN = dict(shown())


def shape(line: str) -> str:
    """A line without its figures, prefixes of SI, and architectures, which are those of whoever looks."""
    line = re.sub(r"(x86_64|aarch64)( \(emulated\))?", "ARCH", line)
    return re.sub(r"\d[\d,.]*( [kMGmunp]?(?=ops/s|B/s|s\b))?", "0", line)


def test_outputs_are_shown() -> None:
    assert len(SHOWN) == TEXT.count("```text") == 2


@pytest.mark.parametrize("command", SHOWN)
def test_what_is_shown_is_what_is_printed(command: str, tmp_path: Path) -> None:
    home = Home(tmp_path / "home").ensure()
    world = World(home, providers(FakeProvider(lab=kept_cluster(home, "demo"))))
    program, *words = shlex.split(command, comments=True)
    assert Path(program).name == NAME
    printed = [shape(line).rstrip() for line in CliRunner().invoke(app, words, obj=world).stdout.splitlines()]
    assert SHOWN[command][-1] == CUT
    assert [shape(line) for line in SHOWN[command][:-1]] == printed[: len(SHOWN[command]) - 1]
