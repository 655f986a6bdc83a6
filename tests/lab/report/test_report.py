"""The report: everything a reader needs on one page, nothing from elsewhere, no script but the page's own."""

import base64
import hashlib
import re
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.report.carried import LIBRARY, LIBRARY_STYLE
from cephlab.lab.report.page import (
    SAMPLE,
    Agreement,
    Beside,
    Judged,
    left_list,
    left_words,
    limits_of,
    overall,
    render_report,
    seconds_text,
)
from cephlab.lab.report.series import Line, line_chart
from cephlab.lab.report.wanted import Shown, record_requirement
from tests.lab.archive.test_archive import FINE, FITTING, MANIFEST, add
from tests.made_report import make_archive

CLUSTER: dict[str, Any] = {
    "name": "c1",
    "provider": "local",
    "why": "local (the cheapest provider that can do this)",
    "spec": {},
    "hosts": {"n0": {"arch": "x86_64", "emulated": False}, "n2": {"arch": "aarch64", "emulated": True}},
    "daemons": {"mon.n0": "n0", "osd.2": "n2"},
    "patience": 11.5,
    "raise_s": 18.25,
    "images": {
        "aarch64": {
            "release": "reef",
            "key": "d" * 64,
            "reference": None,
            "ceph_version": "18.2.7+ds-1",
            "packages": {"ceph-osd": "18.2.7+ds-1", "librados2": "18.2.7+ds-1"},
        }
    },
}
NASTY = "<script>alert('x')</script>"


class Page(HTMLParser):
    """What a page refers to, which tags it has, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in {"href", "src", "srcset", "action", "data"}]

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def page(directory: Path, *records: Record, **manifest: Any) -> Page:
    writer = ArchiveWriter(directory / "a", {**MANIFEST, "clusters": [CLUSTER], **manifest})
    for record in records:
        add(writer, record, (("aftermath", {**FINE, "allowed": {"harmless here": 2}}), *FITTING[record.ending]))
    if writer.manifest["state"] != "running":
        writer.seal(render_report)
    return Page(render_report(read_archive(directory / "a")))


FAILED = Record(
    "interop.objects[client=x86_64,primary=aarch64,pool=ec21]",
    "interop",
    Ending.FAIL,
    "sha256 differs",
    ("object-3: got a, wanted b",),
    goal="Objects are the same.",
    method="Write and read.",
    seconds=65.4,
    logs="logs/interop.objects",
)
PASSED = Record(
    "interop.objects[client=aarch64,primary=aarch64,pool=ec21]", "interop", Ending.PASS, "42 observations hold"
)


def test_the_page_needs_nothing_but_itself(tmp_path: Path) -> None:
    parsed = page(tmp_path, FAILED, PASSED)
    assert not {"img", "link", "iframe", "object", "form"} & set(parsed.tags)
    outside = [link for link in parsed.links if not link.startswith(("#", "logs/"))]
    assert outside == []
    html = render_report(read_archive(tmp_path / "a"))
    assert "http://" not in html
    assert "https://" not in html
    assert "@import" not in html
    assert "url(" not in html


@pytest.mark.slow
def test_a_browser_runs_the_pages_own_scripts_and_no_others(tmp_path: Path) -> None:
    html = (make_archive(tmp_path / "a") / "report.html").read_text()
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    assert len(scripts) == 2
    policy = unescape(html.partition('http-equiv="Content-Security-Policy" content="')[2].partition('"')[0])
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy


@pytest.mark.slow
def test_only_a_page_with_charts_carries_their_library(tmp_path: Path) -> None:
    page(tmp_path, FAILED, PASSED)
    assert "uPlot=function" not in render_report(read_archive(tmp_path / "a"))
    assert "uPlot=function" in (make_archive(tmp_path / "b") / "report.html").read_text()


def test_the_library_is_as_it_was_published() -> None:
    """npm's uplot 1.6.32, by `sha256sum dist/uPlot.iife.min.js dist/uPlot.min.css`."""
    folder = files("cephlab.lab.report")
    digests = [hashlib.sha256(folder.joinpath(name).read_bytes()).hexdigest() for name in (LIBRARY, LIBRARY_STYLE)]
    assert digests == [
        "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f",
        "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
    ]


