"""What is no load and measured where the machines are: which is, and by which figures power and room pass or do not."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.ceph.daemon import Wanted as Asked
from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.checks.figures import figures
from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.history.history import History, Recorder, data_of
from cephlab.lab.report.wanted import KIND
from cephlab.lab.scenario.scenario import Stage, run_scenario
from cephlab.lab.scenario.topology import NOWHERE
from cephlab.lab.telemetry.demand import Interval
from cephlab.lab.telemetry.power import Energy, Scope, Source
from cephlab.lab.telemetry.watts import WattMeter
from cephlab.suites.bias import UNBIASED, Bias
from cephlab.suites.profile import plug, room
from cephlab.suites.profile.lost import lost, unfit
from cephlab.suites.profile.measured import FioLoad, Measured, Seen, unplugged
from cephlab.suites.profile.plug import seen_at_the_plug
from cephlab.suites.profile.room import Placed, evenly, usable
from cephlab.suites.profile.wanted import Known, Wanted, compared, note_measured, scenarios_of
from cephlab.suites.profile.ways import OBJECTS, Way, permitted, way_of
from cephlab.tuning.profile import Profile
from cephlab.tuning.profilefile import load_hardware
from cephlab.tuning.requirements import (
    CapacityRequirement,
    LoadRequirement,
    ObjectsRequirement,
    PowerRequirement,
    Protection,
    RecoveryRequirement,
    Requirement,
)
from tests.fake_stage import stage_of
from tests.tuning.test_requirements import ALTRA, OTHERS, demands, file_with, find, load, trust

ROOM = CapacityRequirement.model_validate(
    {"name": "room", "kind": "capacity", "fill": 0.85, "protection": "replicated:2", "at_least": "20 TB"}
)
PLUG = PowerRequirement.model_validate({"name": "plug", "kind": "power", "at_most": "1000 W"})
NODE = RecoveryRequirement.model_validate(
    {"name": "node", "kind": "recovery", "fill": 0.5, "protection": "replicated:2", "at_most": "6 h"}
)
OBJECT = ObjectsRequirement.model_validate(
    {
        "name": "objects",
        "kind": "objects",
        "metadata": {"value": "10 KB", "source": "measured"},
        "at_least": "8000000000 objects",
    }
)


def judged(requirement: Requirement, done: Measured | Seen) -> tuple[Outcome, str, Mapping[str, Any]]:
    """(outcome, its reason, what the page shows) of a requirement of the Altra paper's machines."""
    recorder: Recorder = History().recorder(f"profile.{requirement.name}")
    recorder.witness("that it was real", got=1, least=1)
    wanted = Wanted(requirement, find(ALTRA), Home(Path("/nonexistent")))
    note_measured(Stage(None, recorder, Random(1), Path()), wanted, done, Known(demands(), trust(), "shipped"))
    verdict = figures(recorder.events())
    [data] = data_of(recorder.events(), KIND)
    return verdict.outcome, verdict.reason, data


# What is measured


@pytest.mark.parametrize(
    ("requirement", "said"),
    [
        (NODE.model_copy(update={"replaced": True}), "there is no new machine"),
        (NODE.model_copy(update={"share": 0.5}), "leaves recovery 0.5 of disks and network"),
        (OBJECT, OBJECTS),
        (load(op="", mix={"get": 0.5, "list": 0.5}, at_least="1 ops/s"), "a mix of get and list is not made"),
    ],
)
def test_what_cannot_be_measured_soundly_says_why(requirement: Requirement, said: str) -> None:
    way = way_of(requirement)
    assert isinstance(way, str)
    assert said in way


def test_the_rest_is_measured() -> None:
    assert all(isinstance(way_of(each), Way) for each in (NODE, ROOM, PLUG, load(at_least="1 ops/s")))
    assert unfit(NODE) == ""


