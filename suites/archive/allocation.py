"""Disk space of objects: whole allocation units for each shard, e.g. the paper's 64 KiB for a shard of 16 KiB."""

from dataclasses import replace
from functools import partial

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.workloads.s3_load_program import FILL, FINAL
from cephlab.lab.workloads.s3load import Over, S3Load
from cephlab.suites.archive.stand import (
    EC_4_2,
    FILLED,
    SMALL_BYTES,
    UNIT_BYTES,
    data_bytes,
    opened,
    options_of,
    taken_bytes,
)
from cephlab.suites.object.stand import loaded, near

OBJECTS = 60
SIZES = ((SMALL_BYTES, SMALL_BYTES, 3.0), (1, 4096, 1.0), (4097, 1 << 20, 2.0))
"""Half of the objects have the paper's size, the others sizes around the allocation unit."""
UNITS = {"64k": UNIT_BYTES, "16k": 16_384, "4k": 4096}
"""The default of the paper's release, the one for SSDs of that time, and Reef's for every disk."""


def run(stage: Stage, unit_bytes: int) -> None:
    """Put objects, and compare the pool's growth with the formula."""
    cluster = stage.cluster
    doors = opened(cluster)
    load = S3Load(
        bucket="allocated",
        objects=OBJECTS,
        sizes=SIZES,
        seed=stage.rng.randrange(1 << 31),
        phases=(FILL,),
        over={FILL: Over(objects=((1, 1, 1.0),))},
    )
    # The first object creates the bucket.
    loaded(stage, "the first object", near(cluster), doors[:1], load)
    before = data_bytes(cluster)
    rest = replace(load, over={FILL: Over(objects=((2, OBJECTS, 1.0),))})
    sizes = [operation.bytes for operation in loaded(stage, "the others", near(cluster), doors, rest).of(FILL)]
    grown, formula = data_bytes(cluster) - before, taken_bytes(sizes, unit_bytes, EC_4_2)
    exact = formula / sum(sizes)
    stage.recorder.observe(
        f"bytes on all disks of {len(sizes)} objects, allocation unit {unit_bytes}", got=grown, wanted=formula
    )
    stage.recorder.figure(
        "bytes of disks / bytes of objects",
        grown / sum(sizes),
        "",
        Bound("each shard takes whole units; EC 4+2 alone would be 1.5", exact, exact, basis=Basis.CORRECTNESS),
    )
    each = taken_bytes([SMALL_BYTES], unit_bytes, EC_4_2)
    stage.recorder.record("allocation", unit=unit_bytes, sizes=sizes, grown=grown, formula=formula, of_small=each)
    loaded(stage, "the last reading", near(cluster), doors[::-1], replace(load, phases=(FINAL,), over={}))


SCENARIOS = tuple(
    Scenario(
        name=f"archive.allocation[unit={name}]",
        goal=f"With an allocation unit of {name}, objects on EC 4+2 take the disk space that the formula gives.",
        method="Puts objects of many sizes, among them the paper's; compares the pool's growth with the formula.",
        run=partial(run, unit_bytes=unit_bytes),
        check="figures",
        tier=Tier.QUICK if unit_bytes == UNIT_BYTES else Tier.FULL,
        topology=replace(FILLED, options=options_of(unit_bytes)),
    )
    for name, unit_bytes in UNITS.items()
)
