"""The `cephlab` command: what it offers and in which order; the work is in the modules beside it."""

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from cephlab.cli import clusters, compare, enter, gate, images, machine, measure, predict, tune, up
from cephlab.cli.output import Output
from cephlab.lab.base.errors import SpecError

NAME = "cephlab"

app = typer.Typer(
    name=NAME,
    help="Raise real Ceph clusters of mixed architecture, test them, and judge them by limits that scale.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)

MACHINE = "This machine"
CLUSTERS = "Clusters"
VERDICTS = "Verdicts"

app.command(rich_help_panel=MACHINE)(machine.doctor)
app.command(rich_help_panel=MACHINE)(machine.probe)
app.add_typer(images.app, name="image", rich_help_panel=MACHINE)
app.add_typer(tune.app, name="tune", rich_help_panel=MACHINE)
app.command(rich_help_panel=CLUSTERS)(up.up)
app.command(rich_help_panel=CLUSTERS)(clusters.ls)
app.command(rich_help_panel=CLUSTERS)(clusters.status)
app.command(rich_help_panel=CLUSTERS, context_settings=enter.PASS_THROUGH)(enter.ceph)
app.command(rich_help_panel=CLUSTERS, context_settings=enter.PASS_THROUGH)(enter.shell)
app.command(rich_help_panel=CLUSTERS)(enter.logs)
app.command(rich_help_panel=CLUSTERS)(clusters.down)
app.command(rich_help_panel=CLUSTERS)(clusters.prune)
app.command(rich_help_panel=VERDICTS)(measure.measure)
app.command(rich_help_panel=VERDICTS)(predict.predict)
app.command(rich_help_panel=VERDICTS)(predict.explain)
app.command("validate-model", rich_help_panel=VERDICTS)(predict.validate_model)
app.command(rich_help_panel=VERDICTS)(compare.compare)
app.command(rich_help_panel=VERDICTS)(gate.gate)
app.command("judge", rich_help_panel=VERDICTS)(gate.judge_again)
app.command(rich_help_panel=VERDICTS)(gate.report)
app.command(rich_help_panel=VERDICTS)(gate.summary)
app.command(rich_help_panel=VERDICTS)(gate.track)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"cephlab {version('cephlab')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Raise real Ceph clusters of mixed architecture, test them, and judge them by limits that scale."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command; ends the process with its exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.exit(run(given) if "--json" in given else app(args=given, prog_name=NAME))


def run(arguments: list[str]) -> int:
    """Run the command, and report wrong usage as JSON too. Returns the exit code."""
    try:
        return app(args=arguments, prog_name=NAME, standalone_mode=False) or 0
    except typer.TyperException as error:
        wrong = SpecError(error.format_message(), "", f"`{NAME} --help` lists the commands")
        Output(as_json=True).error(wrong)
        return wrong.exit_code
