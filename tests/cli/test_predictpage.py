"""`predict --output`: one page with each predicted figure, its interval, its limits, and what it rests on."""

import json
import re
from datetime import UTC, datetime
from html import unescape
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from cephlab.cli.answers import Answers
from cephlab.cli.main import app
from cephlab.cli.predictpage import page_of
from cephlab.cli.world import World
from cephlab.lab.base.numbers import si
from cephlab.tuning.profilefile import find_profile

EXAMPLE = str(Path(__file__).resolve().parents[2] / "examples/storage-3n.toml")
EVERYTHING = (
    *("--profile", EXAMPLE, "--op", "randwrite", "--set", "network.rtt=50 us"),
    *("--sweep", "nodes.count=3..5", "--compare", "ampere-altra-4n", "--recover", "4T"),
)
UNITS = (("ops_s", "ops/s"), ("latency_s", "s"))


def predict(world: World, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["predict", *arguments], obj=world)


def written(world: World, path: Path, *arguments: str) -> tuple[str, dict[str, Any]]:
    """The page, and what the command said of it as JSON."""
    result = predict(world, *arguments, "--output", str(path), "--json")
    assert result.exit_code == 0, result.output
    return path.read_text(), json.loads(result.stdout)


def rows_of(html: str) -> set[tuple[str, ...]]:
    """The rows of all tables, as their cells' text."""
    lines = re.findall(r"<tr>(<th scope=\"row\">.*?)</tr>", html)
    cells = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line) for line in lines]
    return {tuple(unescape(re.sub(r"<[^>]+>", "", cell)) for cell in row) for row in cells}


@pytest.mark.slow
def test_each_figure_is_on_the_page_with_its_interval_and_both_limits(world: World, tmp_path: Path) -> None:
    html, said = written(world, tmp_path / "page.html", "--profile", "ampere-altra-4n")
    rows = rows_of(html)
    assert len(said["predictions"]) == 2
    for made in said["predictions"]:
        for name, key, unit in (
            ("operations", "ops_s", "ops/s"),
            ("payload", "bytes_s", "bytes/s"),
            ("mean latency", "latency_s", "s"),
        ):
            low, high = made["interval"][key]
            assert low < made[key] < high
            assert (name, si(made[key], unit), f"{si(low, unit)} to {si(high, unit)}") in rows
        limit, too_little, _ = made["bottleneck"].partition(" (next limit: ")
        following = made["ceilings"][0 if too_little else 1]
        assert ("limit", limit, "") in rows
        assert ("next limit", following["resource"], f"allows {si(following['ops_s'], 'ops/s')}") in rows
    assert {bool("(next limit: " in made["bottleneck"]) for made in said["predictions"]} == {True, False}
    for figure in said["published"]:
        interval = " to ".join(si(end, figure["unit"]) for end in figure["interval"] or ())
        named = f"{figure['source']}: {figure['name']}"
        assert (
            named,
            si(figure["published"], figure["unit"]),
            si(figure["predicted"], figure["unit"]),
            interval,
        ) in rows
    assert said["page"] == str(tmp_path / "page.html")


@pytest.mark.slow
def test_the_page_says_what_it_rests_on_and_loads_nothing(world: World, tmp_path: Path) -> None:
    html, said = written(world, tmp_path / "page.html", "--profile", "ampere-altra-4n")
    text = unescape(html)
    profile = find_profile("ampere-altra-4n", world.home.profiles)
    explained = CliRunner().invoke(app, ["explain", "--profile", "ampere-altra-4n", "--json"], obj=world)
    steps = json.loads(explained.stdout)["steps"]
    assert said["demands"] in text
    assert all(figure.source in text for _, figure in profile.figures())
    doubts = [line for line in predict(world, "--profile", "ampere-altra-4n").stderr.splitlines() if line in text]
    assert {line.partition(": ")[0] for line in doubts} >= {"interval", "not known"}
    assert all(f"not known: {line}" in doubts for made in said["predictions"] for line in made["unknown"])
    assert len(steps) > 10
    assert all(step["how"] in text and step["value"] in text for step in steps)
    assert "<link" not in html
    assert not re.search(r"(?:src|href)=\"(?!#)", html)


