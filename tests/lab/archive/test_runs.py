"""Two runs beside each other, and the two architectures of one."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.lab.archive.archive import Archive, Ending, Record
from cephlab.lab.archive.runs import EndingChange, FigureRatio, compare_runs, parity
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.history.history import Event
from tests.lab.archive.test_archive import ENDED, MANIFEST, began, saw, sealed


def run(
    endings: dict[str, Ending], figures: tuple[Event, ...] = (), *, emulated: bool = False, **manifest: Any
) -> Archive:
    hosts = {
        "n0": {"arch": "x86_64", "emulated": False},
        "n1": {"arch": "x86_64", "emulated": False},
        "n2": {"arch": "aarch64", "emulated": emulated},
        "n3": {"arch": "aarch64", "emulated": emulated},
    }
    cluster = {"provider": "ssh", "hosts": hosts, "images": {}}
    records = tuple(Record(name, name.partition(".")[0], ending, f"why {name}") for name, ending in endings.items())
    return Archive(Path("/a"), {**MANIFEST, "clusters": [cluster], **manifest}, records, figures)


def figure(scenario: str, metric: str, value: float, half: float = 0.0, unit: str = "MiB/s") -> Event:
    data = {"metric": metric, "value": value, "low": value - half, "high": value + half, "unit": unit}
    return Event(scenario, 1.0, "figure", data)


def test_a_machine_may_have_a_hyphen_and_a_dot_in_its_name() -> None:
    archs = {"rack-1.x": "x86_64", "rack-1": "x86_64", "rack-2": "aarch64"}
    hosts = {name: {"arch": arch, "emulated": False} for name, arch in archs.items()}
    figures = (figure("a.b", "rate of rack-1.x", 9), figure("a.b", "rate of rack-2", 10))
    of_run = run({"a.b": Ending.PASS}, figures, clusters=[{"provider": "ssh", "hosts": hosts, "images": {}}])
    (pair,) = parity(of_run)
    assert (pair.metric, pair.before, pair.after) == ("rate of x86_64", 9, 10)
    other = run({"a.b": Ending.PASS}, (figure("a.b", "rate of rack-10", 9),), clusters=of_run.manifest["clusters"])
    assert parity(other) == ()


def test_nothing_before_and_nothing_after_is_the_same() -> None:
    runs = [run({"a.b": Ending.PASS}, (figure("a.b", "errors", value),)) for value in (0, 0, 3)]
    same, begun = (compare_runs(runs[0], after).figures[0] for after in runs[1:])
    assert (same.ratio, same.low, same.high, begun.ratio) == (1.0, 1.0, 1.0, math.inf)


def test_lines_are_compared_in_the_order_in_which_the_run_drew_them() -> None:
    lines = [{"panel": "p", "label": str(n), "points": [[0, 1], [1, 2]]} for n in range(12)]
    drawn = Event("a.b", 1.0, "series", {"title": "t", "axis": "depth", "lines": lines, "marks": {}, "words": ""})
    both = [run({"a.b": Ending.PASS}, (drawn,)) for _ in range(2)]
    assert [line.metric for line in compare_runs(*both).series] == [f"t: p, {n}" for n in range(12)]


@pytest.mark.parametrize(
    ("before", "after", "outcome", "changed"),
    [
        ({"a.b": Ending.PASS}, {"a.b": Ending.PASS}, Outcome.PASS, 0),
        ({"a.b": Ending.PASS}, {"a.b": Ending.FAIL}, Outcome.FAIL, 1),
        ({"a.b": Ending.PASS}, {"a.b": Ending.ERROR}, Outcome.FAIL, 1),
        ({"a.b": Ending.INCONCLUSIVE}, {"a.b": Ending.FAIL}, Outcome.FAIL, 1),
        ({"a.b": Ending.PASS, "a.c": Ending.PASS}, {"a.b": Ending.PASS}, Outcome.INCONCLUSIVE, 1),
        ({"a.b": Ending.PASS}, {"a.b": Ending.INCONCLUSIVE}, Outcome.INCONCLUSIVE, 1),
        ({"a.b": Ending.FAIL}, {"a.b": Ending.PASS}, Outcome.PASS, 1),
        ({"a.b": Ending.FAIL}, {"a.b": Ending.FAIL}, Outcome.PASS, 0),
        ({"a.b": Ending.PASS}, {"c.d": Ending.PASS}, Outcome.INCONCLUSIVE, 2),
        ({}, {}, Outcome.INCONCLUSIVE, 0),
    ],
)
def test_what_no_longer_passes_decides(
    before: dict[str, Ending], after: dict[str, Ending], outcome: Outcome, changed: int
) -> None:
    compared = compare_runs(run(before), run(after))
    assert (compared.verdict.outcome, len(compared.endings)) == (outcome, changed)


def test_what_the_runs_do_not_share_is_said() -> None:
    compared = compare_runs(run({}), run({}, release="tentacle", seed=8))
    assert compared.conditions == ("release: reef before, tentacle after", "seed: 7 before, 8 after")


def curve(title: str, *points: tuple[float, float], label: str = "measured", axis: str = "depth") -> Event:
    lines = [{"panel": "rate", "label": label, "points": [list(point) for point in points]}]
    return Event("a.b", 1.0, "series", {"title": title, "axis": axis, "lines": lines, "marks": {}, "words": ""})


def test_lines_of_both_runs_are_compared_point_by_point() -> None:
    """What one run has not drawn, or at other places, says nothing."""
    left = (curve("depth", (1, 100), (2, 200), (4, 300)), curve("only before", (1, 1), (2, 2)))
    right = (curve("depth", (1, 50), (2, 100), (4, 150), (8, 9)), curve("elsewhere", (1, 1), (2, 2)))
    (line,) = compare_runs(run({}, left), run({}, right)).series
    assert (line.scenario, line.metric) == ("a.b", "depth: rate, measured")
    assert (line.ratio, line.low, line.high) == pytest.approx((0.5, 0.5, 0.5))
    assert line.outcome is None
    noisy = (curve("depth", (1, 50), (2, 200), (4, 300)),)
    (line,) = compare_runs(run({}, left), run({}, noisy)).series
    assert line.low < line.ratio < 1 < line.high
    assert compare_runs(run({}, left), run({}, (curve("depth", (1, 50)),))).series == ()


def test_series_over_time_are_compared_by_tenths_of_their_scenario() -> None:
    """Two runs were looked at in other seconds, and one of them took twice as long."""
    left = curve("series of the cluster", *((5.0 * n, 100.0 + n // 2) for n in range(21)), axis="s")
    right = curve("series of the cluster", *((10.0 * n + 0.003, 50.0 + n // 4) for n in range(21)), axis="s")
    (line,) = compare_runs(run({}, (left,)), run({}, (right,))).series
    assert line.unit == "mean of 10 points"
    assert line.ratio == pytest.approx(0.49, abs=0.02)
    assert line.low <= line.ratio <= line.high
    gap = curve("series of the cluster", (0.0, 50.0), (10.0, 50.0), (100.0, 50.0), axis="s")
    (line,) = compare_runs(run({}, (left,)), run({}, (gap,))).series
    assert line.unit == "mean of 3 points"


def test_figures_of_both_runs_have_a_ratio_with_an_interval() -> None:
    left = (figure("a.b", "rate", 100.0, 10.0), figure("a.b", "only before", 1.0), figure("a.b", "exact", 4.0))
    right = (figure("a.b", "rate", 200.0, 20.0), figure("a.b", "exact", 5.0))
    rate, exact = compare_runs(run({}, left), run({}, right)).figures
    assert (rate.ratio, rate.exact) == (2.0, False)
    assert rate.low == pytest.approx(180 / 110)
    assert rate.high == pytest.approx(220 / 90)
    assert (exact.ratio, exact.low, exact.high, exact.exact) == (1.25, 1.25, 1.25, True)


def pair(x86_64: float, aarch64: float, half: float, *, emulated: bool = False) -> FigureRatio:
    figures = (
        figure("b.sum[on=aarch64]", "rate", aarch64, half),
        figure("b.sum[on=x86_64]", "rate", x86_64, half),
        figure("b.sum[on=x86_64]", "of one alone", 3.0),
    )
    (compared,) = parity(run({}, figures, emulated=emulated))
    return compared


@pytest.mark.parametrize(
    ("aarch64", "half", "outcome"),
    [
        (101.0, 2.0, Outcome.PASS),
        (70.0, 2.0, Outcome.FAIL),
        (140.0, 2.0, Outcome.FAIL),
        (108.0, 4.0, Outcome.INCONCLUSIVE),
        (100.0, 0.0, Outcome.INCONCLUSIVE),
    ],
)
def test_real_machines_get_a_verdict_by_the_interval(aarch64: float, half: float, outcome: Outcome) -> None:
    compared = pair(100.0, aarch64, half)
    assert (compared.before, compared.after, compared.outcome) == (100.0, aarch64, outcome)


def test_emulated_machines_get_figures_and_no_verdict() -> None:
    compared = pair(100.0, 7.0, 2.0, emulated=True)
    assert (compared.outcome, compared.why) == (None, "aarch64 is emulated: shown only")
    assert compared.ratio == pytest.approx(0.07)


def test_the_power_of_architectures_is_shown_and_not_judged() -> None:
    name = "operations of OSDs per watt by bmc"
    figures = (
        figure("b.w", f"x86_64: {name}", 143.0, unit="ops/J"),
        figure("b.w", f"aarch64: {name}", 222.0, unit="ops/J"),
    )
    (compared,) = parity(run({}, figures))
    assert (compared.outcome, round(compared.ratio, 2)) == (None, 1.55)


def test_machines_of_one_architecture_are_taken_together() -> None:
    values = {"n0": 100.0, "n1": 104.0, "n2": 51.0, "n3": 51.0}
    figures = tuple(figure("b.disk", f"{name}: sync writes", value, unit="1/s") for name, value in values.items())
    (compared,) = parity(run({}, figures))
    assert (compared.metric, compared.before, compared.after) == ("x86_64: sync writes", 102.0, 51.0)
    assert compared.ratio == pytest.approx(0.5)
    assert compared.low < 0.5 < compared.high


def test_both_ways_between_architectures_are_one_pair() -> None:
    names = ("from=x86_64,to=aarch64", "from=aarch64,to=x86_64")
    figures = tuple(
        figure(f"b.net[{name}]", "TCP", value, 1.0) for name, value in zip(names, (10.0, 20.0), strict=True)
    )
    (compared,) = parity(run({}, figures))
    assert (compared.scenario, compared.ratio) == ("b.net[from=x86_64,to=aarch64]", 2.0)


UNJUDGED: dict[str, Any] = {"least": None, "most": None, "why": "", "derivation": [], "low": 1.0, "high": 3.0}
"""What figures of these archives have alike."""


def archived(directory: Path, *lines: Any) -> str:
    sealed(directory, (Ending.PASS, (began(), *lines, saw(1), ENDED)))
    return str(directory)


def test_the_command_compares_two_archives(tmp_path: Path) -> None:
    old = archived(tmp_path / "a", ("figure", {**UNJUDGED, "metric": "sync on x86_64", "value": 2.0, "unit": "1/s"}))
    new = archived(tmp_path / "b", ("figure", {**UNJUDGED, "metric": "sync on x86_64", "value": 3.0, "unit": "1/s"}))
    ended = CliRunner().invoke(app, ["compare", old, new])
    assert ended.exit_code == 0, ended.stderr
    assert "pass: 1 scenario is in both runs, and all that passed before still pass" in ended.stdout
    told = json.loads(CliRunner().invoke(app, ["compare", old, new, "--json"]).stdout)
    assert [(figure["before"], figure["after"], figure["ratio"]) for figure in told["figures"]] == [(2.0, 3.0, 1.5)]
    assert CliRunner().invoke(app, ["compare", old, "--architectures"]).exit_code == 2, "it has one architecture alone"
    assert CliRunner().invoke(app, ["compare", old]).exit_code == 2
    assert CliRunner().invoke(app, ["compare", old, new, "--architectures"]).exit_code == 2


def test_the_command_cannot_tell_where_no_figure_of_both_architectures_is_judged(tmp_path: Path) -> None:
    values = [
        ("figure", {**UNJUDGED, "metric": f"p on {arch}", "value": 2.0, "unit": "W"}) for arch in ("x86_64", "aarch64")
    ]
    directory = archived(tmp_path / "a", *values)
    ended = CliRunner().invoke(app, ["compare", directory, "--architectures"])
    assert (ended.exit_code, ended.stderr) == (6, "")
    assert "inconclusive: no figure could be judged, see above" in ended.stdout
    told = json.loads(CliRunner().invoke(app, ["compare", directory, "--architectures", "--json"]).stdout)
    assert told["outcome"] == "inconclusive"


def ratio_of(before: tuple[Event, ...], after: tuple[Event, ...]) -> FigureRatio:
    (ratio,) = compare_runs(run({}, before), run({}, after)).figures
    return ratio


def test_a_figure_keeps_its_names_and_its_unit() -> None:
    left, right = (figure("a.b", "rate", value, unit="1/s") for value in (2.0, 3.0))
    assert ratio_of((left,), (right,)) == FigureRatio("a.b", "rate", "1/s", 2.0, 3.0, 1.5, 1.5, 1.5, exact=True)
    left, right = (figure("a.b", "rate", value, 0.5, unit="1/s") for value in (2.0, 3.0))
    expected = FigureRatio("a.b", "rate", "1/s", 2.0, 3.0, 1.5, 2.5 / 2.5, 3.5 / 1.5, exact=False)
    assert ratio_of((left,), (right,)) == expected
    assert compare_runs(run({}, (left,)), run({}, (figure("a.b", "rate", 3.0, unit="MiB/s"),))).figures == ()


def test_one_interval_alone_is_no_exact_ratio() -> None:
    ratio = ratio_of((figure("a.b", "rate", 2.0),), (figure("a.b", "rate", 3.0, 1.0),))
    assert (ratio.low, ratio.high, ratio.exact) == (1.0, 2.0, False)


@pytest.mark.parametrize(
    ("value", "half", "low", "high"),
    [
        (0.0, 0.0, math.inf, math.inf),
        (0.0, 0.5, 1 / 0.5, math.inf),
        (0.4, 0.4, 1 / 0.8, math.inf),
        (0.5, 0.25, 4 / 3, 12),
    ],
)
def test_a_ratio_to_nearly_nothing_has_no_end(value: float, half: float, low: float, high: float) -> None:
    after = figure("a.b", "rate", 2.0, 1.0 if half else 0.0)
    ratio = ratio_of((figure("a.b", "rate", value, half),), (after,))
    assert (ratio.low, ratio.high) == pytest.approx((low, high))


def test_what_is_below_nothing_has_no_least_ratio() -> None:
    below, above = ((figure("a.b", "rate", value, 1.0),) for value in (-2.0, 2.0))
    assert (ratio_of(below, above).low, ratio_of(below, above).high) == (0.0, math.inf)
    assert (ratio_of(above, below).low, ratio_of(above, below).high) == (-math.inf, math.inf)


def test_the_spread_of_several_machines_is_no_exact_ratio_and_keeps_its_names() -> None:
    values = {"n0": 100.0, "n1": 100.0, "n2": 50.0, "n3": 50.0}
    figures = tuple(figure("b.disk", f"{name}: sync writes", value, unit="1/s") for name, value in values.items())
    (ratio,) = parity(run({}, figures))
    assert (ratio.scenario, ratio.metric, ratio.unit) == ("b.disk", "x86_64: sync writes", "1/s")
    assert ratio.exact is False


def test_an_interval_that_ends_at_the_bound_is_no_difference() -> None:
    assert pair(100.0, 120.0, 0.0).outcome is Outcome.INCONCLUSIVE
    figures = (figure("b.sum[on=x86_64]", "rate", 10.0, 1.0), figure("b.sum[on=aarch64]", "rate", 13.0, 0.9))
    (ratio,) = parity(run({}, figures))
    assert ratio.low == pytest.approx(1.1)
    assert ratio.outcome is Outcome.INCONCLUSIVE


def test_every_condition_is_named_with_both_sides() -> None:
    def ran(arch: str, version: str, **manifest: Any) -> Archive:
        hosts = {"n0": {"arch": arch, "emulated": False}}
        cluster = {"provider": f"on {arch}", "hosts": hosts, "images": {arch: {"ceph_version": version}}}
        return Archive(Path("/a"), {**MANIFEST, "clusters": [cluster], **manifest}, (), ())

    host = {**MANIFEST["host"], "cores": 96, "arch": "aarch64", "system": "Debian"}
    left = ran("x86_64", "18.2.7", host={**host, "arch": "x86_64"}, commit="a", release="reef", tier="quick", seed=1)
    left = replace(left, manifest={**left.manifest, "profile": "mine", "changes": ["nodes.count=4", "nodes.cores=8"]})
    right = ran("aarch64", "20.2.0", host=host, commit=None, release="tentacle", tier="full", seed=2)
    assert compare_runs(left, right).conditions == (
        "commit: a before, unknown after",
        "release: reef before, tentacle after",
        "Ceph: 18.2.7 before, 20.2.0 after",
        "provider: on x86_64 before, on aarch64 after",
        "tier: quick before, full after",
        "seed: 1 before, 2 after",
        "architectures: x86_64 before, aarch64 after",
        "machine: x86_64, 96 cores, Debian before, aarch64, 96 cores, Debian after",
        "profile: mine before, none after",
        "changes to the profile: nodes.count=4, nodes.cores=8 before, none after",
    )


@pytest.mark.parametrize("kind", ["prediction", "requirement"])
def test_the_demands_of_two_runs_are_named_without_their_age(kind: str) -> None:
    def of(origin: str) -> Archive:
        return run({}, (Event("gate.profile", 1.0, kind, {"demands": origin}),))

    older, newer = of("measured here 2 days ago: reef.json"), of("measured here today: reef.json")
    assert compare_runs(older, newer).conditions == ()
    shipped = of("shipped with cephlab (reef-x86_64.json)")
    assert compare_runs(newer, shipped).conditions == (
        "demands: reef.json before, shipped with cephlab (reef-x86_64.json) after",
    )


def test_what_ended_otherwise_is_named_with_its_reason_and_the_rest_is_counted() -> None:
    before = run({"a.same": Ending.PASS, "a.bad": Ending.FAIL, "a.lost": Ending.PASS, "a.gone": Ending.PASS})
    after = run({"a.same": Ending.PASS, "a.bad": Ending.FAIL, "a.lost": Ending.FAIL, "a.new": Ending.PASS})
    compared = compare_runs(before, after)
    assert compared.same == 2
    assert compared.endings == (
        EndingChange("a.lost", Ending.PASS, Ending.FAIL, "why a.lost"),
        EndingChange("a.gone", Ending.PASS, None, "why a.gone"),
        EndingChange("a.new", None, Ending.PASS, "why a.new"),
    )


def test_a_pass_counts_the_scenarios_of_both_runs_alone() -> None:
    before = run({"a.same": Ending.PASS, "a.mended": Ending.FAIL})
    after = run({"a.same": Ending.PASS, "a.mended": Ending.PASS, "a.new": Ending.PASS})
    verdict = compare_runs(before, after).verdict
    assert verdict.reason == "2 scenarios are in both runs, and all that passed before still pass"


def test_points_at_nothing_have_no_ratio_and_small_ones_do() -> None:
    left = (curve("depth", (1, 0), (2, 5), (3, 0.5), (4, 0.5)),)
    right = (curve("depth", (1, 5), (2, 0), (3, 0.25), (4, 0.25)),)
    (line,) = compare_runs(run({}, left), run({}, right)).series
    assert (line.unit, line.before, line.after, line.exact) == ("mean of 2 points", 1.5, 1.375, False)
    assert line.ratio == pytest.approx(0.5)
    assert compare_runs(*(run({}, (curve("d", (1, 1), (2, y)),)) for y in (1e308, 5e-324))).series[0].high == math.inf


def test_a_line_with_too_few_points_hides_no_other() -> None:
    """Many of both, as the lines come in no order."""
    short = tuple(curve(f"short {number}", (1, 1)) for number in range(10))
    whole = tuple(curve(f"whole {number}", (1, 1), (2, 2)) for number in range(10))
    both = run({}, short + whole)
    assert len(compare_runs(both, both).series) == len(whole)


def test_a_run_without_clusters_has_no_provider_and_no_architecture() -> None:
    assert compare_runs(run({}), run({}, clusters=[])).conditions == (
        "provider: ssh before, none after",
        "architectures: aarch64, x86_64 before, none after",
    )


@pytest.mark.parametrize(
    ("x86_64", "aarch64", "low", "high"),
    [
        ((11.0, 1.0), (8.0, 1.0), 7 / 12, 0.9),
        ((9.0, 1.0), (12.0, 1.0), 1.1, 13 / 8),
        ((10.0, 0.0), (9.0, 1.0), 0.8, 1.0),
    ],
)
def test_an_interval_that_only_reaches_the_bound_decides_nothing(
    x86_64: tuple[float, float], aarch64: tuple[float, float], low: float, high: float
) -> None:
    (ratio,) = parity(run({}, (figure("b.x86_64", "rate", *x86_64), figure("b.aarch64", "rate", *aarch64))))
    assert (ratio.low, ratio.high, ratio.outcome) == (low, high, Outcome.INCONCLUSIVE)


def test_watts_are_not_judged() -> None:
    (ratio,) = parity(run({}, (figure("b.x86_64", "p", 9, 1, unit="W"), figure("b.aarch64", "p", 99, 1, unit="W"))))
    assert (ratio.outcome, ratio.why) == (None, "power differs by architecture: shown only")


def test_a_figure_of_two_runs_is_shown_without_a_verdict() -> None:
    ratio = ratio_of((figure("a.b", "rate", 2.0),), (figure("a.b", "rate", 3.0),))
    assert (ratio.outcome, ratio.why) == (None, "")


def test_runs_without_a_common_scenario_are_told_in_a_sentence(tmp_path: Path) -> None:
    old = archived(tmp_path / "a")
    sealed(tmp_path / "b")
    ended = CliRunner().invoke(app, ["compare", old, str(tmp_path / "b")])
    assert ended.exit_code == 2
    assert ended.stdout == ""
    assert "error: the two runs have no scenario in common" in ended.stderr


def test_a_side_that_is_not_there_is_named(tmp_path: Path) -> None:
    old = archived(tmp_path / "a")
    ended = CliRunner().invoke(app, ["compare", old, str(tmp_path / "nosuch")])
    assert ended.exit_code == 2
    assert "nosuch" in ended.stderr
    assert "does not exist" in ended.stderr
