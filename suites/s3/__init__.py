"""S3 features, case by case: written through a gateway of one architecture and read through one of the other."""

from dataclasses import replace
from functools import partial

from cephlab.lab.scenario.scenario import Scenario
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.object.stand import GATEWAYS
from cephlab.suites.s3 import (
    access,
    buckets,
    conformance,
    multipart,
    multisite,
    objects,
    space,
    swift,
    underload,
    versions,
    walk,
)
from cephlab.suites.s3.stand import run

GROUPS = {
    "objects": objects.CASES,
    "buckets": buckets.CASES,
    "multipart": multipart.CASES,
    "versions": versions.CASES,
    "access": access.CASES,
}
TOPOLOGY = replace(GATEWAYS, clients=False, lone_client=True, options=(("rgw_lc_debug_interval", "5"),))
"""A day of a lifecycle rule lasts 5 s."""

EXPECTS = {
    "crypto_isal": "Debian's Ceph for aarch64 has no ISA-L plugin; the gateway encrypts without it and logs that.",
}

GROUP_SCENARIOS = tuple(
    Scenario(
        name=f"s3.{group}",
        goal=f"What S3 specifies for {group} holds across gateways of both architectures.",
        method=f"Runs {len(cases)} boto3 cases twice: each gateway is once the writer, with the other as the reader.",
        run=partial(run, group=group, cases=cases),
        check="gtest",
        topology=TOPOLOGY,
        needs=frozenset({Capability.THIS_MACHINE}),
        sees=("gtest_case",),
        expects=EXPECTS,
    )
    for group, cases in GROUPS.items()
)
SCENARIOS = (
    *GROUP_SCENARIOS,
    space.scenario(TOPOLOGY),
    swift.scenario(TOPOLOGY),
    *underload.scenarios(TOPOLOGY),
    *walk.scenarios(TOPOLOGY),
    *conformance.SCENARIOS,
    multisite.scenario(TOPOLOGY),
)
