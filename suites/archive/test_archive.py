"""One pytest item for each scenario of the suite."""

from cephlab.suites.archive import SCENARIOS
from cephlab.suites.items import one_item_each

test_scenario = one_item_each(SCENARIOS)
