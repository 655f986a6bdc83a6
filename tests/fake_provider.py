"""A provider of hosts that exist only as dictionaries, with a cluster on them as the command would have left it."""

import base64
import json
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId, Runs, run_ids, write_json
from cephlab.lab.providers.base import Images, Lab
from cephlab.lab.providers.host import Facts
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec, Node
from cephlab.lab.spec.layout import build_spec
from cephlab.lab.spec.specfile import spec_to_json

FOREIGN = next(arch for arch in Arch if arch is not host_arch())
FSID = "5f0c6c1e-7f7b-4e0a-9a43-2f8f6c0f9b11"
SECRET = "AQDx-not-for-anyone=="


def ceph_status(health: str = "HEALTH_OK") -> dict[str, Any]:
    """What `ceph status --format json` says of a cluster of one monitor and three OSDs."""
    checks = {"OSD_DOWN": {"severity": "HEALTH_WARN", "summary": {"message": "1 osds down", "count": 1}}}
    return {
        "fsid": FSID,
        "health": {"status": health, "checks": {} if health == "HEALTH_OK" else checks},
        "quorum_names": ["n0"],
        "monmap": {"num_mons": 1},
        "mgrmap": {"available": True},
        "osdmap": {"epoch": 12, "num_osds": 3, "num_up_osds": 3, "num_in_osds": 3},
        "pgmap": {
            "num_pgs": 1,
            "pgs_by_state": [{"state_name": "active+clean", "count": 1}],
            "num_objects": 2,
            "bytes_used": 1 << 30,
            "bytes_total": 30 << 30,
        },
    }


@dataclass
class FakeProcess:
    """A daemon that lives or does not; nothing may be asked of it but that."""

    pid: int
    living: bool = True

    @property
    def ref(self) -> dict[str, Any]:
        return {"pid": self.pid}

    def alive(self) -> bool:
        return self.living

    def exit_code(self) -> int | None:
        return None if self.living else -9

    def signal(self, number: signal.Signals) -> None:
        raise AssertionError(f"nobody signals a daemon here: {number}")

    def wait(self, timeout_s: float) -> bool:
        raise AssertionError("nobody waits for a daemon here")


@dataclass
class FakeChannel:
    """The agent's side of the line protocol: it knows `ceph status` and refuses all else."""

    status: dict[str, Any]
    closed: bool = False

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        request = json.loads(line)
        assert (request["op"], request["target"], request["command"]["prefix"]) == ("command", "mon", "status")
        out = base64.b64encode(json.dumps(self.status).encode()).decode()
        return json.dumps({"ok": {"code": 0, "out": out, "status": ""}}).encode()

    def alive(self) -> bool:
        return not self.closed

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeHost:
    """Files in a dictionary. runs: what an interactive command turns into here; free_bytes: room on its disk."""

    name: str
    arch: Arch
    address: str
    processes: dict[int, FakeProcess]
    status: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    channels: list[FakeChannel] = field(default_factory=list)
    runs: Callable[[Sequence[str], Mapping[str, str], bool], Sequence[str]] | None = None
    free_bytes: int = 1 << 40

    @property
    def directory(self) -> PurePosixPath:
        return PurePosixPath("/lab") / self.name

    @property
    def root(self) -> PurePosixPath:
        return PurePosixPath("/")

    @property
    def emulated(self) -> bool:
        return self.arch is not host_arch()

    def run(self, argv: Sequence[str], **_options: Any) -> Result:
        if argv[0] == "df":
            return Result(tuple(argv), 0, f"Avail Mounted on\n{self.free_bytes} /\n".encode(), b"")
        assert argv[0] == "find", f"only crash records and room are looked for here: {argv}"
        assert argv[1].endswith("/crash")
        return Result(tuple(argv), 0, b"", b"")

    def spawn(self, argv: Sequence[str], **_options: Any) -> FakeProcess:
        raise AssertionError(f"nothing is started here: {argv}")

    def find(self, ref: Mapping[str, Any]) -> FakeProcess:
        return self.processes[int(ref["pid"])]

    def channel(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> FakeChannel:
        self.channels.append(FakeChannel(self.status))
        return self.channels[-1]

    def interactive(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, terminal: bool = True
    ) -> tuple[str, ...]:
        assert self.runs is not None, f"nobody runs {argv} here"
        return tuple(self.runs(argv, env or {}, terminal))

    def push(self, source: Path | bytes, target: PurePosixPath, *, mode: int = 0o644) -> None:
        self.files[str(target)] = source if isinstance(source, bytes) else source.read_bytes()

    def pull(self, source: PurePosixPath, target: Path) -> None:
        raise AssertionError(f"nobody pulls {source}")

    def read(self, source: PurePosixPath) -> bytes:
        return self.files[str(source)]

    def exists(self, path: PurePosixPath) -> bool:
        return str(path) in self.files

    def make_directory(self, path: PurePosixPath) -> None:
        raise AssertionError(f"nobody makes {path}")

    def remove(self, path: PurePosixPath) -> None:
        raise AssertionError(f"nobody removes {path}")

    def disk(self, name: str) -> PurePosixPath:
        raise AssertionError(f"nobody looks at {name}")

    def facts(self) -> Facts:
        raise AssertionError("nobody asks for facts")

    def up(self) -> bool:
        return True


@dataclass
class FakeLab:
    """Hosts that are there already."""

    hosts: dict[str, FakeHost]

    @property
    def state(self) -> dict[str, Any]:
        return {}

    def add_node(self, node: Node) -> FakeHost:
        raise AssertionError(f"nobody adds {node.name}")

    def kill_node(self, name: str) -> None:
        raise AssertionError(f"nobody kills {name}")

    def start_node(self, name: str) -> FakeHost:
        raise AssertionError(f"nobody starts {name}")

    def move_disk(self, disk: str, target: str) -> None:
        raise AssertionError(f"nobody moves {disk}")

    def close(self) -> None:
        raise AssertionError("the provider closes labs")


@dataclass
class FakeProvider:
    """holding: run ids that have something here. stuck: those that cannot be removed. broken: what launching raises."""

    name: str = "local"
    cost: int = 1
    can: frozenset[Capability] = frozenset({Capability.FOREIGN_ARCH, Capability.PULLED_IMAGE})
    reason: Unavailable | None = None
    broken: BaseException | None = None
    lab: FakeLab | None = None
    holding: set[str] = field(default_factory=set)
    stuck: set[str] = field(default_factory=set)
    launched: list[str] = field(default_factory=list)

    def capabilities(self) -> frozenset[Capability]:
        return self.can

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        return self.reason

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet) -> Iterator[Lab]:
        assert self.broken is not None, "nothing is launched here"
        self.launched.append(run.id)
        self.holding.add(run.id)
        raise self.broken
        yield

    def attach(self, run: Run, state: Mapping[str, Any]) -> Lab:
        if self.lab is None:
            raise LabBroken("the engine does not answer", "", "start it")
        return self.lab

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        if run_id in self.stuck:
            raise LabBroken("a process does not die", "pid 7", "look at the kernel's log")
        if run_id not in self.holding:
            return []
        self.holding.remove(run_id)
        return [f"process of {run_id}"]

    def leftovers(self, home: Home) -> frozenset[RunId]:
        return run_ids(self.holding)


