"""Scenarios that draw their inputs: what is drawn reaches every edge, and a wrong answer is seen."""

from random import Random
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.checks.verdict import Outcome
from cephlab.lab.checks.witnessed import witnessed
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import History
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import edges, hashed, names, rbd_edges
from cephlab.suites.interop.name_hash import object_hash, rjenkins, stable_mod

# What is drawn


@pytest.mark.parametrize("most", [edges.NAME_BYTES, edges.NAMESPACE_BYTES, edges.XATTR_NAME_BYTES])
def test_texts_have_every_length_and_no_other_than_may_be(most: int) -> None:
    drawn = edges.texts(Random(1), 100, most)
    lengths = {len(text.encode()) for text in drawn}
    assert len(set(drawn)) == 100
    assert {length for length in edges.LENGTHS if length <= most} | {most} <= lengths
    assert min(lengths) >= 1
    assert max(lengths) == most


def test_texts_are_of_every_alphabet() -> None:
    letters = set("".join(edges.texts(Random(2), 300, 1000)))
    assert set(edges.PLAIN + edges.AWKWARD + edges.FOREIGN) <= letters
    assert not {"/", "@"} & set("".join(edges.texts(Random(2), 300, 1000, but="/@")))


def test_no_namespace_is_the_name_that_stands_for_all_of_them() -> None:
    """Whoever lists that one is told of the objects of every namespace."""
    seeds = [seed for seed in range(150) if edges.ALL_NAMESPACES in edges.texts(Random(seed), 25, 256)]
    assert seeds
    for seed in seeds:
        drawn = edges.namespaces(Random(seed), 24)
        assert edges.ALL_NAMESPACES not in drawn
        assert len(set(drawn)) == 24


def test_the_same_seed_draws_the_same() -> None:
    def drawn(seed: int) -> object:
        rng = Random(seed)
        return edges.texts(rng, 50, 255), edges.binary_keys(rng, 50), edges.sizes(rng, 30), rbd_edges.draw(rng)

    assert drawn(3) == drawn(3)
    assert drawn(3) != drawn(4)


@pytest.mark.parametrize("count", edges.COUNTS)
def test_keys_are_as_many_as_were_wanted_and_hold_no_nul(count: int) -> None:
    keys = edges.binary_keys(Random(5), count)
    assert len(set(keys)) == len(keys) == count
    assert not any(b"\0" in key or not key for key in keys)
    assert [edges.as_text(key).encode("utf-8", "surrogateescape") for key in keys] == keys


def test_keys_reach_both_ends_of_a_byte() -> None:
    keys = edges.binary_keys(Random(6), 255)
    assert {b"\x01", b"\xff"} <= set(keys)
    assert any(longer.startswith(key) and longer != key for key in keys for longer in keys)


def test_sizes_begin_with_every_edge() -> None:
    drawn = edges.sizes(Random(7), 40)
    assert set(edges.SIZES) <= set(drawn)
    assert max(drawn) == max(edges.SIZES)


# Where a name belongs. The hashes were printed by libceph-common of Debian's 18.2.7 on x86_64.


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        (b"", 0xBD49D10D),
        (b"hello", 0xB706399E),
        (b"twelve bytes", 0xFFD02E10),
        (b"x" * 23, 0x4C2F1631),
        (bytes(range(1, 49)), 0x162AFEAD),
        (bytes(range(1, 50)), 0x7E2A9ED3),
        ("né中😀".encode(), 0x1EE620DA),
        (bytes(range(1, 256)) * 9, 0x0295EE4A),
    ],
)
def test_the_hash_is_cephs(key: bytes, wanted: int) -> None:
    assert rjenkins(key) == wanted


def test_a_namespace_and_a_locator_decide_on_the_place() -> None:
    assert object_hash("o", namespace="é\n/") == 0x3C80FB28  # as `ceph osd map` said
    assert object_hash("o", locator="hello") == object_hash("hello")
    assert object_hash("o", namespace="n", locator="l") == rjenkins(b"n\x1fl")


