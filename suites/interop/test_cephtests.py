"""Upstream's test programs: one pytest item for each run, one result for each of its cases."""

from cephlab.suites.interop import cephtests, objectstore
from cephlab.suites.items import one_item_each

SCENARIOS = (*cephtests.SCENARIOS, *objectstore.SCENARIOS)

test_program = one_item_each(SCENARIOS)