def test_what_is_not_measured_there_is_judged_by_its_prediction_and_the_page_says_why(tmp_path: Path) -> None:
    text = OTHERS.replace("fill = 0.7\n", "fill = 0.7\nreplaced = true\n")
    hardware = load_hardware(file_with(tmp_path, text))
    [scenario] = [each for each in scenarios_of(hardware, Home(tmp_path), attached=True) if each.name == "profile.node"]
    assert scenario.topology == NOWHERE
    recorder = History().recorder(scenario.name)
    run_scenario(scenario, Stage(None, recorder, Random(1), tmp_path))
    [data] = data_of(recorder.events(), KIND)
    assert data["rows"][0]["measured"] == ""
    assert data["measuring"] == [
        "Not measured, so the prediction decides: there is no new machine to replace a lost one, and no existing one "
        "is emptied for it."
    ]


@pytest.mark.slow
def test_a_step_that_is_not_permitted_leaves_the_prediction_to_decide(tmp_path: Path) -> None:
    def refused() -> Seen:
        raise NotPermitted("pool 'wanted' is not on the list", "pools", "wanted")

    recorder = History().recorder("profile.room")
    wanted = Wanted(ROOM, find(ALTRA), Home(tmp_path))
    way = Way("Tries.", lambda _stage, _profile, _trust: permitted(refused))
    compared(Stage(None, recorder, Random(1), tmp_path), wanted, way)
    assert figures(recorder.events()).outcome is Outcome.PASS
    [data] = data_of(recorder.events(), KIND)
    assert "pool 'wanted' is not on the list; allow it with --may-break" in data["measuring"][0]


# Power


def plugged(watts: float, bias: Bias = UNBIASED) -> Seen:
    rate = Interval(150_000, 149_000, 151_000, 60)
    energies = tuple(Energy(name, Source.BMC, Scope.MACHINE, 60.0, 60.0 * watts / 4) for name in "abcd")
    return seen_at_the_plug(Measured(rate, rate, None, energies).biased(bias), load(at_least="1 ops/s"))


@pytest.mark.parametrize(("watts", "outcome"), [(960, Outcome.PASS), (980, Outcome.INCONCLUSIVE), (1040, Outcome.FAIL)])
def test_watts_at_the_plug_decide_whatever_the_profile_declares(watts: float, outcome: Outcome) -> None:
    """The profile declares 900 W, which would pass."""
    decided, _, data = judged(PLUG, plugged(watts))
    assert decided is outcome
    [row] = data["rows"]
    assert row["predicted"] == "900 W (declared watts, no interval)"
    assert row["measured"].startswith(f"{watts:,} W (")
    assert "150,000 writes of 4 KiB a second from 72 fio processes" in data["measuring"][0]
    assert data["enough"] == []


@pytest.mark.parametrize(("watts", "outcome"), [(100, Outcome.INCONCLUSIVE), (1040, Outcome.FAIL)])
def test_machines_that_busy_clients_do_not_load_cannot_pass_by_their_watts(watts: float, outcome: Outcome) -> None:
    decided, _, data = judged(PLUG, plugged(watts, Bias("the clients were busy")))
    assert decided is outcome
    assert data["measuring"][-1].startswith("The clients were busy: fully loaded machines may take more")
    assert not any("cannot fail" in line for line in data["measuring"])


def test_a_plug_that_is_not_read_is_inconclusive_by_name() -> None:
    rate = Interval(150_000, 149_000, 151_000, 60)
    done = Measured(rate, rate, None, (), "nothing says the watts at the plug of n3")
    decided, reason, data = judged(PLUG, seen_at_the_plug(done, load(at_least="1 ops/s")))
    assert decided is Outcome.INCONCLUSIVE
    assert "power of all nodes under load as measured: nothing says the watts at the plug of n3" in reason
    assert data["rows"][0]["measured"] == ""
    assert "n3" in data["measuring"][0]


def test_whose_watts_are_not_known_is_said_by_name() -> None:
    meter = WattMeter({"n1": cast("Any", None), "n2": cast("Any", None)}, unread={"n2: no ipmitool"})
    sound = Energy("n1", Source.BMC, Scope.MACHINE, 60.0, 6000.0)
    stopped = Energy("n2", Source.BMC, Scope.MACHINE, 60.0, 6000.0, trouble=("is stuck",))
    other = Energy("n2", Source.SENSORS, Scope.MACHINE, 60.0, 6000.0)
    cpu = Energy("n2", Source.RAPL, Scope.CPU, 60.0, 600.0)
    assert unplugged(meter, [sound, stopped, cpu]) == (
        "no source has the watts at the plug of n2; n2 by bmc: is stuck; n2: no ipmitool"
    )
    assert unplugged(meter, [sound, other]) == "no single source has the watts of all; n2: no ipmitool"


