"""What an S3 load may find: the bodies and lengths of its objects, the keys that it uses, and their versions."""

import random
import zlib
from collections import Counter
from typing import Any

import pytest

from cephlab.lab.workloads.s3_ledger import BLOCK_BYTES, Entry, Ledger, ObjectBytes, drawn
from cephlab.lab.workloads.s3load import PART_BYTES
from tests.fake_s3 import CONFIG


def ledger_of(**config: Any) -> Ledger:
    return Ledger({**CONFIG, "buckets": 2, "objects": 3, **config})


def over(
    kind: str = "get", *, buckets: object = (), objects: object = (), in_order: bool = False
) -> dict[str, dict[str, dict[str, object]]]:
    return {"over": {kind: {"buckets": buckets, "objects": objects, "in_order": in_order}}}


def test_bodies_follow_from_seed_name_version_and_length() -> None:
    bodies, block = ObjectBytes(7), random.Random("7 bodies").randbytes(BLOCK_BYTES)
    head = b"/b/o 3 20000\n"
    begin = zlib.crc32(head) % BLOCK_BYTES
    assert bodies.of("/b/o", 3, 20_000) == head + block[begin : begin + 20_000 - len(head)]
    lengths = (0, 1, BLOCK_BYTES, 3 * BLOCK_BYTES)
    assert [len(bodies.of("/b/o", 1, length)) for length in lengths] == list(lengths)
    others = (bodies.of("/b/o", 4, 500), bodies.of("/b/p", 3, 500), ObjectBytes(8).of("/b/o", 3, 500))
    assert len({bodies.of("/b/o", 3, 500), *others}) == 4


def test_parts_of_a_body_never_look_alike() -> None:
    body = ObjectBytes(7).of("/b/o", 1, 4 * PART_BYTES)
    parts = {body[first : first + PART_BYTES] for first in range(0, len(body), PART_BYTES)}
    assert len(parts) == 4
    assert all(BLOCK_BYTES % divisor for divisor in range(2, 1001)), "it is a prime"


def test_lengths_have_their_ranges_and_weights() -> None:
    ledger = ledger_of(sizes=((10, 20, 1.0), (1000, 1000, 3.0)))
    first, other = ledger.keys[:2]
    lengths = [ledger.length(first, version) for version in range(400)]
    small = [length for length in lengths if length <= 20]
    assert 60 < len(small) < 140
    assert {length for length in lengths if length > 20} == {1000}
    assert set(small) == set(range(10, 21))
    assert lengths == [ledger.length(first, version) for version in range(400)]
    for another, key in ((ledger, other), (ledger_of(sizes=ledger.config["sizes"], seed=8), first)):
        assert lengths != [another.length(key, version) for version in range(400)]


def test_every_object_of_every_bucket_has_a_key() -> None:
    ledger = ledger_of()
    names = [f"/b{bucket}/o{number}" for bucket in range(2) for number in range(3)]
    assert (ledger.buckets, [key.path for key in ledger.keys]) == (["b0", "b1"], names)
    assert [(key.bucket, key.name) for key in ledger.of_bucket["b1"]] == [("b1", f"o{number}") for number in range(3)]
    assert {(key.acked, key.issued, key.busy) for key in ledger.keys} == {(0, 0, False)}
    assert {(key.acked, key.issued) for key in ledger_of(filled=True).keys} == {(1, 1)}


@pytest.mark.parametrize(
    ("used", "paths"),
    [
        ({}, ["/b0/o0", "/b0/o1", "/b0/o2", "/b1/o0", "/b1/o1", "/b1/o2"]),
        ({"buckets": ((2, 2, 1.0),)}, ["/b1/o0", "/b1/o1", "/b1/o2"]),
        ({"objects": ((3, 3, 1.0), (1, 1, 5.0), (1, 1, 1.0))}, ["/b0/o0", "/b0/o2", "/b1/o0", "/b1/o2"]),
        ({"buckets": ((1, 1, 1.0),), "objects": ((2, 3, 1.0),)}, ["/b0/o1", "/b0/o2"]),
    ],
)
def test_an_operation_uses_the_ranges_that_it_is_given(used: dict[str, Any], paths: list[str]) -> None:
    ledger = ledger_of(**over(**used))
    assert [key.path for key in ledger.keys_of("get")] == paths
    assert ledger.keys_of("put") is ledger.keys
    rng = random.Random(1)
    assert {ledger.pick("get", rng).path for _ in range(200)} == set(paths)
    assert {ledger.pick("put", rng).path for _ in range(200)} == {key.path for key in ledger.keys}
    turns = ledger_of(**over(in_order=True, **used))
    assert [turns.pick("get", rng).path for _ in range(2 * len(paths))] == paths * 2


