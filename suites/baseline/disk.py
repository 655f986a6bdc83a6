"""Speed of a disk below Ceph: synchronous 4 KiB writes as in the Proxmox paper, and large sequential blocks."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from cephlab.lab.base.errors import CommandFailed, Unavailable
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import ANY_ARCH
from cephlab.lab.spec.clusterspec import MIB
from cephlab.lab.workloads.fio import FioResult, parse
from cephlab.suites.baseline.rated import SEQUENTIAL, SYNC_LATENCY, SYNC_WRITES, speed


@dataclass(frozen=True)
class RatedDevice:
    """A device's published figures for direct, synchronous 4 KiB writes, one in flight."""

    device: str
    kind: str
    iops: float
    bandwidth_kb_s: float


REFERENCES = (  # Proxmox VE hyper-converged Ceph benchmark, 2020, SSDs for Ceph OSD
    RatedDevice("Intel Optane SSD DC P4800X 375 GB", "3D XPoint NVMe", 80732, 322931),
    RatedDevice("Intel SSD DC P3700 800 GB", "data centre NVMe", 75162, 300650),
    RatedDevice("Micron 9300 MAX 3.2 TB", "data centre NVMe", 51000, 205824),
    RatedDevice("Samsung SM863 240 GB", "data centre SATA SSD", 17485, 69942),
    RatedDevice("Intel DC S3510 120 GB", "data centre SATA SSD", 12518, 50075),
    RatedDevice("Intel DC S3500 120 GB", "data centre SATA SSD", 12099, 48398),
    RatedDevice("Samsung SSD 850 EVO 1 TB", "consumer SATA SSD", 339, 1359),
    RatedDevice("Crucial MX100 512 GB", "consumer SATA SSD", 254, 1017),
    RatedDevice("Seagate Constellation 7200.2 500 GB", "hard disk, 7200 rpm", 117, 471),
)
"""From fastest to slowest."""


def place(iops: float) -> str:
    """Describe which devices of the table are just faster and just slower than a rate."""
    above = [known for known in REFERENCES if known.iops >= iops]
    below = [known for known in REFERENCES if known.iops < iops]
    if not above:
        return f"faster than {_name(below[0])}"
    if not below:
        return f"slower than {_name(above[-1])}"
    return f"between {_name(above[-1])} and {_name(below[0])}"


def _name(known: RatedDevice) -> str:
    return f"{known.device} ({known.kind}, {known.iops:g}/s)"


SYNC_BYTES = 4096
LARGE_BYTES = 4 * MIB
FILE_BYTES = 256 * MIB
LEAST_WRITES = 100
"""About as many as a 7200 rpm disk writes synchronously in a second. Fewer prove nothing."""

LITTLE = Bound(
    "Little's law: one write in flight, less fio's work between writes", least=0.5, most=1.05, basis=Basis.CORRECTNESS
)

_SLACK_S = 60.0


@dataclass(frozen=True)
class Job:
    """One fio job on a file. seconds: by tier; more: options of this job alone.

    A write that also allocates space commits the file system's journal, which a bare device does not have. So small
    writes overwrite an existing file.
    """

    title: str
    pattern: str
    block_bytes: int
    depth: int
    seconds: Mapping[Tier, float]
    more: tuple[str, ...] = ()

    def argv(self, path: PurePosixPath, tier: Tier) -> list[str]:
        """The paper's command, on a file instead of a device, whose data the job would destroy."""
        return [
            "fio",
            "--name=fio",
            "--ioengine=libaio",
            f"--filename={path}",
            f"--size={FILE_BYTES}",
            "--direct=1",
            f"--rw={self.pattern}",
            f"--bs={self.block_bytes}",
            "--numjobs=1",
            f"--iodepth={self.depth}",
            "--time_based",
            f"--runtime={self.seconds[tier]:g}",
            "--output-format=json",
            *self.more,
        ]