def test_power_is_measured_under_writes_from_every_client_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []

    def made(_stage: Stage, load: LoadRequirement, fio: FioLoad, _profile: Profile) -> Measured:
        loads.append((load, fio.pattern))
        rate = Interval(150_000, 149_000, 151_000, 60)
        return Measured(rate, rate, None, (Energy("n0", Source.BMC, Scope.MACHINE, 60.0, 6000.0),))

    monkeypatch.setattr(plug, "measure", made)
    seen = plug.under_load(stage_of(cluster_of(4, {}, [])), find(ALTRA))
    assert seen.interval is not None
    assert (seen.interval.low, seen.interval.mean, seen.interval.high) == pytest.approx((97, 100, 103))
    [(load, pattern)] = loads
    assert (pattern, load.op, load.clients, load.depth, load.protection) == (
        "randwrite",
        "randwrite",
        4,
        32,
        Protection(3),
    )


# Capacity

TB = 1e12


def osds(*shards: int, size: float = TB, beside: float = 0.0) -> list[Placed]:
    """One on each machine."""
    return [Placed(f"n{number}", size, beside, count) for number, count in enumerate(shards)]


def test_room_is_what_the_fullest_osd_allows_up_to_what_all_would() -> None:
    even = usable(osds(64, 64, 64), 64, 0.85, Protection(3))
    assert (even.low, even.mean, even.high) == pytest.approx((0.85 * TB,) * 3)
    uneven = usable(osds(32, 48, 32, 16), 64, 0.8, Protection(2))
    assert uneven.low == uneven.mean == pytest.approx(0.8 * TB * 64 / 48)
    assert uneven.high == pytest.approx(4 * 0.8 * TB / 2)
    code = usable(osds(64, 64, 64), 64, 0.5, Protection(k=2, m=1))
    assert (code.low, code.high) == pytest.approx((2 * 0.5 * TB, 2 * 0.5 * TB))


def test_what_is_no_data_takes_room_and_more_of_it_than_there_is_leaves_none() -> None:
    assert usable(osds(64, 64, beside=0.1 * TB), 64, 0.85, Protection(2)).low == pytest.approx(0.75 * TB)
    assert usable(osds(64, 64, beside=0.9 * TB), 64, 0.85, Protection(2)).high == 0.0


@pytest.mark.parametrize(
    ("rooms", "shards", "fits"), [([100, 10, 10], 3, 10), ([100, 10, 10], 2, 20), ([30, 30, 30], 2, 45), ([7], 1, 7)]
)
def test_a_machine_holds_one_shard_of_an_object(rooms: list[float], shards: int, fits: float) -> None:
    assert evenly(rooms, shards) == fits
    assert sum(min(each, fits) for each in rooms) == shards * fits


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [(20.1, 25.0, Outcome.PASS), (19.0, 21.0, Outcome.INCONCLUSIVE), (15.0, 19.9, Outcome.FAIL)],
)
def test_measured_room_decides_by_its_interval(low: float, high: float, outcome: Outcome) -> None:
    decided, _, data = judged(ROOM, Seen(Interval(low * TB, low * TB, high * TB, 12), ("By PGs.",)))
    assert decided is outcome
    assert data["measuring"] == ["By PGs."]
    assert data["rows"][0]["measured"].startswith(f"{low:g} TB (")


class Mon:
    """A client whose monitors answer from a table; what they are told is in `did`."""

    def __init__(self, answers: Mapping[str, Any], did: list[str]) -> None:
        self.answers, self.did = answers, did

    def mon(self, prefix: str, **arguments: Any) -> Any:
        self.did.append(f"{prefix} {','.join(arguments.get('ids', ()))}".strip())
        answer = self.answers[prefix]
        if isinstance(answer, Exception):
            raise answer
        return answer


