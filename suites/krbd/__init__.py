"""RBD through the kernel's client, on machines whose kernel has one."""

from cephlab.suites.krbd import beside

SCENARIOS = beside.SCENARIOS
