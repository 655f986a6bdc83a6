"""A load of S3 operations in a mix, closed or open, whose every operation is kept: what is asked for and what came."""

import itertools
import json
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.cluster.gateway import Endpoint, Gateway
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3_ledger, s3_load_program, s3_program
from cephlab.lab.workloads.fio import RunningProgram, folder
from cephlab.lab.workloads.fiolatency import Window
from cephlab.lab.workloads.s3_load_program import BEGUN, CLEAN, FILL, FINAL, RUN, WAITS, WINDOW

KINDS = ("delete", "get", "head", "list", "multipart", "put")
PART_BYTES = 5 << 20
"""The least that S3 takes for all parts but the last."""
SHOWN = (50, 90, 99, 100)
"""Percentiles that a history gets."""
_BUSY = 0.9
_LATE_S = 0.05
_MODULES = (s3_ledger, s3_load_program, s3_program)
_PACKAGE = PurePosixPath("cephlab/lab/workloads")
_COLUMNS = 11
_BEGIN = "begin"
_START = f"import sys\n\nfrom {s3_load_program.__name__} import main\n\nsys.exit(main())\n".encode()
"""Python looks for modules beside its script first, whatever a host's PYTHONPATH is."""
_NUMBERS = itertools.count()
"""Several loads may run on a host at a time."""

Entrance = Gateway | Endpoint
"""Whom a load asks. Only a gateway of the lab's is asked by TLS."""
Sizes = tuple[tuple[int, int, float], ...]
"""Ranges of bytes, least and most, each with its weight: one range is uniform, several are a histogram."""


def constant(size_bytes: int) -> Sizes:
    """One size."""
    return ((size_bytes, size_bytes, 1.0),)


@dataclass(frozen=True)
class Over:
    """Objects that an operation takes: ranges of buckets and of objects from 1, (first, last, weight); none for all."""

    buckets: tuple[tuple[int, int, float], ...] = ()
    objects: tuple[tuple[int, int, float], ...] = ()
    in_order: bool = False


@dataclass(frozen=True)
class S3Load:
    """A load. mix: operation -> share; objects: in each bucket; workers: the most requests in flight.

    rate: operations a second that are due, as a Poisson process, however many were answered (open loop); 0: each worker
    asks as soon as it was answered (closed loop). runtime_s: 0 until it is stopped. fill_by: put or multipart. phases:
    any of fill, run, final, clean, in that order; without fill, every object must be there from another load of the
    same seed, unless it begins with empty buckets (unfilled). waits: the run begins when it is told to (begin_at).
    own_buckets: one that exists already ends the load before it does anything, and `clean` removes them.
    operations: the run ends after so many; 0: by time alone. over: which objects an operation or a phase takes.
    window_s: the run is told by windows of that length, and of its operations only those that failed are kept; 0: all
    are kept.
    """

    mix: Mapping[str, float] = field(default_factory=lambda: {"get": 1.0})
    sizes: Sizes = ((4096, 4096, 1.0),)
    bucket: str = "load"
    buckets: int = 1
    objects: int = 32
    workers: int = 4
    rate: float = 0.0
    runtime_s: float = 5.0
    seed: int = 1
    fill_by: str = "put"
    part_bytes: int = PART_BYTES
    page: int = 1000
    timeout_s: float = 60.0
    phases: tuple[str, ...] = (FILL, RUN, FINAL)
    waits: bool = False
    own_buckets: bool = False
    operations: int = 0
    over: Mapping[str, Over] = field(default_factory=dict)
    unfilled: bool = False
    window_s: float = 0.0

    def __post_init__(self) -> None:
        unknown = sorted({*self.mix} - {*KINDS})
        if unknown or not self.mix or min(self.mix.values()) <= 0:
            raise SpecError("the mix of an S3 load", f"mix: got {dict(self.mix)}, wanted: shares of {', '.join(KINDS)}")
        if not self.sizes or any(not 0 <= least <= most or weight <= 0 for least, most, weight in self.sizes):
            raise SpecError("sizes of an S3 load", f"sizes: got {self.sizes}, wanted: (least, most, weight)")
        if list(self.phases) != [phase for phase in (FILL, RUN, FINAL, CLEAN) if phase in self.phases]:
            raise SpecError(
                "phases of an S3 load", f"phases: got {self.phases}, wanted: any of fill, run, final, clean"
            )


