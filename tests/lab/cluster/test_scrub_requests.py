"""Asking for a scrub: what is asked again, and what is not, with no cluster."""

import errno
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.client import CephCommandFailed
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.faults.scrub import request_scrub


class Monitor:
    """Refuses with one code after the other, then takes what it is asked for."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.taken: list[str] = []

    def mon(self, prefix: str, **arguments: Any) -> None:
        if self.codes:
            raise CephCommandFailed("mon", {"prefix": prefix}, -self.codes.pop(0), "primary is not currently connected")
        self.taken.append(f"{prefix} {arguments['pgid']}")


def ask(monitor: Monitor, *pgids: str) -> None:
    cluster = SimpleNamespace(client=monitor, patience=1.0, check_daemons=lambda: None)
    request_scrub(cast("Cluster", cluster), "deep-scrub", pgids)


def test_an_osd_that_has_just_come_back_is_asked_again() -> None:
    monitor = Monitor(errno.EAGAIN, errno.EAGAIN)
    ask(monitor, "2.0", "2.1")
    assert monitor.taken == ["pg deep-scrub 2.0", "pg deep-scrub 2.1"]


def test_another_refusal_is_an_error() -> None:
    monitor = Monitor(errno.ENOENT)
    with pytest.raises(CephCommandFailed, match="not currently connected"):
        ask(monitor, "9.0")
    assert monitor.taken == []
