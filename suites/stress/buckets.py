"""The S3 part of a stress load: objects are put and read back through gateways of both architectures, alternately."""

from dataclasses import dataclass

from cephlab.lab.cluster.gateway import Gateway, speaking_s3
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.workloads import fiolatency, s3load
from cephlab.lab.workloads.s3_load_program import FILL, FINAL, RUN
from cephlab.lab.workloads.s3load import S3Load, S3Result
from cephlab.suites.stress import series
from cephlab.suites.stress.length import Length

NAME = "S3"
MIX = {"get": 0.5, "put": 0.5}
OBJECT_BYTES = 16 << 10
WORKERS = 4


@dataclass(frozen=True)
class S3Client:
    """Where the load runs, the gateways it uses, and its seed."""

    host: Host
    gateways: tuple[Gateway, ...]
    seed: int

    def begin(self, bucket: str, seconds: float, *, rate: float = 0.0, window_s: float = 0.0) -> s3load.RunningS3Load:
        """Fill a bucket, then put and get at a rate, or as fast as possible without one."""
        load = S3Load(
            mix=MIX,
            sizes=s3load.constant(OBJECT_BYTES),
            bucket=bucket,
            workers=WORKERS,
            rate=rate,
            runtime_s=seconds,
            seed=self.seed,
            phases=(FILL, RUN, FINAL) if rate else (FILL, RUN),
            window_s=window_s,
        )
        return s3load.start(self.host, self.gateways, load)

    def start(self, rate: float, length: Length) -> s3load.RunningS3Load:
        """The load that is judged."""
        return self.begin("steady", length.seconds, rate=rate, window_s=length.every_s)


def client_of(stage: Stage) -> S3Client:
    """A client on the first load node. On an existing cluster it gets no gateway, as it may not create an S3 user."""
    cluster = stage.cluster
    if not isinstance(cluster, OwnCluster):
        return S3Client(cluster.hosts[cluster.load_nodes()[0]], (), 0)
    host = cluster.hosts[cluster.load_nodes()[0]]
    return S3Client(host, tuple(speaking_s3(cluster)), stage.rng.randrange(1 << 31))


def rate_of(result: S3Result) -> float:
    """Operations a second in the run phase."""
    return len(result.of(RUN)) / result.seconds


def record(stage: Stage, result: S3Result, length: Length, began_s: float) -> series.Values:
    """Record a load's figures window by window; returns the last values. began_s: its start, since the epoch."""
    # Windows count what ended. Of the run, `operations` has only the rows of what failed.
    failed = [f"{operation.kind} of {operation.path}: {operation.code}" for operation in result.of(RUN)]
    operations = sum(window.operations for window in result.windows)
    stage.recorder.observe(f"errors of {NAME}", got=failed[:10], wanted=[], of=operations)
    stage.recorder.observe(f"wrong answers of {NAME}", got=list(result.wrong), wanted=[], of=len(result.of(FINAL)))
    first = result.windows[0].began_s if result.windows else began_s
    values: series.Values = {}
    windows = fiolatency.filled(result.windows, first, first + length.seconds, length.every_s)
    stage.recorder.witness(NAME, got=operations, least=1)
    for window in windows[1:-1]:  # neither the first nor the last is whole
        now = series.of_client(NAME, window)
        stage.recorder.record("reading", at_s=window.ended_s - began_s, values=now)
        values |= now
    return values