@dataclass(frozen=True)
class S3Operation:
    """One operation. Times are seconds since the epoch. due_s: when it should have begun, which is when it did in a
    closed loop. idle: whether a worker was waiting for it. code: S3's word for what went wrong, empty for nothing.
    """

    phase: str
    kind: str
    endpoint: int
    path: str
    version: int
    bytes: int
    due_s: float
    began_s: float
    ended_s: float
    idle: bool
    code: str

    @property
    def response_s(self) -> float:
        """What somebody waited who wanted it when it was due. Counted from its start, it hides every wait before."""
        return self.ended_s - self.due_s


@dataclass(frozen=True)
class S3Result:
    """What a load did. wrong: answers that were not what was put, in words; wrongs: how many; cpu_s: of the client.

    windows: of the run, where the load was to be told by windows; those without an operation are left out.
    """

    operations: tuple[S3Operation, ...]
    wrong: tuple[str, ...]
    wrongs: int
    seconds: float
    cpu_s: float
    windows: tuple[Window, ...] = ()

    def of(self, phase: str = RUN, kind: str = "") -> list[S3Operation]:
        """Its operations in a phase, of one kind where one is named."""
        return [each for each in self.operations if each.phase == phase and kind in ("", each.kind)]

    @property
    def errors(self) -> dict[str, int]:
        """S3's code -> how many operations of all phases."""
        return dict(Counter(each.code for each in self.operations if each.code))

    def percentile_s(self, percent: float, kind: str = "") -> float:
        """Response time of the operations of the run, failed ones too; LabBroken without any."""
        times = [each.response_s for each in self.of(RUN, kind)]
        if not times:
            raise LabBroken("an S3 load without an operation", f"{kind or 'any'} of {len(self.operations)}")
        return float(np.percentile(times, percent))

    @property
    def busy(self) -> float:
        """Share of one CPU that the client, one process, took in the run. Near 1 the client itself was slow."""
        return self.cpu_s / self.seconds if self.seconds else 0.0

    @property
    def client_bound(self) -> bool:
        """Whether its figures say what the client can do, and not the cluster."""
        return self.busy > _BUSY

    @property
    def punctual(self) -> float:
        """Share of the operations with an idle worker that began when they were due; 1 for a closed loop."""
        waited = [each for each in self.of(RUN) if each.idle]
        late = sum(each.began_s - each.due_s > _LATE_S for each in waited)
        return 1 - late / len(waited) if waited else 1.0

    def told(self) -> dict[str, Any]:
        """For a history: counts, percentiles of each kind in ms, errors, and how busy and punctual the client was."""
        kinds = sorted({each.kind for each in self.of(RUN)})
        phases = Counter(each.phase for each in self.operations)
        return {
            "phases": dict(phases),
            "operations": {kind: len(self.of(RUN, kind)) for kind in kinds},
            "percentiles_ms": {
                kind: {f"p{p:g}": round(1e3 * self.percentile_s(p, kind), 3) for p in SHOWN} for kind in kinds
            },
            "errors": self.errors,
            "wrong": list(self.wrong),
            "seconds": round(self.seconds, 3),
            "client_busy": round(self.busy, 3),
            "client_bound": self.client_bound,
            "punctual": round(self.punctual, 4),
        }


def merged(results: Sequence[S3Result]) -> S3Result:
    """Several clients' operations as one load's, so that percentiles are of all of them and never averaged."""
    operations = sorted((each for result in results for each in result.operations), key=lambda each: each.ended_s)
    return S3Result(
        tuple(operations),
        tuple(line for result in results for line in result.wrong),
        sum(result.wrongs for result in results),
        max(result.seconds for result in results),
        max(result.cpu_s for result in results),
    )


