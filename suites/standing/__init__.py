"""A cluster as it stands: checks it without changing it, so that it may be in service, and loads it where allowed."""

from cephlab.suites.standing import load, looks, s3load

SCENARIOS = (*looks.SCENARIOS, *load.SCENARIOS, *s3load.SCENARIOS)
