"""Ceph's own tests of libcephfs as an ordinary user, the client of one architecture and the MDS of the other."""

from dataclasses import replace
from functools import partial

from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, requests, served_by
from cephlab.suites.interop.cephtests import UpstreamProgram, known_on, record_run, require_programs, run_program
from cephlab.suites.interop.matrix import observe_client
from cephlab.suites.stress.mixed import SMALL_MEMTABLES

ORDINARY = (("CEPH_ARGS", "--client_mount_uid=1000 --client_mount_gid=1000"),)
"""As root, cases fail that want to be refused. Who a client of libcephfs is, is a setting of it, on any host."""
LIBCEPHFS = UpstreamProgram("ceph_test_libcephfs", limit_s=900, environ=ORDINARY)

SMALL_TABLES = replace(PAIR, options=(SMALL_MEMTABLES,))
"""A hundred thousand requests in one scenario: OSDs would fill their memtables meanwhile, and seem to leak."""


def run(stage: Stage, client: Arch) -> None:
    """Every case of the program, one after the other."""
    cluster, host = stage.cluster, stage.cluster.host_with(client)
    require_programs(cluster, host, [LIBCEPHFS.name])
    observe_client(stage, client)
    server = served_by(cluster, client.other)
    before = requests(cluster, server)
    ran = run_program(cluster, host, LIBCEPHFS, core=False)
    record_run(stage.recorder, ran, known_on(host, cluster.provider_name))
    asked = requests(cluster, server) - before
    stage.recorder.witness(f"requests to the {client.other} metadata server", got=asked, least=len(ran.cases))


SCENARIOS = tuple(
    Scenario(
        name=f"cephfs.cephtests[client={client},mds={client.other}]",
        goal="Upstream's ceph_test_libcephfs passes between architectures.",
        method=f"Runs its every case on {client} as an ordinary user, served by an MDS of {client.other}.",
        run=partial(run, client=client),
        check="gtest",
        tier=Tier.FULL,
        topology=SMALL_TABLES,
        expects=EXPECTED,
        spoils=True,
    )
    for client in Arch
)
