"""References, validation, limits and the scalability law."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.cli.validatemodel import assumption_lines
from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand, Role
from cephlab.tuning.demandsets import find_demands, find_every_demand
from cephlab.tuning.limits import latency_limit, recovery_limit, throughput_limit, trusted_factor
from cephlab.tuning.model import predict
from cephlab.tuning.profilefile import find_profile
from cephlab.tuning.recovery import recovery_time
from cephlab.tuning.references import FigureKind, Machines, load_reference, load_references
from cephlab.tuning.scaling import Scalability, fit
from cephlab.tuning.trust import shipped
from cephlab.tuning.validate import geometric_error, validate
from cephlab.tuning.workload import Shape, parse_block, parse_ec
from tests.model_parts import demand, disks, machine, profile

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "measured/model.md"

REFERENCE = """
title = "A paper"
profile = "test"

[[figures]]
name = "writes"
kind = "throughput"
value = 10000
unit = "ops/s"
where = "page 1"
load = { op = "randwrite", bs = "4k", clients = 50, depth = 20 }

[[figures]]
name = "reads"
kind = "throughput"
value = 1
unit = "ops/s"
where = "page 2"
load = { op = "randread", bs = "4k", clients = 1, depth = 1 }

[[figures]]
name = "watts"
kind = "power"
value = 225
unit = "W"
where = "page 3"
beyond = "nothing derives it"

