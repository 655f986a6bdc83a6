"""The fit of the free constants: it finds what made the figures, and a test bed that is left out has no say."""

from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.tuning import fit
from cephlab.tuning.constants import Constants
from cephlab.tuning.fit import Case, bed_errors, kind_errors, left_out, miss
from cephlab.tuning.model import predict
from cephlab.tuning.references import load_reference
from cephlab.tuning.trust import LoadKind
from tests.model_parts import demand, disks, machine, profile

DEMANDS = (demand(primary_s=0.001, core_speed=6.43),)
CLUSTER = profile(machine(cores=1, speed=6.43, disk=(disks(),)))
FIGURE = """
[[figures]]
name = "{name}"
kind = "throughput"
value = {value}
unit = "IOPS"
where = "page"
load = {{ op = "randwrite", bs = "4k", clients = 10, depth = {depth} }}
"""


def _cases(folder: Path, bed: str, factor: float, truth: Constants) -> list[Case]:
    """Figures that the model itself made, with `truth`, times a factor."""
    made = []
    for depth in (2, 4):
        path = folder / f"{bed}.toml"
        head = f'title = "{bed}"\nprofile = "test"\n'
        path.write_text(head + FIGURE.format(name=f"depth {depth}", value=1.0, depth=depth))
        figure = load_reference(path).figures[0]
        assert figure.shape is not None
        value = predict(DEMANDS, CLUSTER, figure.shape, truth).ops * factor
        made.append(Case(bed, figure.model_copy(update={"value": value}), CLUSTER, DEMANDS, "reef"))
    return made


@pytest.mark.slow
def test_the_fit_goes_from_the_prior_towards_what_made_the_figures(tmp_path: Path) -> None:
    truth = replace(Constants(), osd_cpu=1.4)
    figures = [case for bed in ("a", "b") for case in _cases(tmp_path, bed, 1.0, truth)]

    fitted = fit.fit(figures)
    assert 1.2 < fitted.osd_cpu <= 1.45
    assert fitted.flash_full == Constants().flash_full
    assert fitted.gateway_cpu == pytest.approx(Constants().gateway_cpu, rel=0.01)
    assert all(abs(case.ratio(fitted) - 1) < 0.1 for case in figures)


@pytest.mark.slow
def test_a_test_bed_that_is_left_out_has_no_say_in_its_own_prediction(tmp_path: Path) -> None:
    steady = _cases(tmp_path, "a", 1.0, Constants())
    # Were c's figures in the fit of c, the two predictions of c would differ by more than the figures do.
    told: list[str] = []
    low = left_out([*steady, *_cases(tmp_path, "c", 0.5, Constants())], Constants(), told.append)
    high = left_out([*steady, *_cases(tmp_path, "c", 2.0, Constants())], Constants())

    of_c = [[miss.ratio for miss in misses if miss.bed == "c"] for misses in (low, high)]
    assert of_c[0] == pytest.approx([4 * ratio for ratio in of_c[1]], rel=1e-3)
    assert of_c[0] == pytest.approx([2.0, 2.0], rel=0.02)
    assert [line.partition(" ")[0] for line in told] == ["a", "c"]


def test_errors_are_of_test_beds_and_of_kinds(tmp_path: Path) -> None:
    figures = [*_cases(tmp_path, "a", 0.5, Constants()), *_cases(tmp_path, "b", 1.0, Constants())]
    misses = [miss(case, Constants(), {}) for case in figures]

    assert bed_errors(misses) == {"a": pytest.approx(2.0), "b": pytest.approx(1.0)}
    assert kind_errors(misses) == {LoadKind.SMALL_WRITE: pytest.approx(1.5)}


def test_the_file_holds_errors_ranges_and_constants(tmp_path: Path) -> None:
    figures = _cases(tmp_path, "a", 0.5, Constants())
    misses = [miss(case, Constants(), {}) for case in figures]
    held = fit.as_file(figures, Constants(), misses)

    assert held["left_out_error"] == {"a": 2.0}
    assert held["figures"] == 2
    assert held["values"]["osd_cpu"] == Constants().osd_cpu
    assert held["validated"]["small writes"]["in_flight"] == (20, 40)
    assert set(held["left_out"]["a"]["small writes"]) == {"depth 2", "depth 4"}
    assert held["outside"] == {"a": ["depth 2", "depth 4"]}
    assert held["growth"] == {"a": {"small writes": {"depth 2 -> depth 4": pytest.approx(1.0)}}}


def test_a_figure_is_outside_what_the_other_test_beds_validated(tmp_path: Path) -> None:
    """Twice the load of the others counts as inside; a kind of load that the others lack is outside."""
    figures = _cases(tmp_path, "a", 1.0, Constants())
    same, half = fit.validated(figures), fit.validated(figures[:1])
    far = {LoadKind.SMALL_WRITE: replace(same[LoadKind.SMALL_WRITE], in_flight=(90, 100))}
    wanted = [(same, False), (half, False), (far, True), ({}, True)]
    for ranges, outside in wanted:
        assert [miss(case, Constants(), ranges).outside for case in figures] == [outside, outside]


def test_a_growth_is_of_two_loads_on_one_cluster(tmp_path: Path) -> None:
    """Its error is how much more the model is off with the larger load."""
    less, more = _cases(tmp_path, "a", 1.0, Constants())
    assert more.figure.load
    of_8_kib = more.figure.load.model_copy(update={"bs": "8k"})
    larger_blocks = replace(more, figure=more.figure.model_copy(update={"load": of_8_kib}))
    elsewhere = [replace(more, bed="b"), replace(more, release="pacific"), larger_blocks]
    misses = [replace(miss(less, Constants(), {}), ratio=0.8), replace(miss(more, Constants(), {}), ratio=1.2)]

    [growth] = fit.growths([more, less], misses)
    assert (growth.bed, growth.kind, growth.figure) == ("a", LoadKind.SMALL_WRITE, "depth 2 -> depth 4")
    assert growth.ratio == pytest.approx(1.5)
    assert not any(less.differs_only_in_load(other) for other in [less, *elsewhere])


def test_cases_are_rates_and_latencies_that_no_rate_speaks_of(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    rate = FIGURE.format(name="rate", value=5, depth=2)
    same = rate.replace('"rate"', '"its latency"').replace("throughput", "latency").replace("IOPS", "ms")
    other = same.replace("its", "another").replace("depth = 2", "depth = 1")
    path.write_text('title = "p"\nprofile = "test"\n' + rate + same + other)

    cases = fit.cases(DEMANDS, [load_reference(path)], lambda name: CLUSTER)
    assert [case.figure.name for case in cases] == ["rate", "another latency"]
    assert cases[1].ratio(Constants()) == pytest.approx(0.005 / predicted_latency(cases[1]))


def predicted_latency(case: Case) -> float:
    """Seconds of the case's load."""
    assert case.figure.shape is not None
    return predict(case.demands, case.profile, case.figure.shape, Constants()).latency_s
