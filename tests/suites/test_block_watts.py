"""Work per watt: what is noted of each source, what a requirement decides, and what is missing by name."""

from collections.abc import Sequence

import pytest

from cephlab.lab.checks import CHECKS, Outcome, Verdict
from cephlab.lab.history.history import History, Recorder, data_of
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import Energy, Scope, Source
from cephlab.suites.bias import UNBIASED, Bias
from cephlab.suites.block.watts import Limits, Taken, asked_of, note
from cephlab.tuning.requirements import LoadRequirement, PowerRequirement

WRITES = Interval(200_000, 196_000, 204_000, 20)
ALTRA = dict.fromkeys("abcd", "aarch64")
MIXED = {"a": "aarch64", "b": "aarch64", "c": "aarch64", "d": "x86_64"}


def of(node: str, watts: float, source: Source = Source.BMC, scope: Scope = Scope.MACHINE, trouble: str = "") -> Energy:
    return Energy(node, source, scope, 60.0, 60 * watts, watts / 2, (trouble,) if trouble else ())


def judged(
    energies: Sequence[Energy], limits: Limits, archs: dict[str, str] | None = None, bias: Bias = UNBIASED
) -> tuple[Verdict, Recorder]:
    recorder = History().recorder("block.watts")
    archs = archs or ALTRA
    work = {arch: 100_000.0 * list(archs.values()).count(arch) for arch in archs.values()}
    note(recorder, Taken(energies, bias.rate(WRITES), work, archs, bias), limits)
    return CHECKS["figures"](recorder.events()), recorder


def figures_of(recorder: Recorder) -> dict[str, float]:
    return {event.data["metric"]: event.data["value"] for event in recorder.events() if event.kind == "figure"}


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        (Limits(watts=1000, per_watt=200), Outcome.PASS),
        (Limits(watts=800), Outcome.FAIL),
        (Limits(watts=900), Outcome.INCONCLUSIVE),
        (Limits(per_watt=240), Outcome.FAIL),
    ],
)
def test_a_requirement_is_held_to_what_was_measured(limits: Limits, outcome: Outcome) -> None:
    """Four nodes of the paper, 225 W each: 900 W with 3 % either way, and 222 writes a joule."""
    verdict, recorder = judged([of(name, 225) for name in ALTRA], limits)
    assert verdict.outcome is outcome
    figures = figures_of(recorder)
    assert round(figures["work per watt by bmc"]) == 222
    assert figures["a: machine by bmc, above idle"] == pytest.approx(112.5)


@pytest.mark.parametrize(
    ("limits", "outcome"),
    [
        (Limits(watts=1000), Outcome.INCONCLUSIVE),
        (Limits(watts=800), Outcome.FAIL),
        (Limits(per_watt=200), Outcome.PASS),
        (Limits(per_watt=240), Outcome.INCONCLUSIVE),
    ],
)
def test_busy_clients_cannot_pass_watts_nor_fail_work_per_watt(limits: Limits, outcome: Outcome) -> None:
    """They do not load the machines, which then take less, and do less for the watts of their idle parts."""
    verdict, _ = judged([of(name, 225) for name in ALTRA], limits, bias=Bias("the clients on c0 are emulated"))
    assert verdict.outcome is outcome
    said = "fully loaded machines may take more" if limits.watts else "the cluster may be faster"
    assert (f"The clients on c0 are emulated: {said}" in verdict.reason) is (outcome is not Outcome.PASS)


@pytest.mark.parametrize(
    "energies",
    [
        [of(name, 225) for name in "abc"],
        [of(name, 225, Source.MODEL) for name in "abcd"],
        [of(name, 80, Source.RAPL, Scope.CPU) for name in "abcd"],
        [of("a", 225, Source.METER), *(of(name, 225) for name in "bcd")],
        [*(of(name, 225) for name in "abc"), of("d", 225, trouble="is stuck: 10 equal readings in a row")],
    ],
    ids=["a machine is missing", "a model", "processors alone", "sources mixed", "a sensor that stopped"],
)
def test_watts_that_are_not_measured_of_all_machines_decide_nothing(energies: Sequence[Energy]) -> None:
    verdict, recorder = judged(energies, Limits(watts=1, per_watt=1e9))
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert not any(name.startswith("work per watt") for name in figures_of(recorder))


