"""Which demands a prediction starts from: what was measured comes first, and takes nothing else away."""

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from cephlab.fixtures.expectation import demands_for
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.history.history import History
from cephlab.lab.report.series import record_demand
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand
from cephlab.lab.telemetry.demandfile import Measurement
from cephlab.tuning import demandsets
from cephlab.tuning.demandsets import find_demands, find_every_demand, missing_from, of_release
from cephlab.tuning.model import predict
from cephlab.tuning.profilefile import SHIPPED
from cephlab.tuning.work import work_for
from cephlab.tuning.workload import Shape
from tests.model_parts import demand, profile

OWN = demand("randwrite", 4096, primary_s=0.001, replicas_s=0.001, core_speed=4.0)


def kinds(demands: tuple[Demand, ...]) -> set[tuple[str, int]]:
    return {(measured.operation.name, measured.operation.block_bytes) for measured in demands}


def test_measuring_one_block_size_takes_no_other_away(tmp_path: Path) -> None:
    demandfile.save(tmp_path / "mine.json", [OWN])
    demands, origin = find_demands(tmp_path)

    assert ("randwrite", 65536) in kinds(demands)
    alike = ("randwrite", 4096, OWN.operation.k)
    assert [
        measured
        for measured in demands
        if (measured.operation.name, measured.operation.block_bytes, measured.operation.k) == alike
    ] == [OWN]
    assert "randwrite 65536 B" in origin
    assert predict(demands, profile(), Shape("randwrite", 16384, 16, 16)).ops > 0


def test_a_gate_and_a_prediction_fill_up_alike(tmp_path: Path) -> None:
    home = Home(tmp_path).ensure()
    shipped = (SHIPPED / "pve-epyc-3n.toml").read_text()
    home.profiles.mkdir()
    (home.profiles / "this-machine.toml").write_text(shipped.replace('"pve-epyc-3n"', '"this-machine"', 1))
    history = History()
    record_demand(history.recorder("block.cost"), Measurement(OWN))
    demandfile.save(home.demands / "mine.json", [OWN])

    assert kinds(demands_for(history.events(), home)[0]) == kinds(find_demands(home.demands)[0])


@pytest.mark.parametrize(
    "other", [replace(OWN, emulated=True), demand("randwrite", 4096, ec=(4, 2)), demand("randwrite", 8192)]
)
def test_what_cannot_stand_for_a_demand_does_not_replace_it(other: Demand) -> None:
    assert missing_from([other], [OWN]) == (OWN,)
    assert missing_from([other], [other] if not other.emulated else []) == ()


def test_a_file_without_a_core_speed_stops_only_what_would_start_from_it(tmp_path: Path) -> None:
    demandfile.save(tmp_path / "mine.json", [replace(OWN, core_speed=0.0)])
    demands, _ = find_demands(tmp_path)

    assert work_for(demands, Shape("get", 65536, 1, 1)).primary.cpu > 0
    assert work_for(demands, Shape("randwrite", 65536, 1, 1)).primary.cpu > 0
    with pytest.raises(SpecError, match="core speed"):
        work_for(demands, Shape("randwrite", 4096, 1, 1))


def without_mib(home: Path) -> list[Demand]:
    """The shipped demands of copies but for those of 1 MiB."""
    operations = [(demand, demand.operation) for demand in find_demands(home)[0]]
    return [demand for demand, operation in operations if not operation.k and operation.block_bytes != 1 << 20]


@pytest.mark.parametrize(("operation", "shard"), [("write", "randwrite"), ("read", "randread")])
def test_a_shard_that_was_not_measured_is_priced_from_kin_and_doubted(
    tmp_path: Path, operation: str, shard: str
) -> None:
    shipped = without_mib(tmp_path)
    work = work_for(shipped, Shape(operation, 4 << 20, 16, 16, k=4, m=2))
    whole = work_for(shipped, Shape(operation, 4 << 20, 16, 16))

    assert 0 < work.replica.cpu < max(whole.replica.cpu, whole.primary.cpu)
    assert any("Erasure coding was not measured" in doubt for doubt in work.doubts)
    assert any(shard in doubt and "1048576 B" in doubt for doubt in work.doubts)


def test_a_code_says_nothing_of_copies_where_kin_do() -> None:
    coded = demand("write", 1 << 20, primary_s=0.1, ec=(4, 2), replicas=6)
    kin = [demand("randwrite", size, primary_s=0.001 * size) for size in (1 << 19, 2 << 20)]
    work = work_for([coded, demand("write", 4 << 20, primary_s=0.001 * (4 << 20)), *kin], Shape("write", 1 << 20, 1, 1))
    assert work.primary.cpu == pytest.approx(0.001 * (1 << 20))


def test_kin_on_either_side_come_before_a_line_drawn_beyond() -> None:
    small = [demand("randwrite", size, primary_s=size / 1e6) for size in (4096, 65536)]
    large = demand("write", 4 << 20, primary_s=1.0)
    between = work_for([*small, large], Shape("randwrite", 1 << 20, 1, 1))
    assert 65536 / 1e6 < between.primary.cpu < 1.0
    assert between.doubts == ("randwrite was not measured at 1048576 B; write is used instead.",)


def test_a_block_size_that_was_not_measured_is_between_those_of_kin(tmp_path: Path) -> None:
    shipped = without_mib(tmp_path)
    costs = [work_for(shipped, Shape("write", size, 1, 1)).primary.cpu for size in (65536, 1 << 20, 4 << 20)]

    assert costs == sorted(costs)
    assert work_for(shipped, Shape("write", 4 << 20, 1, 1)).doubts == ()
    assert any("randwrite" in doubt for doubt in work_for(shipped, Shape("write", 1 << 20, 1, 1)).doubts)


