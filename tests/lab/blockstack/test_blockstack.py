"""The layers under a database, on outputs as the kernel and sysbench print them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.clock import Deadline
from cephlab.lab.base.errors import LabBroken, NotReached
from cephlab.lab.base.process import Result
from cephlab.lab.blockstack.devices import DiskTraffic, parse_diskstats
from cephlab.lab.blockstack.dmcache import (
    CacheDevice,
    DmCacheMode,
    WriteCache,
    check_metadata,
    metadata_bytes,
    parse_status,
    parse_writecache,
)
from cephlab.lab.blockstack.mapper import Mapper, delayed, failing
from cephlab.lab.blockstack.mariadb import DatabaseDown, MariaDb, Settings
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import sysbench
from cephlab.lab.workloads.sysbench import Oltp
from tests.fake_clock import VirtualClock

STATUS = "8 9/4608 512 22/1024 188 509 124 2705 0 22 0 1 writeback 2 migration_threshold 2048 smq 0 rw - "
SYSBENCH = """Threads started!

[ 1s ] thds: 1 tps: 10.74 qps: 228.44 (r/w/o: 163.03/42.95/22.45) lat (ms,95%): 253.35 err/s: 0.00 reconn/s: 0.00
[ 2s ] thds: 1 tps: 10.22 qps: 209.58 (r/w/o: 144.15/44.98/20.45) lat (ms,95%): 204.11 err/s: 0.00 reconn/s: 0.00
SQL statistics:
    queries performed:
        read:                            1316
        write:                           376
        other:                           188
        total:                           1880
    transactions:                        94     (22.49 per sec.)
    queries:                             1880   (449.76 per sec.)
    ignored errors:                      0      (0.00 per sec.)
    reconnects:                          0      (0.00 per sec.)

General statistics:
    total time:                          4.1795s
    total number of events:              94

Latency (ms):
         min:                                    6.11
         avg:                                   43.52
         max:                                  393.16
         95th percentile:                      134.90
         sum:                                 4090.81
"""
DISKSTATS = """   1       0 ram0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0
 253       0 rbd0 182 0 9232 190 1130 12 41856 9830 0 2210 10030 0 0 0 0 42 10
