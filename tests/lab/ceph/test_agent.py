"""The program that runs librados on a host, with a librados that serves omaps as an OSD does: in parts."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from hashlib import sha256
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

PER_REQUEST = 4


class Error(Exception):
    """As of librados."""


class TimedOut(Error):
    """An OSD that does not answer."""


class Object:
    """An object with an omap. error: what reading it ends in, instead of its keys."""

    def __init__(self, keys: list[str], error: Exception | None = None) -> None:
        self.keys, self.error = keys, error

    def get_omap_vals(
        self, _op: object, after: str, _prefix: str, _most: int
    ) -> tuple[Iterator[tuple[str, bytes]], int]:
        if self.error is not None:
            raise self.error
        later = [key for key in sorted(self.keys, key=str.encode) if key > after]
        return ((key, key.encode()) for key in later[:PER_REQUEST]), 0

    def operate_read_op(self, _op: object, _name: str) -> None:
        """It was served above."""


@pytest.fixture
def omap_of(monkeypatch: pytest.MonkeyPatch) -> Any:
    """What the agent reads of an object's omap."""
    fake = SimpleNamespace(Error=Error, TimedOut=TimedOut, ReadOpCtx=nullcontext)
    for name in ("rados", "rbd"):
        module = ModuleType(name)
        module.__dict__.update(vars(fake))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "cephlab.lab.ceph.agent", raising=False)
    agent = import_module("cephlab.lab.ceph.agent")
    monkeypatch.delitem(sys.modules, "cephlab.lab.ceph.agent")

    def read(omap: Object) -> Mapping[str, str]:
        told: Mapping[str, str] = agent.Agent("", "", {})._omap(omap, "o")
        return told

    return read


@pytest.mark.parametrize("count", [0, 1, PER_REQUEST, PER_REQUEST + 1, 3 * PER_REQUEST])
def test_an_omap_is_read_to_its_end(omap_of: Any, count: int) -> None:
    keys = [f"\N{GREEK SMALL LETTER OMEGA} {number}" for number in range(count)]
    assert omap_of(Object(keys)) == {key: sha256(key.encode()).hexdigest() for key in keys}


def test_a_pool_without_omaps_has_none_and_a_late_osd_is_an_error(omap_of: Any) -> None:
    assert omap_of(Object([], Error("not supported"))) == {}
    with pytest.raises(TimedOut):
        omap_of(Object([], TimedOut("no answer")))
