"""The universal scalability law in predictions: from enough points, of the machine that they were measured on."""

from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand, Operation
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import THIS_MACHINE, find_profile
from cephlab.tuning.scaling import Scalability, Scaling, scaling
from cephlab.tuning.workload import Shape

SHAPE = Shape("randread", 4096, 6, 8)
LAW = Scalability(rate=1000.0, contention=0.1, coherency=0.01, error=0.0)


@pytest.fixture
def here(tmp_path: Path) -> Profile:
    return replace(find_profile("ampere-altra-4n", tmp_path), name=THIS_MACHINE)


def measured(folder: Path, counts: tuple[int, ...], *, depth: int = 8, wrong: float = 1.0) -> None:
    for number, clients in enumerate(counts):
        operation = Operation("randread", 4096, depth, clients=clients)
        iops = LAW.throughput(clients) * (wrong if number % 2 else 1 / wrong)
        demand = Demand(operation, "reef", Arch.X86_64, "key", {})
        demandfile.save(folder / f"c{clients}.json", [Measurement(demand, conditions={"iops": f"{iops:.3f}"})])


def test_four_numbers_of_clients_make_a_law(tmp_path: Path, here: Profile) -> None:
    measured(tmp_path, (1, 2, 4, 8))
    growth = scaling(tmp_path, here, SHAPE)
    assert growth.law is not None
    assert growth.law.contention == pytest.approx(0.1, rel=1e-3)
    assert dict(growth.points) == pytest.approx({n: LAW.throughput(n) for n in (1, 2, 4, 8)}, abs=1e-3)
    assert f"{LAW.throughput(6):,.0f} ops/s with 6 clients, falls beyond 9 clients" in growth.words(6)


def test_three_do_not_and_it_is_said(tmp_path: Path, here: Profile) -> None:
    measured(tmp_path, (1, 2, 4))
    growth = scaling(tmp_path, here, SHAPE)
    assert growth.law is None
    assert "measured with these numbers of clients: 1, 2, 4; wanted 4" in growth.words(6)
    assert [clients for clients, _ in growth.points] == [1, 2, 4]


def test_another_depth_is_another_workload(tmp_path: Path, here: Profile) -> None:
    measured(tmp_path, (1, 2, 4, 8), depth=16)
    assert "numbers of clients: none" in scaling(tmp_path, here, SHAPE).words(6)


def test_points_that_do_not_follow_it_make_none(tmp_path: Path, here: Profile) -> None:
    measured(tmp_path, (1, 2, 4, 8), wrong=1.4)
    growth = scaling(tmp_path, here, SHAPE)
    assert "do not follow it" in growth.words(6)
    assert [clients for clients, _ in growth.points] == [1, 2, 4, 8]


def test_hardware_that_was_not_measured_has_none(tmp_path: Path) -> None:
    measured(tmp_path, (1, 2, 4, 8))
    growth = scaling(tmp_path, find_profile("ampere-altra-4n", tmp_path), SHAPE)
    assert growth.law is None
    assert "ampere-altra-4n was not" in growth.words(6)
    assert growth.points == ()


def test_a_law_without_a_peak_never_falls() -> None:
    assert "never falls" in Scaling(Scalability(1000.0, 0.1, 0.0, 0.0), "fitted").words(6)


def test_a_file_of_another_cephlab_is_passed_over(tmp_path: Path, here: Profile) -> None:
    measured(tmp_path, (1, 2, 4, 8))
    (tmp_path / "a-first.json").write_text("{}")
    assert scaling(tmp_path, here, SHAPE).law is not None
