"""Test programs of others, upstream's and pjdfstest: one item for each scenario, one result for each of its cases."""

from cephlab.suites.cephfs import cephtests, posix
from cephlab.suites.items import one_item_each

SCENARIOS = [*cephtests.SCENARIOS, *posix.SCENARIOS]

test_program = one_item_each(SCENARIOS)
