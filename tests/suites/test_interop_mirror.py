"""The model that interop scenarios compare a pool to: it sees a wrong byte, a lost key, a stray object."""

import json
import random
from collections.abc import Callable
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.pools import EC_2_1, REPLICATED, PoolKind
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import scrub
from cephlab.suites.interop.mirror import Mirror, WantedObject, difference
from cephlab.suites.interop.objects import fixed_steps


class FakePool:
    """A pool of one client that stores what it is told, written without looking at the model."""

    class host:  # noqa: N801 - stands where RadosClient has an attribute
        arch = Arch.X86_64

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}
        self.xattrs: dict[str, dict[str, bytes]] = {}
        self.keys: dict[str, dict[str, bytes]] = {}
        self.snaps: dict[str, tuple[dict[str, bytes], dict[str, dict[str, bytes]], dict[str, dict[str, bytes]]]] = {}

    def write_full(self, _pool: str, name: str, data: bytes) -> None:
        self.data[name] = data

    def write(self, _pool: str, name: str, data: bytes, offset: int) -> None:
        old = self.data.get(name, b"").ljust(offset, b"\0")
        self.data[name] = old[:offset] + data + old[offset + len(data) :]

    def append(self, _pool: str, name: str, data: bytes) -> None:
        self.data[name] = self.data.get(name, b"") + data

    def truncate(self, _pool: str, name: str, size: int) -> None:
        self.data[name] = self.data.get(name, b"")[:size].ljust(size, b"\0")

    def set_xattr(self, _pool: str, name: str, key: str, data: bytes) -> None:
        self.data.setdefault(name, b"")
        self.xattrs[name] = {**self.xattrs.get(name, {}), key: data}

    def set_omap(self, _pool: str, name: str, pairs: dict[str, bytes]) -> None:
        self.data.setdefault(name, b"")
        self.keys[name] = {**self.keys.get(name, {}), **pairs}

    def command(self, _target: str, prefix: str, **_arguments: str) -> bytes:
        assert prefix == "query"
        return json.dumps({"info": {"stats": {"stat_sum": {"num_object_clones": len(self.snaps)}}}}).encode()

    def snap_create(self, _pool: str, snap: str) -> None:
        self.snaps[snap] = (dict(self.data), dict(self.xattrs), dict(self.keys))

    def snap_rollback(self, _pool: str, name: str, snap: str) -> None:
        data, xattrs, keys = self.snaps[snap]
        self.data[name] = data[name]
        self.xattrs[name], self.keys[name] = xattrs.get(name, {}), keys.get(name, {})

    def list_objects(self, _pool: str) -> list[str]:
        return sorted(self.data)

    def read(self, _pool: str, name: str, *, snap: str | None = None) -> bytes:
        return (self.snaps[snap][0] if snap else self.data)[name]

    def digest(self, _pool: str, name: str, *, snap: str | None = None) -> dict[str, Any]:
        data, xattrs, keys = self.snaps[snap] if snap else (self.data, self.xattrs, self.keys)
        return WantedObject(bytearray(data[name]), xattrs.get(name, {}), keys.get(name, {})).digest()


def judged(pool: FakePool, mirror: Mirror) -> Outcome:
    recorder = History().recorder("interop.x")
    mirror.verify(cast("RadosClient", pool), recorder, "afterwards")
    return CHECKS["observations"](recorder.events()).outcome


def filled(kind: PoolKind = REPLICATED) -> tuple[FakePool, Mirror]:
    pool = FakePool()
    mirror = Mirror(cast("RadosClient", pool), "p")
    fixed_steps(mirror, random.Random(1), kind)
    return pool, mirror


@pytest.mark.parametrize("kind", [REPLICATED, EC_2_1], ids=lambda kind: kind.name)
def test_a_faithful_pool_holds(kind: PoolKind) -> None:
    pool, mirror = filled(kind)
    assert judged(pool, mirror) is Outcome.PASS


def wrong_byte(pool: FakePool) -> None:
    pool.data["large"] = scrub.flipped(pool.data["large"], 3_000_000)


def short(pool: FakePool) -> None:
    pool.data["gap"] = pool.data["gap"][:-1]


def lost_xattr(pool: FakePool) -> None:
    pool.xattrs["empty"] = {}


def wrong_omap(pool: FakePool) -> None:
    pool.keys["byte"] = {**pool.keys["byte"], "key-3": b"other"}


def stray_object(pool: FakePool) -> None:
    pool.data["stray"] = b""


def wrong_snapshot(pool: FakePool) -> None:
    data, xattrs, keys = pool.snaps["before"]
    pool.snaps["before"] = ({**data, "byte": b"?"}, xattrs, keys)


@pytest.mark.parametrize(
    "damage", [wrong_byte, short, lost_xattr, wrong_omap, stray_object, wrong_snapshot], ids=lambda d: d.__name__
)
def test_damage_is_seen(damage: Callable[[FakePool], None]) -> None:
    pool, mirror = filled()
    damage(pool)
    assert judged(pool, mirror) is Outcome.FAIL


def test_a_difference_is_located() -> None:
    assert difference(b"abc", b"abc") == "equal"
    assert difference(b"abd", b"abc") == "byte 2 is 0x64, wanted 0x63"
    assert difference(b"ab", b"abc") == "2 bytes, wanted 3"


def test_the_forms_of_an_erasure_coded_object_are_its_chunks_and_their_parity() -> None:
    content = random.Random(2).randbytes(3 * scrub.CHUNK_BYTES)
    first, second, parity = scrub.stored_forms(content, EC_2_1)
    assert (first, second) == (content[:64], content[scrub.CHUNK_BYTES : scrub.CHUNK_BYTES + 64])
    assert bytes(a ^ b for a, b in zip(parity, second, strict=True)) == first
    assert scrub.stored_forms(content, REPLICATED) == [content[:64]]
