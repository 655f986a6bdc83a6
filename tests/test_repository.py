"""What the repository says of itself is so: commands, links, lists and examples in its prose."""

import configparser
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer.main
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from typer.core import TyperGroup

from cephlab.cli.main import app
from cephlab.fixtures.run import suite_names
from cephlab.lab.archive.archive import Ending
from cephlab.lab.images.recipe import RECIPES, read_recipes
from cephlab.lab.spec.clusterspec import Capability
from tests.conftest import left_out, marked_whole
from tests.test_architecture import LAYERS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PROSE = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])
LONGEST_LINE = 120
LARGEST_PICTURE = 300_000
CONDITIONS = {
    "always",
    "x86_64",
    "aarch64",
    "no-engine",
    "lxd",
    "probe",
    "test",
    "guests",
    "uml",
    "qemu",
    "kvm",
    *suite_names(),
}
PROOF = re.compile(r"cmd:[\w-]+(\|[\w-]+)*|file:/\S+|python:|binfmt:(x86_64|aarch64)")

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


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(path: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", path.read_text(), re.DOTALL)


def all_blocks(language: str) -> list[tuple[str, str]]:
    return [(named(path), block) for path in PROSE for block in blocks(path, language)]


def command(words: list[str]) -> tuple[Any, list[str]]:
    """The command that words name, and the words after its name; KeyError when there is none."""
    named_command: Any = typer.main.get_command(app)
    rest = list(words)
    while isinstance(named_command, TyperGroup):
        named_command = named_command.commands[rest.pop(0)]
    return named_command, rest


def leaf_names(group: Any, prefix: str = "") -> Iterator[str]:
    if isinstance(group, TyperGroup):
        for name, sub in group.commands.items():
            yield from leaf_names(sub, f"{prefix} {name}".strip())
    else:
        yield prefix


def listed_commands() -> set[str]:
    """First words of each command in the page's table; `cephlab image build`, `image ls` is two."""
    lines = (DOCS / "reference" / "cli.md").read_text().splitlines()
    rows = [line.split("|")[1] for line in lines if line.startswith("| `cephlab")]
    return {name.removeprefix("cephlab ") for row in rows for name in re.findall(r"`([^`]+)`", row)}


def tox_environments() -> set[str]:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini")
    named = (name.removeprefix("testenv:") for name in config.sections() if name.startswith("testenv:"))
    return {each for name in named for each in expanded(name)}


def expanded(name: str) -> list[str]:
    """`unit-py3{11,12}` is two environments."""
    before, brace, rest = name.partition("{")
    inside, _, after = rest.partition("}")
    return [f"{before}{part}{after}" for part in inside.split(",")] if brace else [name]


def package_rows() -> list[list[str]]:
    lines = (ROOT / "ci" / "packages.txt").read_text().splitlines()
    return [line.split(maxsplit=3) for line in lines if line and not line.startswith("#")]


def tracked() -> list[Path]:
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]


def test_the_reference_lists_the_commands_that_exist() -> None:
    real = set(leaf_names(typer.main.get_command(app)))
    assert listed_commands() == real


@pytest.mark.slow
@pytest.mark.parametrize(("file", "block"), all_blocks("bash"))
def test_shell_blocks_parse_and_name_real_commands(file: str, block: str) -> None:
    subprocess.run(["bash", "-n"], input=block, text=True, check=True, timeout=10)
    for line in block.splitlines():
        words = shlex.split(line, comments=True)
        if not words:
            continue
        program = words[0].removeprefix(".venv/bin/")
        if program == "cephlab":
            named_command, rest = command(words[1:])
            known = {name for parameter in named_command.params for name in parameter.opts}
            unknown = [word for word in rest if word.startswith("--") and word not in known]
            assert unknown == [], f"{file}: {line}"
        elif program == "tox":
            assert set(words[words.index("-e") + 1].split(",")) <= tox_environments(), f"{file}: {line}"
        else:
            assert (ROOT / program).is_file(), f"{file}: {line}"


def test_there_are_shell_blocks_to_look_at() -> None:
    assert sum(block.count("cephlab") for _, block in all_blocks("bash")) >= 4


def test_the_settings_list_the_tox_environments_that_exist() -> None:
    table = (DOCS / "reference" / "settings.md").read_text().split("| environment |")[1].split("\n\n")[0]
    rows = [line.split("|")[1] for line in table.splitlines()[2:]]
    assert {name for row in rows for name in re.findall(r"`([\w-]+)`", row)} == tox_environments()


