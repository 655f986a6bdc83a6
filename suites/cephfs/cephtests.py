"""Ceph's own libcephfs tests as an ordinary user, with the client on one architecture and the MDS on the other."""

from dataclasses import replace
from functools import partial

from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.cephfs.stand import EXPECTED, PAIR, requests, served_by
from cephlab.suites.cephtests.programs import UpstreamProgram, known_on, record_run, require_programs, run_program
from cephlab.suites.interop.matrix import observe_client
from cephlab.suites.stress.mixed import SMALL_MEMTABLES

ORDINARY = (("CEPH_ARGS", "--client_mount_uid=1000 --client_mount_gid=1000"),)
"""As root, cases that test for refusals fail. The user of a libcephfs client is one of its settings, on any host."""
LIBCEPHFS = UpstreamProgram("ceph_test_libcephfs", limit_s=900, environ=ORDINARY)

SMALL_TABLES = replace(PAIR, options=(SMALL_MEMTABLES,))
"""One scenario sends a hundred thousand requests: OSDs would fill their memtables, which would look like a leak."""


def run(stage: Stage, client: Arch) -> None:
    """Run every case of the program, one after another."""
    cluster, host = stage.cluster, stage.cluster.host_with(client)
    require_programs(cluster, host, [LIBCEPHFS.name])
    observe_client(stage, client)
    server = served_by(cluster, client.other)
    before = requests(cluster, server)
    outcome = run_program(cluster, host, LIBCEPHFS, core=False)
    record_run(stage.recorder, outcome, known_on(host, cluster.provider_name))
    handled = requests(cluster, server) - before
    stage.recorder.witness(f"requests to the {client.other} metadata server", got=handled, least=len(outcome.cases))


SCENARIOS = tuple(
    Scenario(
        name=f"cephfs.cephtests[client={client},mds={client.other}]",
        goal="Upstream's ceph_test_libcephfs passes with client and MDS on different architectures.",
        method=f"Runs all its cases on {client} as an ordinary user, served by an MDS of {client.other}.",
        run=partial(run, client=client),
        check="gtest",
        tier=Tier.FULL,
        topology=SMALL_TABLES,
        expects=EXPECTED,
        spoils=True,
    )
    for client in Arch
)
