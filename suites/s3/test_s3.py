"""One item for each group, one result for each of its cases."""

from cephlab.suites.items import one_item_each
from cephlab.suites.s3 import SCENARIOS

test_group = one_item_each(SCENARIOS)