def test_the_settings_list_every_variable_that_a_page_names() -> None:
    listed = set(re.findall(r"^\| `(CEPHLAB_\w+)", (DOCS / "reference/settings.md").read_text(), re.MULTILINE))
    pages = "".join(path.read_text() for path in (*DOCS.glob("*.md"), *DOCS.glob("reference/*.md")))
    assert set(re.findall(r"CEPHLAB_[A-Z0-9_]+", pages)) - {"CEPHLAB_PLANTED"} <= listed


def test_readme_fits_on_two_screens() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 100


def test_readme_and_the_site_show_pictures_that_load_quickly() -> None:
    shown = [target for path in PROSE for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", path.read_text())]
    assert {Path(target).name for target in shown} == {path.name for path in (DOCS / "pictures").iterdir()}
    sizes = {path.name: path.stat().st_size for path in (DOCS / "pictures").iterdir()}
    assert {name: size for name, size in sizes.items() if not 1000 < size < LARGEST_PICTURE} == {}


@pytest.mark.parametrize("path", PROSE, ids=named)
def test_prose_has_no_long_lines(path: Path) -> None:
    """Tables of figures and what programs print cannot be wrapped; both stand under docs/measured."""
    text = path.read_text()
    if path.parent.name == "measured":
        text = re.sub(r"^```text\n.*?^```|^\|.*?$", "", text, flags=re.DOTALL | re.MULTILINE)
    assert [line for line in text.splitlines() if len(line) > LONGEST_LINE] == []


def test_the_glossary_has_the_nouns_of_the_design() -> None:
    design = (DOCS / "design.md").read_text()
    table = design[design.index("| noun |") :].split("\n\n")[0].splitlines()[2:]
    nouns = {row.split("|")[1].strip() for row in table}
    terms = set(re.findall(r"^### ([\w -]+)", (DOCS / "glossary.md").read_text(), re.MULTILINE))
    assert len(nouns) >= 10
    assert nouns - terms == set()


def test_the_glossary_has_every_ending_of_a_scenario() -> None:
    terms = re.findall(r"^### (.+)$", (DOCS / "glossary.md").read_text(), re.MULTILINE)
    assert {ending.value.capitalize() for ending in Ending} <= set(terms)
    assert len(terms) == len(set(terms))


def test_every_page_is_in_the_navigation() -> None:
    shown = re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert sorted(shown) == sorted(str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md"))


def test_the_design_shows_the_layers_that_are_enforced() -> None:
    text = (ROOT / "docs" / "design.md").read_text()
    table = text[text.index("| layer | parts |") :].split("\n\n")[0].splitlines()[2:]
    shown = [tuple(row.split("|")[2].strip().split(", ")) for row in table]
    assert [sorted(parts) for parts in shown] == [sorted(parts) for parts in LAYERS]


def test_the_release_example_is_a_recipe(tmp_path: Path) -> None:
    example = next(block for block in blocks(ROOT / "docs" / "adding.md", "toml") if "[releases." in block)
    recipes = tmp_path / "recipes.toml"
    recipes.write_text(RECIPES.read_text() + "\n" + example)
    assert "umbrella" in read_recipes(recipes).releases


@pytest.mark.parametrize("path", PROSE, ids=named)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)]+)\)", path.read_text()):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        linked = path.parent / file if file else path
        assert linked.exists(), f"{named(path)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", linked.read_text(), re.MULTILINE)
            anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in anchors, f"{named(path)}: {target}"


@pytest.mark.parametrize("path", PROSE, ids=named)
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
        assert set(re.split(r"[+,]", when)) <= CONDITIONS, row
        assert PROOF.fullmatch(proof), row
        assert len(reason.split()) >= 3, row
    assert len({(row[0], row[1]) for row in rows}) == len(rows)


def test_suites_with_kernels_of_their_own_are_those_that_bootstrap_has_packages_for() -> None:
    own = {Capability.OWN_KERNEL, Capability.POWER_CUT}
    scenarios = {name: import_module(f"cephlab.suites.{name}").SCENARIOS for name in suite_names()}
    wanting = {name for name, suite in scenarios.items() if any(own & scenario.needs for scenario in suite)}
    assert len(wanting) >= 3
    boots = {"hci"}  # its guests boot on a cluster's machine, without a network
    for package, wanted in (("kmod", wanting | boots), ("iproute2", wanting), ("util-linux", wanting)):
        (when,) = (row[1] for row in package_rows() if row[0] == package)
        assert set(when.split(",")) == {"test", "guests", "uml", "qemu", *wanted}


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
            r"(\$AS )?ci/(bootstrap|costs|summary|microceph|moved|track|lock) |ci/(lxd-runner|wheel)$"
            r"|ci/action/try$|\.venv/bin/(tox|cephlab) "
            r'|git diff --exit-code ci/requirements\.lock ci/gate\.lock$|echo "CEPHLAB_HOME=',
            line,
        )
    ]
    assert strange == []