SYNC = Job(
    "4 KiB synchronous writes", "write", SYNC_BYTES, 1, {Tier.QUICK: 3, Tier.FULL: 60}, ("--sync=1", "--overwrite=1")
)
LARGE = tuple(
    Job(f"4 MiB sequential {verb}s", verb, LARGE_BYTES, 8, {Tier.QUICK: 1, Tier.FULL: 30}) for verb in ("write", "read")
)


def native_hosts(stage: Stage) -> list[Host]:
    """The hosts with the speed of a real machine. It records emulated ones as left out."""
    hosts = stage.cluster.hosts.values()
    for host in hosts:
        if host.emulated:
            stage.recorder.record("left_out", host=host.name, why="its speed would be the emulator's")
    return [host for host in hosts if not host.emulated]


def run_sync(stage: Stage) -> None:
    """Run the paper's device test on every native node, and name the devices in its table with similar rates."""
    for host in native_hosts(stage):
        with scratch_file(host) as path:
            writes = measure(host, SYNC, path, stage.tier).write
        stage.recorder.witness(f"{host.name}: {SYNC.title}", got=writes.operations, least=LEAST_WRITES)
        stage.recorder.figure(
            f"{host.name}: writes in flight, IOPS times latency", writes.iops * writes.latency_mean_s, "", LITTLE
        )
        stage.recorder.record("disk_class", host=host.name, iops=writes.iops, resembles=place(writes.iops))
        limit = speed(stage, host, SYNC_WRITES)
        bound = replace(limit, why=f"{limit.why}; the disk is {place(writes.iops)}")
        stage.recorder.figure(f"{host.name}: {SYNC.title}", writes.iops, "1/s", bound)
        latency = speed(stage, host, SYNC_LATENCY)
        stage.recorder.figure(f"{host.name}: their latency", writes.latency_mean_s * 1e3, "ms", latency)


def run_sequential(stage: Stage) -> None:
    """Write large blocks, then read them."""
    for host in native_hosts(stage):
        with scratch_file(host) as path:
            for job in LARGE:
                result = measure(host, job, path, stage.tier)
                side = result.write if job.pattern == "write" else result.read
                stage.recorder.witness(f"{host.name}: {job.title}", got=side.operations, least=1)
                limit = speed(stage, host, SEQUENTIAL[job.pattern])
                stage.recorder.figure(f"{host.name}: {job.title}", side.bytes_per_s / MIB, "MiB/s", limit)


def measure(host: Host, job: Job, path: PurePosixPath, tier: Tier) -> FioResult:
    """Run one job. Unavailable if the file's file system has no direct I/O."""
    try:
        result = host.run(job.argv(path, tier), timeout_s=job.seconds[tier] + _SLACK_S)
    except CommandFailed as error:
        if "direct" in error.detail and "Invalid argument" in error.detail:
            raise Unavailable(
                f"the disk below {host.name} has no direct I/O",
                f"{path}: {error.detail}",
                "put CEPHLAB_HOME on a disk; a RAM disk measures nothing",
            ) from error
        raise
    return parse(result.stdout_bytes)


@contextmanager
def scratch_file(host: Host) -> Iterator[PurePosixPath]:
    """The path of a file next to the host's disks. It is removed afterwards."""
    path = host.directory / "baseline-disk"
    try:
        yield path
    finally:
        if host.up():
            host.remove(path)


SCENARIOS = (
    Scenario(
        name="baseline.disk-sync",
        goal="A node's disk does synchronous 4 KiB writes at the profile's rate, if a profile states one.",
        method="Runs the Proxmox paper's fio command on a file of each native node: direct, sync, one write in flight; "
        "names the devices of the paper with similar rates.",
        run=run_sync,
        topology=ANY_ARCH,
        check="figures",
        sees=(".*: their latency",),
    ),
    Scenario(
        name="baseline.disk-sequential",
        goal="A node's disk writes and reads large blocks at the profile's rate, if a profile states one.",
        method="Writes and reads a file on each native node in 4 MiB blocks, without the page cache, eight in flight.",
        run=run_sequential,
        topology=ANY_ARCH,
        check="figures",
        sees=tuple(f".*: {re.escape(job.title)}" for job in LARGE),
    ),
)
