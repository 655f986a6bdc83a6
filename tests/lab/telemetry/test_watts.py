"""Looks at watts: machines whose kernels say them, counters, controllers, and machines that say nothing."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.providers.host import Host
from cephlab.lab.telemetry import watts, watts_program
from cephlab.lab.telemetry.bmc import Bmc
from cephlab.lab.telemetry.power import Energy, Reading, Scope, Source
from cephlab.lab.telemetry.watts import WattMeter, at_the_plug, scope_of
from tests.lab.telemetry.test_power import made

BMC = Bmc(node="a", protocol="ipmi", address="192.0.2.1", user="u", password_file="/nonexistent")


class Machine:
    """A host whose kernel says what a made tree says. at_s: its clock; it goes on by two seconds with each look."""

    def __init__(self, root: Path) -> None:
        self.root, self.at_s = root, 1000.0

    def run(self, argv: list[str], *, timeout_s: float) -> Any:
        self.at_s += 2
        counters, unread = watts_program.rapl(self.root)
        said = {"at_s": self.at_s, "sensors": watts_program.sensors(self.root), "rapl": counters, "unread": unread}
        return SimpleNamespace(stdout=json.dumps(said))


def meter(root: Path, *bmcs: Bmc) -> WattMeter:
    return WattMeter({"a": cast("Host", Machine(root))}, bmcs)


def test_each_scope_is_read_by_itself(tmp_path: Path) -> None:
    files = {
        "hwmon/hwmon0/name": "smpro_hwmon",
        "hwmon/hwmon0/power1_label": "CPU power used",
        "hwmon/hwmon0/power1_input": "80000000",
        "hwmon/hwmon0/power2_label": "SoC power",
        "hwmon/hwmon0/power2_input": "9000000",
        "hwmon/hwmon1/name": "power_meter",
        "hwmon/hwmon1/power1_average": "225000000",
    }
    looked = meter(made(tmp_path, files))
    assert {(each.watts, each.scope, each.source) for each in looked.look()} == {
        (80.0, Scope.CPU, Source.SENSORS),
        (225.0, Scope.MACHINE, Source.SENSORS),
    }
    assert looked.unread == {"a: it is not known what the sensor smpro_hwmon/SoC power measures"}


def test_a_counter_says_watts_from_the_second_look_on(tmp_path: Path) -> None:
    zone = "powercap/intel-rapl:0"
    files = {f"{zone}/name": "package-0", f"{zone}/energy_uj": "900000000", f"{zone}/max_energy_range_uj": "1000000000"}
    root = made(tmp_path, files)
    looked = meter(root)
    assert looked.look() == []
    made(tmp_path, {f"{zone}/energy_uj": "60000000"})  # it began again at 0
    assert looked.look() == [Reading(1004.0, 80.0, Source.RAPL, Scope.CPU, "a")]


def test_a_controller_that_does_not_answer_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers: list[float | Unavailable] = [225.0, Unavailable("the BMC of a does not answer", "timeout")]

    def said(_bmc: Bmc) -> float:
        answer = answers.pop(0)
        if isinstance(answer, Unavailable):
            raise answer
        return answer

    monkeypatch.setattr(watts, "bmc_watts", said)
    looked = meter(tmp_path, BMC)
    assert [(each.watts, each.source, each.scope, each.node) for each in looked.look()] == [
        (225.0, Source.BMC, Scope.MACHINE, "a")
    ]
    assert looked.look() == []
    assert looked.unread == {"the BMC of a does not answer: timeout"}


def test_readings_that_do_not_cover_the_load_are_left_out_and_named() -> None:
    looked = WattMeter({})
    looked.readings = [Reading(at_s, 200 + at_s % 2, Source.BMC, Scope.MACHINE, "a") for at_s in range(0, 60, 5)]
    looked.readings += [Reading(at_s, 80, Source.SENSORS, Scope.CPU, "a") for at_s in (0, 10)]
    assert [each.source for each in looked.energies((10, 50), (0, 10))] == [Source.BMC]
    assert next(iter(looked.unread)).startswith("a: CPU by sensors: the power readings do not cover the load")


def test_what_a_sensor_measures_is_known_or_is_not_taken() -> None:
    assert scope_of("power_meter/power1") is Scope.MACHINE
    assert scope_of("apm_xgene/CPU power") is Scope.CPU
    assert scope_of("amdgpu/PPT") is None


def test_the_plug_is_one_source_for_all_machines() -> None:
    def of(node: str, source: Source, trouble: tuple[str, ...] = ()) -> Energy:
        return Energy(node, source, Scope.MACHINE, 10, 2250, None, trouble)

    bmcs = [of("a", Source.BMC), of("b", Source.BMC)]
    assert at_the_plug([*bmcs, of("a", Source.METER)], ["a", "b"]) == bmcs
    assert at_the_plug([of("a", Source.METER), of("b", Source.BMC)], ["a", "b"]) == []
    assert at_the_plug([of("a", Source.BMC), of("b", Source.BMC, ("jumps",))], ["a", "b"]) == []
    assert at_the_plug([], []) == []
