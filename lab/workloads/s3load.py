"""A mixed load of S3 operations, closed or open loop: its settings, and the results of every operation."""

import itertools
import json
import signal
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from cephlab.lab.base.errors import LabBroken, SpecError, output_of
from cephlab.lab.cluster.gateway import Endpoint, Gateway
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import s3_ledger, s3_load_program, s3_program
from cephlab.lab.workloads.fio import RunningProgram, folder
from cephlab.lab.workloads.fiolatency import Window
from cephlab.lab.workloads.s3_load_program import BEGUN, FILL, FINAL, PHASES, RUN, WAITS, WINDOW

KINDS = ("delete", "get", "head", "list", "multipart", "put")
PART_BYTES = 5 << 20
"""The smallest size that S3 accepts for all parts but the last."""
SHOWN = (50, 90, 99, 100)
"""Percentiles that are recorded in a history."""
_BUSY = 0.9
_LATE_S = 0.05
_MODULES = (s3_ledger, s3_load_program, s3_program)
_PACKAGE = PurePosixPath("cephlab/lab/workloads")
_COLUMNS = 11
_BEGIN = "begin"
_START = f"import sys\n\nfrom {s3_load_program.__name__} import main\n\nsys.exit(main())\n".encode()
"""Python first looks for modules in the folder of its script, whatever the PYTHONPATH of a host."""
_NUMBERS = itertools.count()
"""Numbers the folders of loads, since several may run on a host at a time."""

Entrance = Gateway | Endpoint
"""The target of a load. TLS is used only with a gateway of the lab."""
Sizes = tuple[tuple[int, int, float], ...]
"""(least, most, weight) of each range of bytes: one range is uniform, several are a histogram."""


def constant(size_bytes: int) -> Sizes:
    """One size."""
    return ((size_bytes, size_bytes, 1.0),)


@dataclass(frozen=True)
class Over:
    """Objects that an operation uses: ranges (first, last, weight) of buckets and objects, from 1; empty for all."""

    buckets: tuple[tuple[int, int, float], ...] = ()
    objects: tuple[tuple[int, int, float], ...] = ()
    in_order: bool = False


@dataclass(frozen=True)
class S3Load:
    """A load. mix: operation -> share; objects: in each bucket; workers: the most requests in flight.

    rate: operations due per second, as a Poisson process, however many were answered (open loop); 0: each worker sends
    its next request as soon as it has an answer (closed loop). runtime_s: 0: until it is stopped. fill_by: put or
    multipart. phases: any of fill, run, final, clean, in that order. Without fill, every object must exist from another
    load with the same seed, unless the load begins with empty buckets (unfilled). waits: the run begins when told to
    (begin_at). own_buckets: a bucket that exists already ends the load at once, and `clean` removes the buckets;
    without any phase it only looks whether one exists. operations: the run ends after this many; 0: by time alone.
    over: the objects that an operation or a phase uses. window_s: length of the windows in which the run is summed up,
    with only failed operations kept; 0: all are kept.
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
            wanted = f"shares of {', '.join(KINDS)}"
            raise SpecError("invalid mix of an S3 load", f"mix: got {dict(self.mix)}, wanted: {wanted}")
        if not self.sizes or any(not 0 <= least <= most or weight <= 0 for least, most, weight in self.sizes):
            raise SpecError("invalid sizes of an S3 load", f"sizes: got {self.sizes}, wanted: (least, most, weight)")
        if list(self.phases) != [phase for phase in PHASES if phase in self.phases]:
            raise SpecError(
                "invalid phases of an S3 load",
                f"phases: got {self.phases}, wanted: any of fill, run, final, clean, in this order",
            )


@dataclass(frozen=True)
class S3Operation:
    """One operation. Times are seconds since the epoch. due_s: when it should have begun (in a closed loop when it did
    begin). idle: whether a worker was waiting for it. code: S3 error code, empty for none.
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
        """Response time, counted from when it was due. Counted from its start, it would hide any wait before that."""
        return self.ended_s - self.due_s


