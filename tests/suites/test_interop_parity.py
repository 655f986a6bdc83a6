"""Parity and long encodings: where shards have to be, what is encoded, and that a loss which is not mended is named."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from random import Random
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, LabBroken, LabError, Unavailable
from cephlab.lab.ceph.pgs import Pg
from cephlab.suites.interop import erasure, parity, stripes
from cephlab.suites.interop.sides import ArchSide


def placed(*acting: tuple[int, ...]) -> list[Pg]:
    return [Pg(f"1.{number}", "active+clean", 1, osds, osds[0]) for number, osds in enumerate(acting)]


def test_parity_and_data_are_looked_for_in_every_pool() -> None:
    pools = {"a": placed((2, 0, 1), (0, 2, 1), (1, 0, 2)), "b": placed((0, 1, 2), (2, 0, 1))}
    spot = parity.choose(pools, 2, [0, 1, 2])
    assert (spot.parity, spot.data) == (1, 0)
    assert spot.pgids == {"a": ("1.0", "1.1"), "b": ("1.1",)}
    with pytest.raises(LabBroken):
        parity.choose({"a": placed((2, 0, 1)), "b": placed((0, 1, 2))}, 2, [0, 1, 2])


@pytest.mark.parametrize("code", [*parity.QUICK, *parity.FULL])
def test_contents_end_with_a_whole_stripe(code: Any) -> None:
    stripe = code.stripe_unit * code.k
    for size in parity.edge_sizes(code):
        assert len(parity.whole_stripes(b"x" * size, code)) == -(-size // stripe) * stripe
    assert ("stripe_unit", str(code.stripe_unit)) in parity.kind_of(code).more
    assert dict(parity.kind_of(code).more).keys() >= code.more.keys()


def test_pools_of_codes_have_names_of_their_own() -> None:
    for codes in (parity.QUICK, parity.FULL):
        assert len({parity.pool_of(code) for code in codes}) == len(codes)


@pytest.mark.parametrize("long", [*stripes.LONG_QUICK, *stripes.LONG_FULL])
def test_an_encoder_runs_over_many_stripes(long: stripes.Long) -> None:
    assert long.stripes >= 13 * 4
    stripe = long.code.stripe_unit * long.code.k
    ends = {stripes.size_of(long, Random(seed)) - long.stripes * stripe for seed in range(60)}
    assert {0, 1, stripe - 1} <= ends
    assert max(ends) < stripe


def test_thousands_of_stripes_are_encoded_of_every_quick_code() -> None:
    assert min(long.stripes for long in stripes.LONG_QUICK) > 1000
    assert {long.code.plugin for long in stripes.LONG_QUICK} == {"jerasure", "isa", "lrc", "shec", "clay"}


@dataclass
class Decoder:
    """A side whose decoder gives back what it is told to, whatever is lost."""

    content: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    directory: PurePosixPath = field(default_factory=lambda: PurePosixPath("/sides"))

    def put(self, name: str, content: bytes) -> str:
        self.files[name] = content
        return name

    def path(self, name: str) -> PurePosixPath:
        return PurePosixPath(name)

    def run(self, program: str, *_arguments: str) -> str:
        assert program == "ceph-erasure-code-tool"
        return ""

    def get(self, name: str) -> bytes:
        return self.content

    @property
    def host(self) -> SimpleNamespace:
        return SimpleNamespace(remove=lambda path: None)


@pytest.mark.parametrize(("content", "wrong"), [(b"data\0\0", 0), (b"dat\0\0\0", 2)])
def test_a_loss_that_is_not_mended_is_named(content: bytes, wrong: int) -> None:
    side = cast("ArchSide", Decoder(content))
    unmended = erasure.decode_all(side, stripes.LONG_QUICK[0].code, [b"", b"", b""], [(0,), (1,)], b"data")
    assert len(unmended) == wrong
    assert all(line.startswith("without (") for line in unmended)


@pytest.mark.parametrize(("version", "kind"), [("20.2.4", Unavailable), ("18.2.7", CephTrouble)])
@pytest.mark.parametrize("crashes", [False, True])
def test_a_tool_that_writes_no_parity_is_refused_by_its_version(
    crashes: bool, version: str, kind: type[LabError]
) -> None:
    code = stripes.LONG_QUICK[0].code
    host = SimpleNamespace(exists=lambda path: path.name != f"object.{code.chunks[-1]}")

    def run(program: str, *_arguments: str) -> str:
        if program == erasure.TOOL and crashes:
            raise CephTrouble("it ended with status -11")
        return f"ceph version {version} (0) stable"

    side = SimpleNamespace(
        put=lambda name, content: name, path=PurePosixPath, run=run, get=lambda name: b"chunk", host=host
    )
    with pytest.raises(kind):
        erasure.encode(cast("ArchSide", side), code, b"data")
    host.exists, crashes = lambda path: True, False
    assert erasure.encode(cast("ArchSide", side), code, b"data") == [b"chunk"] * len(code.chunks)
