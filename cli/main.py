"""The `cephlab` command: its commands and their order in the help. The other modules here do the work."""

import codecs
import locale
import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from cephlab.cli import (
    archives,
    clusters,
    compare,
    enter,
    gate,
    images,
    imports,
    machine,
    measure,
    predict,
    profiles,
    report,
    series,
    spec,
    track,
    tune,
    up,
    validatemodel,
)
from cephlab.cli.conventions import Command, Group, wrong_use
from cephlab.cli.output import DEBUG_VARIABLE, Output, machine_refused
from cephlab.cli.streams import Unwritten
from cephlab.lab.base.errors import LabError, SpecError

NAME = "cephlab"

app = typer.Typer(
    name=NAME,
    cls=Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

MACHINE = "This machine"
CLUSTERS = "Clusters"
TESTS = "Tests and verdicts"
MODEL = "Model and measurements"

COMMANDS = (
    (MACHINE, "doctor", machine.doctor),
    (MACHINE, "probe", machine.probe),
    (CLUSTERS, "up", up.up),
    (CLUSTERS, "ls", clusters.ls),
    (CLUSTERS, "status", clusters.status),
    (CLUSTERS, "ceph", enter.ceph),
    (CLUSTERS, "shell", enter.shell),
    (CLUSTERS, "logs", enter.logs),
    (CLUSTERS, "down", clusters.down),
    (CLUSTERS, "prune", clusters.prune),
    (TESTS, "gate", gate.gate),
    (TESTS, "judge", report.judge_again),
    (TESTS, "report", report.report),
    (TESTS, "summary", report.summary),
    (TESTS, "compare", compare.compare),
    (TESTS, "track", track.track),
    (MODEL, "measure", measure.measure),
    (MODEL, "predict", predict.predict),
    (MODEL, "explain", predict.explain),
    (MODEL, "validate-model", validatemodel.validate_model),
    (MODEL, "series", series.series),
)
PASSING_ON = ("ceph", "shell")

for panel, name, command in COMMANDS:
    settings = enter.PASS_THROUGH if name in PASSING_ON else None
    app.command(name, cls=Command, rich_help_panel=panel, context_settings=settings)(command)
for panel, group in (
    (MACHINE, images.app),
    (MACHINE, tune.app),
    (CLUSTERS, spec.app),
    (TESTS, archives.app),
    (TESTS, imports.app),
    (MODEL, profiles.app),
):
    app.add_typer(group, cls=Group, rich_help_panel=panel)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"cephlab {version('cephlab')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Raise real Ceph clusters of mixed architecture, run tests on them, and report a verdict for each."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process with its exit code, also where the end of its result cannot be written."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        code = run(words)
        sys.stdout.flush()
    except Unwritten as error:
        Output(as_json=False).error(error)
        code = error.exit_code
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command, and report usage errors like all other errors. Returns the exit code."""
    try:
        _refuse_encoding(locale.getpreferredencoding(False))
        return app(args=arguments, prog_name=NAME, standalone_mode=False) or 0
    except SpecError as error:
        wrong: LabError = error
    except typer.TyperException as error:
        if _asks_for_help(error):
            return SpecError.exit_code
        wrong = _too_early(arguments) or wrong_use(error, _meant(arguments))
    except OSError as error:  # outside any command: of help, or of what --install-completion writes
        if os.environ.get(DEBUG_VARIABLE) == "1":
            raise
        wrong = machine_refused(error)
    Output(as_json="--json" in arguments).error(wrong)
    return wrong.exit_code


def _refuse_encoding(encoding: str) -> None:
    """SpecError where text is read and written as anything but UTF-8: files and pages of cephlab are UTF-8."""
    if codecs.lookup(encoding).name != "utf-8":
        hint = "set PYTHONUTF8=1, or a locale of UTF-8, such as LC_ALL=C.UTF-8"
        raise SpecError("the locale is not one of UTF-8", f"its encoding: {encoding}", hint)


def _too_early(arguments: Sequence[str]) -> SpecError | None:
    """The error for an option of a command that was given before the command, if one was."""
    first = next(iter(arguments), "")
    rest = arguments[1:]
    if not first.startswith("-") or _meant(rest) == NAME:
        return None
    hint = f"write it after the command: `{_meant(rest)} {first}`"
    return SpecError(f"{first} was given before the command", "", hint)


def _meant(arguments: Sequence[str]) -> str:
    """The command that the arguments begin with, including subcommands."""
    path = [NAME]
    below = getattr(typer.main.get_command(app), "commands", {})
    for word in arguments:
        if word not in below:
            break
        path, below = [*path, word], getattr(below[word], "commands", {})
    return " ".join(path)


def _asks_for_help(error: typer.TyperException) -> bool:
    """Whether a group of commands was called without a command; typer has printed the help by now."""
    return type(error).__name__ == "NoArgsIsHelpError"
