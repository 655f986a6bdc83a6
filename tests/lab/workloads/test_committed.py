"""Transactions that are committed through a power cut: what is sent, what counts as answered, and what is missed."""

import hashlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pytest

from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken
from cephlab.lab.blockstack.mariadb import MariaDb
from cephlab.lab.history.history import History
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads.committed import Ledger, LedgerFaults, compare, statement, value_of


def rows(*numbers: int) -> list[list[str]]:
    return [[str(number), value_of(number)] for number in numbers]


def test_a_ledger_that_is_whole_has_every_acknowledged_transaction_and_maybe_more() -> None:
    assert compare(4, [0, 2], [rows(0, 1, 2, 3), rows(0, 1, 2, 3)]) == LedgerFaults((), (), (), unacknowledged=2)


@pytest.mark.parametrize(
    ("tables", "faults"),
    [
        ([rows(0), rows(0)], LedgerFaults((1, 2), (), (), 0)),
        ([rows(0, 2, 1), rows(0)], LedgerFaults((), (1, 2), (), 0)),
        ([rows(0), rows(0, 2, 1)], LedgerFaults((), (1, 2), (), 0)),
        ([rows(0, 1, 2, 4), rows(0, 1, 2, 4)], LedgerFaults((), (), (f"4: {value_of(4)}",) * 2, 1)),
        ([[["0", "x"], *rows(1, 2)], rows(0, 1, 2)], LedgerFaults((), (), ("0: x",), 0)),
    ],
)
def test_what_is_wrong_with_a_ledger_is_told_apart(tables: list[list[list[str]]], faults: LedgerFaults) -> None:
    assert compare(4, [2, 0, 1], tables) == faults


def test_a_transaction_is_one_line_that_writes_both_rows_and_answers_with_its_number() -> None:
    value = hashlib.sha256(b"7").hexdigest()
    assert statement(7) == (
        f"START TRANSACTION; INSERT INTO ledger_one VALUES (7, '{value}'); "
        f"INSERT INTO ledger_two VALUES (7, '{value}'); COMMIT; SELECT 7;"
    )


@dataclass
class FakeServer:
    """A database that remembers what it was asked, and answers with the rows of the first table or of the second."""

    tables: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)

    def listen_to(self, user: str) -> None:
        self.asked.append(f"listen to {user}")

    def query(self, sql: str) -> list[list[str]]:
        self.asked.append(sql)
        return self.tables.get(sql.rpartition(".")[2], [])

    def remote_argv(self, user: str) -> tuple[str, ...]:
        return ("mariadb", user)


@dataclass
class FakeClient:
    """A host and its client. last: what it ends with, after all answers; without it, it answers all until the end."""

    answers: list[bytes] = field(default_factory=list)
    last: Exception | None = None
    asked: list[bytes] = field(default_factory=list)
    begun: threading.Event = field(default_factory=threading.Event)
    closed: threading.Event = field(default_factory=threading.Event)
    ended: bool = False

    def channel(self, argv: Sequence[str]) -> "FakeClient":
        assert argv == ("mariadb", "ledger")
        return self

    def ask(self, line: bytes, *, timeout_s: float) -> bytes:
        assert (timeout_s, threading.current_thread().daemon) == (30.0, True)
        self.asked.append(line)
        if self.answers:
            return self.answers.pop(0)
        self.begun.set()
        if self.last is None:
            return line.rpartition(b"SELECT ")[2].rstrip(b";")
        self.closed.wait()
        time.sleep(0.02)
        self.ended = True
        raise self.last

    def close(self) -> None:
        self.closed.set()


def run(ledger: Ledger, *clients: FakeClient) -> None:
    with ledger.running():
        for client in clients:
            assert client.begun.wait(5)


def ledger_of(server: FakeServer, *clients: FakeClient) -> Ledger:
    return Ledger(cast("MariaDb", server), cast("Sequence[Host]", clients))


