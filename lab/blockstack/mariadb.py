"""A MariaDB server on a host, with its tables on a mounted file system."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from signal import SIGKILL, SIGTERM

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.host import Host, HostProcess
from cephlab.lab.spec.clusterspec import MIB

DATABASE = "sbtest"
_INSTALL_S = 180.0
_START_S = 120.0
_STOP_S = 120.0
_SQL_S = 60.0


class DatabaseDown(LabBroken):
    """The server ended or never answered; `detail` has its log."""


@dataclass(frozen=True)
class Settings:
    """Sizes of InnoDB's buffer pool and log. Each commit is flushed separately, without the page cache."""

    buffer_pool_bytes: int = 32 * MIB
    log_bytes: int = 16 * MIB
    max_connections: int = 300

    @property
    def sizes(self) -> Mapping[str, str]:
        """Options of every start of a server: the sizes of its caches and of its log.

        MariaDB 11.8.9 reserves addresses for the largest pool that it may have. The default is 8 TiB, more than a
        guest of User-Mode Linux has. Older servers do not know the option, and ignore it because it is `loose`.

        The caches of MyISAM and Aria, whose tables no load uses, are 128 MiB each by default. A guest of User-Mode
        Linux 6.1 took 1.5 of the 4 s of a start to fill their lists.
        """
        size = str(self.buffer_pool_bytes)
        pool = {"innodb-buffer-pool-size": size, "loose-innodb-buffer-pool-size-max": size}
        others = {"key-buffer-size": str(MIB), "aria-pagecache-buffer-size": str(8 * MIB)}
        return {**pool, **others, "innodb-log-file-size": str(self.log_bytes)}


@dataclass
class MariaDb:
    """folder: the mounted file system; template: where the empty system tables are kept for the next server.

    log_began: size of the log in bytes at the last start.
    """

    host: Host
    folder: PurePosixPath
    template: PurePosixPath
    settings: Settings = Settings()
    process: HostProcess | None = field(default=None, repr=False)
    log_began: int = 0

    @property
    def data(self) -> PurePosixPath:
        return self.folder / "data"

    @property
    def socket(self) -> PurePosixPath:
        return PurePosixPath("/run/cephlab-mariadb.sock")

    @property
    def log(self) -> PurePosixPath:
        return self.host.directory / "log/mariadb.log"

    def install(self) -> None:
        """Copy the system tables of an empty server into the folder; they are created once for each host."""
        if not self.host.exists(self.template / "done"):
            self.host.remove(self.template)
            argv = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={self.template}"]
            argv += ["--auth-root-authentication-method=normal", "--skip-test-db", *_words(self.settings.sizes)]
            self.host.run(argv, timeout_s=_INSTALL_S)
            self.host.run(["touch", str(self.template / "done")])
        self.host.run(["cp", "-a", str(self.template), str(self.data)], timeout_s=_INSTALL_S)
        # Without it a power cut could lose the copy, which would look like a loss in the layers below.
        self.host.run(["sync"], timeout_s=_INSTALL_S)

    def options(self) -> Mapping[str, str]:
        """The server's options by name."""
        return {
            "user": "root",
            "datadir": str(self.data),
            "socket": str(self.socket),
            "pid-file": "/run/cephlab-mariadb.pid",
            "bind-address": self.host.address,
            "skip-name-resolve": "1",
            "ssl": "0",
            "max-connections": str(self.settings.max_connections),
            "performance-schema": "0",
            **self.settings.sizes,
            # For the log too, so that an acknowledged commit has passed every layer below.
            "innodb-flush-method": "O_DIRECT",
            "innodb-flush-log-at-trx-commit": "1",
            "innodb-doublewrite": "1",
        }

    def start(self) -> None:
        """Start it and wait until it answers; DatabaseDown if it ends instead, for example because it finds damage."""
        self.log_began = len(self.host.read(self.log)) if self.host.exists(self.log) else 0
        argv = ["mariadbd", "--no-defaults", *_words(self.options())]
        started = self.host.spawn(argv, log=self.log)
        self.process = started

        def answers() -> bool:
            if not started.alive():
                raise DatabaseDown("MariaDB ended while it was starting", self.words())
            # A client takes as much CPU as a tenth of the start, so none is started before there is a socket.
            if not self.host.exists(self.socket):
                return False
            return self.host.run(["mariadb-admin", *self._where(), "ping"], check=False).code == 0

        def too_late(what: str, seconds: float, _last: bool) -> DatabaseDown:
            return DatabaseDown(f"{what} did not answer within {seconds:g} s", self.words())

        clock.wait(answers, bool, what="MariaDB", timeout_s=_START_S, interval_s=0.2, timed_out=too_late)

    def words(self) -> str:
        """The log since the last start."""
        return self.host.read(self.log)[self.log_began :].decode(errors="replace")

    def stop(self) -> None:
        """Shut it down as an administrator would: afterwards everything in memory is on the device."""
        if self.process is None:
            return
        self.process.signal(SIGTERM)
        if not self.process.wait(_STOP_S):
            raise DatabaseDown("MariaDB does not stop", self.words())
        self.process = None

    def kill(self) -> None:
        """SIGKILL, if it runs."""
        if self.process is not None:
            self.process.signal(SIGKILL)
            self.process.wait(_STOP_S)
        self.process = None

    def query(self, sql: str, timeout_s: float = _SQL_S) -> list[list[str]]:
        """Rows of the answer, as text; CommandFailed with the server's error if it refuses."""
        argv = ["mariadb", *self._where(), "--batch", "--skip-column-names", "--execute", sql]
        out = self.host.run(argv, timeout_s=timeout_s).stdout
        return [line.split("\t") for line in out.splitlines()]

    def _where(self) -> tuple[str, ...]:
        return ("--no-defaults", "--skip-ssl", f"--socket={self.socket}", "--user=root")

    def listen_to(self, user: str) -> None:
        """Give a user on other hosts of the lab all rights on the database. There is no password that could leak."""
        self.query(f"CREATE DATABASE IF NOT EXISTS {DATABASE}")
        self.query(f"CREATE USER IF NOT EXISTS {user}@'%'")
        self.query(f"GRANT ALL ON {DATABASE}.* TO {user}@'%'")

    def remote_argv(self, user: str) -> tuple[str, ...]:
        """Command line of a client on another host. It prints the result of each line of SQL at once."""
        where = ("--no-defaults", f"--host={self.host.address}", f"--user={user}", "--skip-ssl")
        return ("mariadb", *where, "--batch", "--skip-column-names", "--unbuffered", DATABASE)


def _words(options: Mapping[str, str]) -> list[str]:
    return [f"--{name}={value}" for name, value in options.items()]
