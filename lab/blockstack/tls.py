"""TLS for NVMe over TCP on a node: the daemon that does handshakes for its kernel, and keys in the kernel's keyring."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import PurePosixPath
from signal import SIGTERM

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.redaction import remember
from cephlab.lab.blockstack.nvmeof import Volume
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.providers.host import Host

ROLE_SET = "tls"
"""The role set of images that have the programs."""
DAEMON = PurePosixPath("/usr/sbin/tlshd")
CONFIG = b"[debug]\nloglevel=1\n[authenticate]\nkeyrings=.nvme\n"
NETLINK = PurePosixPath("/proc/net/netlink")
GENERIC = "16"
"""NETLINK_GENERIC of linux/netlink.h: the kernel requests handshakes over it."""
PID_BITS = 22
_STARTED_S = 30.0
_ANSWER_S = 60.0


@dataclass(frozen=True)
class TlsNode:
    """A node whose kernel uses TLS."""

    cluster: Cluster
    node: str

    @property
    def host(self) -> Host:
        return self.cluster.hosts[self.node]

    @property
    def log(self) -> PurePosixPath:
        """The output of the daemon."""
        return self.host.directory / "tlshd.log"

    @contextmanager
    def shaking_hands(self) -> Iterator[None]:
        """Do handshakes for the kernel during a block. Unavailable if the image does not have the daemon."""
        if not self.host.exists(DAEMON):
            what = f"{DAEMON.name} is not in the image of {self.node}"
            raise Unavailable(what, "Debian has ktls-utils from 13 on", "use --release reef or tentacle")
        config = self.log.with_suffix(".conf")
        self.host.push(CONFIG, config)
        self.host.run(["modprobe", "tls"])
        process = self.host.spawn([str(DAEMON), "-s", "-c", str(config)], log=self.log)
        try:
            clock.wait(
                lambda: listens(self.host.read(NETLINK).decode(), process.ref["pid"]),
                bool,
                what=f"the start of {DAEMON.name} on {self.node}",
                timeout_s=_STARTED_S * self.cluster.patience,
                timed_out=clock.too_slow,
            )
            yield
        finally:
            process.signal(SIGTERM)

    def give(self, key: str, volume: Volume, host_nqn: str) -> None:
        """Give its kernel the key for a host and a volume; it replaces an earlier key for the two."""
        remember(key)
        who = [f"--hostnqn={host_nqn}", f"--subsysnqn={volume.nqn}"]
        argv = ["nvme", "check-tls-key", *who, f"--keydata={key}", "--identity=0", "--insert"]
        result = self.host.run(argv, timeout_s=_ANSWER_S * self.cluster.patience, check=False)
        if result.code:  # the error of a checked call would contain the key
            raise LabBroken(f"nvme on {self.node} does not accept the TLS key", result.stderr.replace(key, "KEY"))


def listens(netlink: str, pid: int) -> bool:
    """Whether a process has a socket for handshake requests of the kernel. netlink: content of NETLINK.

    libnl adds a number above PID_BITS to the process ID.
    """
    rows = [line.split() for line in netlink.splitlines()[1:]]
    joined = [int(row[2]) for row in rows if row[1] == GENERIC and int(row[3], 16)]
    return pid in [port % (1 << PID_BITS) for port in joined]
