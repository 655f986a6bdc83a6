"""BlueStore alone on each architecture: upstream's ceph_test_objectstore with a store in a file."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.services.osd import OSD
from cephlab.lab.spec.arch import Arch
from cephlab.lab.workloads.gtest import Call, CaseResult, GtestRun, list_cases, run_gtest
from cephlab.suites.cephtests.programs import environment, known_on, record_run, require_programs

PROGRAM = "ceph_test_objectstore"
LIMIT_S = 300.0  # per case; the longest took 111 s natively with ten busy processes per core

PARTS = {
    "": "ObjectStore/StoreTest.*/1",
    "layout": "ObjectStore/StoreTestSpecificAUSize.*/1:ObjectStore/StoreTestOmapUpgrade.*/1:BlueStore/*",
}
"""Part -> its cases. Most suites run on several stores, and /1 is BlueStore: nobody keeps data in the others (memstore,
kstore). BlueStore/* has no other store. StoreTestDeferredSetup has only one case, which is disabled."""

LEFT_OUT = {
    "*StoreTest.Many*": "They make thousands of objects or writes.",
    "*Synthetic*": "They do ten thousand random operations, SyntheticMatrix* for every mix of settings: over 2 min.",
    "*StoreTest.ColSplit*": "They split collections of ten thousand objects.",
    "*StoreTest.MergeSkewed*": "It merges collections of thousands of objects.",
    "*StoreTest.HashCollisionTest*": "It makes ten thousand objects and lists them over and over: 87 s.",
    "*StoreTestSpecificAUSize.ManyManyExtents/*": "It writes hundreds of thousands of extents: over 90 s.",
    "*StoreTestSpecificAUSize.ReproNoBlobMultiTest*": "It takes 1.2 GB of memory and 13 s of CPU natively.",
    "*StoreTestSpecificAUSize.SpilloverLegacy*": "They fill disks until RocksDB spills over: 3 GB of memory.",
    "*ZeroBlockDetection*": "They skip themselves without bluestore_zero_block_detection, which is off by default.",
}
"""Cases that are left out -> why. Times are native. Under an emulator, minutes become hours."""

NO_UNWINDING = {"TCMALLOC_STACKTRACE_METHOD": "generic_fp"}
"""tcmalloc takes a stack trace whenever its heap grows. On aarch64 libgcc's unwinder crashed while doing so, without
any part of BlueStore on the stack (docs/track-record.md). With frame pointers it works."""


def selection(part: str) -> str:
    """A GoogleTest filter."""
    return f"{PARTS[part]}:-{':'.join(LEFT_OUT)}"


def run(stage: Stage, arch: Arch, part: str) -> None:
    """Run the cases of a part one by one on a host of the architecture."""
    cluster, host = stage.cluster, stage.cluster.host_with(arch)
    require_programs(cluster, host, [PROGRAM])
    select = selection(part)
    lister = cluster.client.host
    wanted = list_cases(lister, PROGRAM, env=environment(lister), select=select)
    preload = OSD.preload(host)
    machine = host.run(["uname", "-m"], timeout_s=LIMIT_S * cluster.patience).stdout.strip()
    stage.recorder.observe("architecture of the host's programs", got=machine, wanted=arch.value)
    runs = [_run_case(host, case, preload, LIMIT_S * cluster.patience) for case in wanted]
    finished = [case for run in runs for case in run.cases if case.result in (CaseResult.PASS, CaseResult.FAIL)]
    stage.recorder.witness("cases that ran to their end", got=len(finished), least=len(wanted))
    whole = replace(telling(runs), cases=tuple(case for run in runs for case in run.cases))
    record_run(stage.recorder, whole, known_on(host, cluster.provider_name))


def telling(runs: Sequence[GtestRun]) -> GtestRun:
    """The run whose output is kept: preferably one that crashed or hung, then one that failed, whose cases say why."""
    return max(runs, key=lambda run: (run.code is None or run.code < 0, run.code != 0))


def _run_case(host: Host, case: str, preload: Sequence[PurePosixPath], timeout_s: float) -> GtestRun:
    """Run one case in its own process, in an empty directory.

    In a single process the stores of all cases add up: emulated, the program held 19 GB before its end.
    """
    store = host.directory / "objectstore"
    host.remove(store)
    host.make_directory(store)
    try:
        call = Call(
            PROGRAM,
            host.directory / f"{PROGRAM}.json",
            timeout_s,
            {**environment(host), **NO_UNWINDING},
            select=case,
            preload=preload,
            cwd=store,
        )
        return run_gtest(host, call, [case])
    finally:
        host.remove(store)


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"cephtests.{'-'.join(filter(None, ['objectstore', part]))}[on={arch}]",
        goal=f"BlueStore passes upstream's own tests on {arch}.",
        method="Runs the BlueStore cases of ceph_test_objectstore on a store of their own, without the cluster.",
        run=partial(run, arch=arch, part=part),
        check="gtest",
        tier=Tier.FULL,
    )
    for part in PARTS
    for arch in Arch
)