def test_a_pg_is_found_among_any_number() -> None:
    assert stable_mod(0x3C80FB28, 12) == 8
    assert {stable_mod(value, 12) for value in range(64)} == set(range(12))
    assert [stable_mod(value, 8) for value in range(16)] == [*range(8), *range(8)]
    assert stable_mod(13, 12) == 5


def test_osdmaptools_answer_is_read() -> None:
    assert hashed.parse_mapped(" object 'a -> 9.9 -> [7]' -> 1.a -> [0,2,1]\n\n") == ("1.a", (0, 2, 1))
    assert hashed.parse_mapped(" object 'x' -> 1.0 -> []\n") == ("1.0", ())
    assert hashed.parse_mapped("error") == ("", ())


def test_the_longest_names_come_first_and_none_is_lost() -> None:
    drawn = edges.texts(Random(8), 60, edges.NAME_BYTES)
    ordered = hashed.longest_first(drawn)
    assert len(ordered[0].encode()) == edges.NAME_BYTES
    assert sorted(ordered) == sorted(drawn)


# Omaps


PAIRS = [(b"a", "1"), (b"b", "2"), (b"c", "3")]


@pytest.mark.parametrize(
    ("got", "said"),
    [
        ([PAIRS[0], PAIRS[2], PAIRS[1]], "key 1 of 3 is b'c', wanted b'b'"),
        ([PAIRS[0], (b"b", "9"), PAIRS[2]], "value 1 of 3 is b'b', wanted b'b'"),
        (PAIRS[:2], "2 keys, wanted 3"),
    ],
)
def test_the_first_odd_key_is_named(got: list[tuple[bytes, str]], said: str) -> None:
    assert names.first_odd(got, PAIRS) == said


# Images


@pytest.mark.parametrize("order", rbd_edges.ORDERS)
def test_an_image_is_written_only_where_it_is(order: int) -> None:
    for size in rbd_edges.image_sizes(order):
        places = rbd_edges.edges_of(size, order)
        assert all(0 <= place <= size - rbd_edges.PIECE for place in places)
        if size > 2 << order:
            assert any(place < 1 << order < place + rbd_edges.PIECE for place in places), "over an object's border"
            assert size - rbd_edges.PIECE in places


def test_images_have_names_that_are_no_path() -> None:
    drawn = rbd_edges.draw(Random(9))
    assert len({wanted.name for wanted in drawn}) == len(drawn) >= 7
    assert not any({"/", "@"} & set(wanted.name) for wanted in drawn)
    assert {0, 1} <= {wanted.size for wanted in drawn}


def test_later_writes_lie_over_earlier_ones() -> None:
    content: dict[int, bytes] = {}
    rbd_edges.overlay(content, 0, b"aaaaa")
    rbd_edges.overlay(content, 2, b"bb")
    assert b"".join(content[n] for n in range(5)) == b"aabba"


@pytest.mark.parametrize(
    ("answer", "archs", "outcome"),
    [
        (b"key=key", (Arch.X86_64, Arch.AARCH64), Outcome.PASS),
        (b"", (Arch.X86_64, Arch.AARCH64), Outcome.FAIL),
        (b"key=key", (Arch.X86_64, Arch.X86_64), Outcome.INCONCLUSIVE),
    ],
    ids=["found by both", "found by none", "one architecture was never asked"],
)
def test_names_are_looked_up_on_osds_of_both_architectures(
    monkeypatch: pytest.MonkeyPatch, answer: bytes, archs: tuple[Arch, ...], outcome: Outcome
) -> None:
    monkeypatch.setattr(pools, "locate", lambda *_: {"acting": [0, 1]})
    monkeypatch.setattr(hashed, "arch_of", lambda _cluster, osd: archs[osd])
    client = SimpleNamespace(set_omap=lambda *_: None, command=lambda *_, **__: answer)
    recorder = History().recorder("s")
    stage = SimpleNamespace(cluster=SimpleNamespace(client=client), recorder=recorder)
    hashed.note_looked_up(cast("Stage", stage), "pool", ["a"])
    assert witnessed(recorder.events()).outcome is outcome
