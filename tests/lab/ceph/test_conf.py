"""ceph.conf of one host: what depends on how its programs run."""

from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.ceph.conf import host_options
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
