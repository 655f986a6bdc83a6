"""Jobs at a lab's size: what shrinks, what stays apart, what is refused, and what counts after the ramp."""

from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.history.history import History
from cephlab.lab.jobs.jobfile import Job, load_job
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.workloads.s3load import S3Operation, S3Result
from cephlab.suites.block.scale import Scale
from cephlab.suites.job import PAPERS, SCENARIOS, objects
from cephlab.suites.job.blocks import settings_of
from cephlab.suites.job.scenarios import scenarios_of

JOBS = {path.stem: load_job(path) for path in PAPERS}
LARGE = JOBS["rhcs-10b-large"].objects[2]


def test_a_lab_takes_less_of_everything_and_says_so() -> None:
    part = objects.scaled(LARGE, Scale(), 1)
    load = part.load
    assert load.sizes == ((10_000_000, 10_000_000, 1.0),)
    assert load.buckets * load.objects * 10_000_000 <= 2 * objects.HELD_BYTES
    assert load.buckets * load.objects > load.workers
    assert (load.workers, load.runtime_s) == (8, 18.0)
    assert "of 24000 objects" in part.words
    assert "of 1800 s" in part.words


def test_machines_of_the_profile_run_it_as_it_is_written() -> None:
    part = objects.scaled(LARGE, Scale(1e12, at_length=True), 1)
    assert (part.load.objects, part.load.workers, part.load.runtime_s) == (24000, 32, 1800)
    assert part.load.sizes == LARGE.sizes


def test_a_load_that_fills_nothing_begins_with_empty_buckets() -> None:
    load = objects.scaled(JOBS["rhcs-10b-small"].objects[0], Scale(), 1).load
    assert load.unfilled
    assert load.operations == load.buckets * load.objects
    assert load.over["put"].in_order


@pytest.mark.parametrize("fewer", [2, 10, 500, 999, 1000])
def test_ranges_that_are_apart_stay_apart(fewer: int) -> None:
    (first, last, _), (begin, end, _) = objects.shrunk([(1, 500, 1.0), (501, 1000, 1.0)], 1000, fewer)
    assert 1 == first <= last < begin <= end == fewer


def done(kinds: dict[str, int], began_s: float = 10.0) -> S3Result:
    times = [
        S3Operation("run", kind, 0, "/b/o", 1, 9, at, at, at + 0.5, True, "")
        for kind, count in kinds.items()
        for at in (began_s + number for number in range(count))
    ]
    return S3Result(tuple(times), (), 0, 10.0, 1.0)


@pytest.mark.parametrize(("count", "outcome"), [(30, Outcome.PASS), (12, Outcome.INCONCLUSIVE)])
def test_only_what_came_after_the_ramp_counts(count: int, outcome: Outcome) -> None:
    recorder = History().recorder("job.plan")
    objects.note(recorder, LARGE, done({"get": count}), "a plan", rampup_s=5.0)
    assert CHECKS["figures"](recorder.events()).outcome is outcome
    rate = next(event.data for event in recorder.events() if event.data.get("metric") == "mixed: get")
    assert rate["value"] == pytest.approx((count - 5) / (count - 6 + 0.5))


@pytest.mark.parametrize(("count", "runtime_s"), [(10, None), (5, 4.0), (3, 20 / 3), (0, 8.0)])
def test_a_busy_machine_gets_more_time_for_enough_operations(count: int, runtime_s: float | None) -> None:
    part = replace(objects.scaled(LARGE, Scale(), 1), rampup_s=0.0)
    part = replace(part, load=replace(part.load, runtime_s=1.0))
    again = objects.longer(part, count, LARGE.runtime_s)
    assert (again and again.load.runtime_s) == pytest.approx(runtime_s)
    if again is not None:
        # What the first run left must not be met.
        assert again.load.bucket != part.load.bucket
        assert f"again for {again.load.runtime_s:g} s" in again.words


def test_a_load_at_its_published_length_or_by_number_is_not_run_again() -> None:
    full = objects.scaled(LARGE, Scale(1e12, at_length=True), 1)
    assert objects.longer(full, 0, LARGE.runtime_s) is None
    small = JOBS["rhcs-10b-small"].objects[0]
    assert objects.longer(objects.scaled(small, Scale(), 1), 0, small.runtime_s) is None


def test_a_job_that_was_asked_for_runs_in_the_quick_tier() -> None:
    assert {each.tier for each in scenarios_of(JOBS["incerta"], asked=True)} == {Tier.QUICK}
    assert [each.name for each in SCENARIOS if each.tier is Tier.QUICK] == ["job.altra-10m-puts[part=objects]"]
    assert sum(each.name.startswith("job.incerta[part=librbdfio-") for each in SCENARIOS) == 18


def test_pgs_of_a_jobs_pools_reach_its_loads() -> None:
    job = JOBS["incerta"]
    wanted = {pool.name: pool.pg_num for pool in job.pools}
    assert wanted["rbd"] == 8192
    for load in job.blocks:
        assert {setting.pgs for setting in settings_of(job, load)} == {wanted[load.pool]}
    assert job.pgs_of("another") == 0


def test_settings_of_a_job_reach_its_clusters() -> None:
    job = Job(**{**JOBS["incerta"].model_dump(), "options": {"osd_max_scrubs": "16"}})
    assert all(("osd_max_scrubs", "16") in each.topology.options for each in scenarios_of(job))


def world(tmp_path: Path) -> World:
    return World(Home(tmp_path / "home"), {})


PLAN = Path(__file__).parents[1] / "lab" / "jobs" / "altra-10m-puts.xml"


def test_an_import_writes_a_job_once(tmp_path: Path) -> None:
    target = tmp_path / "a.toml"
    called = ["import", "cosbench", str(PLAN), "-o", str(target)]
    first = CliRunner().invoke(app, called, obj=world(tmp_path))
    assert first.exit_code == 0
    assert "clousuredelay is read as closuredelay" in first.output
    assert load_job(target).name == "altra-10m-puts"
    again = CliRunner().invoke(app, called, obj=world(tmp_path))
    assert again.exit_code == SpecError.exit_code
    assert "already exists" in again.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--suite", "block"], "--job and --suite cannot be given together"),
        ([], "is not a job"),
    ],
)
def test_a_gate_refuses_what_is_no_job(tmp_path: Path, more: list[str], words: str) -> None:
    job = tmp_path / "job.toml"
    job.write_text('name = "a"\nsource = "b"\n')
    called = ["gate", "--job", str(job), *more, "--archive", str(tmp_path / "archive")]
    result = CliRunner().invoke(app, called, obj=world(tmp_path))
    assert result.exit_code == SpecError.exit_code
    assert words in result.output
