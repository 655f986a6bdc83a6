"""Observes that daemons run where the spec says, as programs of the right architecture, all in one version."""

import struct

from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services import reported
from cephlab.lab.spec.arch import Arch

_ELF_HEADER_BYTES = 20
_MACHINE_OFFSET = 18
_BINARIES = {"mon": "ceph-mon", "mgr": "ceph-mgr", "osd": "ceph-osd"}


def roles(stage: Stage) -> None:
    cluster, observe = stage.cluster, stage.recorder.observe
    for name, daemon in sorted(cluster.daemons.items()):
        machine = elf_machine(daemon.host, _BINARIES[daemon.kind])
        observe(f"e_machine of the program of {name}", got=machine, wanted=daemon.host.arch.elf_machine)
    metadata = reported(cluster.client)
    observe("daemons that reported metadata", got=sorted(metadata), wanted=sorted(cluster.daemons))
    for name, daemon in sorted(cluster.daemons.items()):
        entry = metadata.get(name, {})
        observe(f"architecture that {name} reports", got=entry.get("arch"), wanted=daemon.host.arch.value)
    quorum = cluster.client.mon("quorum_status")["quorum_names"]
    observe("monitors in quorum", got=sorted(quorum), wanted=sorted(node.name for node in cluster.spec.mons))
    versions = {entry.get("ceph_version_short") for entry in metadata.values()}
    observe("number of Ceph versions among all daemons", got=len(versions), wanted=1)
    archs = {cluster.daemon(f"osd.{osd}").host.arch for osd in cluster.osd_ids()}
    observe("architectures with an OSD", got=sorted(archs), wanted=sorted(Arch))


def elf_machine(host: Host, program: str) -> int:
    """The e_machine (elf.h) of a program in a host's image, for either byte order."""
    argv = ["head", "-c", str(_ELF_HEADER_BYTES), str(host.root / "usr/bin" / program)]
    header = host.run(argv).stdout_bytes
    order = "<" if header[5] == 1 else ">"
    return int(struct.unpack_from(f"{order}H", header, _MACHINE_OFFSET)[0])


SCENARIOS = (
    Scenario(
        name="interop.roles",
        goal="Every daemon runs where the spec says, as a program of that node's architecture.",
        method="Reads the ELF header of each daemon's program; compares metadata, quorum and versions with the spec.",
        run=roles,
        sees=("e_machine of the program of .*", "architectures with an OSD"),
        topology=Topology(),
    ),
)
