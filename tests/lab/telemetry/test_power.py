"""Watts: what machines say, the integral over a load, sensors that fail, sources that differ, work per watt."""

import math
from pathlib import Path

import pytest

from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.telemetry import watts_program
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import (
    Counted,
    Energy,
    Reading,
    Scope,
    Source,
    apart,
    dcmi_watts,
    disagreement,
    energy,
    modelled,
    rapl_watts,
    redfish_watts,
    trouble_of,
    work_per_watt,
)

DCMI = """
    Instantaneous power reading:                   225 Watts
    Minimum during sampling period:                120 Watts
    Maximum during sampling period:                301 Watts
    Average power reading over sample period:      210 Watts
    IPMI timestamp:                           Tue Nov 24 00:00:00 2026
    Sampling period:                          00000005 Seconds.
    Power reading state is:                   activated
"""


def bmc(watts: list[float], every_s: float = 5.0, node: str = "n0", source: Source = Source.BMC) -> list[Reading]:
    return [Reading(number * every_s, value, source, Scope.MACHINE, node) for number, value in enumerate(watts)]


def of(node: str, watts: float, source: Source = Source.BMC, scope: Scope = Scope.MACHINE) -> Energy:
    return Energy(node, source, scope, 10.0, watts * 10.0)


def test_energy_is_the_integral_over_the_window_and_idle_is_shown() -> None:
    watts = [100, 101, 100, 100, 200, 220, 200, 180, 200, 100]  # 20 to 40 s under load
    used = energy(bmc(list(map(float, watts))), (20.0, 40.0), idle=(0.0, 15.0))
    assert used.joules == pytest.approx(5 * (210 + 210 + 190 + 190))
    assert used.watts == 200
    assert used.idle_w == pytest.approx((100.5 + 100.5 + 100) / 3)
    assert used.above_idle_w == pytest.approx(200 - 100.333, abs=1e-3)
    assert used.measured


def test_a_window_between_readings_is_interpolated() -> None:
    assert energy(bmc([100.0, 200.0]), (1.0, 4.0)).joules == pytest.approx(3 * 150)


def test_watts_that_do_not_cover_the_load_are_refused() -> None:
    for window in ((0.0, 6.0), (-1.0, 5.0), (3.0, 3.0)):
        with pytest.raises(LabBroken, match="do not cover"):
            energy(bmc([100.0, 101.0]), window)
    with pytest.raises(LabBroken, match="do not cover"):
        energy(bmc([100.0, 101.0], every_s=60.0), (10.0, 20.0))


def test_sources_are_never_mixed() -> None:
    mixed = [*bmc([100.0, 101.0]), *bmc([100.0, 101.0], source=Source.METER)]
    with pytest.raises(SpecError, match="different sources"):
        energy(mixed, (0.0, 5.0))
    with pytest.raises(SpecError, match="different sources"):
        work_per_watt(Interval(1, 1, 1, 5), [of("a", 10), of("b", 10, Source.MODEL)])
    with pytest.raises(SpecError, match="different sources"):
        work_per_watt(Interval(1, 1, 1, 5), [of("a", 10), of("a", 10)])
    with pytest.raises(SpecError, match="different nodes or scopes"):
        disagreement(of("a", 10), of("a", 10, scope=Scope.CPU))


@pytest.mark.parametrize(
    ("watts", "said"),
    [
        ([200.0] * 12, "is stuck"),
        ([200.0, 201.0, 6553.5, 199.0], "jumps"),
        ([200.0, 201.0, 0.0, 199.0], "jumps"),
        ([200.0, -1.0, 200.0], "impossible values"),
        ([200.0, math.nan], "impossible values"),
        ([0.0, 0.0], "impossible values"),
    ],
)
def test_a_sensor_that_stops_or_jumps_is_noticed(watts: list[float], said: str) -> None:
    assert said in " ".join(trouble_of(watts))
    used = Energy("n0", Source.BMC, Scope.MACHINE, 1.0, 1.0, trouble=trouble_of(watts))
    assert not used.measured


def test_a_load_that_begins_is_no_jump() -> None:
    assert trouble_of([100.0, 101.0, 180.0, 230.0, 225.0, 226.0]) == ()


def test_a_model_is_no_measurement() -> None:
    assert not of("a", 10, Source.MODEL).measured
    assert modelled(100, 225, 0) == 100
    assert modelled(100, 225, 1) == 225
    assert modelled(100, 220, 0.5) == 160
    for idle, loaded, share in ((200, 100, 0.5), (100, 200, 1.1), (-1, 5, 0)):
        with pytest.raises(SpecError, match="cannot be modelled"):
            modelled(idle, loaded, share)


def test_two_sources_more_than_three_percent_apart_are_said_to_be() -> None:
    assert disagreement(of("a", 100), of("a", 97.5, Source.METER)) == ""
    assert "4.0 % apart" in disagreement(of("a", 100), of("a", 96, Source.METER))


