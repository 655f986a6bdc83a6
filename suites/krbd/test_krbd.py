"""One pytest item for each scenario of the suite."""

from cephlab.suites.items import one_item_each
from cephlab.suites.krbd import SCENARIOS

test_scenario = one_item_each(SCENARIOS)
