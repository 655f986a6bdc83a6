"""A load that records every operation: clients of both architectures write and read unique values."""

from __future__ import annotations

import json
import re
import signal
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any, Literal

from cephlab.lab.base import clock
from cephlab.lab.base.births import boot_id
from cephlab.lab.base.errors import LabBroken, LabError, SpecError
from cephlab.lab.ceph import conf
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history import operations
from cephlab.lab.history.history import Recorder
from cephlab.lab.history.operations import Act, Ended, Operation
from cephlab.lab.providers.host import Host, HostProcess

PROGRAM = Path(__file__).with_name("load_program.py")
_START_S = 60.0
_DRAIN_S = 30.0
_VERIFY_S = 300.0
_FINAL_S = 60
"""Timeout of a final read, to be multiplied by the patience: on a healthy cluster a longer read has failed."""
_RUN_BITS = 24
"""Versions start at run << 24, so that a load that is started again writes no value twice."""

_END = re.compile(rb"^(\d+) o ", re.MULTILINE)

_OPTIONS = {
    # A real client waits without limit; a check judges how long it waited.
    "rados_osd_op_timeout": "0",
    "rados_mon_op_timeout": "0",
    # librbd's cache acknowledges writes that are only in its memory.
    "rbd_cache": "false",
}


Kind = Literal["objects", "blocks", "device", "files"]
"""What a load writes: RADOS objects, blocks of RBD images, blocks of one kernel block device, or files of CephFS."""


@dataclass(frozen=True)
class Load:
    """What to do, as pure data: together with the seed it determines every operation.

    nodes: one client on each; keys: per client; workers: threads per client, each with one operation at a time.
    sizes: of objects in bytes, chosen by the seed; blocks use the first. pause_s: between two operations of a worker.
    pool: for files the name of their file system. data_pool: pool for the data of images, if not `pool`.
    device: for the kind `device`, its path on every client.
    options: Ceph options of these clients only.
    acknowledge_early: log every write as done before it is done, an error that checks must detect.
    """

    pool: str
    nodes: tuple[str, ...]
    seed: int
    name: str = "load"
    kind: Kind = "objects"
    keys: int = 32
    workers: int = 4
    sizes: tuple[int, ...] = (4096, 65536)
    read_share: float = 0.4
    pause_s: float = 0.0
    data_pool: str | None = None
    device: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    acknowledge_early: bool = False

    def __post_init__(self) -> None:
        if not self.nodes or self.keys < self.workers or self.workers < 1:
            raise SpecError(
                f"load {self.name}: {len(self.nodes)} clients, {self.keys} keys, {self.workers} workers",
                "wanted: at least one client, one worker, and one key per worker",
            )
        if min(self.sizes) < 256 or not 0 <= self.read_share < 1:
            raise SpecError(
                f"load {self.name}: sizes {self.sizes}, read_share {self.read_share}",
                "wanted: sizes of at least 256; read_share from 0 to below 1",
            )

    @property
    def most_bytes(self) -> int:
        """The most bytes that it stores, before replication."""
        return len(self.nodes) * self.keys * max(self.sizes)


@dataclass
class RunningClient:
    """One running client."""

    node: str
    host: Host
    process: HostProcess
    log: PurePosixPath
    stop: PurePosixPath
    output: PurePosixPath


