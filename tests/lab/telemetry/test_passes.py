"""Passes over whole objects: which part of each is measured, and what makes a pass none."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import cast

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.base.progress import quiet
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.telemetry.accounting import Usage
from cephlab.lab.telemetry.bench import Bench, load_in_passes
from cephlab.lab.telemetry.clients import Clients, PassClients
from cephlab.lab.telemetry.demand import Operation, Role
from cephlab.lab.telemetry.meter import COUNT, Meter
from cephlab.lab.telemetry.pace import Reference, ReferencePace
from cephlab.lab.telemetry.place import MeasuringLayout, measuring_spec
from cephlab.lab.telemetry.plan import LEAST_OBJECTS, SEQ, Plan
from cephlab.lab.telemetry.readings import Reading
from cephlab.lab.telemetry.statistics import Stop
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult
from tests.fake_clock import VirtualClock

OBJECTS, RATE, CPU_S = 400, 100.0, 0.004
PLAN = Plan(Operation(SEQ, 4 << 20, 16), ("client",), image_bytes=OBJECTS * (4 << 20))


@dataclass
class Primary:
    """An OSD that answers 100 requests a second while a pass lasts, for 4 ms of CPU each."""

    clock: VirtualClock
    read_of: int = OBJECTS
    passes: int = 0
    began_s: float = 0.0
    shares: list[float] = field(default_factory=list)

    def begin(self) -> None:
        self.passes, self.began_s = self.passes + 1, self.clock.monotonic()

    def requests(self) -> float:
        done = min(OBJECTS, RATE * (self.clock.monotonic() - self.began_s)) if self.passes else 0.0
        return max(0, self.passes - 1) * OBJECTS + done

    def read(self) -> Reading:
        at_s, requests = self.clock.monotonic(), self.requests()
        self.shares.append(requests % OBJECTS / OBJECTS)
        usage = Usage(cpu_s=requests * CPU_S, user_s=requests * CPU_S)
        ceph = {Role.PRIMARY: {COUNT: requests}}
        return Reading(at_s, {Role.PRIMARY: usage}, ceph, {Role.PRIMARY: at_s}, {}, 0.0, 0.0)

    def client(self) -> SimpleNamespace:
        self.begin()
        done = Done(self.read_of, self.read_of * (4 << 20), OBJECTS / RATE, RATE, 0.16)
        process = SimpleNamespace(alive=lambda: True)
        return SimpleNamespace(process=process, finish=self.finish(FioResult(done, NOTHING)), kill=lambda: None)

    def finish(self, result: FioResult) -> object:
        def end() -> FioResult:
            self.clock.sleep(OBJECTS / RATE)
            return result

        return end


def bench_on(primary: Primary, say: Callable[[str], None] = quiet) -> Bench:
    meter = SimpleNamespace(
        requests=primary.requests, read=primary.read, follow=lambda _running: None, unfollow=lambda: None
    )
    clients = SimpleNamespace(ready=lambda: None, start=lambda *_: primary.client())
    cluster = SimpleNamespace(patience=1.0, check_daemons=lambda: None, spec=SimpleNamespace(nodes=()))
    return Bench(
        cast("Cluster", cluster),
        cast("Meter", meter),
        cast("Reference", SimpleNamespace(pace=lambda: ReferencePace(0, {}))),
        PLAN,
        cast("Clients", clients),
        say,
        primary.clock,
    )


def test_a_load_tells_that_it_warms_up_before_its_first_batch() -> None:
    primary, said = Primary(VirtualClock()), list[tuple[float, str]]()
    primary.begin()
    bench = bench_on(primary, lambda line: said.append((primary.clock.monotonic(), line)))
    before = bench.clock.monotonic()
    bench.ramp([], 0.0)
    [(at_s, line)] = said
    assert line == f"warming up for {PLAN.ramp_s:g} s"
    assert before <= at_s == bench.clock.monotonic() - PLAN.ramp_s


def test_each_pass_gives_a_batch_of_its_steady_part() -> None:
    primary = Primary(VirtualClock())
    loaded = load_in_passes(bench_on(primary), PLAN.load, {}, Stop(0.05, 60.0, least=3))
    assert len(loaded.batches) == primary.passes == 3
    assert loaded.operations == pytest.approx(loaded.requests)
    assert [sum(batch.costs[Role.PRIMARY].values()) for batch in loaded.batches] == pytest.approx([CPU_S] * 3)
    assert loaded.whole.cpu_s == pytest.approx(loaded.operations * CPU_S)
    assert loaded.whole.seconds == pytest.approx(loaded.operations / RATE)
    assert loaded.latency_mean_s == pytest.approx(0.16)
    begins, ends = primary.shares[::2], primary.shares[1::2]
    assert max(begins) < 0.05
    assert min(ends) >= 0.5
    assert max(ends) < 0.6


def test_a_pass_that_read_something_else_is_none() -> None:
    with pytest.raises(LabBroken, match="399 objects were read in a pass over 400"):
        load_in_passes(bench_on(Primary(VirtualClock(), read_of=399)), PLAN.load, {}, Stop())


def test_a_pass_is_long_enough_and_fits_onto_the_disks() -> None:
    with pytest.raises(SpecError, match="too few objects"):
        replace(PLAN, image_bytes=(LEAST_OBJECTS - 1) * (4 << 20))
    spec = measuring_spec(host_arch(), MeasuringLayout(in_memory=True, held_bytes=2 << 30))
    assert {disk.size_bytes for node in spec.nodes for disk in node.disks} == {4 << 30}


def test_its_clients_write_what_they_read_and_are_not_lent_programs() -> None:
    host = SimpleNamespace(name="client")
    clients = PassClients(cast("Cluster", SimpleNamespace(hosts={"client": host})), PLAN)
    written, read = clients.job(0, "write", 16, 600.0), clients.job(0, SEQ, 16, 600.0)
    assert written.run == read.run
    assert "--max-objects" in written.arguments()
    with pytest.raises(SpecError, match="do not run side by side"):
        clients.lent({"client": cast("Host", host)})
    ended = CliRunner().invoke(app, ["measure", "--json", "--op", "seq:4M", "--size", "1G", "--beside", "same"])
    assert ended.exit_code == 2
    assert "--op seq and --beside" in ended.output