[[figures]]
name = "rebuilt"
kind = "recovery"
value = 1000
unit = "s"
where = "page 4"
recovery = { bytes = "1 TB" }
"""


def _reference(folder: Path, text: str = REFERENCE) -> Path:
    path = folder / "paper.toml"
    path.write_text(text)
    return path


def test_shipped_references_name_profiles_that_are_shipped(tmp_path: Path) -> None:
    references = load_references()

    papers = {"ampere-altra", "rhcs-10b", "incerta", "pve-epyc", "kunpeng920"}
    assert {reference.name for reference in references} == papers | {
        "mako-epyc",
        "rhcs-p4500",
        "ibm-r760",
        "micron-9200",
    }
    for reference in references:
        names = {reference.profile, *(figure.profile for figure in reference.figures if figure.profile)}
        assert {find_profile(name, tmp_path).name for name in names} == names
        assert bool(reference.lost) == (reference.name in papers)
        assert all(figure.where for figure in reference.figures)


def test_each_figure_is_predicted_or_told_why_not(tmp_path: Path) -> None:
    reference = load_reference(_reference(tmp_path))
    nodes = profile(machine(disk=(disks(seq_write=1e9, seq_read=1e9),)))
    validation = validate([demand(primary_s=0.001, replicas_s=0.001)], [reference], lambda _: nodes)
    by_name = {comparison.figure.name: comparison for comparison in validation.comparisons}

    assert by_name["writes"].ratio == pytest.approx(1.5, rel=0.01)
    assert by_name["reads"].predicted is None
    assert "randread" in by_name["reads"].why
    assert by_name["watts"].why == "nothing derives it"
    assert by_name["rebuilt"].predicted is not None
    assert validation.error == pytest.approx(1.5, rel=0.01)


def test_the_appendix_of_the_hyperconverged_paper_is_there_whole() -> None:
    figures = {
        figure.name: figure for paper in load_references() if paper.name == "pve-epyc" for figure in paper.figures
    }

    for clients, most, longest in (("one client", 4124, 0.1191), ("two clients", 5708, 0.2347)):
        assert figures[f"4 MiB write, {clients}: bandwidth of the best second"].value == most << 20
        assert figures[f"4 MiB write, {clients}: longest latency"].value == longest
    assert figures["4 MiB sequential read, three clients: operations of the worst second"].value == 2029
    assert figures["4 MiB sequential read, one client: shortest latency"].shape is not None
    assert len([name for name in figures if name.startswith("4 MiB")]) == 6 * 2 + 3 * 10 + 3 * 6


def test_the_shortest_latency_is_beside_that_of_one_alone(tmp_path: Path) -> None:
    text = REFERENCE.replace(
        'kind = "throughput"\nvalue = 10000\nunit = "ops/s"', 'kind = "alone"\nvalue = 0.0017\nunit = "s"'
    )
    made = validate(
        [demand(primary_s=0.001, replicas_s=0.001)], [load_reference(_reference(tmp_path, text))], lambda _: profile()
    )

    [alone] = [each for each in made.comparisons if each.figure.kind is FigureKind.ALONE]
    assert alone.ratio == pytest.approx(1.0, rel=0.01)


ASSUMING = REFERENCE.replace("depth = 20 }", 'depth = 20, assumed = ["clients"] }').replace(
    "clients = 50", "clients = 1"
)


@pytest.mark.parametrize(("text", "rests"), [(REFERENCE, ""), (ASSUMING, "clients of 1")])
def test_a_figure_says_what_it_rests_on(tmp_path: Path, text: str, rests: str) -> None:
    reference = load_reference(_reference(tmp_path, text))
    made = validate([demand(primary_s=0.001, replicas_s=0.001)], [reference], lambda _: profile(), sensitivity=True)
    (writes,) = made.rates

    assert ", ".join(assumption.what for assumption in writes.rests) == rests
    assert (made.error_without_assumptions is None) is bool(rests)
    # Four times as many clients; a quarter of one is one.
    assert [word for assumption in writes.rests for word, _ in assumption.otherwise] == (["1", "4"] if rests else [])


def test_what_a_profile_assumes_is_tried_at_half_and_at_double(tmp_path: Path) -> None:
    node = machine(disk=(disks(),))
    slow = replace(node, core_speed=replace(node.core_speed, source="assumed: as the others"))
    reference = load_reference(_reference(tmp_path))
    made = validate([demand(primary_s=0.001, replicas_s=0.001)], [reference], lambda _: profile(slow), sensitivity=True)
    (writes,) = made.rates
    (rest,) = writes.rests

    assert rest.what == "n.core_speed of 1 points"
    assert [rate for _, rate in rest.otherwise] == pytest.approx([7_500, 30_000], rel=0.02)


def test_the_gain_of_a_second_thread_is_an_assumption(tmp_path: Path) -> None:
    threads = {Role.PRIMARY: {"tp_osd_tp": 0.004}}
    measured = [demand(primary_s=0.004, threads=threads)]
    reference = load_reference(_reference(tmp_path))
    two = machine(cores=100, threads_per_core=2, disk=(disks(),))
    made = validate(measured, [reference], lambda _: profile(two), sensitivity=True).rates

    # 16 op threads of 1 / 1.25 points on each of three nodes.
    assert [rest.what for rest in made[0].rests] == ["n: a core's gain by its second thread of 1.25"]
    known = replace(two, thread_speed=two.core_speed)
    assert not validate(measured, [reference], lambda _: profile(known), sensitivity=True).rates[0].rests


def test_the_target_is_met_missed_or_not_to_be_judged(tmp_path: Path) -> None:
    reference = load_reference(_reference(tmp_path))

    def meets(*demands: Demand) -> bool | None:
        return validate(demands, [reference], lambda _: profile()).met

    assert meets() is None
    assert meets(demand(primary_s=0.001, replicas_s=0.001)) is False
    assert meets(demand(primary_s=0.0015, replicas_s=0.0015)) is True


def test_the_geometric_error_counts_both_ways() -> None:
    assert geometric_error([2.0, 0.5]) == pytest.approx(2.0)
    assert geometric_error([1.0, 1.0]) == 1.0
    assert geometric_error([]) is None


@pytest.mark.parametrize(
    ("was", "becomes", "wanted"),
    [
        ('kind = "power"', 'kind = "smell"', "figures.2.kind"),
        ('beyond = "nothing derives it"', "", "exactly one of load, recovery and beyond"),
        ("depth = 20 }", "depth = 20, dept = 1 }", "unknown key"),
        ("clients = 50", "clients = 0", "1 or more"),
        ('bs = "4k"', 'bs = "4q"', "figures.0.load: the block size: '4q' is not a size: wanted e.g. 4k"),
        ('op = "randwrite"', 'op = "randwrit"', "figures.0.load: the model does not know the operation 'randwrit'"),
    ],
)
def test_a_reference_that_does_not_fit_is_refused(tmp_path: Path, was: str, becomes: str, wanted: str) -> None:
    with pytest.raises(SpecError) as caught:
        load_reference(_reference(tmp_path, REFERENCE.replace(was, becomes, 1)))

    assert wanted in caught.value.detail


@pytest.mark.slow
@pytest.mark.shipped_constants
def test_the_shipped_demands_predict_the_shipped_references(tmp_path: Path) -> None:
    demands, origin = find_every_demand(tmp_path)
    validation = validate(demands, load_references(), lambda name: find_profile(name, tmp_path))

    assert "shipped" in origin
    assert all(measured.core_speed > 0 for measured in demands)
    assert len(validation.rates) >= 6
    ratios = [comparison.ratio for comparison in validation.rates if comparison.ratio]
    assert all(0.2 < ratio < 5 for ratio in ratios)
    assert validation.met


@pytest.mark.shipped_constants
@pytest.mark.parametrize(("operation", "published"), [("randwrite", 103_000), ("randread", 137_000)])
def test_one_osd_alone_does_what_was_published_and_not_fitted(tmp_path: Path, operation: str, published: float) -> None:
    alone = Machines(nodes=1, disks=1).of(find_profile("mako-epyc-10n", tmp_path))
    made = predict(find_demands(tmp_path)[0], alone, Shape(operation, 4096, 16, 128, replicas=1), release="pacific")

    assert published / 1.4 < made.ops < published * 1.4


@pytest.mark.shipped_constants
def test_small_writes_of_an_image_in_a_code_cost_more_than_copies(tmp_path: Path) -> None:
    """Measured: 4 KiB in 4+2 cost OSDs four times what three copies do."""
    demands, _ = find_demands(tmp_path)
    nodes = find_profile("mako-epyc-10n", tmp_path)
    codes = ({"replicas": 3}, {"k": 2, "m": 1}, {"k": 4, "m": 2}, {"k": 8, "m": 3})
    copies, *coded = (predict(demands, nodes, Shape("randwrite", 4096, 60, 128, **code)).ops for code in codes)

    assert coded == sorted(coded, reverse=True)
    assert 3 < copies / coded[1] < 6


@pytest.mark.slow
@pytest.mark.shipped_constants
def test_the_page_of_the_model_shows_what_it_says(tmp_path: Path) -> None:
    demands, _ = find_every_demand(tmp_path)
    validation = validate(demands, load_references(), lambda name: find_profile(name, tmp_path), sensitivity=True)
    page, left_out = PAGE.read_text(), {(miss.bed, miss.figure): miss.ratio for miss in shipped()[0]}

    for comparison in validation.rates:
        ratios = rf"{comparison.ratio:.2f} \| {left_out[comparison.reference, comparison.figure.name]:.2f}"
        assert re.search(
            rf"^\| {comparison.reference} \| {comparison.figure.name} \| .* \| {ratios} \| ", page, re.MULTILINE
        )
    assert f"Geometric mean error {validation.error:.2f} over {len(validation.rates)} of" in page
    firm = [comparison for comparison in validation.rates if not comparison.rests]
    assert f"{len(firm)} of the {len(validation.rates)} rest on no assumption: geometric mean error" in page
    assert f"mean error {validation.error_without_assumptions:.2f}." in page
    assert [line for line in assumption_lines(validation) if line not in page] == []
    assert (DOCS / "model-steps.md").read_text().count("**Scalability law.**") == 1


def test_a_user_without_demands_is_sent_to_measure(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="cephlab measure"):
        find_demands(tmp_path / "none", tmp_path / "nonesuch.json")


def test_limits_against_a_profile_carry_their_derivation() -> None:
    made = predict([demand(primary_s=0.001, replicas_s=0.001)], profile(), Shape("randwrite", 4096, 50, 20))

    low = throughput_limit(made, 2.0)
    assert low.low == pytest.approx(made.ops / 2)
    assert "n: CPU" in low.why
    assert low.derivation.lines()[-1].startswith("limit: ")
    assert latency_limit(made, 2.0).high == pytest.approx(made.latency_s * 2)
    rebuilt = recovery_time(profile(machine(disk=(disks(seq_write=1e9, seq_read=1e9),))), 1e12)
    assert recovery_limit(rebuilt, 1.5).high == pytest.approx(rebuilt.seconds * 1.5)


def test_the_model_is_trusted_as_far_as_it_was_validated() -> None:
    assert trusted_factor([]) == 2.0
    assert trusted_factor([1.0, 1.1]) == 1.25
    assert trusted_factor([0.5, 1.1]) == 2.0


def test_the_scalability_law_is_found_again() -> None:
    law = Scalability(rate=1000, contention=0.05, coherency=0.001, error=0)
    fitted = fit([(n, law.throughput(n)) for n in (1, 2, 4, 8, 16, 32)])

    assert fitted.contention == pytest.approx(0.05)
    assert fitted.coherency == pytest.approx(0.001)
    assert fitted.peak == pytest.approx((0.95 / 0.001) ** 0.5)


def test_clients_that_do_not_disturb_each_other_have_no_peak() -> None:
    fitted = fit([(n, 500.0 * n) for n in (1, 2, 3, 4)])

    assert fitted.contention == pytest.approx(0, abs=1e-9)
    assert fitted.coherency == pytest.approx(0, abs=1e-9)
    assert fitted.rate == pytest.approx(500)


def test_three_points_do_not_support_the_law() -> None:
    with pytest.raises(SpecError, match="too few points"):
        fit([(1, 3958.62), (2, 5383.28), (3, 6078.49)])


@pytest.mark.parametrize(("text", "bytes_"), [("4k", 4096), ("4KiB", 4096), ("4M", 4 << 20), ("512", 512)])
def test_block_sizes(text: str, bytes_: int) -> None:
    assert parse_block(text) == bytes_


def test_what_is_no_shape_is_refused() -> None:
    for text in ("4x", "5T"):
        with pytest.raises(SpecError, match="block size") as refused:
            parse_block(text)
        assert "bytes, k or M" in refused.value.detail
    with pytest.raises(SpecError, match="erasure code"):
        parse_ec("4-2")
    with pytest.raises(SpecError, match="does not know the operation"):
        Shape("scrub", 4096, 1, 1)
    assert parse_ec("4+2") == (4, 2)
    assert parse_ec("") == (0, 0)


def test_a_publication_is_predicted_with_its_own_release(tmp_path: Path) -> None:
    """The older release's operation costs twice, so its cluster delivers half."""
    new = demand(primary_s=0.001, replicas_s=0.001)
    old = replace(demand(primary_s=0.002, replicas_s=0.002), release="nautilus")
    (tmp_path / "of").mkdir()
    newer = load_reference(_reference(tmp_path))
    older = load_reference(
        _reference(tmp_path / "of", REFERENCE.replace("profile =", 'release = "octopus"\nprofile ='))
    )

    def rates(*demands: Demand) -> list[float]:
        predicted = [
            validate(demands, [reference], lambda _: profile()).rates[0].predicted or 0 for reference in (newer, older)
        ]
        both = validate(demands, [newer, older], lambda _: profile()).rates
        assert predicted == [
            comparison.predicted for comparison in both if comparison.figure.name == both[0].figure.name
        ]
        return predicted

    assert rates(new, old) == pytest.approx([rates(new)[0], rates(new)[0] / 2], rel=0.01)


def test_a_release_that_is_no_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError) as caught:
        load_reference(_reference(tmp_path, REFERENCE.replace("profile =", 'release = "18.2"\nprofile =')))
    assert "release" in caught.value.detail
