"""The report and a prediction in a real browser: by eye, keyboard and ear, on a telephone, in the dark, on paper."""

import shutil
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.lab.archive.archive import ArchiveWriter, Ending, Record, read_archive
from cephlab.lab.base.home import Home
from cephlab.lab.report.page import render_report
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.report.wanted import Shown, record_requirement
from tests.lab.archive.test_archive import MANIFEST
from tests.made_report import FAILED, FAULT, SOAK, WANTED, make_archive

pytestmark = pytest.mark.real

WIDE, NARROW = {"width": 1100, "height": 900}, {"width": 390, "height": 800}
SHEET = {"width": 446, "height": 680}
"""What margins of 15 mm leave of A5, the smallest that anybody prints on."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COURSE = "section.course figure.graph"
ROWS = "details.row:visible"
CUT = "all => all.filter(box => box.scrollWidth > box.clientWidth).length"
BROKEN = """all => all.flatMap(cell => {
  const texts = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT), broken = [];
  for (let text; (text = texts.nextNode());) for (const { 0: word, index } of text.data.matchAll(/[^\\s/-]+/g)) {
    const range = document.createRange();
    range.setStart(text, index); range.setEnd(text, index + word.length);
    if (range.getClientRects().length > 1) broken.push(word);
  }
  return broken;
})"""
"""The words in a cell that continue on another line."""
WRITTEN = """window.written = []; const write = CanvasRenderingContext2D.prototype.fillText;
CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
  const half = this.measureText(text).width / 2;
  if (this.textAlign === "center" && /^\\d+$/.test(text)) written.push([x - half, x + half]);
  return write.call(this, text, x, y);
};"""
"""Keeps where each whole number is written on a canvas."""
RIGHT = "figure => figure.plots[0].width - (figure.plots[0].bbox.left + figure.plots[0].bbox.width) / devicePixelRatio"
"""What a chart leaves free at the right of its axis."""
RANGES = "figure => figure.plots.map(plot => [plot.scales.x.min, plot.scales.x.max])"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    executable = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if executable is None:
        pytest.skip(f"no browser: none of {', '.join(BROWSERS)} is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_archive(tmp_path_factory.mktemp("report") / "archive") / "report.html"


@pytest.fixture
def page(browser: Any, report: Path) -> Iterator[Any]:
    """The page as it opens, which must load nothing and complain of nothing."""
    context = browser.new_context(viewport=WIDE)
    opened = context.new_page()
    complaints: list[str] = []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.on("request", lambda request: complaints.append(request.url) if request.url != report.as_uri() else None)
    opened.goto(report.as_uri())
    opened.wait_for_selector(".u-over")
    yield opened
    context.close()
    assert complaints == []


def drag(page: Any, figure: Any, begin: float, end: float) -> None:
    """Drag over the figure's first panel, between two shares of its width."""
    box = figure.locator(".u-over").first.bounding_box()
    page.mouse.move(box["x"] + begin * box["width"], box["y"] + 50)
    page.mouse.down()
    page.mouse.move(box["x"] + end * box["width"], box["y"] + 50, steps=4)
    page.mouse.up()


def until(page: Any, expression: str) -> None:
    """Wait for the page; its policy forbids playwright's own way, which evaluates text on the page."""
    for _ in range(100):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"{expression} did not become true")


def test_a_brush_zooms_every_panel_of_a_figure_and_a_double_click_shows_all_again(page: Any) -> None:
    figure = page.locator(COURSE).first
    whole = figure.evaluate(RANGES)
    before = figure.screenshot()
    drag(page, figure, 0.25, 0.5)
    zoomed = figure.evaluate(RANGES)
    assert len(zoomed) == 2
    assert zoomed[0] == zoomed[1]
    assert zoomed[0] == pytest.approx([15, 30], abs=1)
    page.mouse.move(0, 0)
    assert figure.screenshot() != before
    figure.locator(".u-over").first.dblclick()
    page.mouse.move(0, 0)
    assert figure.evaluate(RANGES) == whole
    assert figure.screenshot() == before