def test_a_sensor_that_stopped_is_named_without_any_requirement() -> None:
    verdict, _ = judged([of(name, 225, trouble="is stuck" if name == "b" else "") for name in ALTRA], Limits())
    assert verdict.outcome is Outcome.INCONCLUSIVE
    assert "b: machine by bmc: is stuck" in verdict.reason


def test_two_sources_of_one_machine_are_set_beside_each_other() -> None:
    _, recorder = judged([of("a", 225), of("a", 210, Source.METER), of("a", 80, Source.RAPL, Scope.CPU)], Limits())
    apart = {name: value for name, value in figures_of(recorder).items() if "beside" in name}
    assert apart == {"a: machine by bmc beside meter, share apart": pytest.approx(15 / 225)}
    [figure] = [data for data in data_of(recorder.events(), "figure") if "beside" in data["metric"]]
    assert figure["why"] == "recorded only: it tells how far to trust both; a: bmc 225.0 W, meter 210.0 W: 6.7 % apart"
    assert (figure["unit"], figure["basis"]) == ("", "noted")
    _, recorder = judged([of("a", 0, trouble="off"), of("a", 0, Source.METER, trouble="off")], Limits())
    [figure] = [data for data in data_of(recorder.events(), "figure") if "beside" in data["metric"]]
    assert figure["value"] == 0
    assert figure["why"].endswith("within 3 %")


def test_the_architectures_stand_beside_each_other() -> None:
    """Seed figures of the mixed cluster: 225 W of each Altra node and 350 W of the EPYC node, equal work of each."""
    _, recorder = judged([*(of(name, 225) for name in "abc"), of("d", 350)], Limits(), MIXED)
    figures = figures_of(recorder)
    altra, epyc = (figures[f"{arch}: operations of OSDs per watt by bmc"] for arch in ("aarch64", "x86_64"))
    assert altra / epyc == pytest.approx(350 / 225)
    _, recorder = judged([of(name, 225) for name in ALTRA], Limits())
    assert not any("operations of OSDs" in name for name in figures_of(recorder)), "there is only one"


@pytest.mark.parametrize(("writes", "outcome"), [(0.0, Outcome.INCONCLUSIVE), (1.0, Outcome.PASS)])
def test_watts_without_any_write_show_nothing(writes: float, outcome: Outcome) -> None:
    recorder = History().recorder("block.watts")
    taken = Taken([of("a", 225)], Interval(writes, writes, writes, 9), {"aarch64": 1.0}, {"a": "aarch64"}, UNBIASED)
    note(recorder, taken, Limits())
    assert CHECKS["figures"](recorder.events()).outcome is outcome


def test_each_figure_has_its_unit_and_says_what_it_is_held_to() -> None:
    _, recorder = judged([*(of(name, 225) for name in "abc"), of("d", 350)], Limits(2000, 1), MIXED)
    figures = {data["metric"]: data for data in data_of(recorder.events(), "figure")}
    required = {
        "watts of all machines by bmc": ("W", "profile", "the profile's power requirement"),
        "work per watt by bmc": ("ops/J", "profile", "the profile's requirement for work per watt"),
    }
    why = "recorded only: no power requirement applies to these machines"
    for metric, data in figures.items():
        unit = "ops/J" if "per watt" in metric else "W"
        assert (data["unit"], data["basis"], data["why"]) == required.get(metric, (unit, "noted", why))
    assert required.keys() < figures.keys()


def test_only_requirements_of_this_load_hold() -> None:
    shape = {"op": "randwrite", "bs": "4k", "clients": 1, "depth": 1, "protection": "replicated:2"}
    loads = [
        LoadRequirement.model_validate({"name": "w", **shape, "per_watt_at_least": "200 ops/s/W"}),
        LoadRequirement.model_validate({"name": "r", **shape, "op": "randread", "per_watt_at_least": "900 ops/s/W"}),
    ]
    plug = PowerRequirement.model_validate({"name": "p", "kind": "power", "at_most": "1000 W"})
    assert asked_of([*loads, plug]) == Limits(1000, 200)
    assert asked_of(loads[1:]) == Limits()
