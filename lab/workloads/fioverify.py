"""fio as a second, independent check on RBD: it writes blocks with checksums and later reads all of them back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, output_of
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import fio
from cephlab.lab.workloads.fio import FioJob, RunningFio

_BLOCK_BYTES = 4096
_DEPTH = 4
_FIRST_S = 60.0
_STOP_S = 120.0
_VERIFY_S = 300.0


@dataclass(frozen=True)
class Witness:
    """What fio writes: random blocks of an image, each once, at a limited rate so that they last for a whole change.

    node: where it runs; rate_iops: largest rate; size_bytes: of the image, which must not be full before the end;
    data_pool: the pool for the data of the image, if not `pool`.
    """

    pool: str
    node: str
    seed: int
    image: str = "witness"
    size_bytes: int = 1 << 30
    rate_iops: int = 100
    data_pool: str | None = None

    def job(self, folder: PurePosixPath, **more: str) -> FioJob:
        """The job of both passes: fio finds the blocks again by repeating its random choices."""
        return FioJob(
            name=self.image,
            pool=self.pool,
            target=self.image,
            pattern="randwrite",
            block_bytes=_BLOCK_BYTES,
            depth=_DEPTH,
            size_bytes=self.size_bytes,
            seed=self.seed,
            options={"rbd_cache": "false", "rados_osd_op_timeout": "0", "rados_mon_op_timeout": "0"},
            more={"verify": "crc32c", "verify_fatal": "1", "verify_state_save": "1", "aux-path": str(folder), **more},
        )


@dataclass
class FioVerify:
    """Call prepare, then `running()` around the events to survive, then verify, then clean."""

    cluster: Cluster
    recorder: Recorder
    witness: Witness
    written: int = 0

    @property
    def _host(self) -> Host:
        return self.cluster.hosts[self.witness.node]

    @property
    def _folder(self) -> PurePosixPath:
        return self._host.directory / "fioverify"

    def prepare(self) -> None:
        """Create the image, and the folder for fio's state."""
        witness = self.witness
        self._host.make_directory(self._folder)
        self.cluster.client.rbd_create(witness.pool, witness.image, witness.size_bytes, data_pool=witness.data_pool)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Let fio write during the block; its result is in the history afterwards."""
        job = self.witness.job(self._folder, do_verify="0", rate_iops=str(self.witness.rate_iops))
        before = self._objects()
        with fio.start(self._host, job).killed_on_error() as running:
            # fio covers only events after its first write.
            clock.wait(
                self._objects,
                lambda now: now > before,
                what=f"the first block that fio writes to {self.witness.image}",
                timeout_s=_FIRST_S * self.cluster.patience,
            )
            yield
        lasted = running.process.alive()
        running.process.signal(signal.SIGINT)
        self.written = self._ended("writing", running, _STOP_S).written
        if not lasted:
            raise LabBroken(f"fio ended by itself on {self._host.name}", running.words())

    def verify(self) -> None:
        """Read back every block that fio wrote, and observe that each one is intact."""
        # When told to stop, fio 3.41 has chosen blocks that it did not write, and would read those back too.
        count = str(max(1, self.written))
        job = self.witness.job(self._folder, verify_only="1", verify_state_load="1", number_ios=count)
        tally = self._ended("reading back", fio.start(self._host, job), _VERIFY_S)
        # fio stops during up to _DEPTH operations. Its state marks those as possibly not written.
        least = max(1, self.written - _DEPTH)
        self.recorder.witness("blocks that fio read back", got=tally.read, least=least)

    def clean(self) -> None:
        self.cluster.client.rbd_remove(self.witness.pool, self.witness.image)

    def _objects(self) -> int:
        names = self.cluster.client.list_objects(self.witness.data_pool or self.witness.pool)
        return sum(name.startswith("rbd_data.") for name in names)

    def _ended(self, what: str, running: RunningFio, timeout_s: float) -> Tally:
        """Wait for fio to end, and observe that it found nothing wrong."""
        running.await_end(timeout_s * self.cluster.patience, "fio")
        tally = read_tally(running.host.read(running.output) if running.host.exists(running.output) else b"")
        words = "" if tally.error == 0 else running.words()
        self.recorder.observe(f"error that fio ended {what} with", got=tally.error, wanted=0, said=words)
        return tally


@dataclass(frozen=True)
class Tally:
    """What fio did. error: errno; EILSEQ (84) means a block with other content than was written."""

    error: int
    written: int
    read: int


@output_of("fio")
def read_tally(text: bytes) -> Tally:
    """Parse the output of `--output-format=json` of a job that may have failed; LabBroken if there is none."""
    _, job = fio.split_output(text)
    return Tally(int(job["error"]), int(job["write"]["total_ios"]), int(job["read"]["total_ios"]))
