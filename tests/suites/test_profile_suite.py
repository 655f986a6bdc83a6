"""The suite `profile`: requirements as scenarios of a gate, whose verdicts count, are archived and judged again."""

import gc
import html
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from cephlab.cli.expected import requirement_lines
from cephlab.fixtures.plan import plan
from cephlab.fixtures.run import GateResult, Request, run_gate
from cephlab.lab.archive.archive import Archive, Ending, judge, read_archive
from cephlab.lab.archive.sums import altered
from cephlab.lab.base.errors import SpecError
from cephlab.lab.history.history import History, data_of
from cephlab.lab.report.page import render_report
from cephlab.lab.report.wanted import Shown, record_requirement
from cephlab.lab.scenario.scenario import verdict_of
from cephlab.tuning.profilefile import SHIPPED, load_hardware
from tests.fake_raising import FakeRaiser

ROOT = Path(__file__).resolve().parents[2]
ALTRA = "ampere-altra-4n"
# The model predicts 241 kops/s: a tenth of what the first wants, three times what the second wants.
WANTED = """
[[requirements]]
name = "too-much"
op = "randwrite"
bs = "4k"
clients = 72
depth = 8
protection = "replicated:2"
at_least = "2410000 ops/s"

[[requirements]]
name = "enough"
op = "randwrite"
bs = "4k"
clients = 72
depth = 8
protection = "replicated:2"
at_least = "80000 ops/s"
mean_at_most = "11 ms"

[[requirements]]
name = "open"
kind = "recovery"
fill = 0.85
protection = "replicated:2"
at_most = "40 min"
"""

PREDICTED = re.compile(r"2\d\d kops/s \([\d,]+ kops/s to [\d,]+ kops/s\)")


@pytest.fixture(autouse=True)
def frozen() -> Iterator[None]:
    # A pytest session ends with five collections of garbage, through everything that all tests before have left here.
    gc.freeze()
    yield
    gc.unfreeze()


def profile_with(folder: Path, requirements: str = WANTED) -> Path:
    path = folder / f"{ALTRA}.toml"
    path.write_text((SHIPPED / path.name).read_text() + requirements)
    return path


def run(folder: Path, expression: str = "", changes: tuple[str, ...] = (), text: str = WANTED) -> GateResult:
    raiser = FakeRaiser()
    request = Request(
        archive=folder / "archive",
        home=folder / "home",
        suites=("profile",),
        seed=1,
        profile=str(profile_with(folder, text)),
        changes=changes,
        expression=expression,
    )
    result = run_gate(request, raiser)
    assert raiser.did == [], "a prediction needs no cluster"
    return result


@pytest.mark.slow
def test_a_gate_is_red_where_a_requirement_is_out_of_reach_and_says_why_and_what_would_do(tmp_path: Path) -> None:
    result = run(tmp_path)
    endings = {record.scenario: record.ending for record in result.records}
    assert endings == {
        "profile.too-much": Ending.FAIL,
        "profile.enough": Ending.PASS,
        "profile.open": Ending.INCONCLUSIVE,
    }
    assert result.code == 1
    reason = result.records[0].reason
    assert "at least 2,410,000 ops/s wanted: limited by altra: bstore_kv_sync" in reason
    archive = read_archive(result.archive)
    assert [share_of_wanted(archive, name) for name in ("too-much", "enough")] == pytest.approx([0.1, 3.0], rel=0.05)
    assert altered(result.archive) == []
    assert [verdict.now for verdict in judge(archive)] == list(endings.values())
    page = html.unescape(render_report(archive))
    first = page[: page.index('<h2 id="needs-attention"')]
    for said in ("Requirements of ampere-altra-4n", "at least 2,410 kops/s"):
        assert said in first
    assert PREDICTED.search(first)
    assert "limited by altra: bstore_kv_sync of an OSD on cd8" in first
    assert "(altra: 4 machines -> 256 machines): still limited by" in first
    assert "at most 40 min" in first
    assert "not measured" in first
    cases = ElementTree.parse(result.archive / "junit.xml").iter("testcase")
    assert {case.get("name"): len(list(case)) > 0 for case in cases} == {
        "test_scenario[profile.too-much]": True,
        "test_scenario[profile.enough]": False,
        "test_scenario[profile.open]": True,
    }
    lines = requirement_lines(read_archive(result.archive))
    assert "  profile.too-much, randwrite of 4 KiB, 2 copies, 72 clients with 8 in flight each: failed" in lines
    assert any("at most 40 min required, 16.7 min (7.33 min to infinity)" in line for line in lines)
    assert any("would be 113 % full on average" in line for line in lines), "three nodes cannot take in what four held"


def share_of_wanted(archive: Archive, name: str) -> float:
    """Predicted throughput over what is wanted."""
    events = archive.of(f"profile.{name}")
    figures = data_of(events, "figure")
    [throughput] = [figure for figure in figures if figure["metric"] == "predicted throughput"]
    return float(throughput["value"] / throughput["least"])


@pytest.mark.slow
def test_a_gate_is_green_where_everything_is_in_reach_and_says_why(tmp_path: Path) -> None:
    result = run(tmp_path, expression="enough")
    assert result.code == 0
    page = html.unescape(render_report(read_archive(result.archive)))
    predicted = PREDICTED.search(page)
    assert predicted is not None
    first = page[: predicted.end() + 300]
    assert "Requirements of ampere-altra-4n" in first
    assert "at least 80 kops/s" in first
    assert "limited by altra: bstore_kv_sync of an OSD on cd8" in first
    assert [record.ending for record in result.records] == [Ending.PASS]
    assert [record.cluster for record in result.records] == [None]