def providers(*fakes: FakeProvider) -> dict[str, Callable[[], FakeProvider]]:
    """As the command wants them."""
    return {fake.name: (lambda fake=fake: fake) for fake in fakes}  # type: ignore[misc]


def kept_cluster(home: Home, name: str = "one", *, dead: Sequence[str] = (), health: str = "HEALTH_OK") -> FakeLab:
    """A mixed cluster with everything on disk that `up` leaves; returns the lab to give to a FakeProvider."""
    spec = build_spec([(host_arch(), 2), (FOREIGN, 1)])
    daemons = {"mon.n0": "n0", "mgr.n0": "n0", "osd.0": "n0", "osd.1": "n1", "osd.2": "n2"}
    processes = {pid: FakeProcess(pid, daemon not in dead) for pid, daemon in enumerate(daemons, 100)}
    status = ceph_status(health)
    hosts = {
        node.name: FakeHost(node.name, node.arch, f"127.77.1.{index}", processes, status)
        for index, node in enumerate(spec.nodes, 1)
    }
    for host in hosts.values():
        host.files[str(host.directory / "keyring")] = f"[client.admin]\n\tkey = {SECRET}\n".encode()
    for daemon, node in daemons.items():
        log = "\n".join(f"{daemon} line {number}" for number in range(1, 101))
        hosts[node].files[f"/lab/{node}/log/{daemon}.log"] = log.encode() + b"\n"
    run = Runs(home).create("local", name)
    state = {
        "schema": 1,
        "spec": spec_to_json(spec),
        "provider": "local",
        "lab": {},
        "fsid": FSID,
        "mon_addresses": {"n0": "127.77.1.1"},
        "options": {},
        "sizing": {"osd_memory_target": 1 << 30, "osd_cache_bytes": 1 << 26, "shards": 1, "reason": "made up"},
        "patience": 2.0,
        "shims": {},
        "daemons": [
            {
                "name": daemon,
                "node": node,
                "argv": [f"ceph-{daemon.partition('.')[0]}", "-f"],
                "preload": [],
                "env": {},
                "wanted": "running",
                "process": {"pid": pid},
                "disks": [],
            }
            for pid, (daemon, node) in enumerate(daemons.items(), 100)
        ],
    }
    write_json(run.state_file, state)
    run.claim(provider="local", kept=True)
    return FakeLab(hosts)


def abandoned_run(home: Home, name: str, provider: str = "local") -> Run:
    """A run whose owner is gone."""
    run = Runs(home).create(provider, name)
    gone = {"pid": 2**22 + 1, "birth": "of another boot", "kept": False, "provider": provider, "at": 0.0}
    write_json(run.directory / "owner.json", gone)
    return run


def trouble(what: str = "no room for a network") -> LabError:
    """Something that goes wrong while machines are being raised."""
    return LabBroken(what, "all subnets are taken", "run `cephlab prune`")
