"""Faults during which nothing is served, although clients are to go on: the suites find that while the fault holds."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.base.errors import NotReached
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.gateway import DATA_POOL
from cephlab.lab.faults import Layout
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads.s3_load_program import RUN
from cephlab.lab.workloads.s3load import S3Operation, S3Result
from cephlab.suites.archive import failures
from cephlab.suites.limits import Copying
from cephlab.suites.resilience import full, monitors, osds, trial
from tests.fake_stage import stage_of

# Resilience: a recorded load


@dataclass
class Load:
    """A recorded load whose workers do something whenever it is asked, or nothing. stuck: the first worker does not."""

    each: int
    done: int = 0
    stuck: bool = False
    load: Any = field(default_factory=lambda: SimpleNamespace(name="objects"))
    cluster: Any = field(default_factory=lambda: SimpleNamespace(patience=1e-4))

    def by_worker(self) -> list[int]:
        self.done += self.each
        return [0 if self.stuck else self.done, self.done]


FAILURES: dict[str, Callable[[Stage], None]] = {
    "osd.0 is down": lambda stage: osds.osd_failure(stage, trial.SMALL),
    "n0 and n1 are down": lambda stage: osds.node_failure(stage, 2, trial.SMALL),
    "mon.n0 is down": monitors.minority,
}


@pytest.mark.parametrize("failure", FAILURES)
def test_clients_that_only_wait_for_the_end_of_a_failure_are_found(
    monkeypatch: pytest.MonkeyPatch, failure: str
) -> None:
    """A pool that needs more copies than are left serves again once all is healed, and loses nothing."""
    load = Load(trial.EACH_GOES_ON)
    for module in (osds, monitors):
        monkeypatch.setattr(module, "inflict", lambda *_: nullcontext())
        monkeypatch.setattr(module, "linger", lambda *_: None)
        monkeypatch.setattr(module, "layout_of", lambda _: SimpleNamespace(daemons=lambda _: ["mon.n0"]))
        monkeypatch.setattr(module, "loaded", lambda *_: nullcontext(load))
    monkeypatch.setattr(osds, "struck_with_quorum", lambda *_: [("n0", "n1")])
    monkeypatch.setattr(trial, "copying", lambda *_: None)
    monkeypatch.setattr(osds, "limit_stall", lambda *_: None)
    monkeypatch.setattr(monitors, "answers", lambda *_: True)
    stage = stage_of(SimpleNamespace(osd_ids=lambda: [0], wait_healthy=lambda: None))
    FAILURES[failure](stage)
    for load.each, load.stuck in ((0, False), (trial.EACH_GOES_ON, True)):
        with pytest.raises(NotReached, match=r"operations of each worker of objects while (osd|mon|n)"):
            FAILURES[failure](stage)


@pytest.mark.parametrize("count", [1, 2])
def test_machines_that_fail_leave_a_quorum(count: int) -> None:
    """Two machines with a monitor each were struck: no monitor said that their OSDs were down."""
    nodes = {f"n{number}": (f"osd.{number}", *([f"mon.{number}"] if number < 3 else [])) for number in range(6)}
    layout = Layout({**nodes, "c0": ()}, "c0")
    pairs = osds.struck_with_quorum(layout, count)
    assert len(pairs) == {1: 6, 2: 12}[count]
    assert all(len({"n0", "n1", "n2"}.intersection(pair)) <= 1 for pair in pairs)


@pytest.mark.parametrize(("number", "refused"), [(0, False), (errno.ETIMEDOUT, True), (errno.ENOSPC, True)])
def test_a_full_cluster_refuses_by_silence_or_by_its_reason(number: int, *, refused: bool) -> None:
    assert full.refused(answering(number), "p") is refused


def test_a_write_that_fails_for_another_reason_is_no_refusal_of_a_full_cluster() -> None:
    with pytest.raises(RadosError, match="errno 2"):
        full.refused(answering(errno.ENOENT), "p")


def answering(number: int) -> Any:
    """A client whose writes are answered with an error; 0 for none."""

    def write_full(*_: object) -> None:
        if number:
            raise RadosError("write_full", "Error", number, "")

    return SimpleNamespace(write_full=write_full)


# Archive: gateways on EC 4+2


@dataclass
class Pool:
    """The objects' pool: whether it serves while machines are down, and what of a write it keeps."""

    serves: bool = True
    keeps: int = 1 << 30
    down: bool = False
    objects: dict[str, bytes] = field(default_factory=dict)

    def client(self, _node: str, options: dict[str, str]) -> Any:
        assert int(options["rados_osd_op_timeout"]) == failures.TIMEOUT_S
        return SimpleNamespace(close=lambda: None, write_full=self.write, read=self.read, remove=self.remove)

    def write(self, pool: str, name: str, data: bytes) -> None:
        assert pool == DATA_POOL
        if self.down and not self.serves:
            raise RadosError("write_full", "TimedOut", errno.ETIMEDOUT, "")
        self.objects[name] = data[: self.keeps]

    def read(self, _pool: str, name: str) -> bytes:
        assert self.down
        return self.objects[name]

    def remove(self, _pool: str, name: str) -> None:
        del self.objects[name]