def test_a_chart_is_zoomed_by_the_keyboard(page: Any) -> None:
    figure = page.locator(COURSE).first
    (begin, end), _ = figure.evaluate(RANGES)
    figure.locator(".canvas").focus()
    page.keyboard.press("+")
    (nearer, nearer_end), _ = figure.evaluate(RANGES)
    assert nearer_end - nearer == pytest.approx((end - begin) / 2)
    page.keyboard.press("ArrowRight")
    assert figure.evaluate(RANGES)[0][0] > nearer
    page.keyboard.press("0")
    assert figure.evaluate(RANGES)[0] == [begin, end]


def test_faults_and_steps_stand_beside_the_chart(page: Any) -> None:
    marks = page.locator(COURSE).first.evaluate("figure => figure.querySelector('script').textContent")
    assert f'"label": "{FAULT}", "until": 35.0' in marks
    told = page.locator("section, main").first.inner_text()
    assert f"{FAULT}, at 20.0 s for 15.0 s" in told
    assert "handed back, at 50.0 s" in told


def test_rows_are_filtered_by_text_and_by_ending(page: Any) -> None:
    every = page.locator(ROWS).count()
    page.get_by_label("Filter").fill("aarch64 objects")
    assert page.locator(ROWS).count() == 3
    page.get_by_label("Filter").fill("")
    page.locator("#filter").get_by_label("passed").uncheck()
    assert page.locator(ROWS).count() == every - 6
    assert page.locator("#filter output").inner_text() == f"{every - 6} of {every} shown"
    assert not page.locator("section.group h3", has_text="interop.objects").is_visible()
    assert not page.locator(COURSE).first.is_visible()
    page.get_by_label("Filter").fill("soak")
    page.locator("#filter").get_by_label("passed").check()
    assert page.locator(COURSE).first.is_visible()


