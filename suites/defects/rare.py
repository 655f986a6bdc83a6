"""Defects that no small program shows: each is tried a few times on a cluster under load."""

from collections.abc import Callable
from functools import partial

from cephlab.lab.ceph.daemon import STOP_S
from cephlab.lab.report.defects import SUITE, Defect
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.asked import count
from cephlab.suites.cephfs.failover import load_of
from cephlab.suites.cephfs.stand import EXPECTED as FILES_EXPECTED
from cephlab.suites.cephfs.stand import wait_active
from cephlab.suites.defects.shown import FILE_SYSTEM, KNOWN, SEES, WITH_FILES, goal_of, meet, tried
from cephlab.suites.resilience.trial import RETURN_S, under_way

TRIES_VARIABLE = "CEPHLAB_DEFECT_TRIES"
"""Environment variable with the number of tries of each scenario in this module, instead of 3."""
TRIES = 3

Try = Callable[[Stage], tuple[bool | None, str]]
"""One try. Returns whether it saw the defect, None if it could not tell, and a description of what happened."""


def try_often(stage: Stage, defect: Defect, once: Try) -> None:
    """Try a number of times, and record each try. A defect that was seen in every try so far is tried once."""
    meet(stage, defect)
    for _ in range(tries(1 if defect.seen == defect.of else TRIES)):
        seen, evidence = once(stage)
        tried(stage, seen=seen, evidence=evidence)


def tries(usual: int = TRIES) -> int:
    """The number of tries that the environment asks for, else the usual one."""
    return count(TRIES_VARIABLE, "tries", usual)


def server_that_stays(stage: Stage) -> tuple[bool, str]:
    """Stop the metadata server while files are being replaced, and observe whether it ends."""
    cluster = stage.cluster
    [name] = wait_active(cluster)
    load = load_of(stage, f"stop{stage.rng.randrange(1 << 31)}", (cluster.client.host.name,))
    load.prepare()
    with load.running():
        under_way(load)
        stays = not cluster.stop_or_kill(name)
        cluster.start(name)
        cluster.wait_healthy(RETURN_S)
    return stays, f"{name} {'had not ended' if stays else 'ended'} within {STOP_S:g} s of SIGTERM"


def scenario(name: str, once: Try, topology: Topology, expects: dict[str, str]) -> Scenario:
    defect = KNOWN[name]
    return Scenario(
        name=f"{SUITE}.{name}",
        goal=goal_of(defect),
        method=f"{(once.__doc__ or '').strip()} Known: seen in {defect.seen} of {defect.of} tries.",
        run=partial(try_often, defect=defect, once=once),
        asked=lambda _tier: tries(),
        check="defect",
        tier=Tier.FULL,
        topology=topology,
        expects=expects,
        spoils=True,
        sees=SEES,
    )


SCENARIOS = (scenario("mds-stop-hangs", server_that_stays, WITH_FILES, {**FILE_SYSTEM, **FILES_EXPECTED}),)