@dataclass(frozen=True)
class S3Result:
    """Result of a load. wrong: answers with wrong content, in words; wrongs: how many; cpu_s: CPU time of the client.

    windows: of the run, if the load has window_s; windows without an operation are left out.
    """

    operations: tuple[S3Operation, ...]
    wrong: tuple[str, ...]
    wrongs: int
    seconds: float
    cpu_s: float
    windows: tuple[Window, ...] = ()

    def of(self, phase: str = RUN, kind: str = "") -> list[S3Operation]:
        """The operations of a phase, of one kind if a kind is given."""
        return [op for op in self.operations if op.phase == phase and kind in ("", op.kind)]

    @property
    def errors(self) -> dict[str, int]:
        """S3 error code -> number of operations, over all phases."""
        return dict(Counter(op.code for op in self.operations if op.code))

    def percentile_s(self, percent: float, kind: str = "") -> float:
        """Percentile of the response times of the run, failed operations included; LabBroken without any."""
        times = [op.response_s for op in self.of(RUN, kind)]
        if not times:
            raise LabBroken("the S3 load has no such operation", f"{kind or 'any'} of {len(self.operations)}")
        return float(np.percentile(times, percent))

    @property
    def busy(self) -> float:
        """Share of one CPU used by the client (one process) in the run. Near 1 the client itself was the limit."""
        return self.cpu_s / self.seconds if self.seconds else 0.0

    @property
    def client_bound(self) -> bool:
        """Whether its figures show the limit of the client, not that of the cluster."""
        return self.busy > _BUSY

    @property
    def punctual(self) -> float:
        """Of the operations for which a worker was waiting, the share that began on time; 1 for a closed loop."""
        waited = [op for op in self.of(RUN) if op.idle]
        late = sum(op.began_s - op.due_s > _LATE_S for op in waited)
        return 1 - late / len(waited) if waited else 1.0

    def told(self) -> dict[str, Any]:
        """For a history: counts, percentiles of each kind in ms, errors, and how busy and punctual the client was."""
        kinds = sorted({op.kind for op in self.of(RUN)})
        phases = Counter(op.phase for op in self.operations)
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
    """The operations of several clients as one result, so that percentiles cover all of them and are never averaged.

    Windows stay those of each client, in order of time: their percentiles cannot be added.
    """
    operations = sorted((op for result in results for op in result.operations), key=lambda op: op.ended_s)
    windows = sorted((window for result in results for window in result.windows), key=lambda window: window.began_s)
    return S3Result(
        tuple(operations),
        tuple(line for result in results for line in result.wrong),
        sum(result.wrongs for result in results),
        max(result.seconds for result in results),
        max(result.cpu_s for result in results),
        tuple(windows),
    )


@dataclass(frozen=True)
class RunningS3Load(RunningProgram):
    """A client with a load."""

    base: PurePosixPath

    def begun(self) -> bool:
        """Whether the run has begun, after filling."""
        return BEGUN in self.words()

    def ready(self) -> bool:
        """Whether it waits for the start of its run, or has already ended."""
        return WAITS in self.words() or not self.process.alive()

    def begin_at(self, epoch_s: float) -> None:
        """Let the run of a waiting load begin at this time of its host's clock."""
        self.host.push(f"{epoch_s:.6f}\n".encode(), self.base / _BEGIN)

    def stop(self) -> None:
        """End the run; requests in flight complete, and the phases after it follow."""
        self.process.signal(signal.SIGINT)

    def finish(self, *, timeout_s: float) -> S3Result:
        """Wait for it to end and read its result; LabBroken, with its output, if it left none."""
        self.await_end(timeout_s, "the S3 load")
        if not self.host.exists(self.base / "out.json"):
            raise LabBroken(f"the S3 load on {self.host.name} left no result", self.words())
        result = parse(self.host.read(self.base / "out.json"), self.host.read(self.base / "rows").decode())
        self.host.remove(self.base)
        return result


@output_of("the S3 load")
def parse(report: bytes, rows: str) -> S3Result:
    """Parse the files that the program wrote."""
    raw: dict[str, Any] = json.loads(report)
    seconds, cpu_s = raw["spent"].get(RUN, (0.0, 0.0))
    by_window = [row for row in rows.splitlines() if row.startswith(f"{WINDOW},")]
    operations = tuple(_operation(row) for row in rows.splitlines() if not row.startswith(f"{WINDOW},"))
    windows = tuple(map(_window, by_window))
    return S3Result(operations, tuple(raw["wrong"]), int(raw["wrongs"]), seconds, cpu_s, windows)


def _window(row: str) -> Window:
    began, ended, count, mean, p99 = row.split(",")[1:]
    return Window(float(began), float(ended), int(count), mean_s=float(mean), p99_s=float(p99))


def _operation(row: str) -> S3Operation:
    phase, kind, endpoint, path, version, moved, due, began, ended, idle, code = row.split(",", _COLUMNS - 1)
    times = float(due), float(began), float(ended)
    return S3Operation(phase, kind, int(endpoint), path, int(version), int(moved), *times, idle == "1", code)


def start(host: Host, entrances: Sequence[Entrance], load: S3Load, *, tls: bool = False) -> RunningS3Load:
    """Start a load on a host, against gateways or load balancers, used in turn."""
    base = folder(host, f"s3load{next(_NUMBERS)}")
    for module in _MODULES:
        path = Path(str(module.__file__))
        host.push(path, base / _PACKAGE / path.name)
    endpoints = [
        {"address": entrance.tls_address, "trusted": entrance.certificate}
        if tls and isinstance(entrance, Gateway)
        else {"address": entrance.address}
        for entrance in entrances
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
