"""Walks on a live cluster: wrong sides are found, and a printed program runs on the cluster."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.ceph import conf
from cephlab.lab.checks import CHECKS, Outcome
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.pools import PoolKind
from cephlab.lab.history.history import History
from cephlab.lab.providers.local import LocalProvider
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.suites.interop.walks import live
from cephlab.suites.interop.walks.live import Line, Walking, lines, walk
from cephlab.suites.interop.walks.printing import program
from cephlab.suites.interop.walks.rados_model import RadosModel
from cephlab.suites.interop.walks.rbd_model import RbdModel
from cephlab.suites.interop.walks.walk import Step
from tests.contract.raising import raised

pytestmark = pytest.mark.real

STEPS = 60
RUN_S = 60.0


class Forgetful(Line):
    """A side that says that it truncated, and did not."""

    def ask(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        return None if operation == "truncate" else super().ask(operation, arguments)


@pytest.fixture(scope="module")
def cluster(home: Home) -> Iterator[Cluster]:
    """Within one architecture, which is quicker: the scenarios themselves go through both."""
    with raised(LocalProvider(), Topology(native=2, foreign=0), home) as raised_cluster:
        yield raised_cluster


def test_a_forgetful_side_is_found_and_the_printed_program_clears_the_cluster(cluster: Cluster, tmp_path: Path) -> None:
    host, other = cluster.hosts["n0"], cluster.hosts["n1"]
    recorder = History().recorder("interop.walk-rados")
    stage = Stage(cluster, recorder, Random(4), tmp_path)
    with pools.pool(cluster, "walk", PoolKind("replicated", 2)) as pool:
        at = {"conf": str(conf.conf_path(host)), "name": cluster.client_name}
        settings = {**at, "pool": pool, "snapshots": "pool", "keys": "bytes"}
        theirs = {**settings, "conf": str(conf.conf_path(other))}
        with lines("rados", {"a": (host, settings), "b": (other, theirs)}, cluster.patience) as sides:
            broken = {**sides, "b": Forgetful(sides["b"].channel, sides["b"].patience)}
            sound = Walking("rados", lambda: RadosModel(Random(5), omap=True), sides, "sound")
            walk(stage, sound, STEPS)
            assert CHECKS["observations"](recorder.events()).outcome is Outcome.PASS
            walk(stage, replace(sound, sides=broken, prefix="broken"), STEPS)
        verdict = CHECKS["observations"](recorder.events())
        assert verdict.outcome is Outcome.FAIL, verdict
        source = recorder.programs()["walk-rados.py"].decode()
        assert source.count("'truncate'") == 1, source
        script = host.directory / "printed.py"
        host.push(source.encode(), script)
        argv = ["python3", str(script), *(f"{key}={value}" for key, value in settings.items())]
        ran = host.run(argv, timeout_s=RUN_S, check=False)
        assert (ran.code, "every answer as wanted" in ran.stdout) == (0, True), ran
        host.push(source.replace("'listed': [", "'listed': ['stray', ").encode(), script)
        assert host.run(argv, timeout_s=RUN_S, check=False).code == 1, "a wanted answer that the cluster cannot give"
        host.remove(script)


IMAGE = "i"
OPENED: list[tuple[str, str, dict[str, Any]]] = [
    ("a", "create", {"image": IMAGE, "size": 9000, "order": 12, "stripes": 1}),
    ("a", "open", {"image": IMAGE}),
    ("b", "open", {"image": IMAGE}),
    ("a", "write", {"image": IMAGE, "seed": 1, "offset": 5, "size": 8000}),
    ("b", "write", {"image": IMAGE, "seed": 2, "offset": 4000, "size": 500}),
    ("a", "resize", {"image": IMAGE, "size": 30000}),
    ("b", "look", {"but": []}),  # without it, librbd refuses the next step: librbd-grown-refused
    ("b", "write", {"image": IMAGE, "seed": 3, "offset": 20000, "size": 9000}),
    ("a", "look", {"but": []}),
]
CUT_IN = {"image": IMAGE, "offset": 0, "blocks": 32}
STREAMED: list[tuple[str, str, dict[str, Any]]] = [
    ("a", "stream", CUT_IN),
    *[("b", "cut_in", {**CUT_IN, "write": write}) for write in (True, False) * 5],
    ("a", "halt", {"seed": 4}),
    ("b", "look", {"but": []}),
]
HALF = "(blocks // 2) * BLOCK"
WRONG = {
    "sound": [],
    "lock kept": [
        (
            "self.kept[image] = rbd.Image(self.io, self.place + image)",
            "self.kept[image] = opened = rbd.Image(self.io, self.place + image)\n"
            "        list(opened.lock_get_owners()) or opened.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)",
        )
    ],
    "no snapshot": [
        (
            "data = cut.read(offset, (1 + blocks) * BLOCK)",
            f"data = opened.read(offset, {HALF}) + "
            f"[time.sleep(0.5), opened.read(offset + {HALF}, (1 + blocks) * BLOCK - {HALF})][1]",
        )
    ],
}
"""Replacements in the program of a side."""


@pytest.mark.parametrize("wrong", WRONG)
def test_images_that_both_sides_have_open(wrong: str, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    source = program("rbd")
    for was, now in WRONG[wrong]:
        assert was in source
        source = source.replace(was, now)
    monkeypatch.setattr(live, "program", lambda _kind: source)
    with pools.pool(cluster, "walk", PoolKind("replicated", 2)) as pool:
        on = {
            side: (host, {"conf": str(conf.conf_path(host)), "name": cluster.client_name, "pool": pool})
            for side, host in zip("ab", cluster.hosts.values(), strict=False)
        }
        with lines("rbd", on, cluster.patience) as sides:
            walking = Walking("rbd", lambda: RbdModel(Random(5)), sides, wrong.replace(" ", ""))
            difference = walking.tries([Step(*step) for step in (*OPENED, *STREAMED)])
    assert (difference is None) == (wrong == "sound"), difference