@pytest.mark.slow
def test_the_contents_name_every_section(tmp_path: Path) -> None:
    html = (make_archive(tmp_path / "a") / "report.html").read_text()
    nav = html.partition("<nav")[2].partition("</nav>")[0]
    titles = re.findall(r'<h2 id="([^"]+)">', html)
    assert titles == re.findall(r'href="#([^"]+)"', nav)
    assert {"over-time", "scenarios", "requirements-of-storage-3n", "needs-attention"} <= set(titles)
    assert html.index("required") < html.index("Needs attention</h2>")


@pytest.mark.slow
def test_every_table_says_what_it_is_and_whose_its_heads_are(tmp_path: Path) -> None:
    html = (make_archive(tmp_path / "a") / "report.html").read_text()
    body = html.partition("</style>")[2].partition("<script>")[0]
    tables = re.findall(r"<table.*?</table>", body, re.DOTALL)
    assert len(tables) >= 5
    assert [table for table in tables if "<caption" not in table] == []
    assert re.findall(r"<th\b(?![^>]*scope=)[^>]*>", body) == []


@pytest.mark.slow
def test_scenarios_come_before_their_charts_and_lead_to_them(tmp_path: Path) -> None:
    html = (make_archive(tmp_path / "a") / "report.html").read_text()
    assert html.index('<h2 id="scenarios">') < html.index('<h2 id="over-time">')
    assert '<a href="#time-resilience.soak">over time</a>' in html
    assert html.count('id="time-resilience.soak"') == 1


def test_requirements_stand_together_and_what_several_leave_out_is_said_once(tmp_path: Path) -> None:
    writer = ArchiveWriter(tmp_path / "a", MANIFEST)
    rows = [("throughput", "at least 10 kops/s", "12 kops/s", "", "CPU")]
    for name, doubts in (("x", ["RTT is not known."]), ("y", ["RTT is not known.", "No such pool."])):
        shown = Shown("reads", "mine", rows, enough=[f"more of {name}"], demands="shipped", doubts=doubts)
        record_requirement(writer.history.recorder(f"profile.{name}"), shown)
        writer.add(Record(f"profile.{name}", "profile", Ending.PASS, ""))
    writer.save()
    html = render_report(read_archive(tmp_path / "a"))
    table, _, notes = html.partition('<table class="wanted few">')[2].partition("</table>")
    assert re.findall(r"<b>(.)</b>", table) == ["x", "y"]
    assert "<li>" not in table
    text = Page(notes.partition("<h2")[0]).text
    assert "x . What would be enough: more of x y . What would be enough: more of y" in text
    assert "What the predictions leave out: RTT is not known. (x, y) No such pool. (y)" in text


def test_the_top_says_when_and_what_ran_in_words(tmp_path: Path) -> None:
    others = [Record(f"{suite}.a", suite, Ending.PASS, "r") for suite in ("block", "s3")]
    assert "quick tier, suite interop, 2026-11-21 09:00 UTC, took 3 min 20 s" in page(tmp_path / "1", PASSED).text
    assert "quick tier, suites interop and block, 2026" in page(tmp_path / "2", PASSED, FAILED, others[0]).text
    assert "quick tier, 3 suites, 2026" in page(tmp_path / "3", PASSED, *others).text


def test_the_page_says_what_a_reader_wants_to_know(tmp_path: Path) -> None:
    text = page(tmp_path, FAILED, PASSED).text
    for wanted in (
        "Failed. At least one scenario failed.",
        "1 passed",
        "1 failed",
        "sha256 differs",
        "object-3: got a, wanted b",
        "Objects are the same.",
        "Write and read.",
        "1 min 5 s",
        "3, wanted 1",
        "harmless here",
        "cephlab gate --tier quick --seed 7",
        "aarch64, emulated",
        "osd.2",
        "18.2.7+ds-1",
        "librados2",
        "took 3 min 20 s",
    ):
        assert wanted in text, wanted


def test_every_inner_link_has_its_target(tmp_path: Path) -> None:
    parsed = page(tmp_path, FAILED, PASSED)
    html = render_report(read_archive(tmp_path / "a"))
    inner = [link for link in parsed.links if link.startswith("#")]
    assert len(inner) >= 3
    assert [link for link in inner if f'id="{link[1:]}"' not in html] == []


