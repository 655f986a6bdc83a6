"""A gate with a profile: predictions that say where they are from, and who vouches for which claim."""

from __future__ import annotations

import html
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from cli.gate import chosen, expectation_page
from fixtures.expectation import SCENARIO, claims, demands_for, note_expectations, shapes_of
from lab.archive import Ending, Record, Writer, read_archive
from lab.history import History
from lab.home import Home
from lab.report import render_report
from lab.series import record_demand
from lab.telemetry.demandfile import Measurement
from tests.test_archive import MANIFEST
from tuning.demandsets import find_demands
from tuning.profilefile import find_profile

PASSED = Record(
    scenario="interop.rbd", suite="interop", ending=Ending.PASS, reason="", derivation=(), began_s=0.0, seconds=1.0
)


ALTRA = "ampere-altra-4n"
ONE_MACHINE = "ci-hosted-x86"


@cache
def expected(profile: str) -> History:
    """What a gate with that profile notes where nothing was measured: worked out once, which takes its time."""
    history, home = History(), Home(Path("no home"))
    note_expectations(history, find_profile(profile, home.profiles), home, [PASSED])
    return history


def test_predictions_and_claims_go_into_the_history() -> None:
    history = expected(ALTRA)
    made = [event.data for event in history.events(SCENARIO) if event.kind == "prediction"]
    assert len(made) == 4
    assert all(one["ops_s"] > 0 and one["bottleneck"] for one in made if "ops_s" in one)
    assert any("ops_s" in one for one in made)
    assert "shipped" in made[0]["demands"]
    said = {event.data["by"] for event in history.events(SCENARIO) if event.kind == "claim"}
    assert said == {"lab", "demand", "model", "nobody"}


def noted(name: str, kind: str) -> list[dict[str, Any]]:
    return [dict(event.data) for event in expected(name).events(SCENARIO) if event.kind == kind]


def test_each_prediction_has_its_limits_with_their_derivation() -> None:
    made = [one for one in noted(ALTRA, "prediction") if "ops_s" in one]
    for one in made:
        rate, latency = one["limits"]
        assert rate["low"] <= one["ops_s"] / 2
        assert latency["high"] >= one["latency_s"] * 2
        assert rate["derivation"][-1].startswith("limit: ")
    page = expectation_page(made)
    assert f"at least {made[0]['limits'][0]['low']:,.6g} ops/s" in page
    assert made[0]["limits"][0]["derivation"][-1] in page
    assert made[0]["limits"][1]["derivation"][-1] in page


def test_a_gate_says_how_long_a_lost_node_may_take() -> None:
    [found] = noted(ALTRA, "recovery")
    [limit] = found["limits"]
    assert limit["high"] >= 2 * found["seconds"] > 0
    assert f"at most {limit['high']:,.6g} s" in expectation_page([found])
    said = [one["text"] for one in noted(ALTRA, "claim") if one["by"] == "model"]
    assert any("Time to recover" in text for text in said)


def test_one_machine_alone_has_nothing_to_recover_from() -> None:
    [found] = noted(ONE_MACHINE, "recovery")
    assert "seconds" not in found
    assert f"not predicted for ci-hosted-x86, recovery of a node: {found['unknown']}" in expectation_page([found])


@pytest.mark.parametrize(
    ("name", "operations"),
    [
        ("rhcs-10b-6n", {"get", "put"}),
        ("ampere-altra-4n", {"get", "randread", "randwrite"}),
        ("ci-hosted-x86", {"randread", "randwrite", "read", "write"}),
    ],
)
def test_a_profile_is_asked_for_what_its_cluster_is_for(tmp_path: Path, name: str, operations: set[str]) -> None:
    shapes = shapes_of(find_profile(name, tmp_path))
    assert {shape.operation for shape in shapes} == operations
    assert len(shapes) == len(set(shapes))


def test_what_did_not_pass_is_not_claimed(tmp_path: Path) -> None:
    profile = find_profile("ampere-altra-4n", Home(tmp_path).profiles)
    text = dict(claims(profile, [replace(PASSED, ending=Ending.FAIL)]))["lab"]
    assert "nothing that ran" in text
    assert "interop" in dict(claims(profile, [PASSED]))["lab"]


def test_demands_of_the_run_need_this_machines_speed(tmp_path: Path) -> None:
    home = Home(tmp_path)
    shipped, _ = find_demands(home.demands)
    history = History()
    record_demand(history.recorder("block.cost"), Measurement(shipped[0]))
    _, origin = demands_for(history.events(), home)
    assert "measured in this run" not in origin


def test_a_profile_brings_the_suite_that_measures_costs() -> None:
    assert chosen((), tier="quick", everything=False) == ("interop",)
    assert chosen((), tier="quick", everything=False, costs="pve-epyc-3n") == ("interop", "block")
    assert chosen(("baseline",), tier="quick", everything=False, costs="pve-epyc-3n") == ("baseline",)


def test_predictions_are_lines_below_the_verdicts() -> None:
    known = {
        "profile": "p",
        "shape": "randread",
        "ops_s": 1000.0,
        "latency_s": 0.002,
        "bottleneck": "cpu",
        "demands": "shipped",
    }
    text = expectation_page([known, {"profile": "p", "shape": "write", "unknown": "nothing measured"}])
    assert "1,000/s after 2 ms, limit: cpu" in text
    assert "not predicted for p, write: nothing measured" in text
    assert expectation_page([]) == ""


def reported(directory: Path, profile: str) -> str:
    """The page of a run that had nothing but expectations, as its reader sees it."""
    writer = Writer(directory / "a", MANIFEST)
    for event in expected(profile).events(SCENARIO):
        writer.history.record(event.scenario, event.kind, event.data)
    writer.save()
    return " ".join(html.unescape(render_report(read_archive(directory / "a"))).split())


def test_the_report_shows_what_the_hardware_is_held_to_and_why(tmp_path: Path) -> None:
    text = reported(tmp_path, ALTRA)
    held = [limit for event in expected(ALTRA).events(SCENARIO) for limit in event.data.get("limits", ())]
    assert {limit["metric"].split(" of ")[0] for limit in held} == {"throughput", "mean latency", "time to recover"}
    for limit in held:
        bound = limit["high"] if limit["low"] is None else limit["low"]
        assert f"{bound:,.6g} {limit['unit']}" in text
        assert all(" ".join(step.split()) in text for step in limit["derivation"])


def test_a_reports_recovery_that_cannot_be_said_says_why(tmp_path: Path) -> None:
    [found] = noted(ONE_MACHINE, "recovery")
    assert found["unknown"] in reported(tmp_path, ONE_MACHINE)