@dataclass
class RecordedLoad:
    """Call prepare, then `running()` around the events to survive, then verify, then clean."""

    cluster: Cluster
    recorder: Recorder
    load: Load
    _runs: int = 0
    _clients: list[RunningClient] = field(default_factory=list)

    def prepare(self) -> None:
        """Create the images, if the load writes blocks."""
        if self.load.kind == "blocks":
            size = self.load.keys * self.load.sizes[0]
            for image in self._images():
                self.cluster.client.rbd_create(self.load.pool, image, size, data_pool=self.load.data_pool)
        self.recorder.record("load", load={**asdict(self.load), "options": {**_OPTIONS, **self.load.options}})

    @contextmanager
    def running(self) -> Iterator[RecordedLoad]:
        """Run the clients during the block. Afterwards, even after an error, their operations are in the history."""
        self.start()
        try:
            yield self
        finally:
            self.stop()

    def start(self) -> None:
        """Start every client and wait until each has done an operation."""
        self._runs += 1
        with self._spawned("run"):
            for client in self._clients:
                self._wait_for_operation(client)
        self.recorder.record("load_began", load=self.load.name, run=self._runs)

    def stop(self) -> None:
        """Stop every client and record its operations; LabBroken if one had ended by itself."""
        self.recorder.record("load_ending", load=self.load.name, run=self._runs)
        try:
            ended = [client.node for client in self._clients if not client.process.alive()]
            for client in self._clients:
                client.host.push(b"", client.stop)
        finally:
            self._finish(_DRAIN_S * 2)
        self.recorder.record("load_ended", load=self.load.name, run=self._runs)
        if ended:
            raise LabBroken(f"clients of {self.load.name} ended by themselves", ", ".join(ended))

    def completed(self) -> int:
        """Operations of the current run that have ended so far."""
        return sum(self.by_worker())

    def by_worker(self) -> list[int]:
        """The same for each worker of each client: of one that is stuck the total says nothing."""
        ended = [Counter(map(int, _END.findall(client.host.read(client.log)))) for client in self._clients]
        return [counts[worker] for counts in ended for worker in range(self.load.workers)]

    def verify(self) -> None:
        """Read everything back on the node of every client, and record this as final reads."""
        with self._spawned("verify"):
            pass
        self._finish(_VERIFY_S)

    def clean(self) -> None:
        """Remove the images; objects go with their pool."""
        if self.load.kind == "blocks":
            for image in self._images():
                self.cluster.client.rbd_remove(self.load.pool, image)

    @contextmanager
    def _spawned(self, mode: str) -> Iterator[None]:
        """Start a client on every node. If that or the block fails, kill them: nobody would stop them."""
        self._clients = []
        try:
            for index in range(len(self.load.nodes)):
                self._clients.append(self._spawn(index, mode))
            yield
        except BaseException:
            _kill(self._clients)
            self._clients = []
            raise

    def _images(self) -> list[str]:
        return [f"{self.load.name}.c{index}" for index in range(len(self.load.nodes))]

    def _spawn(self, index: int, mode: str) -> RunningClient:
        node = self.load.nodes[index]
        host = self.cluster.hosts[node]
        folder = host.directory / "load"
        name = f"{self.load.name}.c{index}.{mode}{self._runs}"
        host.push(PROGRAM, folder / PROGRAM.name)
        files = {part: folder / f"{name}.{part}" for part in ("log", "stop", "out")}
        for path in files.values():
            host.remove(path)
        config = json.dumps(self._config(index, mode, files))
        argv = ["python3", str(folder / PROGRAM.name), str(conf.conf_path(host)), self.cluster.client_name, config]
        process = host.spawn(argv, log=files["out"])
        return RunningClient(node, host, process, files["log"], files["stop"], files["out"])

    def _config(self, index: int, mode: str, files: Mapping[str, PurePosixPath]) -> dict[str, Any]:
        load = self.load
        final_s = round(_FINAL_S * self.cluster.patience)
        limits = {"rados_osd_op_timeout": str(final_s)} if mode == "verify" else {}
        return {
            **asdict(load),
            "mode": mode,
            "load": load.name,
            "client": index,
            "clients": len(load.nodes),
            "sizes": load.sizes[:1] if load.kind in ("blocks", "device") else load.sizes,
            "first_version": (self._runs << _RUN_BITS) + 1,
            "options": {**_OPTIONS, **load.options, **limits},
            "connect_s": _START_S,
            "drain_s": _DRAIN_S,
            "log": str(files["log"]),
            "stop": str(files["stop"]),
        }

    def _finish(self, timeout_s: float) -> None:
        """Wait for every client to end and record its operations, even if the wait or another client fails.

        Clients that do not end are killed; LabBroken names them.
        """
        clients, self._clients = self._clients, []
        endless = list(clients)
        with ExitStack() as after:
            for client in reversed(clients):
                after.callback(self._collect, client)
            after.callback(_kill, endless)
            limit_s = timeout_s * self.cluster.patience
            endless[:] = [client for client in clients if not client.process.wait(limit_s)]
        if endless:
            names = ", ".join(client.node for client in endless)
            raise LabBroken(f"the load on {names} did not end in time", "\n".join(map(self._words, endless)))

    def _collect(self, client: RunningClient) -> None:
        offset, error_s = self._clock(client.node)
        text = client.host.read(client.log).decode() if client.host.exists(client.log) else ""
        logged = parse_log(text, load=self.load.name, client=client.node)
        moved = [replace(_moved(operation, offset), clock_error_s=error_s, run=self._runs) for operation in logged]
        for data in operations.pack(moved):
            self.recorder.record(operations.EVENT, **data)
        if "\nended " not in text:
            self.recorder.record("load_cut_short", load=self.load.name, client=client.node, said=self._words(client))

    def _clock(self, node: str) -> tuple[float, float]:
        """(offset to add to the times of a client, its largest error, which is 0.0 for the kernel of this machine)."""
        before = clock.SYSTEM.monotonic()
        answer = self.cluster.client_on(node).call("clock")
        after = clock.SYSTEM.monotonic()
        began = self.recorder.history.began_s
        if answer["boot"] == boot_id():
            return -began, 0.0
        return (before + after) / 2 - answer["monotonic_s"] - began, (after - before) / 2

    def _wait_for_operation(self, client: RunningClient) -> None:
        def look() -> bytes:
            if not client.process.alive():
                raise LabBroken(f"the load on {client.node} ended before its first operation", self._words(client))
            return client.host.read(client.log) if client.host.exists(client.log) else b""

        clock.wait(
            look,
            lambda text: _END.search(text) is not None,
            what=f"the first operation of the load on {client.node}",
            timeout_s=_START_S * self.cluster.patience,
            timed_out=clock.not_reached_with(lambda text: text[-200:].decode()),
        )

    def _words(self, client: RunningClient) -> str:
        return client.host.read(client.output).decode(errors="replace")[-2000:] if client.host.up() else "(host down)"


