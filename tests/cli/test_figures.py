"""Figures with a prefix of SI, and predictions with their intervals, on a narrow terminal too."""

import json
import os
import pty
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.figures import limit_lines, ratio_text, show_comparisons
from cephlab.cli.main import app
from cephlab.cli.output import Output
from cephlab.lab.base.home import HOME_VARIABLE
from cephlab.lab.base.numbers import si
from cephlab.tuning.references import FigureKind, Published
from cephlab.tuning.trust import LoadKind, Trust
from cephlab.tuning.validate import Comparison

NARROW = 80


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(HOME_VARIABLE, str(tmp_path / "home"))


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (176162, "ops/s", "176 kops/s"),
        (4.15091e9, "bytes/s", "4.15 GB/s"),
        (13265619406, "bytes/s", "13.3 GB/s"),
        (21718, "ops/s", "21.7 kops/s"),
        (12.345, "ops/s", "12.3 ops/s"),
        (0.00145, "s", "1.45 ms"),
        (0.0000205, "s", "20.5 us"),
        (4500, "s", "4,500 s"),
        (0.625, "share", "0.625"),
        (0, "ops/s", "0 ops/s"),
    ],
)
def test_a_figure_has_three_digits_and_a_prefix(value: float, unit: str, text: str) -> None:
    assert si(value, unit) == text


@pytest.mark.parametrize(
    ("ratio", "colour"), [(1.0, "green"), (0.81, "green"), (0.7, "yellow"), (2.5, "red"), (0.4, "red"), (0.0, "red")]
)
def test_a_ratio_shows_how_far_off_it_is(ratio: float, colour: str) -> None:
    assert str(ratio_text(ratio).style) == colour


def test_what_one_limit_holds_is_on_one_line() -> None:
    assert limit_lines("at depth", [("1", "too few operations in flight"), ("2", "n: CPU"), ("4", "n: CPU")]) == [
        "  limit at depth 1: too few operations in flight",
        "  limit at depth 2, 4: n: CPU",
    ]


def test_a_factor_is_explained_and_so_is_a_figure_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    published = Published(name="a", kind=FigureKind.CPU, value=2.0, unit="cores", where="here", beyond="no load")
    lone = Comparison("paper", published, 1.0, "n: CPU", "")
    known = replace(lone, trust=Trust(LoadKind.MIX, 2.2, 4))
    explained = "factor: 90 % of measured values lie between the prediction divided and multiplied by it"
    for rows, note in (
        ((known,), f"{explained}\n"),
        ((known, lone), f"{explained}; -: known for rates and latencies only\n"),
    ):
        show_comparisons(Output(as_json=False), rows)
        shown = capsys.readouterr().out
        assert shown.endswith(note)
        assert re.search(r"published +predicted +factor +ratio\b", shown)
        assert re.search(r"\b2\.20 +0\.50\b", shown)


@pytest.mark.slow
def test_a_prediction_has_its_interval_and_says_nothing_twice() -> None:
    asked = ["predict", "--profile", "kunpeng920"]
    done = CliRunner().invoke(app, asked)
    for kind in ("kops/s", "MB/s|GB/s", "ms|us"):
        assert re.search(rf"\d (?:{kind}) \(\d[\d.,]* \S+ to \d[\d.,]* \S+\)", done.stdout)
    notes = [line for line in done.stderr.splitlines() if line.startswith("not known")]
    assert notes
    assert len(notes) == len(set(notes))
    for made in json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)["predictions"]:
        for key in ("ops_s", "latency_s"):
            low, high = made["interval"][key]
            assert low < made[key] < high


