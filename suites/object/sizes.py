"""Objects of 4 KiB to 50 MB through the balancer: with size, request rates fall and bandwidth rises to a limit."""

from functools import partial
from statistics import fmean

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.report.series import Line, record_series
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.telemetry.statistics import ratio_of_means
from cephlab.lab.workloads.s3_load_program import FILL, RUN
from cephlab.lab.workloads.s3load import S3Load, S3Operation, constant
from cephlab.suites.block.expected import RATE, expect
from cephlab.suites.limits import RECORDED
from cephlab.suites.object.stand import BALANCED, balancer, loaded, near
from cephlab.tuning.workload import Shape

SIZES = {
    Tier.QUICK: (4096, 524_288, 10_000_000),
    Tier.FULL: (4096, 16_384, 65_536, 262_144, 524_288, 1 << 20, 4 << 20, 10_000_000, 50_000_000),
}
"""The range of the Altra paper, 4k to 50M, with the sizes that its text names."""
RUN_S = {Tier.QUICK: 3.0, Tier.FULL: 8.0}
HELD_BYTES = 100_000_000
WORKERS = 4
LEAST_OBJECTS, MOST_OBJECTS = WORKERS + 1, 32
"""More objects than workers, so that no two workers put the same object at the same time."""
PARTS = 4
"""A run is cut into this many equal parts to get an interval for its bandwidth."""
LEAST_GAIN = 3.0
"""Bandwidth at the largest size over that at the smallest. A request has a fixed cost besides the cost of its bytes; at
4 KiB it is nearly all (tuning/demands: 1.9 ms for a get of 64 KiB, 13 ms for one of 4 MiB, 64 times the bytes)."""


def run(stage: Stage, operation: str) -> None:
    """Run one size after another from the same client."""
    front = balancer(stage.cluster)
    sizes = SIZES[stage.tier]
    expected = expect(stage, [Shape(operation, size_bytes, clients=1, depth=WORKERS) for size_bytes in sizes])
    bandwidths, rates, p90s = [], [], []
    for number, size_bytes in enumerate(sizes):
        load = S3Load(
            mix={operation: 1.0},
            sizes=constant(size_bytes),
            bucket=f"{operation}-{size_bytes}",
            objects=max(LEAST_OBJECTS, min(MOST_OBJECTS, HELD_BYTES // size_bytes)),
            workers=WORKERS,
            runtime_s=RUN_S[stage.tier],
            seed=stage.rng.randrange(1 << 31),
            phases=(FILL, RUN),
        )
        result = loaded(stage, f"{operation} of {size_bytes} bytes", near(stage.cluster), [front], load)
        operations = result.of(RUN, operation)
        stage.recorder.witness(f"{operation} of {size_bytes} bytes in the run", got=len(operations), least=PARTS)
        bandwidths.append(stretches(operations))
        rates.append(len(operations) / result.seconds)
        bound, _ = expected.bounds(number)
        stage.recorder.figure(f"{operation} a second of {size_bytes} bytes", rates[-1], "ops/s", bound)
        p90s.append(result.percentile_s(90))
        stage.recorder.figure(
            f"p90 of {operation} of {size_bytes} bytes",
            p90s[-1],
            "s",
            RECORDED,
        )
        stage.recorder.figure(
            f"client's share of a CPU, {size_bytes} bytes",
            result.busy,
            "",
            RECORDED,
        )
    gain = ratio_of_means(bandwidths[-1], bandwidths[0])
    stage.recorder.figure(
        f"bandwidth of {operation} at {sizes[-1]} bytes / at {sizes[0]}",
        gain.mean,
        "",
        Bound("a request has a fixed cost besides the cost of its bytes", least=LEAST_GAIN, basis=Basis.SHAPE),
        interval=gain.ends,
    )
    lines = [
        *(line for line in expected.lines(sizes) if line.panel == RATE),
        Line("bandwidth, bytes/s", operation, tuple(zip(sizes, map(fmean, bandwidths), strict=True))),
        Line(RATE, operation, tuple(zip(sizes, rates, strict=True))),
        Line("p90, s", operation, tuple(zip(sizes, p90s, strict=True))),
    ]
    title = f"{operation} against object size"
    record_series(stage.recorder, title, lines, axis="bytes", marks={}, words=expected.words)


def stretches(operations: list[S3Operation]) -> list[float]:
    """Bytes per second in each of PARTS equal parts of a run; an operation's bytes are spread over its duration."""
    first, last = min(op.began_s for op in operations), max(op.ended_s for op in operations)
    step = (last - first) / PARTS
    edges = [(first + number * step, first + (number + 1) * step) for number in range(PARTS)]
    return [sum(op.bytes * share(op, *edge) for op in operations) / step for edge in edges]


def share(operation: S3Operation, begin_s: float, end_s: float) -> float:
    """The share of an operation's duration that lies between two times."""
    inside = min(operation.ended_s, end_s) - max(operation.began_s, begin_s)
    return max(0.0, inside) / max(1e-9, operation.ended_s - operation.began_s)


SCENARIOS = tuple(
    Scenario(
        name=f"object.sizes[op={operation}]",
        goal=f"The bandwidth of {operation} rises with the object size, and every object read is right.",
        method="Loads the balancer with one object size after another, 4 KiB to 10 MB or 50 MB, and checks every body.",
        run=partial(run, operation=operation),
        check="figures",
        tier=tier,
        topology=BALANCED,
    )
    for operation, tier in (("get", Tier.QUICK), ("put", Tier.FULL))
)
