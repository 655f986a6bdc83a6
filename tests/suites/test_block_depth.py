"""The curve over queue depths: its points, its knee, and the gain that is judged by its interval."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from cephlab.lab.checks.figures import judge_figure
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster.pools import REPLICATED
from cephlab.lab.history.history import Basis, History
from cephlab.lab.scenario.scenario import Tier
from cephlab.lab.telemetry.statistics import interval_of, knee, ratio_of
from cephlab.suites import gains
from cephlab.suites.bias import UNBIASED
from cephlab.suites.block import depth
from cephlab.suites.block.depth import GAIN, GAINED
from cephlab.suites.block.expected import LATENCY, RATE, Expected, expect
from cephlab.suites.block.scale import PUBLISHED_BYTES, pg_num, scale_of
from cephlab.suites.block.stand import IMAGE_BYTES, PG_NUM, SECONDS
from cephlab.tuning.workload import Shape
from tests.suites.test_block_growth import RISING, Sweep, judged
from tests.suites.test_block_suite import result


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rates", "outcome"),
    [
        ((100.0, 300.0, 250.0), Outcome.PASS),
        ((100.0, 121.0, 110.0), Outcome.INCONCLUSIVE),
        ((100.0, 90.0, 80.0), Outcome.FAIL),
    ],
)
def test_the_best_depth_is_compared_with_one_request_by_interval(rates: Sequence[float], outcome: Outcome) -> None:
    recorder, depths = History().recorder("block.depth"), (1, 8, 64)
    results = [(result(rate, flight / rate, rate / 50), UNBIASED) for rate, flight in zip(rates, depths, strict=True)]
    depth.note_curve(recorder, "a curve", depths, results, Expected(words="not predicted: so"), GAIN)
    [figure, drawn] = [event.data for event in recorder.events()]
    gain = ratio_of(*(interval_of(rate, rate / 50, 20) for rate in (max(rates), rates[0])))
    assert (figure["metric"], figure["unit"], figure["why"]) == (GAINED, "", GAIN.why)
    assert (figure["value"], figure["low"], figure["high"]) == (gain.mean, gain.low, gain.high)
    assert judge_figure(figure).outcome is outcome
    assert (GAIN.least, GAIN.most, GAIN.basis) == (1.2, None, Basis.SHAPE)
    assert (drawn["title"], drawn["axis"], drawn["marks"]) == ("a curve", "in flight", {})
    assert drawn["words"] == "no knee in this range; not predicted: so"
    assert [(line["panel"], line["label"]) for line in drawn["lines"]] == [(RATE, "measured"), (LATENCY, "measured")]


@pytest.mark.parametrize(("lab", "outcome"), [("ssh", Outcome.FAIL), ("local", Outcome.PASS)])
def test_depth_gains_what_the_model_says_on_the_profiles_machines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lab: str, outcome: Outcome
) -> None:
    """1.5 times as much with 64 in flight will do in a lab, and is too little for machines with idle disks."""
    monkeypatch.setattr(depth, "DEPTHS", {Tier.QUICK: (1, 2, 64)})
    sweep = Sweep(tmp_path, monkeypatch, lab, [1e5, 1.3e5, 1.5e5])
    depth.run(sweep.stage, "randread")
    shallow, deep = (Shape("randread", 4096, 1, flight) for flight in (1, 64))
    limit, gained = gains.of_growth(sweep.stage, shallow, deep, GAIN), sweep.figure(GAINED)
    assert judged(gained) is outcome
    assert (gained["least"], gained["basis"]) == (limit.least, "profile" if lab == "ssh" else "shape")
    assert sweep.verdict.outcome is outcome


@pytest.mark.slow
@pytest.mark.parametrize("tier", list(Tier))
def test_each_depth_is_a_point_of_the_curve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tier: Tier) -> None:
    sweep = Sweep(tmp_path, monkeypatch, "local", RISING, tier)
    depth.run(sweep.stage, "randread")
    depths = depth.DEPTHS[tier]
    assert depths[0] == 1
    assert [(job.depth, job.pattern, job.block_bytes, job.runtime_s) for job in sweep.jobs] == [
        (flight, "randread", 4096, SECONDS[tier]) for flight in depths
    ]
    assert set(sweep.nodes) == {"client"}
    assert sweep.written == [sweep.stage, 1, IMAGE_BYTES, {"pg_num": PG_NUM}]
    rates = dict(zip(depths, RISING, strict=False))
    for flight, rate in rates.items():
        assert sweep.figure(f"randread at depth {flight}: throughput")["value"] == pytest.approx(rate)
        busy = sweep.figure(f"randread at depth {flight}: requests in flight, share of those asked for")
        assert busy["value"] == pytest.approx(1.0)
    [drawn] = sweep.data("series")
    assert (drawn["title"], drawn["axis"]) == ("randread of 4 KiB against requests in flight", "in flight")
    bend = knee(depths, list(rates.values()))
    assert drawn["marks"] == ({"knee": bend} if bend else {})
    said = f"knee at depth {bend:g}" if bend else "no knee in this range"
    assert drawn["words"].startswith(f"{said}; predicted for mine from demands ")
    rate, latency, *predicted = drawn["lines"]
    assert (rate["panel"], rate["points"]) == (RATE, [list(point) for point in rates.items()])
    assert latency["points"] == [[flight, pytest.approx(flight / each)] for flight, each in rates.items()]
    assert [line["label"] for line in predicted] == ["predicted", "predicted"]
    assert [x for x, _ in predicted[0]["points"]] == list(depths)


@pytest.mark.slow
def test_on_the_profiles_machines_the_image_and_the_limits_are_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep = Sweep(tmp_path, monkeypatch, "ssh", RISING)
    depth.run(sweep.stage, "randread")
    size, pgs = scale_of(sweep.stage).image_bytes(PUBLISHED_BYTES, 1), pg_num(sweep.stage, REPLICATED)
    assert size > IMAGE_BYTES
    assert sweep.written == [sweep.stage, 1, size, {"pg_num": pgs}]
    limits = [
        (figure["least"], figure["most"])
        for flight in depth.DEPTHS[Tier.QUICK]
        for what in ("throughput", "mean latency")
        for figure in [sweep.figure(f"randread at depth {flight}: {what}")]
    ]
    shapes = [Shape("randread", 4096, 1, flight) for flight in depth.DEPTHS[Tier.QUICK]]
    expected = expect(sweep.stage, shapes)
    bounds = [bound for number in range(len(shapes)) for bound in expected.bounds(number)]
    assert limits == [(bound.least, bound.most) for bound in bounds]
    assert all(bound.judges for bound in bounds)


def test_the_scenarios_are_a_quick_one_of_reads_and_a_full_one_of_writes() -> None:
    assert {Tier.QUICK: (1, 4, 16, 64), Tier.FULL: (1, 2, 4, 8, 16, 32, 64, 128)} == depth.DEPTHS
    wanted = [("randread", Tier.QUICK), ("randwrite", Tier.FULL)]
    assert [(scenario.name, scenario.tier) for scenario in depth.SCENARIOS] == [
        (f"block.depth[op={op}]", tier) for op, tier in wanted
    ]
    for scenario, (pattern, _) in zip(depth.SCENARIOS, wanted, strict=True):
        assert isinstance(scenario.run, partial)
        assert (scenario.run.func, scenario.run.keywords) == (depth.run, {"pattern": pattern})