@pytest.mark.slow
def test_other_machines_are_shown_beside_the_first_and_called_slower_only_where_intervals_are_apart() -> None:
    asked = ["predict", "--profile", "kunpeng920", "--op", "randread", "--compare", "ampere-altra-4n"]
    done = CliRunner().invoke(app, [*asked, "--compare", "incerta-3n"])
    assert done.exit_code == 0, done.output
    table = done.stdout[done.stdout.index("side by side:") :]
    (alike,) = [line for line in table.splitlines() if line.startswith("ampere-altra-4n ")]
    (slow,) = [line for line in table.splitlines() if line.startswith("incerta-3n ")]
    assert "slower" not in alike
    assert slow.rstrip().endswith(", slower")
    assert "incerta-3n is limited by: " in table
    ((other,),) = json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)["compared"]
    alone = json.loads(CliRunner().invoke(app, ["predict", "--profile", "ampere-altra-4n", "--json"]).stdout)
    assert other == next(made for made in alone["predictions"] if made["shape"]["operation"] == "randread")


def lines_on_a_terminal(*arguments: str) -> list[str]:
    """What a terminal of 80 columns gets."""
    shown = bytearray()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 4096)
        shown.extend(data)
        return data

    code = f"from cephlab.cli.main import main; main({list(arguments)!r})"
    environment = f"COLUMNS={NARROW}"
    saved = os.dup(1)
    try:
        with Path(os.devnull).open("w") as sink:
            os.dup2(sink.fileno(), 1)
            pty.spawn(["env", environment, "TERM=xterm", sys.executable, "-c", code], read)
    finally:
        os.dup2(saved, 1)
        os.close(saved)
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode()).splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "last_word"),
    [
        (("predict", "--profile", "kunpeng920", "--compare", "incerta-3n"), "client process"),
        (("predict", "--profile", "ampere-altra-4n", "--compare", "kunpeng920"), "client process"),
        (("predict", "--profile", "ampere-altra-4n", "--sweep", "depth"), "client process"),
        (("explain", "--profile", "ampere-altra-4n"), "upmap_max_deviation"),
        (("validate-model",), "cd8"),
    ],
)
def test_nothing_is_folded_at_80_columns(arguments: tuple[str, ...], last_word: str) -> None:
    lines = lines_on_a_terminal(*arguments)
    assert len(lines) > 20
    assert max(map(len, lines)) <= NARROW
    table = "\n".join(lines).split("rests on")[0]
    assert last_word in table, "nothing is cut off either"
    figures = [line for line in lines if re.search(r"\b\d+ ?(?:k?ops/s|[MG]B/s)", line)]
    assert len(figures) > 5
    cut = set(CliRunner().invoke(app, list(arguments)).stdout.split()) - set("\n".join(lines).split())
    assert not cut, "every word is whole"


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments", [("predict", "--profile", "nosuch"), ("profile", "show", "incerta-3n")], ids=" ".join
)
def test_words_are_whole_at_80_columns(arguments: tuple[str, ...]) -> None:
    lines = lines_on_a_terminal(*arguments)
    assert max(map(len, lines)) <= NARROW
    done = CliRunner().invoke(app, list(arguments))
    assert set((done.stdout + done.stderr).split()) <= set("\n".join(lines).split())


@pytest.mark.slow
def test_every_rate_has_its_interval_and_one_format() -> None:
    asked = ["predict", "--profile", "ampere-altra-4n", "--op", "randwrite"]
    done = CliRunner().invoke(app, [*asked, "--sweep", "depth"])
    assert len(re.findall(r"^\d+ +\S+ k?ops/s +\S+ k to \S+ k +█+ ", done.stdout, re.MULTILINE)) == 5
    assert re.search(r"work per watt of all nodes: \S+ ops/J \(\S+ ops/J to \S+ ops/J\)", done.stderr)
    published = done.stdout.split("compared with figures published")[1]
    assert re.search(r"random write, many clients +200 kops/s +\S+ kops/s +\d\.\d\d +", published)
    notes = [line for line in done.stderr.splitlines() if line.startswith("demands: ")]
    assert len(notes) == 1
    for figure in json.loads(CliRunner().invoke(app, [*asked, "--json"]).stdout)["published"]:
        if figure["kind"] in ("throughput", "latency"):
            low, high = figure["interval"]
            assert low < figure["predicted"] < high