def test_actions_of_others_are_named_by_commit_with_their_tag_beside() -> None:
    """A tag can be moved to other code by whoever can write to that repository; a commit is its content."""
    files = [*(ROOT / ".github" / "workflows").glob("*.yml"), *(ROOT / "ci" / "action").glob("**/action.yml")]
    used = [
        (path.name, line)
        for path in files
        for line in re.findall(r"^ *(?:- )?uses: (.*)$", path.read_text(), re.MULTILINE)
        if not line.startswith("./")
    ]
    assert len(used) >= 10
    assert [line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line[1])] == []


def locked(name: str) -> dict[str, str]:
    """Package -> version, of a lock in which each has hashes."""
    text = (ROOT / "ci" / f"{name}.lock").read_text()
    entries = re.findall(r"^([\w.-]+)==(\S+)([^\n]*(?:\n    --hash=sha256:[0-9a-f]{64}[ \\]*)+)", text, re.MULTILINE)
    versions = {package: version for package, version, _ in entries}
    assert len(entries) == len(versions) == len(re.findall(r"^[a-z]", text, re.MULTILINE)) > 50
    return versions


def test_the_locks_have_all_that_the_project_asks_for_with_hashes_and_in_range() -> None:
    described = tomllib.loads((ROOT / "pyproject.toml").read_text())
    optional = described["project"]["optional-dependencies"]
    run_time = [*described["build-system"]["requires"], *described["project"]["dependencies"]]
    run_time += [line for name, lines in optional.items() if name not in ("dev", "docs") for line in lines]
    others = [*optional["dev"], *optional["docs"]]
    whole, gate = locked("requirements"), locked("gate")
    # `ci/lock` mends what is named here.
    for versions, asked in ((whole, [*run_time, *others]), (gate, run_time)):
        wanted = map(Requirement, asked)
        assert [str(it) for it in wanted if versions.get(canonicalize_name(it.name), "") not in it.specifier] == []
    assert gate.items() < whole.items()
    assert not {"mypy", "playwright", "mkdocs", "tox"} & gate.keys()


def test_tox_installs_what_is_locked_and_nothing_else() -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(ROOT / "tox.ini")
    common = config["testenv"]
    assert (common["package"], common["deps"]) == ("skip", "-r {tox_root}/ci/requirements.lock")
    assert {"--no-deps", "--no-build-isolation"} < set(common["commands_pre"].split())
    own = {name for section in config.sections() if section != "testenv" for name in config[section]}
    assert own & {"deps", "extras", "package", "commands_pre", "install_command"} == set()


@pytest.mark.slow
def test_nothing_here_is_about_where_it_was_written() -> None:
    lines = []
    for path in tracked():
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1):
            if FORBIDDEN.search(line):
                lines.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()}")
    assert lines == []


def test_what_is_forbidden_is_seen() -> None:
    assert FORBIDDEN.search("see /wo" + "rk/main/x")
    assert FORBIDDEN.search("from py" + "pi.org")
    assert not FORBIDDEN.search("a framework/main thing")


@pytest.mark.parametrize(
    ("expression", "marks"),
    [
        ("not real and not slow", {"real", "slow"}),
        ("not bench", {"bench"}),
        ("real and not lxd", {"lxd"}),
        ("not real or slow", set()),
        ("not (real or bench)", set()),
        ("", set()),
    ],
)
def test_only_what_an_expression_surely_leaves_out_is_not_imported(expression: str, marks: set[str]) -> None:
    assert left_out(expression) == marks


def test_a_module_is_left_out_by_the_mark_of_all_its_tests_alone() -> None:
    assert marked_whole("pytestmark = pytest.mark.real\n") == {"real"}
    assert marked_whole("pytestmark = [\n    pytest.mark.slow,\n    pytest.mark.timeout(60),\n]\n") == {"slow"}
    assert marked_whole("@pytest.mark.real\ndef test_one() -> None: ...\n") == set()
