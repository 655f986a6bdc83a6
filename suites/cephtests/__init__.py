"""Ceph's own test programs between architectures, and on stores of either: each case has a result of its own."""

from cephlab.suites.cephtests import models, objectstore, programs

SCENARIOS = (*programs.SCENARIOS, *objectstore.SCENARIOS, *models.SCENARIOS)
