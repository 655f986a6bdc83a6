"""Several S3 clients without a cluster: clocks that differ, raw times put together, and lost ones by their names."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads.s3fleet import Fleet, run_together
from cephlab.lab.workloads.s3load import RunningS3Load, S3Load, S3Operation, S3Result

EPOCH_S = 1_700_000_000.0


@dataclass
class FakeHost:
    """A host whose clock is ahead of the others'."""

    name: str
    ahead_s: float = 0.0

    def run(self, argv: list[str]) -> Any:
        assert argv == ["date", "+%s.%N"]
        return SimpleNamespace(stdout=f"{EPOCH_S + SYSTEM.monotonic() + self.ahead_s:.6f}\n")


@dataclass
class FakeRunning:
    """A load of one operation a tenth of a second, which begins when it was told to by its host's clock."""

    load: S3Load
    took_s: float
    dies: bool = False
    killed: list[str] = field(default_factory=list)
    name: str = ""
    slow: int = 0
    moment_s: float = 0.0
    gone: bool = False

    def ready(self) -> bool:
        self.slow -= 1
        return self.slow < 0

    def begin_at(self, epoch_s: float) -> None:
        assert self.load.waits
        self.moment_s = epoch_s

    def finish(self, *, timeout_s: float) -> S3Result:
        if self.dies:
            raise LabBroken(f"the S3 load on {self.name} left no result", "signal 9")
        begin_s = self.moment_s
        times = [begin_s + number / 10 for number in range(5)]
        operations = [S3Operation("run", "get", 0, "/b/o", 1, 1, t, t, t + self.took_s, True, "") for t in times]
        return S3Result(tuple(operations), (), 0, 0.5, 0.1)

    def kill(self) -> None:
        if self.gone:
            raise LabBroken("the connection is closed")
        self.killed.append(self.name)


def fleet(
    *hosts: FakeHost, dying: str = "", slow: int = 0, took_s: dict[str, float] | None = None, gone: bool = False
) -> tuple[Fleet, list[str]]:
    """slow: how many looks long c1 fills its bucket; gone: whether the machine of the dying client is, too."""
    killed: list[str] = []

    def start(host: Host, entrances: object, load: S3Load) -> RunningS3Load:
        running = FakeRunning(load, (took_s or {}).get(host.name, 0.1), host.name == dying, killed, host.name)
        running.slow = slow if host.name == "c1" else 0
        running.gone = gone and running.dies
        return cast("RunningS3Load", running)

    loads = [(cast("Host", host), S3Load()) for host in hosts]
    return run_together(loads, [], lead_s=5.0, timeout_s=0.3, start=start), killed


def test_clients_begin_at_one_moment_although_their_clocks_differ() -> None:
    done, _ = fleet(FakeHost("c0"), FakeHost("c1", ahead_s=100.0))
    first = [min(each.began_s for each in result.of()) for result in done.results.values()]
    assert first[0] == pytest.approx(first[1], abs=0.05)
    assert done.ahead_s["c1"] == pytest.approx(100.0, abs=0.05)
    assert max(done.late_s.values()) < 0.05


def test_percentiles_are_of_all_operations_and_not_averaged() -> None:
    done, _ = fleet(FakeHost("c0"), FakeHost("c1"), took_s={"c0": 0.1, "c1": 0.9})
    assert len(done.whole.operations) == 10
    assert done.whole.percentile_s(40) == pytest.approx(0.1)
    assert done.whole.percentile_s(60) == pytest.approx(0.9)


def test_a_lost_client_is_named_and_the_others_count() -> None:
    done, killed = fleet(FakeHost("c0"), FakeHost("c1"), dying="c1")
    assert list(done.results) == ["c0"]
    assert "c1 left no result" in done.lost["c1"]
    assert killed == ["c1"]
    assert len(done.whole.operations) == 5


def test_a_client_whose_machine_is_lost_is_named_and_the_others_are_ended() -> None:
    done, killed = fleet(FakeHost("c0"), FakeHost("c1"), FakeHost("c2"), dying="c0", gone=True)
    assert list(done.results) == ["c1", "c2"]
    assert done.lost["c0"].endswith("signal 9; it may still run: the connection is closed: ")
    assert killed == []


def test_no_client_begins_before_all_have_filled_their_buckets() -> None:
    done, _ = fleet(FakeHost("c0"), FakeHost("c1"), slow=2)
    assert sorted(done.results) == ["c0", "c1"]
    assert max(done.late_s.values()) < 0.05


def test_a_client_that_never_ends_filling_is_lost_and_ended() -> None:
    done, killed = fleet(FakeHost("c0"), FakeHost("c1"), slow=1000)
    assert list(done.results) == ["c0"]
    assert "the end of filling by c1" in done.lost["c1"]
    assert killed == ["c1"]


def test_without_any_client_left_there_is_no_result() -> None:
    done, _ = fleet(FakeHost("c0"), dying="c0")
    with pytest.raises(LabBroken, match="every S3 client was lost"):
        _ = done.whole
