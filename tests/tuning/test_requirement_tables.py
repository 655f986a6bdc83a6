"""Each kind of requirement as a table: what is read, what is left out, what is refused, and its words."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from cephlab.tuning.requirements import (
    Amount,
    CapacityRequirement,
    LoadRequirement,
    ObjectsRequirement,
    PowerRequirement,
    Protection,
    RecoveryRequirement,
    Requirement,
    words_of,
)
from cephlab.tuning.units import Measure
from cephlab.tuning.workload import Shape

READ: TypeAdapter[Requirement] = TypeAdapter(Requirement)
LOAD = {
    "name": "x",
    "op": "randread",
    "bs": "4k",
    "clients": 2,
    "depth": 3,
    "protection": "ec:4+2",
    "at_least": "1 IOPS",
}
RECOVERY = {"name": "x", "kind": "recovery", "fill": 0.5, "protection": "replicated:3", "at_most": "2 h"}
CAPACITY = {"name": "x", "kind": "capacity", "fill": 0.85, "protection": "ec:4+2", "at_least": "2 TB"}
OBJECTS = {
    "name": "x",
    "kind": "objects",
    "metadata": {"value": "8 KiB", "source": "measured"},
    "at_least": "5 objects",
}
POWER = {"name": "x", "kind": "power", "at_most": "3000 W"}


def read(table: dict[str, Any], **changes: Any) -> Requirement:
    """changes: None leaves a key out."""
    return READ.validate_python({key: value for key, value in {**table, **changes}.items() if value is not None})


@pytest.mark.parametrize(
    ("table", "kind", "limit", "amount"),
    [
        (LOAD, LoadRequirement, "at_least", Amount(1, Measure.OPS)),
        ({**LOAD, "kind": "load", "at_least": "2 MB/s"}, LoadRequirement, "at_least", Amount(2e6, Measure.RATE)),
        ({**LOAD, "mean_at_most": "2 ms"}, LoadRequirement, "mean_at_most", Amount(0.002, Measure.TIME)),
        ({**LOAD, "p99_at_most": "2 s"}, LoadRequirement, "p99_at_most", Amount(2, Measure.TIME)),
        ({**LOAD, "per_watt_at_least": "7 ops/s/W"}, LoadRequirement, "per_watt_at_least", Amount(7, Measure.WORK)),
        (RECOVERY, RecoveryRequirement, "at_most", Amount(7200, Measure.TIME)),
        ({**RECOVERY, "fill": None, "bytes": "4 TB"}, RecoveryRequirement, "bytes", Amount(4e12, Measure.BYTES)),
        (CAPACITY, CapacityRequirement, "at_least", Amount(2e12, Measure.BYTES)),
        (OBJECTS, ObjectsRequirement, "at_least", Amount(5, Measure.OBJECTS)),
        (POWER, PowerRequirement, "at_most", Amount(3000, Measure.POWER)),
    ],
)
def test_a_limit_is_read_in_its_own_unit(table: dict[str, Any], kind: type, limit: str, amount: Amount) -> None:
    requirement = read(table)
    assert isinstance(requirement, kind)
    assert getattr(requirement, limit) == amount
    assert READ.validate_python(requirement) == requirement


def test_what_is_left_out_has_its_usual_value() -> None:
    load, recovery, objects = read(LOAD), read(RECOVERY), read(OBJECTS)
    assert isinstance(load, LoadRequirement)
    assert (load.kind, load.hit_ratio, load.span, load.mix) == ("load", 0, 1, {})
    assert (load.mean_at_most, load.p99_at_most, load.per_watt_at_least) == (None, None, None)
    assert isinstance(recovery, RecoveryRequirement)
    assert (recovery.nodes_lost, recovery.replaced, recovery.share, recovery.bytes) == (1, False, 1, None)
    assert isinstance(objects, ObjectsRequirement)
    assert objects.db is None
    assert Protection() == Protection(3, 0, 0)


@pytest.mark.parametrize(
    ("table", "changes"),
    [
        (LOAD, {"hit_ratio": 0}),
        (LOAD, {"hit_ratio": 1}),
        (LOAD, {"span": 1}),
        (LOAD, {"span": 0.01}),
        (LOAD, {"op": None, "mix": {"randread": 0.4, "randwrite": 0.6000009}}),
        (LOAD, {"op": None, "mix": {"get": 1.0}}),
        (LOAD, {"at_least": None, "mean_at_most": "1 ms"}),
        (LOAD, {"at_least": None, "p99_at_most": "1 ms"}),
        (LOAD, {"at_least": None, "per_watt_at_least": "1 ops/s/W"}),
        (RECOVERY, {"fill": 0.95}),
        (RECOVERY, {"fill": 0.01}),
        (RECOVERY, {"protection": "replicated:2"}),
        (RECOVERY, {"nodes_lost": 2}),
        (RECOVERY, {"protection": "ec:4+2", "nodes_lost": 2}),
        (RECOVERY, {"replaced": True}),
    ],
)
def test_the_edge_of_what_fits_is_taken(table: dict[str, Any], changes: dict[str, Any]) -> None:
    taken = read(table, **changes)
    assert {key for key, value in changes.items() if value is not None} <= taken.model_fields_set


@pytest.mark.parametrize(
    ("table", "changes", "key"),
    [
        (LOAD, {"hit_ratio": -0.01}, "hit_ratio"),
        (LOAD, {"hit_ratio": 1.01}, "hit_ratio"),
        (LOAD, {"span": 0}, "span"),
        (LOAD, {"span": 1.01}, "span"),
        (LOAD, {"mix": {"randread": 1.0}}, "op or mix"),
        (LOAD, {"op": None, "mix": {"randread": 0.4, "randwrite": 0.600002}}, "mix: got shares"),
        (LOAD, {"op": None, "mix": {"randread": 0.4, "randwrite": 0.599998}}, "mix: got shares"),
        (LOAD, {"op": None, "mix": {"randread": 0.5, "scrub": 0.5}}, "op: got 'scrub'"),
        (LOAD, {"at_least": None}, "no limit"),
        (LOAD, {"at_least": ["1 IOPS"]}, "at_least"),
        (LOAD, {"mean_at_most": "1 IOPS"}, "mean_at_most"),
        (LOAD, {"bs": "-4k"}, "for example 4k"),
        (LOAD, {"kind": "recovery"}, "recovery.at_most"),
        (LOAD, {"kind": ""}, "one of load"),
        (RECOVERY, {"fill": 0.951}, "fill"),
        (RECOVERY, {"fill": 0}, "fill"),
        (RECOVERY, {"fill": None}, "fill or bytes"),
        (RECOVERY, {"share": 0}, "share"),
        (RECOVERY, {"nodes_lost": 0}, "nodes_lost"),
        (RECOVERY, {"nodes_lost": 3}, "nodes_lost: got 3 with replicated:3, wanted: at most 2"),
        (RECOVERY, {"protection": "ec:4+2", "nodes_lost": 3}, "nodes_lost: got 3 with ec:4+2, wanted: at most 2"),
        (RECOVERY, {"protection": "replicated:1"}, "nodes_lost: got 1 with replicated:1, wanted: at most 0"),
        (RECOVERY, {"replaced": 1}, "replaced"),
        (RECOVERY, {"protection": "replicated:-1"}, "replicated:N or ec:K"),
        (RECOVERY, {"protection": "replicated:two"}, "replicated:N or ec:K"),
        (RECOVERY, {"protection": "ec:"}, "replicated:N or ec:K"),
        (RECOVERY, {"protection": "ec:4"}, "replicated:N or ec:K"),
        (RECOVERY, {"protection": "4+2"}, "replicated:N or ec:K"),
        (RECOVERY, {"protection": 3}, "replicated:N or ec:K"),
        (CAPACITY, {"protection": "raid:3"}, "replicated:N or ec:K"),
    ],
)
def test_what_is_beyond_the_edge_is_refused(table: dict[str, Any], changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ValidationError) as refused:
        read(table, **changes)
    assert key in str(refused.value)


def test_no_kind_of_its_own_is_neither_a_table_nor_a_requirement() -> None:
    for raw in (7, "load", object()):
        with pytest.raises(ValidationError, match="kind: one of load") as refused:
            READ.validate_python(raw)
        assert [error["type"] for error in refused.value.errors()] == ["requirement"]


def test_a_load_has_the_shape_of_each_operation() -> None:
    load = read(LOAD, op=None, mix={"randread": 0.75, "randwrite": 0.25}, hit_ratio=0.5, span=0.1)
    assert isinstance(load, LoadRequirement)
    assert load.op == ""
    assert load.shapes == (
        (0.75, Shape("randread", 4096, 2, 3, 3, 4, 2, 0.5, 0.1)),
        (0.25, Shape("randwrite", 4096, 2, 3, 3, 4, 2, 0.5, 0.1)),
    )
    single = read(LOAD, protection="replicated:2")
    assert isinstance(single, LoadRequirement)
    assert single.shapes == ((1, Shape("randread", 4096, 2, 3, 2, 0, 0, 0, 1)),)


def test_a_protection_has_a_shape_and_words() -> None:
    assert Protection(k=4, m=2).shape("put", 8) == Shape("put", 8, 1, 1, 3, 4, 2)
    assert Protection(2).shape("put", 8) == Shape("put", 8, 1, 1, 2, 0, 0)
    assert (str(Protection(2)), str(Protection(k=4, m=2)), str(Amount(3, Measure.POWER))) == (
        "replicated:2",
        "ec:4+2",
        "3 W",
    )


def test_words_say_what_a_requirement_is_about() -> None:
    shape = str(Shape("randread", 4096, 2, 3, 3, 4, 2))
    assert words_of(read(LOAD)) == shape
    mix = read(LOAD, op=None, mix={"randread": 0.75, "randwrite": 0.25})
    assert words_of(mix) == shape.replace("randread", "75 % randread, 25 % randwrite")
    cached = words_of(read(LOAD, op=None, mix={"read": 0.75, "write": 0.25}, hit_ratio=0.5))
    assert cached.startswith("75 % read, 25 % write of 4")
    assert cached.endswith("0.5 of reads from memory")
    assert words_of(read(RECOVERY)) == "recovery of 1 node, 50 % full, replicated:3"
    held = read(RECOVERY, fill=None, bytes="4500 GB", nodes_lost=2)
    assert words_of(held) == "recovery of 2 nodes, 4.5 TB, replicated:3"
    assert words_of(read(CAPACITY)) == "usable capacity at 85 % of the disks, ec:4+2"
    assert words_of(read(OBJECTS)) == "objects with 8 KiB of metadata each"
    assert words_of(read(POWER)) == "power of all nodes under load"
