"""What the repository says of itself is so: commands, links, lists and examples in its prose."""

from __future__ import annotations

import configparser
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from cli.main import app
from lab.images.recipe import RECIPES, read_recipes
from lab.specfile import spec_from_json
from tests.test_architecture import LAYERS

ROOT = Path(__file__).resolve().parent.parent
PROSE = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
CONDITIONS = {"always", "x86_64", "aarch64", "no-engine", "lxd", "probe", "guests", "kvm"}
PROOF = re.compile(r"cmd:[\w-]+|file:/\S+|python:|binfmt:(x86_64|aarch64)")

# Put together here so that this file does not contain what it forbids.
FORBIDDEN = re.compile(
    "|".join(
        [
            r"/wo" + r"rk/(main|shared|\.)",
            "/" + r"root/\.",
            r"py" + r"pi\.",
            r"python" + r"hosted",
            r"proxy\.go" + r"lang",
            r"snapshot\.de" + r"bian",
            r"artifact" + r"-registry",
        ]
    )
)


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def all_blocks(language: str) -> list[tuple[str, str]]:
    return [(path.name, block) for path in PROSE for block in blocks(path, language)]


def command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, and the words after its name; KeyError when there is none."""
    found: Any = typer.main.get_command(app)
    rest = list(words)
    while isinstance(found, TyperGroup):
        found = found.commands[rest.pop(0)]
    return found, rest


def leaf_names(group: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(group, TyperGroup):
        for name, sub in group.commands.items():
            yield from leaf_names(sub, f"{prefix} {name}".strip())
    else:
        yield prefix


def readme_commands() -> set[str]:
    """First words of each command in README's table; `cephlab image build`, `image ls` is two."""
    table = "\n".join(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("| `cephlab"))
    return {name.removeprefix("cephlab ") for row in table.splitlines() for name in re.findall(r"`([^`]+)`", row)}


def tox_environments() -> set[str]:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini")
    return {name.removeprefix("testenv:") for name in config.sections() if name.startswith("testenv:")}


def package_rows() -> list[list[str]]:
    lines = (ROOT / "ci" / "packages.txt").read_text().splitlines()
    return [line.split(maxsplit=3) for line in lines if line and not line.startswith("#")]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_readme_lists_the_commands_that_exist() -> None:
    real = set(leaf_names(typer.main.get_command(app)))
    assert readme_commands() == real


@pytest.mark.parametrize(("file", "block"), all_blocks("bash"))
def test_shell_blocks_parse_and_name_real_commands(file: str, block: str) -> None:
    subprocess.run(["bash", "-n"], input=block, text=True, check=True, timeout=10)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        program = words[0].removeprefix(".venv/bin/")
        if program == "cephlab":
            found, rest = command(words[1:])
            known = {name for parameter in found.params for name in parameter.opts}
            unknown = [word for word in rest if word.startswith("--") and word not in known]
            assert unknown == [], f"{file}: {line}"
        elif program == "tox":
            assert set(words[words.index("-e") + 1].split(",")) <= tox_environments(), f"{file}: {line}"
        else:
            assert (ROOT / program).is_file(), f"{file}: {line}"


def test_there_are_shell_blocks_to_look_at() -> None:
    assert sum(block.count("cephlab") for _, block in all_blocks("bash")) >= 4


def test_readme_lists_the_tox_environments_that_exist() -> None:
    sentence = next(line for line in (ROOT / "README.md").read_text().splitlines() if line.startswith("`tox` has"))
    assert set(re.findall(r"`(\w+)`", sentence)) - {"tox"} == tox_environments()


def test_the_design_shows_the_layers_that_are_enforced() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    table = text[text.index("| layer | parts |") :].split("\n\n")[0].splitlines()[2:]
    shown = [tuple(row.split("|")[2].strip().split(", ")) for row in table]
    assert [sorted(parts) for parts in shown] == [sorted(parts) for parts in LAYERS]


def test_the_release_example_is_a_recipe(tmp_path: Path) -> None:
    example = next(block for block in blocks(ROOT / "docs" / "adding.md", "toml") if "[releases." in block)
    recipes = tmp_path / "recipes.toml"
    recipes.write_text(RECIPES.read_text() + "\n" + example)
    assert "squid" in read_recipes(recipes).releases


def test_the_spec_example_is_a_spec() -> None:
    example = next(block for block in blocks(ROOT / "docs" / "adding.md", "toml") if "[[nodes]]" in block)
    assert spec_from_json(tomllib.loads(example)).osd_count == 1


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        found = path.parent / file if file else path
        assert found.exists(), f"{path.name}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", found.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{path.name}: {target}"


@pytest.mark.parametrize("path", PROSE, ids=lambda path: path.name)
def test_files_that_prose_names_exist(path: Path) -> None:
    named = re.findall(r"`((?:lab|cli|ci|docs|tests|fixtures|suites|\.ci)/[\w./-]*)`", path.read_text())
    assert [name for name in named if "NAME" not in name and not (ROOT / name).exists()] == []


def test_every_package_has_a_condition_a_proof_and_a_reason() -> None:
    rows = package_rows()
    assert len(rows) >= 10
    for row in rows:
        assert len(row) == 4, row
        package, when, proof, reason = row
        assert re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", package), row
        assert set(when.split("+")) <= CONDITIONS, row
        assert PROOF.fullmatch(proof), row
        assert len(reason.split()) >= 3, row
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


def test_the_push_job_is_the_bootstrap() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "exec ci/bootstrap test" in script.read_text()


def test_workflows_run_what_people_run() -> None:
    workflows = (ROOT / ".github" / "workflows").glob("*.yml")
    runs = [line for path in workflows for line in re.findall(r"\brun: (.*)$", path.read_text(), re.MULTILINE)]
    assert any(line.startswith("ci/bootstrap gate") for line in runs)
    strange = [
        line
        for line in runs
        if not re.match(
            r'ci/(bootstrap|summary|microceph|track) |ci/lxd-runner$|\.venv/bin/(tox|cephlab) |echo "CEPHLAB_HOME=',
            line,
        )
    ]
    assert strange == []


def test_nothing_here_is_about_where_it_was_written() -> None:
    found = []
    for path in tracked():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert found == []


def test_what_is_forbidden_is_seen() -> None:
    assert FORBIDDEN.search("see /wo" + "rk/main/x")
    assert FORBIDDEN.search("from py" + "pi.org")
    assert not FORBIDDEN.search("a framework/main thing")
