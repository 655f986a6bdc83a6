"""Charts of a scenario's course: what is drawn is what was recorded."""

import xml.etree.ElementTree as ET
from itertools import pairwise

import pytest

from cephlab.lab.archive.series import StepSpan
from cephlab.lab.faults.fault import EVENT as FAULT
from cephlab.lab.history.history import Event
from cephlab.lab.history.operations import Act, Ended, Operation, pack
from cephlab.lab.report.plot import WIDTH, Axis, Mark, Panel, Series, chart, short
from cephlab.lab.report.timeline import CLOCK, rates, spans_of, steps_of, timeline

SVG = "{http://www.w3.org/2000/svg}"


def operation(ended_s: float, outcome: Ended = Ended.OK, act: Act = Act.WRITE) -> Operation:
    return Operation("l", "c0", 0, act, 1, 1, ended_s - 0.01, ended_s, outcome)


def parsed(svg: str) -> ET.Element:
    return ET.fromstring(svg.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def test_a_chart_is_whole_svg_with_a_line_a_series_and_a_number_a_mark() -> None:
    panels = [
        Panel("a & b", (Series("one", ((0, 0), (10, 5))), Series("two", ((0, 5), (10, 0))))),
        Panel("c", (Series("three", ((2, 1.0),)),)),
    ]
    root = parsed(chart(panels, [Mark(3, "<off>"), Mark(5, "on", until=7)]))
    assert len(root.findall(f"{SVG}polyline")) == 3
    assert [title.text for title in root.iter(f"{SVG}title")] == ["<off>", "on", "on"]
    texts = [text.text for text in root.iter(f"{SVG}text")]
    assert {"a & b", "c", "one", "two", "1", "2"} <= set(texts)


def test_marks_that_follow_quickly_have_their_numbers_beside_each_other() -> None:
    marks = [Mark(3 + number / 1000, f"step {number}") for number in range(12)]
    root = parsed(chart([Panel("p", (Series("s", ((0, 0), (10, 5))),))], marks))
    middle = [text for text in root.iter(f"{SVG}text") if text.attrib.get("text-anchor") == "middle"]
    numbers = [float(text.attrib["x"]) for text in middle if (text.text or "").isdigit()]
    assert len(numbers) == 12
    gaps = [later - earlier for earlier, later in pairwise(numbers)]
    assert min(gaps) > 10
    assert min(gaps[9:]) > 18  # two digits take about 14


def test_the_last_tick_of_an_axis_is_whole() -> None:
    root = parsed(chart([Panel("p", (Series("s", ((0, 0), (20, 5))),))], unit="in flight"))
    places = {text.text: float(text.attrib["x"]) for text in root.iter(f"{SVG}text")}
    assert places["10 in flight"] == Axis(0, 20, 64, 948).at(10)
    assert places["20 in flight"] + 3 * len("20 in flight") <= WIDTH


def test_points_are_where_their_values_say() -> None:
    line = parsed(chart([Panel("p", (Series("s", ((0, 0), (5, 10), (10, 10))),))])).find(f"{SVG}polyline")
    assert line is not None
    (x0, y0), (x1, y1), (x2, y2) = (tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split())
    assert x1 - x0 == pytest.approx(x2 - x1)
    assert y0 > y1 == y2


def test_a_negative_value_is_within_its_panel() -> None:
    for values in ((-10, 5), (-10, -5), (0, 5)):
        svg = parsed(chart([Panel("p", (Series("s", tuple(enumerate(map(float, values)))),))]))
        line, bottom = svg.find(f"{SVG}polyline"), svg.findall(f"{SVG}line")[-1].attrib["y1"]
        assert line is not None
        lowest, highest = sorted(float(pair.split(",")[1]) for pair in line.attrib["points"].split())
        assert 42 <= lowest < highest <= float(bottom)


def test_steps_of_one_name_have_their_own_times() -> None:
    events = [
        Event("s", at_s, "step", {"name": "recover", "phase": phase, "seconds": seconds})
        for at_s, phase, seconds in ((1, "began", None), (3, "ended", 2.0), (5, "reached", None), (6, "began", None))
    ]
    assert [step.seconds for step in steps_of(events, 0)] == [2.0, None, None]
    again = [*events, Event("s", 10, "step", {"name": "recover", "phase": "ended", "seconds": 4.0})]
    assert [step.seconds for step in steps_of(again, 0)] == [2.0, None, 4.0]


def test_a_stepped_line_holds_its_value_until_the_next() -> None:
    line = parsed(chart([Panel("p", (Series("s", ((0, 0), (5, 10)), stepped=True),))])).find(f"{SVG}polyline")
    assert line is not None
    assert len(line.attrib["points"].split()) == 3


def test_nothing_to_draw_is_nothing() -> None:
    assert chart([Panel("p", ())]) == ""
    assert timeline([Event("s", 0, "observation", {"what": "x", "got": 1, "wanted": 1})]) is None


@pytest.mark.parametrize(("low", "high"), [(0, 1), (0, 7.3), (12, 13), (0, 1234567)])
def test_ticks_are_few_round_and_within(low: float, high: float) -> None:
    ticks = Axis(low, high, 0, 100).ticks()
    assert 1 <= len(ticks) <= 6
    assert all(low <= tick <= high * (1 + 1e-9) for tick in ticks)


def test_large_values_are_shortened() -> None:
    assert [short(value) for value in (0, 12.5, 1500, 20e6, 3e9)] == ["0", "12.5", "1.5k", "20M", "3G"]


def test_rates_count_what_was_acknowledged_only() -> None:
    done = [operation(1 + number / 100) for number in range(100)]
    refused = [operation(1.5, Ended.FAIL)] * 50
    points = rates([*done, *refused], origin=0.0)
    assert dict(points)[1.0] == pytest.approx(100, rel=0.1)
    assert points[0] == (0.0, 0.0)


def test_the_steps_of_a_scenario_are_numbered_beside_its_operations() -> None:
    events = [
        *(Event("s", 9.0, "operations", data) for data in pack([operation(2.0), operation(4.0), operation(9.0)])),
        Event("s", 3.0, "step", {"name": "switch off", "phase": "began"}),
        Event("s", 3.5, "step", {"name": "switch off", "phase": "ended", "seconds": 0.5}),
        Event("s", 5.0, "step", {"name": "never ends", "phase": "began"}),
        Event("s", 2.5, "sample", {"recovering_bytes_s": 5, "degraded": 2, "misplaced": 1}),
        Event("s", 3.5, "sample", {"unavailable": "no quorum"}),
    ]
    drawn = timeline(events)
    assert drawn is not None
    assert [(step.number, step.name, step.seconds) for step in drawn.steps] == [
        (1, "switch off", 0.5),
        (2, "never ends", None),
    ]
    assert drawn.steps[0].at_s == pytest.approx(1.01)
    assert (
        len(parsed(drawn.graph.svg).findall(f"{SVG}polyline")) == 13
    )  # a rate, three percentiles of three times, three samples


def test_faults_are_marked_from_when_they_were_inflicted_until_they_were_healed() -> None:
    def fault(at_s: float, phase: str, target: str = "osd.1") -> Event:
        return Event("s", at_s, "fault", {"fault": "kill-daemon", "target": target, "nodes": [], "phase": phase})

    events = [
        *(Event("s", 9.0, "operations", data) for data in pack([operation(2.0), operation(9.0)])),
        *(fault(at_s, phase) for at_s, phase in ((2.9, "inflicting"), (3.0, "broken"), (3.1, "seen"), (5.0, "healed"))),
        Event("s", 4.0, "step", {"name": "looked", "phase": "reached"}),
        fault(6.0, "broken"),
        fault(7.0, "broken", "osd.2"),
        fault(8.0, "healed"),
    ]
    drawn = timeline(events)
    assert drawn is not None
    assert [(step.name, step.seconds) for step in drawn.steps] == [
        ("kill-daemon of osd.1", 2.0),
        ("looked", None),
        ("kill-daemon of osd.1", 2.0),
        ("kill-daemon of osd.2, not healed", None),
    ]
    assert next((mark["at"], mark["until"]) for mark in drawn.graph.data["marks"]) == pytest.approx((1.01, 3.01))


def test_percentiles_are_of_acknowledged_operations_and_of_all_clients() -> None:
    slow = [Operation("l", "c1", 0, Act.READ, n, 1, 1.0, 1.0 + n / 1000, Ended.OK) for n in range(1, 101)]
    refused = Operation("l", "c1", 0, Act.READ, 1, 1, 1.0, 9.0, Ended.FAIL)
    drawn = timeline([Event("s", 9.0, "operations", data) for data in pack([*slow, refused])])
    assert drawn is not None
    (answers,) = drawn.answers
    assert (answers.what, answers.count) == ("reads of c1", 100)
    assert answers.times_ms == pytest.approx((50.5, 95.05, 99.01, 100.0))
    panel = drawn.graph.data["panels"][1]
    assert [series["label"] for series in panel["series"]] == ["p50", "p95", "p99"]
    assert [series["points"][0][1] for series in panel["series"]] == pytest.approx([50.5, 95.05, 99.01])


def test_while_nothing_was_answered_the_line_of_percentiles_is_broken() -> None:
    early = [operation(1.0 + n / 10) for n in range(20)]
    late = [operation(60.0 + n / 10) for n in range(20)]
    drawn = timeline([Event("s", 9.0, "operations", data) for data in pack([*early, *late])])
    assert drawn is not None
    rate, median = drawn.graph.data["panels"][0]["series"][0], drawn.graph.data["panels"][1]["series"][0]
    assert {y for x, y in median["points"] if 5 < x < 55} == {None}
    assert {y for x, y in rate["points"] if 5 < x < 55} == {0.0}
    assert len(parsed(drawn.graph.svg).findall(f"{SVG}polyline")) == 1 + 3 * 2


def test_steps_have_times_since_the_epoch_where_a_scenario_noted_the_clock() -> None:
    struck = {"fault": "kill-daemon", "target": "osd.0"}
    events = [
        Event("a", 3.0, FAULT, {**struck, "phase": "broken"}),
        Event("a", 5.0, FAULT, {**struck, "phase": "healed"}),
        Event("b", 6.0, FAULT, {**struck, "phase": "broken"}),
        Event("a", 9.0, CLOCK, {"epoch_s": 1000.0}),
    ]
    assert list(spans_of(events)) == [StepSpan("a", "kill-daemon of osd.0", 1003.0, 1005.0)]
