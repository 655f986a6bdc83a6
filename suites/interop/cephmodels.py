"""Ceph's own model workloads: checked random operations, with client and primaries on different architectures."""

import re
from collections.abc import Callable, Sequence
from functools import partial

from cephlab.lab.base.errors import CommandTimedOut
from cephlab.lab.cluster import pools
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.interop.cephtests import environment, require_programs
from cephlab.suites.interop.matrix import counted_operations, observe_client

MODEL = "ceph_test_rados"
FSX = "ceph_test_librbd_fsx"
MODEL_OPERATIONS = 300
FSX_OPERATIONS = 300
LIMIT_S = 180.0  # each takes ten seconds natively; more is a hang
IMAGE_BYTES = 10_000_000
TAIL_LINES = 20

WEIGHTS = {
    "read": 100,
    "write": 50,
    "write_excl": 50,
    "append": 50,
    "append_excl": 10,
    "delete": 50,
    "snap_create": 50,
    "snap_remove": 50,
    "rollback": 50,
    "copy_from": 50,
    "setattr": 25,
    "rmattr": 25,
}
"""From Ceph's own suite for snapshots on replicated pools (qa/suites/rados/thrash/workloads/snaps-few-objects)."""

_DONE = re.compile(r"^\d+: done \(\d+ left\)$", re.MULTILINE)
_STEP = re.compile(r"^\d+ (read|write|trunc|punch|clone|flatten|writesame|compare)", re.MULTILINE)


def model(stage: Stage, client: Arch) -> None:
    """Run ceph_test_rados, which checks every read against what it wrote. It takes no seed."""
    argv = ["--max-ops", str(MODEL_OPERATIONS), "--objects", "20", "--max-in-flight", "8", "--max-seconds", "0"]
    argv += ["--size", "400000", "--min-stride-size", "40000", "--max-stride-size", "80000"]
    for operation, weight in WEIGHTS.items():
        argv += ["--op", operation, str(weight)]
    done = len(_DONE.findall(run_model(stage, client, MODEL, lambda pool: ["--pool", pool, *argv])))
    stage.recorder.witness("operations that ended", got=done, least=MODEL_OPERATIONS * 0.9)


def fsx(stage: Stage, client: Arch) -> None:
    """Run ceph_test_librbd_fsx, which reads, writes, truncates, punches and clones an image and compares a file."""
    host = stage.cluster.host_with(client)
    files = host.directory / "fsx"
    host.remove(files)
    host.make_directory(files)
    argv = ["-d", "-W", "-R", "-p", "100", "-P", str(files), "-r", "1", "-w", "1", "-t", "1", "-h", "1"]
    argv += ["-l", str(IMAGE_BYTES), "-S", str(stage.rng.randrange(1, 1 << 31)), "-N", str(FSX_OPERATIONS)]
    try:
        output = run_model(stage, client, FSX, lambda pool: [*argv, pool, "fsx"])
    finally:
        host.remove(files)
    stage.recorder.observe("reports success", got="All operations completed A-OK!" in output, wanted=True)
    stage.recorder.witness("operations on the image", got=len(_STEP.findall(output)), least=FSX_OPERATIONS / 2)


def run_model(stage: Stage, client: Arch, program: str, arguments: Callable[[str], Sequence[str]]) -> str:
    """Run a program on a pool led by the other architecture. Returns its output. arguments: from the pool's name."""
    cluster, host, primary = stage.cluster, stage.cluster.host_with(client), client.other
    require_programs(cluster, host, [program])
    observe_client(stage, client)
    with pools.pool(cluster, "model") as pool, pools.led_by(cluster, primary), counted_operations(stage, primary):
        argv = [program, *arguments(pool)]
        try:
            ended = host.run(argv, env=environment(host), timeout_s=LIMIT_S * cluster.patience, check=False)
            output, ending = ended.stdout + ended.stderr, f"status {ended.code}"
        except CommandTimedOut as error:
            output, ending = error.stdout + error.stderr, "killed at its time limit"
    tail = output.splitlines()[-TAIL_LINES:]
    stage.recorder.observe(f"how {program} ended", got=ending, wanted="status 0", tail=tail)
    return output


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"interop.cephmodels-{program.removeprefix('ceph_test_')}[client={client},primary={client.other}]",
        goal=f"Random operations between architectures pass the checks of {program}.",
        method=f"Runs it on {client} against a pool led by {client.other}; it reads back and compares all it does.",
        run=partial(run, client=client),
        check="witnessed",
        tier=Tier.FULL,
    )
    for program, run in ((MODEL, model), (FSX, fsx))
    for client in Arch
)