def _kill(clients: Sequence[RunningClient]) -> None:
    for client in clients:
        with suppress(LabError):  # its host may be the trouble
            client.process.signal(signal.SIGKILL)


def parse_log(text: str, *, load: str, client: str) -> list[Operation]:
    """Parse the log of the program; times stay as logged. The outcome of an operation without an end is unknown.

    An incomplete last line is left out. SpecError if an end has no beginning.
    """
    ended: list[Operation] = []
    pending: dict[int, Operation] = {}
    for number, line in enumerate(text[: text.rfind("\n") + 1].splitlines(), 1):
        fields = line.split(" ", 5)
        if fields[1] == "i":
            worker, began, version = int(fields[0]), int(fields[2]) / 1e6, int(fields[5])
            act = Act(fields[3])
            pending[worker] = Operation(load, client, worker, act, int(fields[4]), version, began, None, Ended.UNKNOWN)
        elif fields[1] == "o":
            if int(fields[0]) not in pending:
                raise SpecError(f"line {number} of the log of {client} ends an operation that never began", line)
            ended.append(_ended(pending.pop(int(fields[0])), fields[2:]))
    return [*ended, *pending.values()]


def _ended(operation: Operation, fields: Sequence[str]) -> Operation:
    ended, outcome, version = int(fields[0]) / 1e6, Ended(fields[1]), int(fields[2])
    note = " ".join(fields[3:]).strip()
    return replace(operation, ended_s=ended, outcome=outcome, version=version, note=note)


def _moved(operation: Operation, offset_s: float) -> Operation:
    ended = None if operation.ended_s is None else operation.ended_s + offset_s
    return replace(operation, began_s=operation.began_s + offset_s, ended_s=ended)