@pytest.mark.slow
def test_another_machine_is_tried_without_another_file(tmp_path: Path) -> None:
    slow = run(tmp_path, expression="enough", changes=("nodes.count=2", "nodes.cores=4"))
    assert slow.code == 1
    assert [record.ending for record in slow.records] == [Ending.FAIL]


@pytest.mark.slow
def test_a_plan_names_what_has_no_cluster(tmp_path: Path) -> None:
    request = Request(tmp_path / "a", tmp_path / "home", suites=("profile",), profile=str(profile_with(tmp_path)))
    planned = plan(request)
    assert len(planned) > 1
    assert {(each.cluster, each.nodes, each.memory_bytes, each.skipped) for each in planned} == {(0, 0, 0, None)}


@pytest.mark.slow
def test_the_page_on_requirements_shows_what_a_gate_prints(tmp_path: Path) -> None:
    example = (ROOT / "examples/storage-3n.toml").read_text()
    raised = tmp_path / "storage-3n.toml"
    raised.write_text(example.replace('at_least = "60000 ops/s"', 'at_least = "700000 ops/s"'))
    request = Request(tmp_path / "a", tmp_path / "home", suites=("profile",), profile=str(raised))
    printed = {line.strip() for line in requirement_lines(read_archive(run_gate(request, FakeRaiser()).archive))}
    page = (ROOT / "docs/requirements.md").read_text()
    shown = page.partition("This is the example with")[2].partition("\nIncreasing")[0].splitlines()
    quoted = [line.strip() for line in shown if line.startswith("    ")]
    assert len(quoted) == 6
    assert [line for line in quoted if line not in printed] == []


@pytest.mark.slow
def test_what_is_changed_is_in_the_archive_and_in_the_replay(tmp_path: Path) -> None:
    result = run(tmp_path, expression="enough", changes=("nodes.count=12",))
    assert "--set nodes.count=12" in result.replay
    manifest = read_archive(result.archive).manifest
    assert manifest["changes"] == ["nodes.count=12"]
    assert "Requirements of ampere-altra-4n, nodes.count=12" in (result.archive / "report.html").read_text()


def test_what_cannot_be_expressed_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        run(tmp_path, text=WANTED.replace('"replicated:2"', '"ec:30+4"', 1))
    assert "the model cannot express the requirement too-much" in caught.value.what
    assert "requirements.0" in caught.value.detail
    assert not (tmp_path / "archive").exists()


@pytest.mark.slow
def test_what_a_prediction_leaves_out_is_in_the_verdict_the_archive_the_page_and_the_report(tmp_path: Path) -> None:
    text = WANTED.replace('"replicated:2"\nat_least = "80000', '"ec:8+3"\nat_least = "80').replace('"11 ms"', '"10 s"')
    result = run(tmp_path, expression="enough", text=text)
    [record] = result.records
    assert record.ending is Ending.INCONCLUSIVE
    assert "limited by hosts: 4 for 11 shards; enough: altra: 4 machines -> 11 machines" in record.reason
    said = "leaves such a pool's PGs undersized; the prediction assumes OSDs as failure domain."
    archive = read_archive(result.archive)
    assert [verdict.now for verdict in judge(archive)] == [Ending.INCONCLUSIVE]
    [figure, *_] = data_of(archive.of("profile.enough"), "figure")
    assert any(line.startswith("not known: EC 8+3") and said in line for line in figure["derivation"])
    assert said in html.unescape(render_report(archive))
    assert any(
        line.lstrip().startswith("not known: EC 8+3") for line in requirement_lines(read_archive(result.archive))
    )


def test_the_page_shows_what_was_measured_beside_what_was_predicted(tmp_path: Path) -> None:
    from cephlab.lab.archive.archive import ArchiveWriter, Record
    from tests.lab.archive.test_archive import MANIFEST

    writer = ArchiveWriter(tmp_path / "a", MANIFEST)
    rows = [("throughput", "at least 10 kops/s", "12 kops/s", "11 kops/s (10.5 to 11.5)", "CPU")]
    recorder = writer.history.recorder("profile.x")
    said = ["It was measured with fio."]
    record_requirement(recorder, Shown("reads", "mine", rows, enough=[], demands="shipped", measuring=said))
    writer.add(Record("profile.x", "profile", Ending.PASS, "", (), began_s=0.0, seconds=1.0))
    writer.save()
    page = html.unescape(render_report(read_archive(tmp_path / "a")))
    assert "11 kops/s (10.5 to 11.5)" in page
    assert "What would be enough" not in page
    assert "What was measured, and what was not:<ul><li>It was measured with fio.</li></ul>" in page
    assert requirement_lines(read_archive(tmp_path / "a"))[-1].strip() == "measuring: It was measured with fio."


def test_a_requirement_of_which_nothing_was_predicted_is_not_a_pass() -> None:
    recorder = History().recorder("profile.x")
    recorder.record("began", goal="", cluster="", check="figures")
    recorder.record("ended")
    assert verdict_of(recorder.events()).outcome == "inconclusive"


def test_every_requirement_of_the_example_is_one_that_the_model_has_words_for() -> None:
    hardware = load_hardware(Path(__file__).resolve().parents[2] / "examples" / "storage-3n.toml")
    assert {requirement.kind for requirement in hardware.requirements} >= {"load", "recovery", "capacity", "power"}
