"""Three OSDs of two architectures with one pool, its PGs led by whom primary affinity says; and a client of it."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from cephlab.lab.ceph.pgs import Pg
from cephlab.lab.spec.arch import Arch
from tests.suites.test_interop_mirror import FakePool

OSDS = {0: Arch.X86_64, 1: Arch.X86_64, 2: Arch.AARCH64}
ACCEPTED = {"osd pool create", "osd pool set", "osd pool application enable", "osd pool delete"}
ACCEPTED |= {"osd erasure-code-profile set", "pg deep-scrub"}
PG_NUM = 4


@dataclass
class FakeOsds:
    """A cluster that holds what is written to it, once for all OSDs. It takes four PGs, whatever it is asked for.

    asked: client operations of each OSD. elsewhere: an OSD that answers in place of every primary. recovered: objects
    that each restart brings about. inconsistent: what deep-scrub finds.
    """

    pool: FakePool = field(default_factory=FakePool)
    affinity: dict[int, float] = field(default_factory=lambda: dict.fromkeys(OSDS, 1.0))
    asked: Counter[int] = field(default_factory=Counter)
    elsewhere: int | None = None
    recovered: int = 100
    inconsistent: str = "[]"
    missed: Callable[[int, str], bool] = lambda _osd, _name: False
    restarts: int = 0
    asks: int = 0
    patience: float = 1.0
    pool_name: str = ""
    daemons: dict[str, Any] = field(default_factory=dict)
    clients: dict[str, Any] = field(default_factory=dict)
    host: Any = field(default_factory=lambda: SimpleNamespace(name="n0"))

    # A cluster

    @property
    def client(self) -> Reader:
        return self.client_for(Arch.X86_64)

    def client_for(self, arch: Arch) -> Reader:
        return Reader(self, arch)

    def osd_ids(self, arch: Arch | None = None) -> list[int]:
        return [osd for osd, its in OSDS.items() if arch in (None, its)]

    def host_of(self, daemon: str) -> Any:
        return SimpleNamespace(arch=OSDS[int(daemon.removeprefix("osd."))])

    def check_daemons(self) -> None:
        pass

    def settle(self) -> None:
        pass

    def wait(self, _ready: Callable[[Any], bool], *, what: str) -> None:
        assert what

    def stop(self, name: str) -> None:
        assert name in {f"osd.{osd}" for osd in OSDS}

    def start(self, name: str) -> None:
        assert name in {f"osd.{osd}" for osd in OSDS}
        self.restarts += 1

    def tool(self, _node: str, program: str, *args: str) -> str:
        assert (program, args[0]) == ("rados", "list-inconsistent-pg")
        return self.inconsistent

    # Its PGs

    def pg(self, number: int) -> Pg:
        acting = tuple((number + turn) % len(OSDS) for turn in range(len(OSDS)))
        return Pg(f"1.{number:x}", "active+clean", 1, acting, max(acting, key=lambda osd: self.affinity[osd]))

    def primary_of(self, name: str) -> int:
        return self.pg(zlib.crc32(name.encode()) % PG_NUM).acting_primary

    def serve(self, name: str) -> int:
        """Count an operation on an object; who answered it."""
        osd = self.primary_of(name) if self.elsewhere is None else self.elsewhere
        self.asked[osd] += 1
        return osd

    def mon(self, prefix: str, **arguments: Any) -> Any:
        if prefix == "osd primary-affinity":
            self.affinity[arguments["id"]] = arguments["weight"]
            return None
        if prefix == "osd dump":
            pools = [{"pool_name": self.pool_name, "pool": 1, "pg_num": PG_NUM}]
            return {"epoch": 1, "pools": pools, "osds": [{"osd": osd, "up": 1} for osd in OSDS]}
        if prefix == "pg ls-by-pool":
            self.asks += 1
            stats = {"num_objects_recovered": self.recovered * self.restarts}
            stamps = [f"{self.asks}.{number}" for number in range(PG_NUM)]
            return {
                "pg_stats": [
                    {"pgid": self.pg(number).pgid, "last_deep_scrub_stamp": stamp, "stat_sum": stats}
                    for number, stamp in enumerate(stamps)
                ]
            }
        if prefix == "osd erasure-code-profile ls":
            return []
        assert prefix in ACCEPTED, prefix
        if prefix == "osd pool create":
            self.pool_name = arguments["pool"]
        return None


@dataclass
class Reader:
    """A client of one architecture; what it does to objects is counted at their primaries."""

    cluster: FakeOsds
    arch: Arch

    @property
    def host(self) -> Any:
        return SimpleNamespace(name="n0", arch=self.arch)

    def mon(self, prefix: str, **arguments: Any) -> Any:
        return self.cluster.mon(prefix, **arguments)

    def pgs(self, pgids: Sequence[str]) -> tuple[Pg, ...]:
        return tuple(self.cluster.pg(int(pgid.partition(".")[2], 16)) for pgid in pgids)

    def tell(self, target: str, prefix: str) -> Any:
        if prefix == "status":
            return {"newest_map": 1}
        assert prefix == "perf dump"
        return {"osd": {"op": self.cluster.asked[int(target.removeprefix("osd."))]}}

    def call(self, name: str) -> Any:
        assert name == "about"
        return {"machine": self.arch.value}

    def list_objects(self, pool: str) -> list[str]:
        return self.cluster.pool.list_objects(pool)

    def snap_create(self, pool: str, snap: str) -> None:
        self.cluster.pool.snap_create(pool, snap)

    def snap_remove(self, _pool: str, snap: str) -> None:
        del self.cluster.pool.snaps[snap]

    def digest(self, pool: str, name: str, *, snap: str | None = None) -> dict[str, Any]:
        digest = self.cluster.pool.digest(pool, name, snap=snap)
        return {**digest, "size": -1} if self.cluster.missed(self.cluster.serve(name), name) else digest

    def __getattr__(self, verb: str) -> Callable[..., Any]:
        """Everything else that is done to one object."""

        def served(pool: str, name: str, *arguments: Any, **named: Any) -> Any:
            self.cluster.serve(name)
            return getattr(self.cluster.pool, verb)(pool, name, *arguments, **named)

        return served