def test_a_link_to_a_scenario_opens_it_even_where_a_filter_hides_it(page: Any, report: Path) -> None:
    row = page.locator("[id='resilience.soak']")
    assert row.get_attribute("open") is None
    page.get_by_label("Filter").fill("parity")
    assert not row.is_visible()
    page.locator("a:visible", has_text=SOAK).first.click()
    page.locator("[id='resilience.soak'][open]").wait_for()  # a browser tells of a new fragment after the click
    assert row.locator("dl").first.is_visible()
    row.locator(".u-over").first.wait_for()  # a chart is drawn once its row is open
    assert page.url == f"{report.as_uri()}#resilience.soak"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_an_accessibility_checker_finds_nothing(page: Any, scheme: str, size: dict[str, int]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(size)
    page.get_by_role("button", name="open all").click()
    axe_report = Axe().run(page)
    assert axe_report.response["violations"] == [], axe_report.generate_report()
    assert len(axe_report.response["passes"]) > 20


def test_the_checker_would_find_something(page: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page.evaluate("document.querySelector('#filter label').replaceWith(document.createElement('input'))")
    assert "label" in {violation["id"] for violation in Axe().run(page).response["violations"]}


def test_dark_is_dark(page: Any) -> None:
    light = page.locator(COURSE).first.screenshot()
    page.emulate_media(color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    assert page.locator(COURSE).first.screenshot() != light


def test_a_narrow_screen_shows_the_same_and_nothing_reaches_over_its_edge(page: Any) -> None:
    wide = page.locator("main").inner_text().split()
    page.set_viewport_size(NARROW)
    until(page, "document.querySelector('.uplot').clientWidth < 390")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert sorted(page.locator("main").inner_text().split()) == sorted(wide)
    ends = page.locator(f"{ROWS} summary span").evaluate_all("all => all.map(one => one.getBoundingClientRect().right)")
    assert max(ends) <= NARROW["width"]


def test_long_names_of_what_a_killed_run_left_undone_do_not_reach_over_the_edge(browser: Any, tmp_path: Path) -> None:
    name = "interop.objects[client=aarch64,primary=aarch64,pool=ec21]"
    killed = {"state": "running", "ended": None, "planned": [name]}
    ArchiveWriter(tmp_path, {**MANIFEST, **killed}).history.record(name, "begin", {})
    (tmp_path / "report.html").write_text(render_report(read_archive(tmp_path)))
    opened = browser.new_page(viewport=NARROW)
    opened.goto((tmp_path / "report.html").as_uri())
    assert name in opened.locator("h1").inner_text()
    assert opened.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert ", not finished" in opened.locator("main p.soft").first.inner_text()
    opened.close()


def asks_for_five(directory: Path) -> Path:
    """The report of five requirements, each with notes below the table."""
    writer = ArchiveWriter(directory, MANIFEST)
    row = ("at least 1.5 GB/s", "4.48 GB/s (1.48 GB/s to 13.6 GB/s)", "", "node: network in")
    for name in "abcde":
        rows = [(metric, *row) for metric in ("throughput", "mean latency")][: 1 + (name == "a")]
        shown = Shown("write of 4 MiB, 3 copies, 6 clients with 8 in flight each", "storage-3n", rows, ["x"] * 4, "y")
        record_requirement(writer.history.recorder(f"profile.{name}"), shown)
        writer.add(Record(f"profile.{name}", "profile", Ending.INCONCLUSIVE, "cannot tell"))
    writer.save()
    (directory / "report.html").write_text(render_report(read_archive(directory)))
    return directory / "report.html"


def test_all_requirements_are_on_the_first_screen_with_whole_words(browser: Any, tmp_path: Path) -> None:
    opened = browser.new_page(viewport=WIDE)
    opened.goto(asks_for_five(tmp_path / "a").as_uri())
    table = opened.locator("table.wanted")
    box = table.bounding_box()
    assert box["y"] + box["height"] <= WIDE["height"]
    for size in (WIDE, NARROW):
        opened.set_viewport_size(size)
        assert table.locator("tbody :is(td, th)").evaluate_all(BROKEN) == []
        assert table.evaluate("table => table.parentElement.scrollWidth <= table.parentElement.clientWidth"), size
    opened.close()


def test_a_time_axis_has_seconds_not_thousands_of_them(page: Any) -> None:
    ticks = "figure => figure.plots[0].axes[0].values(figure.plots[0], [0.5, 1200])"
    assert page.locator(COURSE).first.evaluate(ticks) == ["0.5 s", "1200 s"]


def test_numbers_of_marks_that_are_close_together_do_not_touch(browser: Any, tmp_path: Path) -> None:
    marks = {str(number): 1.0 + number / 1000 for number in range(12)}
    writer = ArchiveWriter(tmp_path, MANIFEST)
    line = Line("rate", "measured", ((1, 10), (8, 18)))
    record_series(writer.history.recorder(SOAK), "steps", [line], axis="s", marks=marks)
    writer.add(Record(SOAK, "resilience", Ending.FAIL, "lost"))
    writer.save()
    (tmp_path / "report.html").write_text(render_report(read_archive(tmp_path)))
    opened = browser.new_page(viewport=WIDE)
    opened.add_init_script(WRITTEN)
    opened.goto((tmp_path / "report.html").as_uri())
    opened.wait_for_selector(".u-over")
    until(opened, "written.length >= 12")
    edges = opened.evaluate("written.slice(0, 12)")
    assert [left for (_, right), (left, _) in pairwise(edges) if left <= right + 1] == []
    opened.close()


def test_paper_has_drawn_charts_and_no_controls(page: Any) -> None:
    page.emulate_media(media="print")
    for what in ("nav", "#filter", f"{COURSE} .canvas"):
        assert not page.locator(what).first.is_visible(), what
    assert page.locator(f"{COURSE} > svg").first.is_visible()
    assert page.get_by_text(FAILED).first.is_visible()
    assert page.pdf()[:5] == b"%PDF-"


def test_paper_cuts_nothing_off(page: Any) -> None:
    page.set_viewport_size(SHEET)
    page.get_by_role("button", name="with all evidence").click()
    boxes = page.locator(".scroll:visible")
    assert boxes.evaluate_all(CUT) > 0  # on a screen these scroll
    page.emulate_media(media="print")
    assert boxes.count() >= 3
    assert boxes.evaluate_all(CUT) == 0
    assert set(boxes.evaluate_all("all => all.map(box => getComputedStyle(box).overflowX)")) == {"visible"}
    assert page.evaluate("document.documentElement.scrollWidth") <= SHEET["width"]


def test_paper_shows_what_a_signature_rests_on(page: Any) -> None:
    """Each row with its figures and limits, and what was observed for a requirement; nothing that a filter hides."""
    soak, wanted = page.locator("[id='resilience.soak']"), page.locator("[id='profile.small-reads']")
    shown = {
        "how": soak.get_by_text("Write, read."),
        "figure": soak.get_by_text("slowest write"),
        "evidence": wanted.get_by_role("rowheader", name="x", exact=True),
        "evidence of others": soak.get_by_role("rowheader", name="x", exact=True),
    }
    assert {what for what, place in shown.items() if place.is_visible()} == set()
    page.emulate_media(media="print")
    assert {what for what, place in shown.items() if place.is_visible()} == {"how", "figure", "evidence"}
    page.emulate_media(media="screen")
    page.get_by_role("button", name="with all evidence").click()
    page.get_by_label("Filter").fill(WANTED)
    page.emulate_media(media="print")
    assert not soak.is_visible()
    page.emulate_media(media="screen")
    page.get_by_label("Filter").fill("")
    page.emulate_media(media="print")
    assert {what for what, place in shown.items() if place.is_visible()} == set(shown)


def test_without_scripts_everything_can_be_read(browser: Any, report: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=WIDE)
    opened = context.new_page()
    opened.goto(report.as_uri())
    assert opened.locator(f"{COURSE} > svg").first.is_visible()
    assert not opened.locator("#filter").is_visible()
    assert opened.locator(ROWS).count() == 9
    context.close()


def test_a_script_that_is_not_the_pages_own_does_not_run(browser: Any, report: Path, tmp_path: Path) -> None:
    altered = tmp_path / "report.html"
    altered.write_text(report.read_text().replace("</main>", "<script>document.title = 'ran'</script></main>"))
    context = browser.new_context()
    opened = context.new_page()
    opened.goto(altered.as_uri())
    assert opened.title() != "ran"
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_of_a_prediction_is_read_in_the_same_ways(browser: Any, tmp_path: Path, scheme: Any) -> None:
    from axe_playwright_python.sync_playwright import Axe

    path, home = tmp_path / "page.html", World(Home(tmp_path / "home").ensure(), {})
    asked = ["predict", "--profile", "kunpeng920", "--op", "randread", "--sweep", "depth", "--output", str(path)]
    assert CliRunner().invoke(app, asked, obj=home).exit_code == 0
    context = browser.new_context(viewport=NARROW, color_scheme=scheme)
    opened, asked_for = context.new_page(), []
    opened.on("request", lambda request: asked_for.append(request.url))
    opened.goto(path.as_uri())
    opened.wait_for_selector(".u-over")
    assert asked_for == [path.as_uri()]
    assert Axe().run(opened).response["violations"] == []
    assert opened.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert opened.locator("thead th").evaluate_all(BROKEN) == []
    assert opened.locator("figure.graph").first.evaluate(RIGHT) >= 36  # half of `16 in flight`
    steps = opened.locator("details pre").first
    assert not steps.is_visible()
    opened.emulate_media(media="print")
    assert steps.is_visible()
    context.close()