def test_numbers_are_drawn_from_their_ranges_by_weight() -> None:
    rng = random.Random(1)
    drew = Counter(drawn(rng, ((1, 2, 1.0), (9, 9, 3.0)), 9) for _ in range(4000))
    assert drew.keys() == {0, 1, 8}
    assert drew[8] == pytest.approx(3000, abs=150)
    assert drew[0] == pytest.approx(500, abs=100)
    assert {drawn(rng, (), 3) for _ in range(100)} == {0, 1, 2}


class Choices(random.Random):
    """Chooses the keys by these places, and then the last one again and again. asked: how often it chose."""

    def __init__(self, *places: int) -> None:
        super().__init__(0)
        self.places, self.asked = list(places), 0

    def choice(self, keys: Any) -> Any:
        self.asked += 1
        return keys[self.places.pop(0) if len(self.places) > 1 else self.places[0]]


def test_a_write_looks_for_a_key_that_nobody_writes() -> None:
    ledger = ledger_of()
    first, second, *_ = ledger.keys
    assert ledger.begin("put", Choices(0)) == Entry(first, 1, "put")
    assert ledger.begin("put", Choices(0, 0, 1)) == Entry(second, 1, "put")
    assert ledger.begin("get", chosen := Choices(0, 0, 2)) == Entry(first, 0, "get")
    assert chosen.asked == 1
    assert ledger.begin("delete", chosen := Choices(0)) == Entry(first, 0, "get"), "there is no other to be found"
    assert chosen.asked == 21


def test_a_write_looks_among_its_own_keys_alone() -> None:
    ledger, rng = ledger_of(**over("put", buckets=((2, 2, 1.0),), objects=((3, 3, 1.0),))), random.Random(1)
    only = ledger.of_bucket["b1"][2]
    assert [ledger.begin("put", rng) for _ in range(2)] == [Entry(only, 1, "put"), Entry(only, 0, "get")]


@pytest.mark.parametrize("kind", ["put", "multipart", "delete"])
def test_a_write_is_a_new_version_until_it_is_answered(kind: str) -> None:
    """A read that began before may find either; one that began after finds the new one."""
    ledger = ledger_of(filled=True)
    key = ledger.keys[0]
    before = ledger.take(key, "get")
    write = ledger.take(key, kind)
    assert write == Entry(key, 2, kind)
    meanwhile = ledger.take(key, "head")
    assert meanwhile == Entry(key, 1, "head")
    assert ledger.take(key, "put") == Entry(key, 1, "get"), "nobody else writes it meanwhile"
    assert key.name not in ledger.settled("b0")
    ledger.end(meanwhile, failed=True)
    assert key.busy, "a read that ended says nothing of the write"
    ledger.end(write, failed=False)
    assert (key.busy, key.acked, key.issued, key.unsure) == (False, 2, 2, set())
    assert [ledger.possible(entry) for entry in (before, meanwhile, ledger.take(key, "get"))] == [{1, 2}, {1, 2}, {2}]
    assert ledger.settled("b0") == {"o0": (2, kind != "delete"), "o1": (1, True), "o2": (1, True)}


def test_a_write_that_failed_may_be_there_or_not_now_or_later() -> None:
    ledger = ledger_of(filled=True)
    key = ledger.keys[0]
    ledger.end(ledger.take(key, "put"), failed=True)
    assert (key.busy, key.acked, key.issued) == (False, 1, 2)
    assert ledger.possible(ledger.take(key, "get")) == {1, 2}
    assert key.name not in ledger.settled(key.bucket)
    ledger.end(ledger.take(key, "put"), failed=False)
    ledger.end(ledger.take(key, "put"), failed=False)
    assert ledger.possible(ledger.take(key, "get")) == {2, 4}
    assert key.name not in ledger.settled(key.bucket)


def test_no_object_is_there_before_the_first_write_and_after_a_delete() -> None:
    ledger = ledger_of()
    key = ledger.keys[0]
    assert ledger.settled("b0")["o0"] == (0, False)
    for kind in ("put", "delete", "put"):
        ledger.end(ledger.take(key, kind), failed=False)
    assert [ledger.absent(key, version) for version in range(4)] == [True, False, True, False]
