"""Which kept runs a cost is compared with: those alike and whole, and none that was red or broke off."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.costs import earlier_costs
from cephlab.lab.archive.durations import MOST_ARCHIVES
from cephlab.lab.history.history import Event
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.demandfile import Measurement, event_of
from tests.lab.telemetry.test_compare import measured

SCENARIO = "block.cost[op=randwrite,size=4KiB]"
MACHINE = {"cpu": "one", "cores": "one", "kernel": "one", "provider": "one", "disks": "one"}
PLACE = {**MACHINE, "operations": "1000"}


def here(seed: int = 1, conditions: Mapping[str, str] | None = None) -> Measurement:
    measurement = measured(seed, count=6)
    return replace(measurement, conditions={**PLACE, **(conditions or {})})


def keep(
    folder: Path, run: str, measurement: Measurement, *, ending: str = "pass", scenario: str = SCENARIO, **manifest: Any
) -> Path:
    """An archive, as far as it is read here."""
    archive = folder / run
    archive.mkdir(parents=True)
    known = {"state": "complete", "exit_code": 0, "started": "2026-11-26T10:00:00Z", **manifest}
    (archive / "manifest.json").write_text(json.dumps(known))
    (archive / "verdicts.json").write_text(json.dumps({"verdicts": [{"scenario": scenario, "ending": ending}]}))
    events = [Event(scenario, 1.0, "began", {}), Event(scenario, 2.0, "demand", event_of(measurement))]
    (archive / "history.jsonl").write_text("".join(f"{event.to_json()}\n" for event in events))
    return archive


def runs(folder: Path, now: Measurement, least: float = 200) -> list[str]:
    return [earlier.run for earlier in earlier_costs(folder, SCENARIO, now, least)]


def test_a_kept_run_is_found_with_its_time_and_all_that_it_measured(tmp_path: Path) -> None:
    assert earlier_costs(tmp_path / "none", SCENARIO, here(), 200) == []
    keep(tmp_path, "b", here(2), started="1970-01-02T00:00:00Z")
    keep(tmp_path, "a", here(3), ending="inconclusive", exit_code=6)
    first, second = earlier_costs(tmp_path, SCENARIO, here(), 200)
    assert (first.run, first.began_s, second.run) == ("b", 86400.0, "a")
    assert first.measured == here(2)


@pytest.mark.parametrize(
    "red",
    [
        {"exit_code": 1},
        {"exit_code": 3},
        {"exit_code": 130, "state": "interrupted"},
        {"exit_code": None, "state": "running"},
        {"exit_code": 0, "state": "interrupted"},
        {"ending": "fail"},
        {"ending": "error"},
        {"ending": "skip"},
        {"scenario": "profile.other"},
    ],
)
def test_a_run_that_was_red_or_interrupted_or_of_another_scenario_is_no_baseline(
    tmp_path: Path, red: dict[str, Any]
) -> None:
    keep(tmp_path, "red", here(2), **red)
    keep(tmp_path, "sound", here(2))
    assert runs(tmp_path, here()) == ["sound"]


@pytest.mark.parametrize("key", MACHINE)
def test_another_machine_or_provider_or_kind_of_disk_is_no_baseline(tmp_path: Path, key: str) -> None:
    keep(tmp_path, "other", here(2, {key: "two"}))
    assert runs(tmp_path, here()) == []
    assert runs(tmp_path, here(1, {key: "two"})) == ["other"]


def demanded(**changes: Any) -> Measurement:
    measurement = here(2)
    return replace(measurement, demand=replace(measurement.demand, **changes))


def another_operation() -> Measurement:
    return demanded(operation=replace(here().demand.operation, depth=99))


@pytest.mark.parametrize(
    "other",
    [
        lambda: demanded(release="squid"),
        lambda: demanded(arch=Arch.AARCH64),
        lambda: demanded(emulated=True),
        another_operation,
    ],
)
def test_another_release_architecture_or_operation_is_no_baseline(
    tmp_path: Path, other: Callable[[], Measurement]
) -> None:
    keep(tmp_path, "other", other())
    assert runs(tmp_path, here()) == []


def test_nothing_is_compared_with_an_emulated_measurement(tmp_path: Path) -> None:
    keep(tmp_path, "kept", here(2))
    assert runs(tmp_path, demanded(emulated=True)) == []


def test_builds_of_a_release_are_alike_and_pulled_images_only_if_equal(tmp_path: Path) -> None:
    keep(tmp_path, "kept", here(2))
    assert runs(tmp_path, demanded(image="a newer build")) == ["kept"]
    pulled = demanded(release="unknown", image="an id")
    keep(tmp_path, "pulled", pulled)
    assert runs(tmp_path, pulled) == ["pulled"]
    assert runs(tmp_path, demanded(release="unknown", image="another")) == []


def test_few_operations_are_no_baseline(tmp_path: Path) -> None:
    keep(tmp_path, "few", here(2, {"operations": "199.5"}))
    keep(tmp_path, "enough", here(2, {"operations": "200"}))
    assert runs(tmp_path, here()) == ["enough"]


def test_what_cannot_be_read_is_left_out_and_does_not_hide_the_rest(tmp_path: Path) -> None:
    (keep(tmp_path, "a", here(2)) / "manifest.json").write_text("{")
    (keep(tmp_path, "b", here(2)) / "history.jsonl").unlink()
    (keep(tmp_path, "c", here(2)) / "verdicts.json").write_text("[]")
    history = keep(tmp_path, "d", here(2)) / "history.jsonl"
    history.write_text(history.read_text().replace('"costs"', '"of another version"'))
    keep(tmp_path, "e", here(2), started="yesterday")
    keep(tmp_path, "f", replace(here(2), conditions=MACHINE))
    keep(tmp_path, "g", here(2))
    assert runs(tmp_path, here()) == ["g"]


def test_only_the_newest_archives_are_read(tmp_path: Path) -> None:
    keep(tmp_path, "0-first", here(2))
    for number in range(MOST_ARCHIVES - 1):
        (tmp_path / f"1-{number}").mkdir()
        (tmp_path / f"1-{number}" / "verdicts.json").write_text("{}")
        (tmp_path / f"1-{number}" / "manifest.json").write_text('{"started": "2026-11-26T11:00:00Z"}')
    assert runs(tmp_path, here()) == ["0-first"]
    keep(tmp_path, "2-last", here(2), started="2026-11-26T12:00:00Z")
    assert runs(tmp_path, here()) == ["2-last"]
