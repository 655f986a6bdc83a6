"""Used disks: the lab refuses them on any machine and names their OSD, and wipes them down to the last byte."""

from collections.abc import Callable

from cephlab.lab.base.errors import LabError
from cephlab.lab.ceph import disks
from cephlab.lab.ceph.disks import DiskInUse
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.own import OwnCluster, own
from cephlab.lab.providers.host import Host, preloading
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.services.osd import OSD
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability, Disk, Node, Osd
from cephlab.suites.migration import migrate
from cephlab.suites.migration.swap import NEEDS, scenario_of_migration

DISK_BYTES = 1 << 30
"""Small, because the emulated architecture reads all of it back too."""

OTHER_CLUSTER = "11111111-2222-3333-4444-555555555555"
STRAY_OFFSET = DISK_BYTES - 4097
"""In the last block but one, which a check of only the start or of samples would miss."""

TOOL_S = 60.0


def run(stage: Stage) -> None:
    """Make an OSD on a disk and offer the disk again: here, then moved to the other architecture, then after a wipe."""
    cluster, recorder = own(stage.cluster), stage.recorder
    node = Node("spare-0", host_arch(), (Disk("used", DISK_BYTES),), (Osd("used"),))
    here = migrate.add_machine(cluster, node)
    there = migrate.add_machine(cluster, Node("spare-1", host_arch().other))
    (osd,) = migrate.add_osds(cluster, node)
    cluster.wait(lambda status: status.all_up, what=f"osd.{osd} up")
    fsid = cluster.deployment.fsid
    for host in (here, there):
        if host is there:
            migrate.give_up_osd(cluster, osd)
            cluster.lab.move_disk("used", there.name)
        refused = refusal(cluster, host, f"osd.{osd}")
        recorder.observe(f"an OSD's disk on {host.arch}", got=refused, wanted=f"names osd.{osd} of {fsid}")
    label = ["--dev", str(there.disk("used")), "-k", "ceph_fsid", "-v", OTHER_CLUSTER]
    argv = ["ceph-bluestore-tool", "set-label-key", *label]
    run_tool(there, argv, timeout_s=TOOL_S * cluster.patience, env=preloading(OSD.preload(there)))
    refused = refusal(cluster, there, f"osd.{osd}")
    recorder.observe("a disk of another cluster", got=refused, wanted=f"names osd.{osd} of {OTHER_CLUSTER}")
    checked = disks.wipe(there, "used", patience=cluster.patience)
    recorder.observe("bytes read back after the wipe", got=checked, wanted=DISK_BYTES)
    note_stray(stage, there)
    disks.wipe(there, "used", patience=cluster.patience)
    (again,) = migrate.add_osds(cluster, Node(there.name, there.arch, node.disks, node.osds))
    cluster.wait(lambda status: status.all_up, what=f"osd.{again} up")
    arch = next(entry["arch"] for entry in cluster.client.mon("osd metadata") if int(entry["id"]) == again)
    recorder.observe("architecture of the OSD on the wiped disk", got=arch, wanted=there.arch.value)


def refusal(cluster: OwnCluster, host: Host, osd: str) -> str:
    """`names OSD of FSID` if the refusal names both and the host, else the text of the refusal."""
    text = refusal_text(lambda: disks.refuse_used(host, ["used"], patience=cluster.patience, preload=OSD.preload(host)))
    for fsid in (cluster.deployment.fsid, OTHER_CLUSTER):
        if osd in text and fsid in text and host.name in text:
            return f"names {osd} of {fsid}"
    return text


def refusal_text(attempt: Callable[[], object]) -> str:
    try:
        attempt()
    except DiskInUse as error:
        return error.what
    return "not refused"


def note_stray(stage: Stage, host: Host) -> None:
    """Observe that the lab finds a single byte that is left near the end, and refuses a disk with other data."""
    cluster, recorder = stage.cluster, stage.recorder
    poke(host, STRAY_OFFSET)
    try:
        disks.require_zero(host, "used", DISK_BYTES, patience=cluster.patience)
        outcome = "not found"
    except LabError as error:
        outcome = "found" if str(STRAY_OFFSET + 1) in error.detail else error.detail
    recorder.observe("a byte that a wipe left near the end", got=outcome, wanted="found")
    poke(host, 0)
    text = refusal_text(lambda: disks.refuse_used(host, ["used"]))
    recorder.observe("a disk with other data", got="that is no OSD's" in text, wanted=True)


def poke(host: Host, offset: int) -> None:
    """Write one byte that is not zero."""
    program = "import os, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY), b'x', int(sys.argv[2]))"
    host.run(["python3", "-c", program, str(host.disk("used")), str(offset)])


SCENARIOS: tuple[Scenario, ...] = (
    scenario_of_migration(
        name="migration.used-disk",
        goal="The lab refuses a disk with an OSD's data on either architecture, and names the OSD, until it is wiped.",
        method="Makes an OSD on a disk, offers the disk again, moves it, relabels it, wipes it and reads it all back.",
        run=run,
        check="observations",
        needs=NEEDS | {Capability.MOVE_DISK},
    ),
)
