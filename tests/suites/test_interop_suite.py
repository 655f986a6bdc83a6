"""The pure parts of the interoperability suite, each with what it must accept and what it must catch."""

import hashlib
import struct
from collections.abc import Mapping
from random import Random

import pytest

from cephlab.lab.base.errors import CephTrouble
from cephlab.lab.checks import Outcome
from cephlab.lab.checks.observations import observations
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop import compression, dencoder, encodings, erasure, placement
from cephlab.suites.interop.exports import listing
from cephlab.suites.interop.pg_export import read_export
from cephlab.suites.interop.placement import CLASS_RULE, ERASURE_RULE, REPLICATED_RULE, RULES, Tree, crush_text
from cephlab.suites.interop.sides import agree

DUMP = "pool 1 pg_num 2\n1.0\t[0,4,8]\t0\n1.a\t[2,6,10]\t2\n#osd\tcount\tfirst\n"
GOOD = {"1.0": ((0, 4, 8), 0), "1.a": ((2, 6, 10), 2)}


def outcome_of_mappings(mappings: Mapping[Arch, placement.Mappings]) -> Outcome:
    history = History()
    placement.note_mappings(history.recorder("s"), REPLICATED_RULE, mappings, 2)
    return observations(history.events()).outcome


def test_mappings_are_read_from_a_dump() -> None:
    assert placement.parse_mappings(DUMP) == GOOD


def test_equal_mappings_pass() -> None:
    assert outcome_of_mappings({Arch.X86_64: GOOD, Arch.AARCH64: dict(GOOD)}) is Outcome.PASS


@pytest.mark.parametrize(
    "changed",
    [
        {**GOOD, "1.a": ((2, 10, 6), 2)},
        {**GOOD, "1.a": ((2, 6, 10), 6)},
        {"1.0": GOOD["1.0"]},
        {**GOOD, "1.b": ((1, 5, 9), 1)},
    ],
    ids=["order", "primary", "missing", "more"],
)
def test_a_mapping_that_differs_fails(changed: placement.Mappings) -> None:
    assert outcome_of_mappings({Arch.X86_64: GOOD, Arch.AARCH64: changed}) is Outcome.FAIL


@pytest.mark.parametrize("osds", [(0, 1, 8), (0, 4), (0, 4, placement.OUT_OSD)], ids=["one-host", "too-few", "out"])
def test_both_wrong_alike_fails(osds: tuple[int, ...]) -> None:
    wrong = {**GOOD, "1.0": (osds, 0)}
    assert outcome_of_mappings({Arch.X86_64: wrong, Arch.AARCH64: wrong}) is Outcome.FAIL


def test_two_architectures_must_make_the_same_bytes() -> None:
    history = History()
    agree(history.recorder("s"), "map", {Arch.X86_64: b"map", Arch.AARCH64: b"mop"})
    assert observations(history.events()).outcome is Outcome.FAIL


def test_one_architecture_alone_proves_nothing() -> None:
    history = History()
    agree(history.recorder("s"), "map", {Arch.X86_64: b"map"})
    assert observations(history.events()).outcome is Outcome.INCONCLUSIVE


def test_two_architectures_that_make_nothing_prove_nothing() -> None:
    history = History()
    agree(history.recorder("s"), "map", {Arch.X86_64: b"", Arch.AARCH64: b""})
    assert observations(history.events()).outcome is Outcome.INCONCLUSIVE


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ("# devices\ndevice 0 osd.0 class hdd\ndevice 1 osd.1\n", Outcome.PASS),
        ("device 0 osd.0 class hdd\n", Outcome.FAIL),
        ("# a map of nothing\n", Outcome.FAIL),
    ],
)
def test_the_text_of_a_map_is_that_of_the_cluster(text: str, outcome: Outcome) -> None:
    history = History()
    placement.note_devices(history.recorder("s"), text, [0, 1])
    assert observations(history.events()).outcome is outcome