"""


@dataclass
class FakeHost:
    """Answers by the first words of a command; what it was asked stays in `asked`."""

    answers: dict[str, list[Result]]
    name: str = "c0"
    asked: list[str] = field(default_factory=list)

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, check: bool = True) -> Result:
        line = " ".join(argv)
        self.asked.append(line)
        queued = next((results for start, results in self.answers.items() if line.startswith(start)), None)
        if not queued:
            return said("")
        return queued.pop(0) if len(queued) > 1 else queued[0]


def said(text: str, code: int = 0) -> Result:
    return Result((), code, text.encode(), b"")


def mapper(**answers: str) -> tuple[Mapper, FakeHost]:
    known = {key.replace("_", " "): [said(text)] for key, text in answers.items()}
    host = FakeHost(known)
    return Mapper(cast("Host", host)), host


def cache_on(device_mapper: Mapper, mode: DmCacheMode = DmCacheMode.WRITEBACK) -> CacheDevice:
    slow, fast, meta = (Mapper.path(name) for name in ("slow", "fast", "meta"))
    return CacheDevice(device_mapper, "db", slow, fast, meta, mode)


def test_a_caches_counters_are_told_apart() -> None:
    status = parse_status(STATUS)
    assert (status.read_hits, status.read_misses, status.write_hits, status.write_misses) == (188, 509, 124, 2705)
    assert (status.demotions, status.promotions, status.dirty) == (0, 22, 0)
    assert (status.used, status.total, status.block_sectors) == (22, 1024, 512)
    assert (status.mode, status.policy, status.metadata_mode, status.needs_check) == ("writeback", "smq", "rw", False)
    assert status.hit_ratio == pytest.approx(312 / 3526)


def test_a_policys_own_arguments_and_a_needed_check_are_seen() -> None:
    line = STATUS.replace("smq 0 rw -", "cleaner 2 one 1 ro needs_check").replace(
        "1 writeback", "2 metadata2 passthrough"
    )
    status = parse_status(line)
    assert (status.mode, status.policy, status.metadata_mode, status.needs_check) == (
        "passthrough",
        "cleaner",
        "ro",
        True,
    )


@pytest.mark.parametrize("text", ["Fail", "Error", "", "8 9/4608 512"])
def test_a_cache_that_failed_is_no_cache_at_rest(text: str) -> None:
    with pytest.raises(LabBroken, match="cannot be read"):
        parse_status(text)


def test_a_table_is_what_the_papers_is_but_for_the_policys_name() -> None:
    device_mapper, _ = mapper(blockdev="786432\n")
    devices = "/dev/mapper/meta /dev/mapper/fast /dev/mapper/slow"
    assert cache_on(device_mapper).table() == f"0 786432 cache {devices} 512 1 writeback smq 0"
    assert delayed(PurePosixPath("/dev/rbd0"), 8, read_ms=10, write_ms=20) == (
        "0 8 delay /dev/rbd0 0 10 /dev/rbd0 0 20 /dev/rbd0 0 0"
    )


def test_detaching_waits_for_the_last_dirty_block_before_the_cache_goes() -> None:
    device_mapper, host = mapper(blockdev="786432\n")
    dirty, clean = STATUS.replace(" 0 22 0 1 ", " 0 22 7 1 "), STATUS
    host.answers["dmsetup status"] = [said(f"0 786432 cache {text}\n") for text in (dirty, dirty, clean)]
    assert cache_on(device_mapper).detach().dirty == 0
    loads = [at for at, line in enumerate(host.asked) if line.startswith("dmsetup load")]
    assert "cleaner" in host.asked[loads[0]]
    assert "linear /dev/mapper/slow" in host.asked[loads[1]]
    asked_between = [line for line in host.asked[loads[0] : loads[1]] if line.startswith("dmsetup status")]
    assert len(asked_between) == 3


def test_a_cache_that_stays_dirty_is_not_detached() -> None:
    device_mapper, host = mapper(blockdev="786432\n")
    host.answers["dmsetup status"] = [said("0 786432 cache " + STATUS.replace(" 0 22 0 1 ", " 0 22 7 1 "))]
    with pytest.raises(NotReached, match="dirty"):
        cache_on(device_mapper).detach(timeout_s=0.0)
    assert not [line for line in host.asked if "linear" in line]


def test_complaints_about_metadata_are_words_and_none_is_empty() -> None:
    host = FakeHost({"cache_check": [said("", 0), said("missing mappings [0, 3)\n", 1), said("", 1)]})
    device = PurePosixPath("/dev/mapper/meta")
    complaints = [check_metadata(cast("Host", host), device) for _ in range(3)]
    assert complaints == ["", "missing mappings [0, 3)", "status 1"]


def test_metadata_has_room_for_every_block() -> None:
    assert metadata_bytes(1 << 30, 64) >= (4 << 20) + 16 * (1 << 15)


def test_a_write_cache_counts_what_only_it_has() -> None:
    status = parse_writecache("0 65280 65000 0 12 3 40 1 2 0 280 0 0 1")
    assert (status.error, status.dirty, status.writeback) == (0, 280, 0)
    with pytest.raises(LabBroken, match="cannot be read"):
        parse_writecache("Fail")


def test_a_write_cache_is_flushed_before_its_last_status_is_taken() -> None:
    device_mapper, host = mapper(blockdev="786432\n", dmsetup_status="0 786432 writecache 0 65280 65280 0\n")
    last = WriteCache(device_mapper, "db", Mapper.path("slow"), Mapper.path("fast")).detach()
    order = [line.split()[1] for line in host.asked if line.startswith("dmsetup")]
    assert order == ["message", "load", "suspend", "status", "resume"]
    assert (last.error, last.dirty) == (0, 0)


class Statusless(FakeHost):
    """Its dmsetup does not tell a status."""

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, check: bool = True) -> Result:
        done = super().run(argv, timeout_s=timeout_s, check=check)
        if argv[1] == "status":
            raise LabBroken("dmsetup did not end")
        return done


def test_a_device_whose_status_cannot_be_taken_does_not_stay_suspended() -> None:
    host = Statusless({})
    with pytest.raises(LabBroken, match="did not end"):
        Mapper(cast("Host", host)).swap("db", failing(8))
    assert host.asked[-1].startswith("dmsetup resume db")


def test_traffic_is_counted_in_bytes_and_since_a_moment() -> None:
    traffic = parse_diskstats(DISKSTATS)[253, 0]
    assert traffic == DiskTraffic(182, 9232 * 512, 1130, 41856 * 512)
    assert traffic.since(DiskTraffic(180, 0, 1000, 0)).writes == 130


@dataclass
class Ended:
    """A server that ended at once."""

    pid: int = 7

    def alive(self) -> bool:
        return False


@dataclass
class ServerHost(FakeHost):
    """Whose server writes a line to its log, which had one already, and ends."""

    directory: PurePosixPath = field(default_factory=lambda: PurePosixPath("/node"))
    address: str = "10.0.0.2"
    log: bytes = b"of the time before\n"

    def exists(self, path: PurePosixPath) -> bool:
        return str(path).endswith("mariadb.log")

    def remove(self, _path: PurePosixPath) -> None:
        """There is nothing."""

    def read(self, _path: PurePosixPath) -> bytes:
        return self.log

    def spawn(self, argv: Sequence[str], *, log: PurePosixPath) -> Ended:
        self.asked.append(" ".join(argv))
        self.log += b"InnoDB: the page is not what was written\n"
        return Ended()


def test_a_server_that_notices_a_loss_says_so_in_its_own_words_of_this_start() -> None:
    host = ServerHost({})
    database = MariaDb(cast("Host", host), PurePosixPath("/mnt/db"), PurePosixPath("/node/empty"))
    with pytest.raises(DatabaseDown) as caught:
        database.start()
    assert caught.value.detail == "InnoDB: the page is not what was written\n"
    assert "--innodb-flush-log-at-trx-commit=1" in host.asked[0]
    assert "--datadir=/mnt/db/data" in host.asked[0]


def test_every_start_of_a_server_reserves_addresses_for_its_own_pool_alone() -> None:
    """MariaDB 11.8.9 would reserve 8 TiB, also while it makes the system tables; 11.8.6 does not know the option."""
    host = ServerHost({})
    database = MariaDb(cast("Host", host), PurePosixPath("/mnt/db"), PurePosixPath("/node/empty"), Settings(8 << 20))
    database.install()
    with pytest.raises(DatabaseDown):
        database.start()
    starts = [line for line in host.asked if line.startswith(("mariadb-install-db", "mariadbd"))]
    wanted = "--innodb-buffer-pool-size=8388608 --loose-innodb-buffer-pool-size-max=8388608"
    assert [wanted in line for line in starts] == [True, True], starts


def test_no_client_asks_a_server_that_has_no_socket_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client takes CPU from the server that starts. One that was killed before left a socket, so both are needed."""

    class Slow(ServerHost):
        looks = 0

        def spawn(self, argv: Sequence[str], *, log: PurePosixPath) -> Ended:
            return Runs()

        def exists(self, path: PurePosixPath) -> bool:
            if path.name.endswith(".sock"):
                self.looks += 1
                return self.looks > 3
            return super().exists(path)

    class Runs(Ended):
        def alive(self) -> bool:
            return True

    def wait(probe: Callable[[], bool], ready: Callable[[bool], bool], *, timeout_s: float, **options: Any) -> bool:
        return bool(Deadline.after(timeout_s, VirtualClock()).wait(probe, ready, **options))

    monkeypatch.setattr("cephlab.lab.base.clock.wait", wait)
    host = Slow({"mariadb-admin": [said("", 1), said("mysqld is alive")]})
    MariaDb(cast("Host", host), PurePosixPath("/mnt/db"), PurePosixPath("/node/empty")).start()
    assert (host.looks, len(host.asked)) == (5, 2)


def test_a_run_of_sysbench_is_read_with_its_seconds() -> None:
    report = sysbench.parse(SYSBENCH)
    assert (report.transactions, report.tps, report.seconds) == (94, 22.49, 4.1795)
    assert (report.mean_ms, report.p95_ms, report.errors, report.reconnects) == (43.52, 134.90, 0, 0)
    assert [(sample.at_s, sample.tps, sample.p95_ms) for sample in report.samples] == [
        (1, 10.74, 253.35),
        (2, 10.22, 204.11),
    ]


def test_a_report_that_was_cut_short_is_no_result() -> None:
    with pytest.raises(LabBroken, match="report of sysbench is incomplete"):
        sysbench.parse(SYSBENCH[: SYSBENCH.index("General")])


def test_the_command_has_every_setting_and_a_seed() -> None:
    argv = Oltp(PurePosixPath("/run/db.sock"), "sbtest", rows=100, threads=3, runtime_s=4, seed=9).argv("run")
    assert argv[:2] == ["sysbench", "oltp_read_write"]
    assert {"--threads=3", "--time=4", "--rand-seed=9", "--table-size=100"} <= set(argv)
    assert argv[-1] == "run"
