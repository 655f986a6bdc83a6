"""Measuring this machine: what does not answer is the lab's trouble, never Ceph's."""

import pytest

from cephlab.lab.base import probe
from cephlab.lab.base.errors import LabBroken


def test_a_server_that_does_not_listen_and_a_peer_that_refuses_are_the_labs_trouble(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(probe, "_STARTED_S", 0.0)
    monkeypatch.setattr(probe, "_CONNECT_S", 0.05)
    with pytest.raises(LabBroken, match="the start of iperf3 took more than 0 s"):
        probe._await_port(probe.free_port())
    with pytest.raises(LabBroken, match="a handshake with"):
        probe._handshake("127.0.0.1", probe.free_port())