def test_crush_text_numbers_rules_in_order_and_replays() -> None:
    tree = Tree(racks=3, hosts=2, osds=2)
    text = crush_text(tree, [ERASURE_RULE, REPLICATED_RULE], Random(1))
    assert text.index("rule shards {\nid 0\n") < text.index("rule copies {\nid 1\n")
    assert text.count("\ndevice ") == tree.osd_count == 12
    assert text == crush_text(tree, [ERASURE_RULE, REPLICATED_RULE], Random(1))
    assert text != crush_text(tree, [ERASURE_RULE, REPLICATED_RULE], Random(2))


def test_the_tree_can_carry_every_rule() -> None:
    assert placement.TREE.osd_count << min(placement.PG_BITS.values()) >= placement.LEAST_MAPPINGS
    assert all(rule.size <= placement.TREE.racks * placement.TREE.hosts for rule in RULES)


@pytest.mark.parametrize(
    ("rule", "osds", "right"),
    [
        (REPLICATED_RULE, (0, 4, 8), True),
        (REPLICATED_RULE, (0, 4, 8, 12), False),
        (ERASURE_RULE, (0, 4, 16, 20, 32, 36), True),
        (ERASURE_RULE, (0, 4, 8, 16, 20, 32), False),
        (ERASURE_RULE, (0, 4, 8, 16, 20, 24), False),
        (ERASURE_RULE, (0, 4, 16, 20, 32, 48), False),
        (CLASS_RULE, (1, 16, 34), True),
        (CLASS_RULE, (1, 4, 16), False),
        (CLASS_RULE, (1, 16, 33), False),
    ],
    ids=["hosts", "too many", "pairs", "three in a rack", "two racks", "four racks", "class", "one rack", "no class"],
)
def test_a_rule_is_followed_in_hosts_racks_and_class(rule: placement.Rule, osds: tuple[int, ...], right: bool) -> None:
    assert placement.follows(osds, rule, placement.TREE) is right


def test_every_tolerated_loss_is_tried() -> None:
    assert sorted(erasure.lost_chunks(3, 1)) == [(0,), (1,), (2,)]
    assert len(set(erasure.lost_chunks(6, 2))) == 6 + 15


@pytest.mark.parametrize(
    ("content", "verdict"),
    [(b"abc", "equal"), (b"abc\0\0", "equal"), (b"abd", "byte 2"), (b"abc\0x", "byte 4"), (b"ab", "2 bytes")],
)
def test_a_decoded_object_is_the_data_and_zeros(content: bytes, verdict: str) -> None:
    assert erasure.compare(content, b"abc").startswith(verdict)


def test_a_goal_says_how_many_chunks_are_really_lost() -> None:
    goals = {scenario.name: scenario.goal for scenario in erasure.SCENARIOS}
    small = "plugin=lrc,l=2,k=2,m=2"
    assert "every loss of one chunk" in goals[f"interop.erasure[{small}]"]
    assert "every loss of up to 2 chunks" in goals[f"interop.erasure-pairs[{small}]"]
    tried = {code.label: code.losses for code in erasure.QUICK}
    assert len(tried[small]) == 6
    assert len(erasure.SMALL_LRC.losses) == 6 + 15


def section(kind: int, payload: bytes = b"", *, foot: bool = True) -> bytes:
    head = b"\x01\x01\x0c\0\0\0" + b"\xce\xff" + bytes([kind, kind]) + struct.pack("<Q", len(payload))
    return head + payload + (bytes(10) if foot else b"")


def exported(data: bytes, attributes: bytes = b"a") -> bytes:
    named = bytes(12) + struct.pack("<I", 0) + struct.pack("<I", 3) + b"obj"
    head = section(3, named + struct.pack("<Q", (1 << 64) - 2))
    clone = section(3, named + struct.pack("<Q", 4))
    body = section(5, bytes(26) + data) + section(6, attributes) + section(4, foot=False)
    return bytes(16) + section(1, b"pg") + clone + body + head + body + section(2, foot=False)


