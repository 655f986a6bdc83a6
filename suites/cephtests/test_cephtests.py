"""One pytest item for each run of a program."""

from cephlab.suites.cephtests import SCENARIOS
from cephlab.suites.items import one_item_each

test_scenario = one_item_each(SCENARIOS)
