"""Help and wrong use as a person meets them: plain placeholders, an example that works, and one shape of errors."""

import itertools
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperOption
from typer.testing import CliRunner

from cephlab.cli.main import NAME, app, run
from cephlab.cli.manpage import page

Path = tuple[str, ...]

SAYING = ("ARCH", "NAME", "OP", "RELEASE", "SIZE")
"""Names of options that say by themselves what the value is."""


def leaves(command: Any = None, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every command that does something, with its words."""
    command = command or typer.main.get_command(app)
    for name, below in getattr(command, "commands", {}).items():
        yield from leaves(below, (*path, name))
    if not hasattr(command, "commands"):
        yield path, command


COMMANDS = dict(leaves())


def shown(path: Path, columns: int = 80) -> str:
    environment = {"COLUMNS": str(columns), "TERM": "dumb"}
    return CliRunner().invoke(app, [*path, "--help"], prog_name=NAME, env=environment).stdout


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_help_is_cut_on_a_narrow_terminal(path: Path) -> None:
    assert "…" not in shown(path, columns=60)


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_help_has_placeholders_of_one_style_and_fits_a_terminal(path: Path) -> None:
    text = shown(path)
    assert f"Usage: {NAME} {' '.join(path)} [OPTIONS]" in text
    assert not re.search(r"<[a-z\[\] ]+>|\{[A-Z]|\[\[", text)
    flags = [
        param.name.upper().replace("_", "-") for param in COMMANDS[path].params if getattr(param, "is_flag", False)
    ]
    assert flags
    assert not re.search(rf"--\S+ +(?:{'|'.join(flags)}) ", text), "a flag takes no value"
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"^│ [* ]? +[a-z]+ ", text.partition("Arguments")[2].partition("╰")[0], re.MULTILINE)
    assert "…" not in text, "nothing is cut off"
    assert "[default" not in text
    assert "default:" not in text, "a default is a sentence: Default: 1."
    above = [line.strip() for line in text.partition("╭")[0].splitlines()]
    for line, after in itertools.pairwise(above):
        assert not (line and after) or len(f"{line} {after.split()[0]}") > 78, f"{line!r} is broken early"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_no_placeholder_only_repeats_its_option(path: Path) -> None:
    options = [
        param for param in COMMANDS[path].get_params(typer.Context(COMMANDS[path])) if isinstance(param, TyperOption)
    ]
    repeated = {option.metavar for option in options if option.metavar and f"--{option.metavar.lower()}" in option.opts}
    assert options
    assert repeated <= set(SAYING), "say what the value is, such as FILE or ARCHIVE, or which values there are"


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_each_help_has_an_example_that_is_understood(path: Path) -> None:
    lines = [line.strip() for line in COMMANDS[path].help.splitlines()]
    [example] = [line.removeprefix("Example: ") for line in lines if line.startswith("Example: ")]
    name, *words = shlex.split(example)
    assert name == NAME
    assert tuple(words[: len(path)]) == path
    COMMANDS[path].make_context(name, words[len(path) :], resilient_parsing=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        (["down"], "missing argument 'NAME'"),
        (["up", "--nodse", "x"], "no such option: --nodse"),
        (["spec", "init", "x.toml", "--spec", "y.toml"], "no such option: --spec"),
        (["dwn"], "no such command 'dwn'. Did you mean 'down'?"),
        (["up", "--timeout", "-1"], "invalid value for '--timeout'"),
        (["gate", "--tier", "slow"], "--tier: 'slow' is not known"),
        (["gate", "--suite", "moon"], "there is no suite 'moon'"),
    ],
)
def test_wrong_use_has_the_shape_of_every_error(
    arguments: list[str], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    lines = [line for line in said.err.splitlines() if line]
    assert lines[0].startswith(f"error: {what}")
    assert lines[-1].startswith("hint: ")
    assert all(line.startswith("  ") for line in lines[1:-1])
    assert "Usage" not in said.err + said.out
    assert run([*arguments, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["what"].startswith(what)


@pytest.mark.parametrize(
    ("arguments", "detail"),
    [
        (["gate", "-j", "x"], "got: 'x'; wanted: a whole number"),
        (["gate", "-j", "-1"], "got: '-1'; wanted: 0 or more"),
        (["up", "--timeout", "long"], "got: 'long'; wanted: a number"),
        (["predict", "--hit-ratio", "nan"], "got: 'nan'; wanted: a finite number, 0 or more, 1 or less"),
        (["measure", "--within", "1e999"], "got: '1e999'; wanted: a finite number, 0.1 or more"),
    ],
)
def test_a_value_that_is_none_is_told_with_what_was_wanted(
    arguments: list[str], detail: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    what, told, _hint = capsys.readouterr().err.splitlines()
    assert what.startswith(f"error: invalid value for '{arguments[1]}'")
    assert told.strip() == detail


def test_no_number_of_any_command_may_be_endless(capsys: pytest.CaptureFixture[str]) -> None:
    options = [
        (path, param.opts[0])
        for path, command in COMMANDS.items()
        for param in command.params
        if isinstance(param, TyperOption) and param.type_descriptor.annotation is float
    ]
    assert {("measure",), ("predict",), ("probe",), ("tune", "measure"), ("up",)} <= {path for path, _ in options}
    for (path, option), given in itertools.product(options, ("nan", "-inf", "1e999")):
        assert run([*path, option, given]) == 2
        said = capsys.readouterr().err
        assert f"error: invalid value for '{option}'\n  got: '{given}'; wanted: a finite number" in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (["predict", "--profile", "kunpeng920", "--ec", "4+2", "--stripe-unit", "x"], ["--stripe-unit: 'x' is not"]),
        (["predict", "--profile", "kunpeng920", "--bs", "x"], ["--bs: 'x' is not a size", "wanted e.g. 4k"]),
        (["predict", "--profile", "kunpeng920", "--ec", "x"], ["--ec: 'x' is not K+M", "wanted e.g. 4+2"]),
        (["predict", "--profile", "kunpeng920", "--data", "4Q"], ["--data: '4Q' is not a size", "KB ... EB", "4T"]),
        (["predict", "--profile", "kunpeng920", "--recover", "0"], ["--recover: '0' is not a size", "above 0"]),
        (["up", "--disk-size", "4Q"], ["--disk-size: '4Q' is not a size", "k, M, G, T, in powers of 1024", "10GiB"]),
        (["measure", "--size", "4Q"], ["--size: '4Q' is not a size", "k, M, G, T, in powers of 1024"]),
        (["up", "--nodes", "x86_64,"], ["--nodes: '' is not ARCH:COUNT", "got no architecture"]),
        (["up", "twice", "more"], ["got unexpected extra arguments", "twice more"]),
        (["up", "more"], ["got unexpected extra argument\n", "more"]),
        (["spec", "init", "/dev/shm/no.toml", "--release", "moon"], ["unknown release 'moon'"]),
        (["judge", __file__], ["is not an archive"]),
        (["tune", "check", "--may-break"], ["see `cephlab tune check --help`"]),
        (["predict", "--profile", "/nosuch/file"], ["/nosuch/file cannot be read\n  No such file or directory"]),
        (["image", "build", "reef", "--snapshot", "x"], ["'--snapshot'", "got: 'x'; wanted: a date, such as 2024-02"]),
    ],
)
def test_a_value_with_a_form_is_told_with_its_option_and_the_form(
    arguments: list[str], lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr().err
    assert all(line in said for line in lines), said


@pytest.mark.parametrize("arguments", [[], ["image"], ["tune"]], ids=str)
def test_a_command_without_its_command_shows_its_help(arguments: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    said = capfd.readouterr()
    assert "Usage: cephlab" in said.out + said.err
    assert "error:" not in said.out + said.err


@pytest.mark.slow
def test_the_command_is_also_the_package_run_by_python() -> None:
    done = subprocess.run([sys.executable, "-m", NAME, "gat"], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "no such command 'gat'" in done.stderr


def test_the_manual_page_is_that_of_today_and_troff_has_nothing_to_say_of_it() -> None:
    kept = pathlib.Path(__file__).parents[2] / "ci" / "man" / "cephlab.1"
    assert kept.read_text() == page(), "write it again: python -m cephlab.cli.manpage >ci/man/cephlab.1"
    if shutil.which("groff"):
        done = subprocess.run(["groff", "-man", "-ww", "-z", str(kept)], capture_output=True, text=True, check=True)
        assert done.stderr == ""


@pytest.mark.slow
def test_a_command_starts_without_what_few_of_them_take() -> None:
    """Numpy and scipy took half of the time in which a command starts, the shell's completion included."""
    look = "import sys, cephlab.cli.main; print(*{'numpy', 'scipy', 'docker', 'jinja2', 'pytest'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout == "\n"


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("image build", "RELEASE"),
        ("image kernel", "NAME"),
        ("probe", "DIR|DEVICE"),
        ("tune measure", "--output DIR"),
        ("measure", "Ctrl-C removes everything"),
        ("gate", "--scenarios -k EXPR"),
        ("up", "HEALTH_OK; longer for emulated nodes. Default: 120."),
        ("logs", "Daemon, e.g. osd.0. Default: all."),
    ],
)
def test_help_says_what_a_value_is_and_its_default(path: str, words: str) -> None:
    text = " ".join(shown(tuple(path.split())).replace("│", " ").split())
    assert words in text
    assert "^C" not in text