def struck(monkeypatch: pytest.MonkeyPatch, pool: Pool) -> Outcome:
    """What the suite says of two machines of six that fail."""

    @contextmanager
    def inflict(*_: object) -> Iterator[None]:
        pool.down = True
        yield
        pool.down = False

    operations = tuple(S3Operation(RUN, "get", 0, "/b/o", 1, 1, at, at, at, True, "") for at in range(20))
    fakes: dict[str, Any] = {
        "paper_mix": lambda _: nullcontext(),
        "faults_of": lambda *_: ["a", "b"],
        "inflict": inflict,
        "HOLD_S": 0.0,
        "near": lambda _: None,
        "now_s": lambda _: 1.0,
        "healed": lambda *_: S3Result(operations, (), 0, 30.0, 1.0),
        "agreed": lambda _: None,
        "copying": lambda *_: Copying(),
        "until_noticed": lambda *_: Bound("a grace, then peering", most=60.0, basis=Basis.CORRECTNESS),
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(failures, name, fake)
    client = SimpleNamespace(host=SimpleNamespace(name="c0"))
    stage = stage_of(SimpleNamespace(client=client, new_client=pool.client, patience=1.0))
    failures.failed(stage, 2, failures.MACHINES)
    return CHECKS["figures"](stage.recorder.events()).outcome


def test_an_archive_whose_pool_keeps_what_it_is_given_meanwhile_is_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Pool()
    assert struck(monkeypatch, pool) is Outcome.PASS
    assert pool.objects == {}


def test_an_archive_that_serves_nothing_with_two_machines_down_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RadosError, match="TimedOut"):
        struck(monkeypatch, Pool(serves=False))
    assert struck(monkeypatch, Pool(keeps=100)) is Outcome.FAIL


@pytest.mark.parametrize(
    ("code", "ended_s", "outcome"),
    [("", 30, Outcome.PASS), ("503", 30, Outcome.FAIL), ("", 12, Outcome.INCONCLUSIVE)],
    ids=["it goes on", "it fails too", "it hangs too"],
)
def test_a_gateway_that_suffers_with_the_one_that_is_cut_off_is_found(
    monkeypatch: pytest.MonkeyPatch, code: str, ended_s: int, outcome: Outcome
) -> None:
    operations = tuple(S3Operation(RUN, "get", 0, "/b/o", 1, 1, at, at, at, True, code) for at in range(ended_s))
    monkeypatch.setattr(failures, "ended", lambda *_, **__: S3Result(operations, (), 0, 30.0, 1.0))
    monkeypatch.setattr(failures, "opened", lambda _: ["here", "there"])
    monkeypatch.setattr(failures, "running_load", lambda _, doors, *__: nullcontext(doors))
    monkeypatch.setattr(failures, "near", lambda _: None)
    monkeypatch.setattr(failures, "now_s", lambda _: 10.0)
    stage = stage_of(SimpleNamespace(patience=1.0))
    with failures.others(stage, failures.GATEWAYS) as serve:
        serve()
    assert CHECKS["witnessed"](stage.recorder.events()).outcome is outcome
