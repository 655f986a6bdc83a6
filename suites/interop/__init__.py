"""x86_64 and aarch64 in one cluster: nothing may depend on which of them did it."""

from __future__ import annotations

from cephlab.lab.scenario.scenario import Scenario
from cephlab.suites.interop import (
    cephmodels,
    compression,
    dencoder,
    encodings,
    erasure,
    exports,
    keys,
    messenger,
    monitors,
    moved,
    objects,
    pages,
    parity,
    placement,
    rbd,
    recovery,
    roles,
    scrub,
    standing,
    stripes,
)

SCENARIOS: tuple[Scenario, ...] = (
    *cephmodels.SCENARIOS,
    *compression.SCENARIOS,
    *dencoder.SCENARIOS,
    *encodings.SCENARIOS,
    *erasure.SCENARIOS,
    *exports.SCENARIOS,
    *keys.SCENARIOS,
    *messenger.SCENARIOS,
    *monitors.SCENARIOS,
    *moved.SCENARIOS,
    *objects.SCENARIOS,
    *pages.SCENARIOS,
    *parity.SCENARIOS,
    *placement.SCENARIOS,
    *rbd.SCENARIOS,
    *recovery.SCENARIOS,
    *roles.SCENARIOS,
    *scrub.SCENARIOS,
    *standing.SCENARIOS,
    *stripes.SCENARIOS,
)