def test_much_data_is_shown_in_the_unit_that_fits(world: World) -> None:
    for given, shown in (("5T", "5.498 TB"), ("1000000T", "1,100 PB"), ("20 EB", "20 EB")):
        disks = ("--set", "nodes.disks.size=100 EB")
        said = predict(world, "--profile", "ampere-altra-4n", "--op", "get", "--data", given, *disks)
        assert f"each, {shown} stored" in said.stdout


def test_the_page_says_when_and_by_which_cephlab_it_was_made(world: World) -> None:
    hardware = find_profile("ampere-altra-4n", world.home.profiles)
    answers = Answers(hardware, "shipped", [], [], None, [], [], [], [], "", None)
    html = page_of(answers, (), datetime(2026, 3, 4, 5, 6, 59, tzinfo=UTC))
    assert "<dt>made</dt><dd>2026-03-04 05:06 UTC</dd>" in html
    assert f"<dt>cephlab</dt><dd>{version('cephlab')}</dd>" in html


@pytest.mark.slow
def test_all_that_was_asked_for_is_on_the_page(world: World, tmp_path: Path) -> None:
    html, said = written(world, tmp_path / "page.html", *EVERYTHING)
    rows = rows_of(html)
    assert "<dd>network.rtt=50 us</dd>" in html
    points = said["sweep"][0]
    assert len(points) == 3
    for number, made in zip((3, 4, 5), points, strict=True):
        rate, latency = (" to ".join(si(end, unit) for end in made["interval"][key]) for key, unit in UNITS)
        wanted = (str(number), si(made["ops_s"], "ops/s"), rate, si(made["latency_s"], "s"), latency)
        assert any(row[:5] == wanted for row in rows)
    (drawn,) = [json.loads(data) for data in re.findall(r'<script type="application/json">(.*?)</script>', html)]
    assert [series["label"] for series in drawn["panels"][0]["series"]] == ["predicted", "low end", "high end"]
    low, high = ([[at, made["interval"]["ops_s"][end]] for at, made in enumerate(points, 3)] for end in (0, 1))
    assert [series["points"] for series in drawn["panels"][0]["series"][1:]] == [low, high]
    assert [row for row in rows if row[0] == "ampere-altra-4n"]
    assert {row[1:] for row in rows if row[0] in "345" and len(row) == 6 and "fail" in row}
    assert f"{said['recovery']['seconds']:,.0f} s, limit: " in html


@pytest.mark.slow
def test_a_requirement_that_cannot_be_judged_leaves_the_others(world: World, tmp_path: Path) -> None:
    profile = tmp_path / Path(EXAMPLE).name
    lines = Path(EXAMPLE).read_text().splitlines()
    profile.write_text("\n".join(line for line in lines if not line.startswith("power_")))
    asked = ("--profile", str(profile), "--op", "randwrite", "--sweep", "nodes.count=3..4", "--json")
    rows = json.loads(predict(world, *asked).stdout)["requirements"]
    assert [row["at"] for row in rows] == ["3", "4"]
    assert all(row["plug"].startswith("not judged: ") for row in rows)
    assert {row["vm-mix"] for row in rows} <= {"pass", "fail", "inconclusive"}


def test_without_a_page_there_is_none_to_open(world: World) -> None:
    result = predict(world, "--profile", "ampere-altra-4n", "--open")
    assert result.exit_code == 2
    assert "add --output page.html" in result.stderr


def test_a_page_is_not_written_as_another_format(world: World, tmp_path: Path) -> None:
    result = predict(world, "--profile", "ampere-altra-4n", "--output", str(tmp_path / "page.pdf"))
    assert result.exit_code == 2
    assert "got .pdf, wanted: .html" in result.stderr
    assert not list(tmp_path.glob("page*"))


@pytest.mark.slow
def test_the_page_is_opened_in_a_browser(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    result = predict(world, "--profile", "ampere-altra-4n", "--output", str(tmp_path / "page.html"), "--open")
    assert opened == [(tmp_path / "page.html").as_uri()]
    assert result.exit_code != 0  # this stand-in found no browser
    assert "open that file in a browser yourself" in result.stderr