def cluster_of(machines: int, answers: Mapping[str, Any], did: list[str]) -> Any:
    """One OSD on each machine; daemons that are stopped stay so until they are started."""
    daemons = {
        f"osd.{number}": SimpleNamespace(
            name=f"osd.{number}",
            kind="osd",
            id=str(number),
            host=SimpleNamespace(name=f"n{number}"),
            wanted=Asked.RUNNING,
        )
        for number in range(machines)
    }

    def stop(name: str) -> None:
        did.append(f"stop {name}")
        daemons[name].wanted = Asked.STOPPED

    def start(name: str) -> None:
        did.append(f"start {name}")
        daemons[name].wanted = Asked.RUNNING

    nodes = [
        SimpleNamespace(name=f"n{number}", osds=(number,), disks=[SimpleNamespace(size_bytes=1000 + number)])
        for number in range(machines)
    ]
    return SimpleNamespace(
        client=Mon(answers, did),
        daemons=daemons,
        daemon=daemons.__getitem__,
        host_of=lambda name: daemons[name].host,
        osd_ids=lambda: list(range(machines)),
        load_nodes=lambda: ["client"],
        spec=SimpleNamespace(nodes=nodes),
        stop=stop,
        start=start,
        settle=lambda: None,
        wait_healthy=lambda _s: did.append("healthy"),
        patience=1.0,
    )


def pool_there(monkeypatch: pytest.MonkeyPatch, pgs: Sequence[Pg]) -> None:
    @contextmanager
    def made(_cluster: object, _guard: Protection) -> Iterator[str]:
        yield "wanted"

    monkeypatch.setattr(room, "data_pool", made)
    monkeypatch.setattr(pools, "pgs_of", lambda _cluster, _name: tuple(pgs))


OSD_DF = {"nodes": [{"id": n, "kb": 1e9, "kb_used": 3e7, "kb_used_data": 1e7} for n in (0, 1, 2, 3)]}
DF = {"pools": [{"name": "wanted", "stats": {"max_avail": 1.9e12, "stored": 0}}]}


def test_room_is_read_from_the_clusters_own_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    pool_there(monkeypatch, [Pg("1.0", "", 1, (0, 1), 0), Pg("1.1", "", 1, (2, 3), 2), Pg("1.2", "", 1, (0, 2), 0)])
    known = {"osd df": OSD_DF, "df": {"pools": []}}
    cluster = cluster_of(4, known, [])
    cluster.settle = lambda: known.update(df=DF)
    seen = room.room(stage_of(cluster), find(ALTRA), ROOM)
    assert isinstance(seen, Seen)
    assert seen.interval is not None
    space = (0.85 * 1e9 - 2e7) * 1024
    assert seen.interval.low == pytest.approx(space * 3 / 2)
    assert seen.interval.high == pytest.approx(space * 4 / 2)
    assert "MAX AVAIL for that pool is 1.9 TB" in seen.sentences[1]


def test_a_pool_that_lacks_shards_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    pool_there(monkeypatch, [Pg("1.0", "", 1, (0, 1), 0), Pg("1.1", "", 1, (2,), 2)])
    stage = stage_of(cluster_of(4, {"osd df": OSD_DF, "df": DF}, []))
    room.room(stage, find(ALTRA), ROOM)
    [witness] = data_of(stage.recorder.events(), "witness")
    assert witness["got"] < witness["least"]


def test_other_machines_than_the_profiles_and_too_few_for_a_pool_are_not_measured() -> None:
    three, four = (stage_of(cluster_of(machines, {}, [])) for machines in (3, 4))
    said = room.room(three, find(ALTRA), ROOM)
    assert said == "the cluster has OSDs on 3 machines, but ampere-altra-4n on 4"
    assert plug.under_load(three, find(ALTRA)).why_not == said
    assert lost(three, find(ALTRA), trust(), NODE) == said
    wide = ROOM.model_copy(update={"protection": Protection(k=8, m=3)})
    assert str(room.room(four, find(ALTRA), wide)).startswith("ec:8+3 on 4 machines")
