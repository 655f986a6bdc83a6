"""What the suite says of many clients before one gateway: one that starves, one that gets another's data."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.blockstack.nvmeof import Namespace
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import History
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE, GIB
from cephlab.lab.workloads.fio import NOTHING, Done, FioResult
from cephlab.suites.nvmeof import six_clients
from cephlab.suites.nvmeof.six_clients import BLOCK_BYTES, IMAGE_BYTES

PACE = (1.0, 2.1, 0.6, 1.4)
IMAGES = ["image001", "image002", "image003"]


def turn(rates: Mapping[str, float]) -> dict[str, dict[str, FioResult]]:
    """Each client with two images of half its rate, for eight seconds."""
    return {
        client: {
            f"{client}-{number}": FioResult(Done(int(4 * rate), 0, 8.0, rate / 2, 0.1), NOTHING) for number in (1, 2)
        }
        for client, rate in rates.items()
    }


@pytest.mark.parametrize(
    ("alone", "clients", "outcome"),
    [
        (8.0, [5.0, 5.2, 4.8], Outcome.PASS),
        (8.0, [9.0, 9.0, 0.9], Outcome.FAIL),  # one starves
        (30.0, [5.0, 5.2, 4.8], Outcome.FAIL),  # all get half of what one got
        (0.6, [0.2, 0.2, 0.2], Outcome.INCONCLUSIVE),  # hardly any operations
    ],
)
def test_clients_are_held_to_their_shares(alone: float, clients: Sequence[float], outcome: Outcome) -> None:
    recorder = History().recorder("nvmeof.topic")
    ones = [turn({"c1": alone * pace}) for pace in PACE]
    all_of_them = [turn({f"c{at}": rate * pace for at, rate in enumerate(clients, 1)}) for pace in PACE]
    six_clients.judge(recorder, "randread", ones, all_of_them)
    assert CHECKS["figures"](recorder.events()).outcome is outcome


def block(image: str) -> bytes:
    return image.encode() * (BLOCK_BYTES // len(image))


@pytest.mark.parametrize(
    ("third", "outcome"),
    [
        (block("image003"), Outcome.PASS),
        (block("image003") + block("image001"), Outcome.FAIL),  # another one's data beside its own
        (b"", Outcome.FAIL),  # what its client wrote went elsewhere
    ],
)
def test_an_image_must_hold_its_own_data_and_no_other(third: bytes, outcome: Outcome) -> None:
    recorder = History().recorder("nvmeof.topic")
    noise = bytes(range(256)) * (IMAGE_BYTES // 256)
    data = {"image001": block("image001"), "image002": block("image002"), "image003": third}

    def look(_pool: str, image: str, _pieces: object) -> dict[str, Any]:
        return {"pieces": [(data[image] + noise)[:IMAGE_BYTES]]}

    cluster = cast("Cluster", SimpleNamespace(client=SimpleNamespace(rbd_look=look)))
    six_clients.own_data(recorder, cluster, IMAGES)
    assert CHECKS["observations"](recorder.events()).outcome is outcome


def test_images_are_shared_out_and_one_fio_has_a_thread_for_each() -> None:
    namespaces = [Namespace("pool", f"image{number:03}", number=number) for number in range(1, 49)]
    shares = six_clients.shares_of(namespaces, 6)
    assert [len(share) for share in shares] == [8] * 6
    assert [each for share in shares for each in share] == namespaces
    words = six_clients.argv({"image001": PurePosixPath("/dev/nvme0n1")}, "randread", PurePosixPath("/out"))
    assert words[-3:] == ["--name=image001", "--filename=/dev/nvme0n1", '--buffer_pattern="image001"']
    assert {"--thread=1", "--rw=randread"} < set(words)


def test_clients_are_small_machines_of_this_ones_architecture() -> None:
    (scenario,) = six_clients.SCENARIOS
    nodes = scenario.topology.spec(DEFAULT_RELEASE).nodes
    assert {node.arch for node in nodes} == {host_arch()}
    clients = [node for node in nodes if node.memory_bytes == six_clients.CLIENT_BYTES]
    assert len(clients) == six_clients.CLIENTS
    assert sum(node.memory_bytes or 0 for node in nodes) == 8 * GIB