@dataclass(frozen=True)
class RunningS3Load(RunningProgram):
    """A client with a load."""

    base: PurePosixPath

    def begun(self) -> bool:
        """Whether the run has begun, after the filling."""
        return BEGUN in self.words()

    def ready(self) -> bool:
        """Whether it waits for the moment of its run, or will never do that, because it has ended."""
        return WAITS in self.words() or not self.process.alive()

    def begin_at(self, epoch_s: float) -> None:
        """Let the run of a load that waits begin then, by its host's clock."""
        self.host.push(f"{epoch_s:.6f}\n".encode(), self.base / _BEGIN)

    def stop(self) -> None:
        """End the run; what is in flight is waited for, and the phases after it follow."""
        self.process.signal(signal.SIGINT)

    def finish(self, *, timeout_s: float) -> S3Result:
        """Wait for its end and read what it did; LabBroken, with what it printed, when it left nothing."""
        self.await_end(timeout_s, "the S3 load")
        if not self.host.exists(self.base / "out.json"):
            raise LabBroken(f"the S3 load on {self.host.name} left no result", self.words())
        result = parse(self.host.read(self.base / "out.json"), self.host.read(self.base / "rows").decode())
        self.host.remove(self.base)
        return result


def parse(report: bytes, rows: str) -> S3Result:
    """Read what the program left."""
    raw: dict[str, Any] = json.loads(report)
    seconds, cpu_s = raw["spent"].get(RUN, (0.0, 0.0))
    by_window = [row for row in rows.splitlines() if row.startswith(f"{WINDOW},")]
    operations = tuple(_operation(row) for row in rows.splitlines() if not row.startswith(f"{WINDOW},"))
    told = tuple(map(_window, by_window))
    return S3Result(operations, tuple(raw["wrong"]), int(raw["wrongs"]), seconds, cpu_s, told)


def _window(row: str) -> Window:
    began, ended, count, mean, p99 = row.split(",")[1:]
    return Window(float(began), float(ended), int(count), mean_s=float(mean), p99_s=float(p99))


def _operation(row: str) -> S3Operation:
    phase, kind, endpoint, path, version, moved, due, began, ended, idle, code = row.split(",", _COLUMNS - 1)
    times = float(due), float(began), float(ended)
    return S3Operation(phase, kind, int(endpoint), path, int(version), int(moved), *times, idle == "1", code)


def start(host: Host, entrances: Sequence[Entrance], load: S3Load, *, tls: bool = False) -> RunningS3Load:
    """Start a load on a host, against gateways or balancers, which take turns."""
    base = folder(host, f"s3load{next(_NUMBERS)}")
    for module in _MODULES:
        path = Path(str(module.__file__))
        host.push(path, base / _PACKAGE / path.name)
    endpoints = [
        {"address": each.tls_address, "trusted": each.certificate}
        if tls and isinstance(each, Gateway)
        else {"address": each.address}
        for each in entrances
    ]
    config = {
        **asdict(load),
        "filled": FILL not in load.phases and not load.unfilled,
        "endpoints": endpoints,
        "begin": str(base / _BEGIN) if load.waits else "",
        "log": str(base / "rows"),
        "output": str(base / "out.json"),
    }
    host.push(json.dumps(config).encode(), base / "config")
    host.push(_START, base / "start.py")
    keys = s3_program.environment(entrances[0].access_key, entrances[0].secret_key)
    process = host.spawn(["python3", str(base / "start.py"), str(base / "config")], log=base / "words", env=keys)
    return RunningS3Load(host, process, base / "words", base)


def run(host: Host, entrances: Sequence[Entrance], load: S3Load, *, timeout_s: float, tls: bool = False) -> S3Result:
    """Run a load to its end. timeout_s: includes patience."""
    with start(host, entrances, load, tls=tls).killed_on_error() as running:
        return running.finish(timeout_s=timeout_s)
