"""BlueStore by itself, on each architecture: upstream's ceph_test_objectstore on a store in a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from lab.arch import Arch
from lab.deploy.packages import SHIM_NAME
from lab.host import Host
from lab.scenario import Scenario, Stage, Tier
from lab.workloads.gtest import Result, Run, list_cases, run_gtest
from suites.interop.cephtests import environment, record_run, require_programs

PROGRAM = "ceph_test_objectstore"
LIMIT_S = 60.0  # a case; the longest took 10 s natively

BLUESTORE = "ObjectStore/StoreTest.*/1"
"""The second of the stores that the program is made for; the others (memstore, kstore) hold nobody's data."""

LONG = ("Many", "Synthetic", "Hash", "ColSplit", "MergeSkewed", "Big", "Huge")
"""Cases by these words make ten thousand objects or gigabytes each: minutes natively, hours under an emulator."""


def run(stage: Stage, arch: Arch) -> None:
    """Run BlueStore's cases one by one on a host of the architecture."""
    cluster, host = stage.cluster, stage.cluster.host_with(arch)
    require_programs(cluster, host, [PROGRAM])
    select = f"{BLUESTORE}:-{':'.join(f'*{word}*' for word in LONG)}"
    lister = cluster.client.host
    wanted = list_cases(lister, PROGRAM, env=environment(lister), select=select)
    preload = [host.directory / SHIM_NAME] if host.emulated else []
    machine = host.run(["uname", "-m"], timeout_s=LIMIT_S * cluster.patience).stdout.strip()
    stage.recorder.observe("the host's programs are", got=machine, wanted=arch.value)
    ran = [_run_case(host, case, preload, LIMIT_S * cluster.patience) for case in wanted]
    finished = [case for one in ran for case in one.cases if case.result in (Result.PASS, Result.FAIL)]
    stage.recorder.witness("cases that ran to their end", got=len(finished), least=len(wanted))
    worst = next((one for one in ran if one.code != 0), ran[-1])
    record_run(stage.recorder, replace(worst, cases=tuple(case for one in ran for case in one.cases)))


def _run_case(host: Host, case: str, preload: Sequence[PurePosixPath], timeout_s: float) -> Run:
    """One case in a process and an empty directory of its own.

    In one process the cases' stores add up: emulated, the program held 19 GB before it was through.
    """
    store = host.directory / "objectstore"
    host.remove(store)
    host.make_directory(store)
    try:
        return run_gtest(
            host,
            PROGRAM,
            wanted=[case],
            env=environment(host),
            timeout_s=timeout_s,
            report=host.directory / f"{PROGRAM}.json",
            select=case,
            preload=preload,
            cwd=store,
        )
    finally:
        host.remove(store)


def scenario(arch: Arch) -> Scenario:
    """Every selected case on a host of one architecture."""
    return Scenario(
        name=f"interop.cephtests-objectstore[on={arch}]",
        goal=f"BlueStore passes upstream's own tests on {arch}.",
        method="Runs ceph_test_objectstore for BlueStore on a store of its own, without the cluster.",
        run=partial(run, arch=arch),
        check="gtest",
        tier=Tier.FULL,
    )


SCENARIOS: tuple[Scenario, ...] = tuple(scenario(arch) for arch in Arch)
