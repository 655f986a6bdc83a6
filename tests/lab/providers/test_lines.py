"""A line server on a host: an answer that comes too late is never taken for that of the next question."""

import queue
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from cephlab.lab.base.errors import CommandFailed, CommandTimedOut
from cephlab.lab.providers.dialogue import LineServer, Tail


@dataclass
class Program:
    """Answers when the test says so, and once more as it is killed. calls: what was asked of its streams."""

    ends_by_itself: bool = True
    sent: list[bytes] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    says: queue.SimpleQueue[bytes] = field(default_factory=queue.SimpleQueue)

    def output(self) -> Iterator[bytes]:
        while data := self.says.get():
            yield data

    def send(self, data: bytes) -> bool:
        self.sent.append(data)
        return True

    def end_input(self) -> None:
        if self.ends_by_itself:
            self.says.put(b"")

    def kill(self) -> None:
        self.calls.append("kill")
        self.says.put(b"late answer\n")
        self.says.put(b"")

    def errors(self) -> str:
        return "its last words"

    def status(self) -> int:
        return 137

    def close(self) -> None:
        self.calls.append("close")


class Interrupting(queue.SimpleQueue[bytes | None]):
    """Where answers are waited for: an interrupt comes meanwhile."""

    def get(self, block: bool = True, timeout: float | None = None) -> bytes | None:
        raise KeyboardInterrupt


@pytest.fixture
def program() -> Program:
    return Program()


@pytest.fixture
def server(program: Program) -> LineServer:
    return LineServer(program, ["python3", "agent.py"], "n0")


def test_answers_come_in_step(server: LineServer, program: Program) -> None:
    for number in range(3):
        program.says.put(b"answer %d\n" % number)
        assert server.ask(b"question", timeout_s=5) == b"answer %d" % number
    server.close()
    assert not server.alive()
    assert program.calls == ["close"]


def test_an_answer_in_pieces_is_one_and_two_in_a_piece_are_two(server: LineServer, program: Program) -> None:
    for piece in (b"on", b"e\ntwo\nth", b"ree\n"):
        program.says.put(piece)
    assert [server.ask(b"question", timeout_s=5) for _ in range(3)] == [b"one", b"two", b"three"]
    server.close()


def test_after_a_question_that_took_too_long_no_other_is_answered(server: LineServer, program: Program) -> None:
    with pytest.raises(CommandTimedOut, match="its last words"):
        server.ask(b"one", timeout_s=0.01)
    assert not server.alive()
    with pytest.raises(CommandFailed, match="status 137"):
        server.ask(b"two", timeout_s=5)
    assert program.sent == [b"one\n"]


def test_after_an_interrupt_no_other_question_is_answered(server: LineServer, program: Program) -> None:
    answers, server._lines = server._lines, Interrupting()
    with pytest.raises(KeyboardInterrupt):
        server.ask(b"one", timeout_s=5)
    server._lines = answers
    answers.put(b"answer to one")
    assert not server.alive()
    with pytest.raises(CommandFailed, match="status 137"):
        server.ask(b"two", timeout_s=5)
    assert program.sent == [b"one\n"]


def test_a_program_that_ends_is_told_from_one_that_is_slow(server: LineServer, program: Program) -> None:
    program.says.put(b"")
    with pytest.raises(CommandFailed, match="its last words"):
        server.ask(b"one", timeout_s=5)
    assert program.calls == []


def test_a_program_that_outlives_its_input_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.providers.dialogue.CLOSE_S", 0.01)
    stubborn = Program(ends_by_itself=False)
    server = LineServer(stubborn, ["sleep"], "n0")
    server.close()
    assert stubborn.calls == ["kill", "close"]


def test_the_last_of_what_was_written_to_errors_is_kept() -> None:
    tail = Tail()
    tail.add(b"first ")
    tail.add(b"x" * (1 << 16) + b"last")
    assert tail.text().endswith("xlast")
    assert "first" not in tail.text()
    assert len(tail.text()) == 1 << 16
