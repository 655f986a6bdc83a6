"""Commits database transactions through a power cut of the server, and checks afterwards which of them survived.

Each transaction writes one row into two tables. Half a transaction is as wrong as a lost one.
"""

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from cephlab.lab.base.errors import CommandFailed, CommandTimedOut
from cephlab.lab.base.workers import each_at_once
from cephlab.lab.blockstack.mariadb import DATABASE, MariaDb
from cephlab.lab.history.history import Recorder
from cephlab.lab.providers.host import Channel, Host

USER = "ledger"
TABLES = ("ledger_one", "ledger_two")
_ANSWER_S = 30.0
_JOIN_S = 40.0
_SHOWN = 5


def value_of(number: int) -> str:
    """The value that a transaction writes. It is derived from its number, so that a made-up row is noticed."""
    return hashlib.sha256(str(number).encode()).hexdigest()


def statement(number: int) -> str:
    """One transaction in one line. It answers with its number once it is committed."""
    rows = f"VALUES ({number}, '{value_of(number)}')"
    inserts = "; ".join(f"INSERT INTO {table} {rows}" for table in TABLES)
    return f"START TRANSACTION; {inserts}; COMMIT; SELECT {number};"


@dataclass(frozen=True)
class LedgerFaults:
    """What is wrong with a ledger that was read back, by transaction number."""

    lost: tuple[int, ...]
    half: tuple[int, ...]
    made_up: tuple[str, ...]
    unacknowledged: int


def compare(begun: int, acknowledged: Sequence[int], tables: Sequence[Sequence[Sequence[str]]]) -> LedgerFaults:
    """Compare acknowledgements with the tables. begun: transactions sent; tables: rows (number, value) of each."""
    committed = [{int(number): value for number, value in rows} for rows in tables]
    everywhere = set(committed[0]).intersection(*committed[1:])
    anywhere = set(committed[0]).union(*committed[1:])
    made_up = [
        f"{number}: {value}"
        for rows in committed
        for number, value in rows.items()
        if number >= begun or value != value_of(number)
    ]
    return LedgerFaults(
        lost=tuple(sorted(set(acknowledged) - anywhere)),
        half=tuple(sorted(anywhere - everywhere)),
        made_up=tuple(made_up),
        unacknowledged=len(everywhere - set(acknowledged)),
    )


@dataclass
class Ledger:
    """Commits transactions and remembers them. clients: hosts that keep their power, with one worker per entry."""

    database: MariaDb
    clients: Sequence[Host]
    acknowledged: list[int] = field(default_factory=list)
    begun: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)

    def prepare(self) -> None:
        self.database.listen_to(USER)
        columns = "(number INT PRIMARY KEY, value CHAR(64) NOT NULL) ENGINE=InnoDB"
        for table in TABLES:
            self.database.query(f"CREATE TABLE {DATABASE}.{table} {columns}")

    @contextmanager
    def running(self) -> Iterator[None]:
        """Commit from every client until the block ends; a client ends silently when the server goes away."""
        channels: list[Channel] = []
        workers: list[threading.Thread] = []
        with ExitStack() as at_end:
            # A client that waits for a dead server does not notice the end of its input, and is killed 2 s later.
            at_end.callback(lambda: each_at_once([channel.close for channel in channels]))
            channels.extend(host.channel(self.database.remote_argv(USER)) for host in self.clients)
            at_end.callback(self._stop.set)
            for channel in channels:
                workers.append(threading.Thread(target=self._work, args=(channel,), daemon=True))
                workers[-1].start()
            try:
                yield
            finally:
                at_end.close()
                for worker in workers:
                    worker.join(timeout=_JOIN_S)

    def _work(self, channel: Channel) -> None:
        while not self._stop.is_set():
            number = self._next()
            try:
                answer = channel.ask(statement(number).encode(), timeout_s=_ANSWER_S)
            except (CommandFailed, CommandTimedOut):
                return  # the server is gone: it is unknown whether this transaction was committed
            if answer == str(number).encode():
                with self._lock:
                    self.acknowledged.append(number)

    def _next(self) -> int:
        with self._lock:
            self.begun += 1
            return self.begun - 1

    def read_back(self) -> LedgerFaults:
        """What the server has now; CommandFailed if it cannot read its own tables."""
        tables = [self.database.query(f"SELECT number, value FROM {DATABASE}.{table}") for table in TABLES]
        return compare(self.begun, self.acknowledged, tables)

    def note(self, recorder: Recorder, outcome: LedgerFaults) -> None:
        """Record what must hold after a power cut."""
        recorder.record(
            "ledger", begun=self.begun, acknowledged=len(self.acknowledged), unacknowledged=outcome.unacknowledged
        )
        wrong = {
            "committed transactions that are gone": outcome.lost,
            "transactions that are half there": outcome.half,
            "rows that nobody wrote": outcome.made_up,
        }
        for what, numbers in wrong.items():
            recorder.observe(what, got=list(numbers[:_SHOWN]), wanted=[], of=len(self.acknowledged))
