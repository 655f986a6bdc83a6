"""The scalability law against points that were made by it, and against points that no such law makes."""

import math

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.tuning.scaling import LEAST_POINTS, Scalability, fit

CLIENTS = (1, 2, 4, 8, 16)


def points(law: Scalability, clients: tuple[int, ...] = CLIENTS) -> list[tuple[float, float]]:
    return [(float(n), law.throughput(n)) for n in clients]


def test_the_law_is_the_published_one() -> None:
    law = Scalability(rate=100.0, contention=0.2, coherency=0.01, error=0.0)
    assert law.throughput(1) == pytest.approx(100.0)
    assert law.throughput(3) == pytest.approx(300 / (1 + 0.2 * 2 + 0.01 * 3 * 2))


@pytest.mark.parametrize(("contention", "coherency"), [(0.3, 0.02), (0.3, 0.0), (0.0, 0.02), (0.0, 0.0), (1.0, 0.0)])
def test_each_law_is_found_again_from_its_points(contention: float, coherency: float) -> None:
    law = fit(points(Scalability(100.0, contention, coherency, 0.0)))
    assert law.rate == pytest.approx(100.0)
    assert law.contention == pytest.approx(contention, abs=1e-9)
    assert law.coherency == pytest.approx(coherency, abs=1e-9)
    assert law.error == pytest.approx(0.0, abs=1e-9)


def test_the_peak_is_where_one_client_more_does_no_more() -> None:
    law = Scalability(100.0, 0.19, 0.01, 0.0)
    assert law.peak == pytest.approx(9.0)
    assert law.throughput(9) > max(law.throughput(8), law.throughput(10))
    assert Scalability(100.0, 0.19, 0.0, 0.0).peak is None


@pytest.mark.parametrize("contention", [1.01, 1.5, 2.5])
def test_more_than_all_of_the_work_is_never_serial(contention: float) -> None:
    # Throughput that falls from the first client on, as no law makes it: the nearest one is taken.
    law = fit(points(Scalability(100.0, contention, 0.0, 0.0)))
    assert 0.0 <= law.contention <= 1.0
    assert law.error > 0.0


def test_throughput_that_falls_from_the_first_client_on_falls_by_coherency() -> None:
    law = fit([(1.0, 100.0), (2.0, 60.0), (3.0, 40.0), (4.0, 30.0)])
    assert 0.0 <= law.contention <= 1.0
    assert law.coherency > 0.0
    assert math.isfinite(law.error)


def test_more_than_proportional_gains_are_neither_contention_nor_coherency() -> None:
    growing = [(1.0, 100.0), (2.0, 220.0), (4.0, 480.0), (8.0, 1100.0)]
    law = fit(growing)
    assert law.contention >= 0.0
    assert law.coherency >= 0.0


def test_the_error_is_the_root_mean_square_of_the_relative_residuals() -> None:
    whole = points(Scalability(100, 0.1, 0.01, 0))
    measured = [(n, x * (1.1 if number % 2 else 0.9)) for number, (n, x) in enumerate(whole)]
    law = fit(measured)
    squares = [(law.throughput(n) / x - 1) ** 2 for n, x in measured]
    assert law.error == pytest.approx(math.sqrt(sum(squares) / len(squares)))
    assert 0.01 < law.error < 0.2


def test_the_best_of_the_laws_is_taken() -> None:
    # Coherency would have to be negative here: the law without it is nearest.
    measured = [(1.0, 100.0), (2.0, 150.0), (4.0, 210.0), (8.0, 275.0), (16.0, 350.0)]
    law = fit(measured)
    assert law.coherency == 0.0
    assert law.contention == pytest.approx(0.2, abs=0.1)
    assert law.error < 0.06


@pytest.mark.parametrize("point", [(0.0, 1.0), (-1.0, 1.0), (3.0, 0.0), (3.0, -1.0)])
def test_points_that_are_not_above_zero_are_refused(point: tuple[float, float]) -> None:
    with pytest.raises(SpecError, match="above zero"):
        fit([*points(Scalability(100, 0.1, 0.01, 0)), point])


def test_a_slow_operation_is_one_too() -> None:
    assert fit(points(Scalability(0.5, 0.1, 0.01, 0.0))).rate == pytest.approx(0.5)
    assert fit([(n / 4, x) for n, x in points(Scalability(100.0, 0.0, 0.0, 0.0))]).rate == pytest.approx(400.0)


def test_the_same_number_of_clients_twice_is_one_point() -> None:
    assert LEAST_POINTS == 4
    three = points(Scalability(100, 0.1, 0.01, 0), (1, 2, 4))
    with pytest.raises(SpecError, match="too few points"):
        fit([*three, *three])
    fit([*three, (8.0, 400.0)])
