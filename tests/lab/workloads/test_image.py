"""RBD images for measuring: removed once nobody watches them."""

import errno
from types import SimpleNamespace
from typing import cast

import pytest

from cephlab.lab.base import clock
from cephlab.lab.base.errors import NotReached
from cephlab.lab.ceph.client import RadosError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.workloads.image import BlockImage, remove
from tests.fake_clock import VirtualClock

IMAGE = BlockImage("pool", "one", 1 << 20)


class Watched:
    """A client whose image is watched for some attempts. code: what it is refused with meanwhile."""

    def __init__(self, attempts: int, code: int = errno.EBUSY) -> None:
        self.attempts, self.code, self.asked = attempts, code, 0

    def rbd_remove(self, pool: str, image: str) -> None:
        assert (pool, image) == ("pool", "one")
        self.asked += 1
        if self.asked <= self.attempts:
            raise RadosError("rbd_remove on n0", "ImageBusy", self.code, "still has watchers")


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    virtual = VirtualClock()
    monkeypatch.setattr(clock.Deadline, "after", staticmethod(lambda s: clock.Deadline(virtual.now + s, s, virtual)))


def removed_by(client: Watched) -> int:
    remove(cast("Cluster", SimpleNamespace(client=client, patience=1.0)), IMAGE)
    return client.asked


def test_an_image_goes_once_its_last_watcher_has_gone() -> None:
    assert removed_by(Watched(30)) == 31


def test_an_image_that_somebody_watches_for_good_is_said() -> None:
    with pytest.raises(NotReached, match="pool/one free of watchers"):
        removed_by(Watched(1000))


def test_another_refusal_is_no_watcher() -> None:
    client = Watched(1, errno.EPERM)
    with pytest.raises(RadosError, match="ImageBusy"):
        removed_by(client)
    assert client.asked == 1
