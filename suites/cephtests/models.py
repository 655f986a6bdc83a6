"""Ceph's own model workloads: random operations with checks, with client and primaries on different architectures."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from cephlab.lab.base.errors import CommandTimedOut, LabBroken
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.scrub import deep_scrub, rados_json
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephtests.programs import environment, require_programs
from cephlab.suites.interop.matrix import counted_operations, observe_client

MODEL = "ceph_test_rados"
FSX = "ceph_test_librbd_fsx"
SEQUENCE = "ceph_test_rados_io_sequence"
MODEL_OPERATIONS = 300
FSX_OPERATIONS = 300
LIMIT_S = 180.0  # each program takes ten seconds natively; more means that it hangs
IMAGE_BYTES = 10_000_000
TAIL_LINES = 20
SAYING = {"CEPH_ARGS": "--log_to_stderr=true"}
"""Makes the program report its operations, which it writes only to its log."""
SHORT, LONG = "1,1", "1,6"
"""Sizes of the smallest and the largest object of a sequence, in blocks of 2 KiB: 45 operations, and about 1,260."""
LEAST_SEQUENCE = 1000
CODE = ("--plugin", "jerasure", "--technique", "reed_sol_van", "--km", "2,1", "--chunksize", "4096")
MOST_NAMES = 200
"""How many names are tried until the PG of one is led by the wanted architecture, as at least one PG in three is."""

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
_TOTAL = re.compile(r"Total number of IOs = (\d+)$", re.MULTILINE)
_STEP = re.compile(r"^\d+ (read|write|trunc|punch|clone|flatten|writesame|compare)", re.MULTILINE)


def model(stage: Stage, client: Arch) -> None:
    """Run ceph_test_rados, which checks every read against what it wrote. It takes no seed."""
    argv = ["--max-ops", str(MODEL_OPERATIONS), "--objects", "20", "--max-in-flight", "8", "--max-seconds", "0"]
    argv += ["--size", "400000", "--min-stride-size", "40000", "--max-stride-size", "80000"]
    for operation, weight in WEIGHTS.items():
        argv += ["--op", operation, str(weight)]
    rounds = len(_DONE.findall(run_model(stage, client, MODEL, lambda pool: ["--pool", pool, *argv])))
    stage.recorder.witness("completed operations", got=rounds, least=MODEL_OPERATIONS * 0.9)


def fsx(stage: Stage, client: Arch) -> None:
    """Run ceph_test_librbd_fsx, which writes, truncates, punches and clones an image and compares it with a file."""
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


def io_sequence(stage: Stage, client: Arch, *, fast: bool) -> None:
    """Run ceph_test_rados_io_sequence, which permutes offsets and lengths of an object and compares what it reads.

    In 20.2.4 the program aborts on an existing pool, because it asks `osd pool get` for the profile. So a first short
    run makes the program create its own pool, and the second run gets an object that the wanted architecture leads.
    """
    cluster, primary = stage.cluster, client.other
    host = cluster.host_with(client)
    require_programs(cluster, host, [SEQUENCE])
    observe_client(stage, client)
    argv = [SEQUENCE, *CODE]
    # Without these options the program turns these features off for the whole cluster.
    argv += [f"--allow_pool_{feature}" for feature in ("autoscaling", "balancer", "deep_scrubbing", "scrubbing")]
    if not fast:
        argv.append("--disable_pool_ec_optimizations")
    with pools.none_left(cluster):
        before = set(cluster.client.mon("osd pool ls"))
        run_to_end(stage, host, [*argv, "--objectsize", SHORT])
        [pool] = set(cluster.client.mon("osd pool ls")) - before
        pools.wait_clean(cluster)
        name = led_name(cluster, pool, primary)
        with counted_operations(stage, primary):
            seed = str(stage.rng.randrange(1 << 31))
            output = run_to_end(stage, host, [*argv, "--objectsize", LONG, "--object", name, "--seed", seed], SAYING)
        scrubbed = deep_scrub(cluster, pool)
        damaged = rados_json(cluster, "list-inconsistent-pg", pool)
    total = sum(int(number) for number in _TOTAL.findall(output))
    stage.recorder.witness("operations in all sequences", got=total, least=LEAST_SEQUENCE)
    stage.recorder.observe("PGs whose shards differ afterwards", got=damaged, wanted=[], of=len(scrubbed))


def led_name(cluster: Cluster, pool: str, primary: Arch) -> str:
    """The name of an object whose primary OSD has this architecture.

    With fast erasure coding not every shard may be primary, so no affinity setting can move all primaries.
    """
    wanted = cluster.osd_ids(primary)
    for number in range(MOST_NAMES):
        name = f"sequence{number}"
        if pools.locate(cluster, pool, name)["acting_primary"] in wanted:
            return name
    raise LabBroken(f"no PG of {pool} is led by {primary}", f"tried {MOST_NAMES} object names")


def run_model(stage: Stage, client: Arch, program: str, arguments: Callable[[str], Sequence[str]]) -> str:
    """Run a program on a pool led by the other architecture. Returns its output.

    arguments: makes the program's arguments from the pool's name.
    """
    cluster, host, primary = stage.cluster, stage.cluster.host_with(client), client.other
    require_programs(cluster, host, [program])
    observe_client(stage, client)
    with pools.pool(cluster, "model") as pool, pools.led_by(cluster, primary), counted_operations(stage, primary):
        return run_to_end(stage, host, [program, *arguments(pool)])


def run_to_end(stage: Stage, host: Host, argv: Sequence[str], more: Mapping[str, str] = MappingProxyType({})) -> str:
    """Run a program, and observe that it succeeded. Returns its output. more: environment variables for it."""
    try:
        timeout_s = LIMIT_S * stage.cluster.patience
        ended = host.run(argv, env={**environment(host), **more}, timeout_s=timeout_s, check=False)
        output, ending = ended.stdout + ended.stderr, f"status {ended.code}"
    except CommandTimedOut as error:
        output, ending = error.stdout + error.stderr, "killed at the time limit"
    tail = output.splitlines()[-TAIL_LINES:]
    stage.recorder.observe(f"how {argv[0]} ended", got=ending, wanted="status 0", tail=tail)
    return output


def sequence(client: Arch, *, fast: bool) -> Scenario:
    with_or_without = "with" if fast else "without"
    variant = f"client={client},primary={client.other},code={'fast' if fast else 'plain'}"
    return Scenario(
        name=f"cephtests.io-sequence[{variant}]",
        goal=f"Reads and writes of an erasure-coded object at every offset pass the checks of {SEQUENCE}.",
        method=f"Runs it on {client} on an object led by {client.other}, {with_or_without} "
        "allow_ec_optimizations; then deep-scrubs.",
        run=partial(io_sequence, client=client, fast=fast),
        check="witnessed",
        tier=Tier.FULL,
        only_releases={"tentacle": f"reef and pacific have no {SEQUENCE}"},
    )


SCENARIOS: tuple[Scenario, ...] = tuple(
    Scenario(
        name=f"cephtests.model-{program.removeprefix('ceph_test_')}[client={client},primary={client.other}]",
        goal=f"Random operations between architectures pass the checks of {program}.",
        method=f"Runs it on {client} against a pool led by {client.other}; it reads all its writes back and compares.",
        run=partial(run, client=client),
        check="witnessed",
        tier=Tier.FULL,
    )
    for program, run in ((MODEL, model), (FSX, fsx))
    for client in Arch
) + tuple(sequence(client, fast=fast) for fast in (False, True) for client in Arch)