def test_names_that_differ_in_a_sign_or_in_case_have_links_of_their_own(tmp_path: Path) -> None:
    names = ("demo.a[n=1]", "demo.a[n=-1]", "demo.A[n=1]")
    page(tmp_path, *(replace(PASSED, scenario=name) for name in names))
    html = render_report(read_archive(tmp_path / "a"))
    assert re.findall(r'<details[^>]*id="(demo[^"]*)"', html) == ["demo.a_n_1", "demo.a_n_-1", "demo.A_n_1"]


def test_the_matrix_puts_each_variant_in_its_place(tmp_path: Path) -> None:
    text = page(tmp_path, FAILED, PASSED).text
    matrix = text.rpartition("Across architectures")[2].partition("Scenarios")[0]
    # One column, because both have an aarch64 primary, and two rows.
    assert " ".join(matrix.split()) == (
        "interop.objects interop.objects by client and primary client ↓ primary → aarch64 x86_64 ✗ ec21 aarch64 ✓ ec21"
    )


def test_scenarios_without_other_parameters_share_a_table(tmp_path: Path) -> None:
    """The programs of Ceph's own tests are dozens, each in one or two directions."""
    names = ("a[client=x86_64,primary=aarch64]", "b[client=aarch64,primary=x86_64]", "b[client=x86_64,primary=aarch64]")
    records = [Record(f"interop.{name}", "interop", Ending.PASS, "held") for name in names]
    text = page(tmp_path, *records, PASSED).text
    across = " ".join(text.rpartition("Across architectures")[2].partition("Scenarios")[0].split())
    alone, _, shared = across.partition("client and primary scenarios by")
    assert alone.startswith("interop.objects")
    wanted = (
        "client and primary client → primary x86_64 → aarch64 aarch64 → x86_64 "
        "interop.a ✓ passed not run interop.b ✓ passed ✓ passed"
    )
    assert " ".join(shared.split()) == wanted


def test_what_comes_from_outside_is_text(tmp_path: Path) -> None:
    nasty = Record("demo.x", "demo", Ending.FAIL, NASTY, (NASTY,), goal=NASTY, method=NASTY)
    parsed = page(tmp_path, nasty, replay=NASTY, trouble=[NASTY], unexpected_skips=[NASTY])
    assert parsed.tags.count("script") == 1  # the page's own
    assert parsed.text.count(NASTY) >= 6


@pytest.mark.parametrize(
    ("endings", "changes", "kind"),
    [
        (["pass"], {}, Ending.PASS),
        (["pass", "fail", "error"], {}, Ending.FAIL),
        (["pass", "error", "inconclusive"], {}, Ending.ERROR),
        (["pass"], {"trouble": ["left a process"]}, Ending.ERROR),
        (["pass", "skip"], {"unexpected_skips": ["demo.1: no engine"]}, Ending.FAIL),
        (["pass", "inconclusive"], {}, Ending.INCONCLUSIVE),
        (["skip"], {}, Ending.INCONCLUSIVE),
        ([], {}, Ending.INCONCLUSIVE),
        (["pass"], {"state": "interrupted"}, Ending.INCONCLUSIVE),
        (["pass"], {"state": "running"}, Ending.INCONCLUSIVE),
    ],
)
def test_the_headline_follows_the_worst(
    tmp_path: Path, endings: list[str], changes: dict[str, Any], kind: Ending
) -> None:
    records = [Record(f"demo.{n}", "demo", Ending(ending), "r") for n, ending in enumerate(endings)]
    page(tmp_path, *records, **changes)
    assert overall(read_archive(tmp_path / "a"))[0] == kind


def test_the_headline_of_a_run_that_was_cut_short_names_what_did_not_run(tmp_path: Path) -> None:
    planned = [f"demo.{n}" for n in range(8)]
    page(tmp_path, Record("demo.0", "demo", Ending.PASS, "r"), state="interrupted", planned=planned)
    assert overall(read_archive(tmp_path / "a"))[1] == (
        "This run was cut short; 7 scenarios have no verdict: demo.1, demo.2, demo.3, demo.4, demo.5, ... and 2 more."
    )
    assert left_words(["demo.7"]) == "1 scenario has no verdict: demo.7"
    assert left_list(planned[1:]).splitlines() == ["7 scenarios have no verdict:", *(f"  {n}" for n in planned[1:])]