@pytest.mark.parametrize("last", [CommandFailed(["x"], 1, "", "", "n0"), CommandTimedOut(["x"], 1, "", "", "n0")])
def test_only_a_transaction_that_was_answered_counts(last: Exception) -> None:
    """What the server did not answer when it went away may be there or not; both clients end with the block."""
    client, other = FakeClient([b"0", b"ERROR 1062", b"2"], last), FakeClient([], last)
    ledger = ledger_of(FakeServer(), client)
    run(ledger, client)
    assert client.asked == [statement(number).encode() for number in range(4)]
    assert (ledger.acknowledged, ledger.begun, client.ended) == ([0, 2], 4, True)
    two = ledger_of(FakeServer(), other, FakeClient([], last))
    run(two, other)
    assert two.begun == 2


def test_a_client_that_is_answered_all_the_time_ends_with_the_block() -> None:
    client = FakeClient()
    ledger = ledger_of(FakeServer(), client)
    run(ledger, client)
    sent = len(client.asked)
    assert ledger.acknowledged == list(range(sent))
    time.sleep(0.02)
    assert len(client.asked) == ledger.begun == sent


def test_a_client_that_does_not_end_is_not_waited_for_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[float | None] = []
    monkeypatch.setattr(threading.Thread, "join", lambda _thread, timeout=None: joined.append(timeout))
    client = FakeClient([], CommandFailed(["x"], 1, "", "", "n0"))
    run(ledger_of(FakeServer(), client), client)
    assert joined == [None, 40.0], "the thread that closes the client, which has its own limits, and then the worker"


def test_clients_that_do_not_notice_the_end_are_ended_at_the_same_time() -> None:
    """A client that waits for a dead server is killed two seconds later, and four in turn would take eight."""
    both = threading.Barrier(2)

    class Deaf(FakeClient):
        def close(self) -> None:
            both.wait(5)
            super().close()

    clients = Deaf(), Deaf()
    run(ledger_of(FakeServer(), *clients), *clients)
    assert all(client.closed.is_set() for client in clients)


def test_a_client_that_cannot_start_leaves_none_behind() -> None:
    class Refuses(FakeClient):
        def channel(self, argv: Sequence[str]) -> FakeClient:
            raise LabBroken("the node is down")

    first = FakeClient()
    ledger = ledger_of(FakeServer(), first, Refuses())
    with pytest.raises(LabBroken, match="the node is down"), ledger.running():
        pytest.fail("it began")
    assert (first.closed.is_set(), first.asked) == (True, [])


def test_a_row_of_a_transaction_is_in_each_of_two_tables() -> None:
    server = FakeServer()
    ledger_of(server).prepare()
    columns = "(number INT PRIMARY KEY, value CHAR(64) NOT NULL) ENGINE=InnoDB"
    tables = [f"CREATE TABLE sbtest.{name} {columns}" for name in ("ledger_one", "ledger_two")]
    assert server.asked == ["listen to ledger", *tables]


def test_what_the_server_has_afterwards_is_compared_and_recorded() -> None:
    server = FakeServer({"ledger_one": rows(0, 1, 9), "ledger_two": rows(0)})
    ledger = ledger_of(server)
    ledger.begun, ledger.acknowledged = 9, [1, 2, 3, 4, 5, 6, 7]
    faults = ledger.read_back()
    assert server.asked == [f"SELECT number, value FROM sbtest.{name}" for name in ("ledger_one", "ledger_two")]
    assert faults == compare(9, ledger.acknowledged, [rows(0, 1, 9), rows(0)])
    history = History()
    ledger.note(history.recorder("a.b"), faults)
    assert [(event.kind, event.data) for event in history.events()] == [
        ("ledger", {"begun": 9, "acknowledged": 7, "unacknowledged": 1}),
        observed("committed transactions that are gone", [2, 3, 4, 5, 6]),
        observed("transactions that are half there", [1, 9]),
        observed("rows that nobody wrote", [f"9: {value_of(9)}"]),
    ]


def observed(what: str, got: list[object]) -> tuple[str, dict[str, object]]:
    return "observation", {"what": what, "got": got, "wanted": [], "of": 7}