def test_an_export_is_read_object_by_object() -> None:
    objects = read_export(exported(b"content"))
    assert sorted(objects) == ["obj@4", "obj@head"]
    assert objects["obj@head"].data == hashlib.sha256(b"content").hexdigest()


def test_a_changed_attribute_changes_everything_but_the_data() -> None:
    plain, changed = (read_export(exported(b"content", attribute))["obj@4"] for attribute in (b"a", b"b"))
    assert plain.data == changed.data
    assert plain.everything != changed.everything


def test_an_exported_omap_is_read() -> None:
    def text(content: bytes) -> bytes:
        return struct.pack("<I", len(content)) + content

    name = bytes(12) + text(b"") + text(b"obj") + struct.pack("<Q", (1 << 64) - 2)
    omap = bytes(6) + struct.pack("<I", 2) + text(b"\xff") + text(b"one") + text(b"k") + text(b"")
    objects = read_export(bytes(16) + section(3, name) + section(8, omap) + section(4, foot=False))
    sums = [hashlib.sha256(value).hexdigest() for value in (b"one", b"")]
    assert objects["obj@head"].omap == {"ff": sums[0], "6b": sums[1]}


@pytest.mark.parametrize("damaged", [exported(b"x")[:-60], exported(b"x")[:40] + b"?" + exported(b"x")[40:]])
def test_a_damaged_export_is_refused(damaged: bytes) -> None:
    with pytest.raises(CephTrouble):
        read_export(damaged)


def test_a_listing_names_objects_and_clones() -> None:
    lines = [
        '["1.0",{"oid":"","snapid":-2}]',
        '["1.0",{"oid":"a","snapid":-2}]',
        '["1.0",{"oid":"a","snapid":1}]',
        "Error: none",
    ]
    assert listing("\n".join(lines)) == ["a@1", "a@head"]


def test_times_are_taken_out_and_nothing_else() -> None:
    printed = "epoch 1\ncreated 1970-01-01T00:16:40.000005+0000\nmodified 1970-01-01T00:16:40.000005+0000\n"
    stamp = struct.pack("<II", 1000, 5000)
    assert encodings.without_times(b"map" + stamp + b"rest" + stamp, printed) == b"map" + bytes(8) + b"rest" + bytes(8)
    assert encodings.without_times_and_sum(b"map" + stamp + b"restCCCC", printed) == b"map" + bytes(8) + b"rest"
    later, earlier = struct.pack("<II", 1100, 7), struct.pack("<II", 999, 7)
    assert encodings.without_times(later + earlier, printed) == bytes(8) + earlier
    assert encodings.without_times(stamp, "created 0.000000\n") == stamp


def test_documents_are_told_apart() -> None:
    output = '{\n    "a": {\n        "b": 1\n    }\n}\n{\n}\n'
    assert dencoder.documents(output) == ['{\n    "a": {\n        "b": 1\n    }\n}', "{\n}"]
    assert dencoder.documents("") == []


def test_instances_that_decode_otherwise_are_named() -> None:
    wanted = {"t #1": "{1}", "t #2": "{2}", "t #3": dencoder.REFUSED + "no", "t #4": "{4}"}
    decoded = {"t #1": "{1}", "t #2": "{3}", "t #3": "{}", "t #5": "{5}"}
    assert dencoder.differing(decoded, wanted) == ["t #2", "t #4"]


def test_every_checksum_type_that_an_object_has_is_seen() -> None:
    """A pool option that came too late for one of the blobs must not pass for the type that was asked for."""
    extents = [{"logical_offset": at << 16, "blob": {"csum_type": kind}} for at, kind in enumerate((4, 4, 6))]
    assert compression.checksum_types({"onode": {"extents": extents}}) == {4, 6}
