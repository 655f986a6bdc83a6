"""Series and demands become charts of a report; what was not recorded makes none."""

from cephlab.lab.history.history import History
from cephlab.lab.report.series import Line, plots, record_demand, record_look, record_series
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Measurement, measured_in

COST = {
    Resource.CPU_USER_S: Interval(2e-4, 1.9e-4, 2.1e-4, 9),
    Resource.CPU_SYSTEM_S: Interval(1e-4, 0.9e-4, 1.1e-4, 9),
}
MEASURED = Measurement(
    Demand(Operation("randwrite", 4096), "reef", Arch.X86_64, "key", {Role.PRIMARY: COST, Role.MON: {}}),
    stopped="narrow enough",
    linearity="linear",
)


def test_a_series_is_a_chart_with_its_marks() -> None:
    recorder = History().recorder("block.depth")
    lines = [Line("per second", "measured", ((1, 10), (2, 18))), Line("per second", "<predicted>", ((1, 11), (2, 20)))]
    record_series(recorder, "against depth", lines, axis="in flight", marks={"knee": 2.0}, words="as measured")
    (plot,) = plots(recorder.events())
    assert plot.svg.count("<polyline") == 2
    assert "&lt;predicted&gt;" in plot.svg
    assert plot.words == "1: knee (2); as measured"


def test_a_demand_is_a_bar_for_each_role() -> None:
    recorder = History().recorder("block.demand")
    record_demand(recorder, MEASURED)
    (plot,) = plots(recorder.events())
    assert plot.svg.count("<rect") == 2  # user and system; a role without cost has none
    assert "osd.primary" in plot.svg
    assert "300.0 us" in plot.svg
    assert "narrow enough" in plot.words


def test_a_history_gives_its_measurements_back() -> None:
    recorder = History().recorder("block.demand")
    record_demand(recorder, MEASURED)
    assert measured_in(recorder.events()) == (MEASURED,)


def test_nothing_recorded_makes_no_chart() -> None:
    recorder = History().recorder("other")
    recorder.observe("something", got=len("x"), wanted=1)
    assert plots(recorder.events()) == ()


def test_what_a_tier_did_is_drawn_over_time_with_a_mark_for_each_run() -> None:
    recorder = History().recorder("cachetier.oltp")
    for number, stand in enumerate(("ample", "ample", "crowded")):
        moved = {"promoted": number, "flushed": 3, "evicted": number}
        record_look(recorder, "tier", stand, {"objects": moved, "dirty objects": {"dirty": number}}, more="facts")
    (plot,) = plots(recorder.events())
    assert plot.svg.count("<polyline") == 4
    assert [words.partition(" (")[0] for words in plot.words.split("; ")] == ["1: ample", "2: crowded"]


def test_one_look_is_no_course() -> None:
    recorder = History().recorder("dmcache.one-look")
    record_look(recorder, "cache", "x", {"dirty blocks": {"dirty": 1}})
    assert not plots(recorder.events())
