"""ceph.conf of one host: what depends on how its programs run."""

from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.ceph import client
from cephlab.lab.ceph.conf import choose_sizing, cluster_options, host_options, render
from cephlab.lab.providers.host import Host


@pytest.mark.parametrize(
    ("emulated", "own_kernel", "given"),
    [(True, True, True), (True, False, False), (False, True, False), (False, False, False)],
)
def test_clients_of_an_emulated_machine_give_a_monitor_more_time(emulated: bool, own_kernel: bool, given: bool) -> None:
    directory = PurePosixPath("/n0")
    parts = {"name": "n0", "address": "127.0.0.2", "directory": directory, "emulated": emulated}
    host = SimpleNamespace(**parts, own_kernel=own_kernel)
    options = host_options(cast("Host", host), pulled=True)
    assert ("mon_client_hunt_interval" in options) is given


@pytest.mark.parametrize(
    ("monitors", "own", "given"), [(1, {}, "0"), (3, {}, None), (1, {"mon_client_ping_timeout": "5"}, None)]
)
def test_a_manager_has_only_one_monitor_to_stay_with(monitors: int, own: dict[str, str], given: str | None) -> None:
    """Several can be left for another one, and an option of the spec's own stays."""
    addresses = {f"n{number}": f"10.0.0.{number}" for number in range(monitors)}
    text = render("fsid", addresses, own, {}).decode()
    section = text.partition("[mgr]")[2].partition("[mds]")[0]
    lines = dict(line.split(" = ") for line in section.split("\n") if line)
    assert lines.get("mon_client_ping_timeout") == given


def test_operations_of_an_emulated_cluster_may_take_longer_but_end_before_their_caller() -> None:
    sizing = choose_sizing(24 << 30, cores=2, osds=3)
    for patience in (1.0, 3.0):
        options = cluster_options(sizing, hosts=3, patience=patience)
        allowed = [float(options[f"rados_{kind}_op_timeout"]) for kind in ("mon", "osd")]
        assert allowed == [60 * patience, 120 * patience]
        assert max(allowed) < client._PATIENCE_S * patience


@pytest.mark.parametrize(("emulated", "begins"), [(0, "3 OSDs on 2 cores"), (1, "3 OSDs (1 emulated) on 2 cores")])
def test_the_sizes_name_emulated_osds_where_there_are_some(emulated: int, begins: str) -> None:
    assert choose_sizing(24 << 30, cores=2, osds=3, emulated=emulated).reason.startswith(begins)