def of(release: str, name: str = "seq", *, emulated: bool = False) -> Demand:
    return replace(demand(name, 4 << 20, primary_s=0.001, emulated=emulated), release=release)


@pytest.mark.parametrize(
    ("release", "nearest"),
    [("hammer", "nautilus"), ("octopus", "nautilus"), ("pacific", "reef"), ("quincy", "reef"), ("tentacle", "reef")],
)
def test_an_operation_is_of_the_release_nearest_to_the_one_asked_for(release: str, nearest: str) -> None:
    """Of two as near, as for pacific, the newer."""
    sets = [of("reef"), of("nautilus")]
    assert [measured.release for measured in of_release(sets, release)] == [nearest]


def test_what_the_nearest_release_did_not_measure_is_another_s() -> None:
    sets = [of("reef"), of("reef", "write"), of("nautilus"), of("octopus", emulated=True)]
    kept = {(measured.release, measured.operation.name, measured.emulated) for measured in of_release(sets, "octopus")}
    assert kept == {("nautilus", "seq", False), ("reef", "write", False), ("octopus", "seq", True)}


def test_a_prediction_is_of_one_release_and_publications_may_be_of_any(tmp_path: Path) -> None:
    demands, origin = find_demands(tmp_path)
    every, _ = find_every_demand(tmp_path)
    assert {measured.release for measured in demands} == {"reef"}
    assert "nautilus" not in origin
    assert {measured.release for measured in every} == {"nautilus", "reef"}


def test_a_measurement_of_ones_own_takes_only_its_release_s_place(tmp_path: Path) -> None:
    mine = of("reef")
    demandfile.save(tmp_path / "mine.json", [mine])
    every, origin = find_every_demand(tmp_path)
    assert [measured for measured in of_release(every, "reef") if measured.operation.name == "seq"] == [mine]
    assert [measured.release for measured in of_release(every, "octopus") if measured.operation.name == "seq"] == [
        "nautilus"
    ]
    assert "nautilus-x86_64.json" in origin

    demandfile.save(tmp_path / "mine.json", [of("nautilus")])
    names = {measured.operation.name for measured in find_demands(tmp_path)[0] if measured.release == "nautilus"}
    assert names == {"seq", "write", "put", "get"}


def test_what_is_of_another_release_is_said_to_be(tmp_path: Path) -> None:
    demandfile.save(tmp_path / "mine.json", [of("reef")])
    assert "; delete, get, list, put, randread, " in find_demands(tmp_path)[1]
    assert "seq of nautilus" in find_every_demand(tmp_path)[1]
    assert " of " not in find_demands(tmp_path)[1]


def test_a_line_between_releases_is_doubted(tmp_path: Path) -> None:
    every, _ = find_every_demand(tmp_path)
    between = Shape("write", 2 << 20, 1, 16)
    assert any("nautilus and reef" in doubt for doubt in work_for(of_release(every, "octopus"), between).doubts)
    assert not any("between two releases" in doubt for doubt in work_for(of_release(every, "reef"), between).doubts)


def test_a_file_that_is_named_is_all_there_is(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    demandfile.save(path, [OWN])
    for find in (find_demands, find_every_demand):
        assert find(tmp_path / "none", path) == ((OWN,), str(path))


@pytest.mark.parametrize(
    ("age_s", "words"),
    [
        (180_000, "2 days ago"),
        (86_400, "1 day ago"),
        (86_399, "23 hours ago"),
        (3_600, "1 hour ago"),
        (3_599, "59 minutes ago"),
        (60, "1 minute ago"),
        (59, "less than a minute ago"),
        (-100_000, "less than a minute ago"),
    ],
)
def test_the_newest_file_is_taken_and_its_age_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, age_s: float, words: str
) -> None:
    now = int(time.time())
    monkeypatch.setattr(time, "time", lambda: now)
    for name, release, age in (("a.json", "reef", age_s), ("b.json", "nautilus", 200_000)):
        demandfile.save(tmp_path / name, [of(release)])
        os.utime(tmp_path / name, (now - age, now - age))
    demands, origin = find_demands(tmp_path)
    assert of("reef") in demands
    assert origin.startswith(f"measured here {words}: a.json; ")


def test_where_everything_was_measured_nothing_is_said_to_be_shipped(tmp_path: Path) -> None:
    shipped = find_demands(tmp_path)
    demandfile.save(tmp_path / "mine.json", shipped[0])
    assert find_demands(tmp_path) == (shipped[0], "measured here less than a minute ago: mine.json")


def test_a_file_without_a_demand_measures_nothing(tmp_path: Path) -> None:
    shipped = find_demands(tmp_path)
    demandfile.save(tmp_path / "mine.json", [])
    assert find_demands(tmp_path) == shipped
    assert shipped[1] == "shipped with cephlab (reef-x86_64.json); `cephlab measure` makes your own"


def test_without_any_demand_it_is_told_where_one_was_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demandsets, "SHIPPED", tmp_path / "none")
    with pytest.raises(SpecError, match="no demand was measured yet") as refused:
        find_demands(tmp_path)
    assert str(tmp_path) in refused.value.detail


def test_a_demand_without_a_release_s_name_is_as_near_as_the_default_one() -> None:
    assert [measured.release for measured in of_release([of(""), of("quincy")], "reef")] == [""]


@pytest.mark.parametrize("unknown", ["", "18.2.7"])
def test_a_demand_without_a_release_s_name_is_taken_for_the_default_one(unknown: str) -> None:
    sets = [replace(of("reef"), release=unknown), of("nautilus")]
    assert [measured.release for measured in of_release(sets, unknown)] == [unknown]