def test_limits_name_what_the_run_cannot_say(tmp_path: Path) -> None:
    skipped = Record("demo.s", "demo", Ending.SKIP, "no engine")
    page(tmp_path, PASSED, skipped, state="interrupted", ended=None)
    said = " ".join(limits_of(read_archive(tmp_path / "a")))
    assert "Nodes n2 (aarch64) were emulated: they are judged only on correctness and liveness." in said
    assert "multiplied by 11.5, as measured" in said
    assert "1 scenario was skipped" in said
    assert "did not finish" in said
    assert "quick tier leaves out" in said
    assert SAMPLE not in said
    assert LocalProvider.unsaid in said


def test_a_sample_is_told_as_one(tmp_path: Path) -> None:
    page(tmp_path, PASSED, sample=True)
    assert SAMPLE in limits_of(read_archive(tmp_path / "a"))


def test_a_provider_that_is_not_known_here_limits_nothing(tmp_path: Path) -> None:
    page(tmp_path, PASSED, clusters=[{**CLUSTER, "provider": "theirs"}])
    assert LocalProvider.unsaid not in limits_of(read_archive(tmp_path / "a"))


def test_only_of_a_lab_is_it_said_that_its_nodes_share_a_machine(tmp_path: Path) -> None:
    page(tmp_path, PASSED, clusters=[{**CLUSTER, "provider": "ssh"}])
    assert "shared one machine" not in " ".join(limits_of(read_archive(tmp_path / "a")))


def test_a_native_lab_says_nothing_of_emulation(tmp_path: Path) -> None:
    native = {**CLUSTER, "hosts": {"n0": {"arch": "x86_64", "emulated": False}}, "provider": "container"}
    page(tmp_path, PASSED, clusters=[native], tier="full")
    said = limits_of(read_archive(tmp_path / "a"))
    assert len(said) == 1
    assert "no figure here is the throughput" in said[0]


@pytest.mark.parametrize("any_arch", [True, False])
def test_what_ran_on_one_architecture_where_a_lab_mixes_both_is_named(tmp_path: Path, any_arch: bool) -> None:
    arms = {"n0": {"arch": "aarch64", "emulated": False}, "c0": {"arch": "x86_64", "emulated": False}}
    alike = {**CLUSTER, "name": "c2", "hosts": arms, "daemons": {"mon.n0": "n0"}}
    writer = ArchiveWriter(tmp_path / "a", {**MANIFEST, "clusters": [CLUSTER, alike]})
    for name, cluster in (("demo.mixed", "c1"), ("demo.alike", "c2"), ("demo.without", None)):
        writer.history.recorder(name).record("began", goal="", check="observations", any_arch=any_arch)
        writer.add(Record(name, "demo", Ending.PASS, "r", cluster=cluster))
    writer.seal(render_report)
    archive = read_archive(tmp_path / "a")
    said = "1 scenario that a lab runs on mixed architectures ran on aarch64 alone: demo.alike."
    assert (said in limits_of(archive)) == any_arch
    assert "demo.mixed" not in " ".join(limits_of(archive))
    page = render_report(archive)
    assert "c1, aarch64 and x86_64<" in page
    assert "c2, aarch64<" in page


@pytest.mark.parametrize(
    ("value", "text"), [(0.04, "0.0 s"), (59.9, "59.9 s"), (60.0, "1 min 0 s"), (None, "not measured")]
)
def test_durations_read_well(value: float | None, text: str) -> None:
    assert seconds_text(value) == text


def test_what_is_beside_a_publication_is_on_the_page_with_its_answer(tmp_path: Path) -> None:
    ArchiveWriter(tmp_path / "a", {**MANIFEST, "clusters": [CLUSTER]}).seal(render_report)
    plot = line_chart("curves", [Line("tps", "none", ((1.0, 2.0), (2.0, 3.0)))], axis="threads")
    judged = tuple(Judged(f"finding {word}", "5.1", word, NASTY) for word in Agreement)
    made = Page(render_report(read_archive(tmp_path / "a"), Beside("A paper", "its title", (plot,), judged)))
    assert NASTY in made.text  # as text, and no script
    assert "svg" in made.tags
    for word in Agreement:
        assert f"finding {word}" in made.text
    assert "A paper" in made.text
    assert "A paper" not in Page(render_report(read_archive(tmp_path / "a"))).text