def test_work_per_watt_of_the_papers_clusters() -> None:
    """Seed figures: 200,000 writes a second at four nodes of 225 W are 222 a joule; an EPYC node's quarter 143."""
    cluster = work_per_watt(Interval(200_000, 196_000, 204_000, 10), [of(name, 225) for name in "abcd"])
    assert round(cluster.mean) == 222
    assert cluster.low == pytest.approx(196_000 / 927)
    assert cluster.high == pytest.approx(204_000 / 873)
    assert round(work_per_watt(Interval(50_000, 50_000, 50_000, 10), [of("amd", 350)]).mean) == 143


def test_a_bmc_is_read_through_ipmitool() -> None:
    assert dcmi_watts(DCMI) == 225
    for text in ("", "DCMI request failed because: Invalid command (c1)", DCMI.replace("activated", "deactivated")):
        with pytest.raises(Unavailable):
            dcmi_watts(text)


def test_redfish_adds_up_what_its_controls_take() -> None:
    text = '{"PowerControl": [{"MemberId": "0", "PowerConsumedWatts": 210.5}, {"PowerConsumedWatts": 14}]}'
    assert redfish_watts(text) == 224.5
    for broken in ("", "{}", '{"PowerControl": [{"PowerConsumedWatts": null}]}'):
        with pytest.raises(Unavailable):
            redfish_watts(broken)


def made(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / "class" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return root


def test_sensors_of_the_kernel(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        {
            "hwmon/hwmon0/name": "xgene",
            "hwmon/hwmon0/power1_label": "CPU power",
            "hwmon/hwmon0/power1_input": "80000000",
            "hwmon/hwmon1/name": "power_meter",
            "hwmon/hwmon1/power1_average": "225000000",
            "hwmon/hwmon1/power1_average_interval": "1000",
            "hwmon/hwmon2/name": "temperatures",
            "hwmon/hwmon2/temp1_input": "40000",
        },
    )
    assert watts_program.sensors(root) == {"xgene/CPU power": 80.0, "power_meter/power1": 225.0}
    assert watts_program.sensors(tmp_path / "nothing") == {}


def test_packages_are_counted_once_and_counters_begin_again(tmp_path: Path) -> None:
    root = made(
        tmp_path,
        {
            f"powercap/{zone}/{key}": value
            for zone, name, energy_uj in (
                ("intel-rapl:0", "package-0", "999000000"),
                ("intel-rapl:0:0", "core", "5"),
                ("intel-rapl:1", "package-1", "10000000"),
                ("intel-rapl:2", "psys", "7"),
            )
            for key, value in (("name", name), ("energy_uj", energy_uj), ("max_energy_range_uj", "1000000000"))
        },
    )
    read, unread = watts_program.rapl(root)
    before = {zone: Counted(*counted) for zone, counted in read.items()}
    assert unread == []
    assert sorted(before) == ["intel-rapl:0", "intel-rapl:1"]
    after = {"intel-rapl:0": Counted(799_000_000, 10**9), "intel-rapl:1": Counted(10_000_000, 10**9)}
    assert rapl_watts(before, after, 10.0) == pytest.approx(80.0)
    with pytest.raises(SpecError, match="do not match"):
        rapl_watts(before, {"intel-rapl:0": Counted(1, 2)}, 10.0)


@pytest.mark.parametrize("broken", [math.nan, 0.0, -5.0])
def test_a_reading_beside_the_window_that_the_integral_rests_on_must_be_sound(broken: float) -> None:
    for watts in ([broken, 100.0, 101.0, 102.0], [100.0, 101.0, 102.0, broken]):
        assert energy(bmc(watts), (1.0, 14.0)).trouble == ("reads impossible values",)
    far = energy(bmc([broken, 100.0, 101.0, 102.0, broken]), (6.0, 14.0))
    assert far.measured


@pytest.mark.parametrize("broken", [math.nan, 0.0, -5.0])
def test_idle_watts_that_are_impossible_are_not_shown_and_nothing_is_measured(broken: float) -> None:
    used = energy(bmc([90.0, broken, 91.0, 200.0, 201.0, 202.0]), (15.0, 25.0), idle=(0.0, 10.0))
    assert (used.idle_w, used.trouble) == (None, ("reads impossible values before the load",))


def test_sensors_that_both_read_nothing_do_not_differ() -> None:
    assert disagreement(of("a", 0.0), of("a", 0.0, Source.METER)) == ""
    assert apart(of("a", 0.0), of("a", 10.0, Source.METER)) == 1.0


def test_a_machine_without_any_power_control_reports_no_watts() -> None:
    with pytest.raises(Unavailable, match="Redfish reports no watts"):
        redfish_watts('{"PowerControl": []}')
