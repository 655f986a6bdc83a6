"""Overwrites of less than a stripe: what an erasure-coded image reads before it can write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cephlab.lab.base.errors import SpecError
from cephlab.lab.telemetry.demand import Demand
from cephlab.tuning.derivation import Derivation, DerivationStep
from cephlab.tuning.work import OperationWork, work_for
from cephlab.tuning.workload import STRIPE_UNIT, Shape

SOURCE = "ECBackend reads the k chunks of a stripe that is written in part; osd_pool_erasure_code_stripe_unit"


def with_reread(demands: Sequence[Demand], work: OperationWork) -> OperationWork:
    """Add the price of chunks that must be read before the write, or a doubt where it was not measured.

    A chunk costs as much as a random read of its size costs the leading OSD.
    """
    shape = work.shape
    if not shape.reads_first:
        return work
    how = f"{shape.block_bytes} B is no multiple of {shape.k} x {STRIPE_UNIT} B"
    try:
        chunk = work_for(demands, Shape("randread", STRIPE_UNIT, 1, 1, replicas=1)).primary
    except SpecError:
        doubt = "An overwrite of a part of a stripe reads the stripe first: CPU of these reads was not measured."
        return replace(work, doubts=(*work.doubts, doubt))
    step = DerivationStep(
        "read before the write", how, f"{shape.k} chunks at {chunk.cpu * 1e3:.3f} point-ms each", SOURCE
    )
    return replace(work, reread=chunk, derivation=work.derivation + Derivation((step,)))
