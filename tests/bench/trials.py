"""Pairs of clusters with and without an injected slow-down, with and without busy neighbours, kept for the next run."""

import os
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import product
from pathlib import Path, PurePosixPath

from cephlab.lab.base.clock import SYSTEM
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.raising import ClusterRequest, raise_for
from cephlab.lab.images.store import ImageStore
from cephlab.lab.providers.select import provider
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import HEALTHY_S
from cephlab.lab.telemetry import demandfile, place
from cephlab.lab.telemetry import side_by_side as beside
from cephlab.lab.telemetry.bench import Bench
from cephlab.lab.telemetry.demand import Operation
from cephlab.lab.telemetry.demandfile import CALIBRATED, PAIR, Measurement
from cephlab.lab.telemetry.measure import prepared, roles_of
from cephlab.lab.telemetry.meter import Meter
from cephlab.lab.telemetry.pace import Reference, kept_awake
from cephlab.lab.telemetry.place import Say
from cephlab.lab.telemetry.plan import Loaded, Plan
from cephlab.lab.telemetry.side_by_side import Side, Starts

SLOWER_PERCENT = 10
NEIGHBOURS = 2
STARTS = 32
DEPTH = 16
IMAGE_BYTES = 96 << 20
SOURCE = Path(__file__).with_name("burn.c")

# One neighbour computes, the other sweeps through memory.
_COMPUTES = "while True: sum(range(1000))"
_SWEEPS = "import numpy\ntable = numpy.zeros(1 << 23)\nwhile True: table += 1.0"


@dataclass(frozen=True)
class Trial:
    """Both sides of a pair under one condition, all starts of it. slower: the second side is."""

    pair: str
    operation: str
    slower: bool
    neighbours: bool
    before: Measurement
    after: Measurement


def folder(home: Home) -> Path:
    return home.path / "trials"


def known(home: Home) -> list[Trial]:
    """Every trial that was ever made here."""
    return [_trial(path) for path in sorted(folder(home).glob("*.json"))]


def _trial(path: Path) -> Trial:
    before, after = demandfile.load_measurements(path)
    given = before.conditions
    return Trial(
        pair=given[PAIR],
        operation=before.demand.operation.name,
        slower=given["trial slower"] == "yes",
        neighbours=given["trial neighbours"] == "yes",
        before=before,
        after=after,
    )


CONDITIONS = tuple(product((False, True), (False, True)))
"""(slower, neighbours): every start is measured in all four, in an order that moves on from start to start."""


def make(home: Home, operation: str, say: Say, *, starts: int = STARTS) -> None:
    """One more pair of clusters; after every start of their daemons they are measured in all four ways."""
    spec = place.measuring_spec(host_arch(), place.MeasuringLayout(in_memory=True))
    wanted = ClusterRequest(spec, provider("local"), home, ImageStore(home))
    plan = Plan(Operation(operation, 4096, DEPTH), (place.client_name(),), IMAGE_BYTES, ramp_s=1.0, idle_s=2.0)
    with ExitStack() as undo:
        clusters = [undo.enter_context(raise_for(wanted, say, healthy_s=HEALTHY_S)) for _ in range(2)]
        burners = [slowed(cluster, home) for cluster in clusters]
        sides = [Side(cluster, cluster.images[host_arch()].key) for cluster in clusters]
        targets = [undo.enter_context(prepared(cluster, plan, say)) for cluster in clusters]
        undo.enter_context(kept_awake())
        reference = undo.enter_context(Reference())
        loads_by_way: dict[tuple[bool, bool], tuple[list[Loaded], list[Loaded]]] = {way: ([], []) for way in CONDITIONS}
        rest = None
        for start in range(starts):
            beside.start_anew(clusters)
            with ExitStack() as closing:
                benches = [
                    Bench(side.cluster, _meter(side.cluster, closing), reference, plan, own, say, SYSTEM)
                    for side, own in zip(sides, targets, strict=True)
                ]
                rest = rest or [bench.idle() for bench in benches]
                for way in CONDITIONS[start % 4 :] + CONDITIONS[: start % 4]:
                    say(f"start {start + 1} of {starts}: slower {way[0]}, neighbours {way[1]}")
                    with slower(burners[1], percent=SLOWER_PERCENT * way[0]), neighbours(NEIGHBOURS * way[1]):
                        loads = beside.load_both(benches, plan, Starts().load_s, rest)
                    for own, loaded in zip(loads_by_way[way], loads, strict=True):
                        own.append(beside.numbered(loaded, start))
            save(home, operation, sides, plan, loads_by_way)


def save(
    home: Home,
    operation: str,
    sides: Sequence[Side],
    plan: Plan,
    loads_by_way: Mapping[tuple[bool, bool], tuple[list[Loaded], list[Loaded]]],
) -> None:
    """Everything so far; a run that is cut short loses one start at most."""
    names = [side.cluster.name for side in sides]
    for (slow, busy), loads in loads_by_way.items():
        given = {
            PAIR: " and ".join(names),
            CALIBRATED: "yes",
            "trial slower": "yes" if slow else "no",
            "trial neighbours": "yes" if busy else "no",
            **place.machine(),
        }
        both = [
            beside.measurement_of(side, plan, own, "as many starts as were asked for", given)
            for side, own in zip(sides, loads, strict=True)
            if own
        ]
        if both:
            name = "-".join([operation, *names, "slower" if slow else "same", "busy" if busy else "quiet"])
            demandfile.save(folder(home) / f"{name}.json", both)


def _meter(cluster: Cluster, closing: ExitStack) -> Meter:
    meter = Meter(cluster, roles_of(cluster))
    closing.callback(meter.close)
    return meter


def slowed(cluster: Cluster, home: Home) -> list[Path]:
    """Restart every OSD with the slow-down preloaded, at 0 percent; the files that say how much."""
    library = built(home)
    files = []
    for osd in cluster.osd_ids():
        daemon = cluster.daemon(f"osd.{osd}")
        file = Path(daemon.host.directory) / "burn"
        file.write_bytes(bytes(4096))
        files.append(file)
        cluster.stop(daemon.name)
        daemon.preload = (*daemon.preload, PurePosixPath(library))
        daemon.env = {**daemon.env, "BURN_FILE": str(file)}
        cluster.start(daemon.name)
    cluster.wait_healthy()
    return files


def built(home: Home) -> Path:
    library = folder(home) / "burn.so"
    library.parent.mkdir(parents=True, exist_ok=True)
    command = ["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
    subprocess.run(command, check=True)
    return library


def set_percent(file: Path, percent: int) -> None:
    """In place: the daemon has the file mapped."""
    with file.open("r+b") as target:
        target.write(struct.pack("<I", percent))


@contextmanager
def slower(files: Sequence[Path], *, percent: int) -> Iterator[None]:
    """The daemons of these files spend so much more CPU inside the block."""
    try:
        for file in files:
            set_percent(file, percent)
        yield
    finally:
        for file in files:
            set_percent(file, 0)


@contextmanager
def neighbours(count: int) -> Iterator[None]:
    """Programs that keep the machine busy."""
    programs = [(_COMPUTES, _SWEEPS)[number % 2] for number in range(count)]
    running = [subprocess.Popen([sys.executable, "-c", program]) for program in programs]
    try:
        yield
    finally:
        for process in running:
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
