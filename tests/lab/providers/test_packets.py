"""Rules of the packet filter: only those with the mark are counted and removed."""

from collections.abc import Sequence
from typing import Any

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import CleanupFailed, CommandFailed
from cephlab.lab.base.process import Result
from cephlab.lab.providers import packets
from cephlab.lab.providers.packets import PacketFilter

LISTED = """-P INPUT ACCEPT -c 10 1000
-A INPUT -s 127.77.5.1/32 -d 127.77.5.2/32 -m comment --comment "cephlab:ab:r1" -c 7 420 -j DROP
-A INPUT -s 127.77.5.2/32 -d 127.77.5.1/32 -m comment --comment "cephlab:ab:r1" -c 5 300 -j DROP
-A INPUT -s 127.77.6.2/32 -d 127.77.6.1/32 -m comment --comment "cephlab:ab:r10" -c 9 300 -j DROP
-A INPUT -p tcp -m tcp --dport 22 -c 90 9000 -j DROP
"""


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    made: list[tuple[str, ...]] = []

    def run(argv: Sequence[str], **_: Any) -> Result:
        made.append(tuple(argv))
        if "refuse" in made[0] and "-D" in argv and argv[argv.index("-s") + 1] == "127.77.5.1/32":
            raise CommandFailed(argv, 1, "", "refused", "this machine")
        return Result(tuple(argv), 0, LISTED.encode() if "-S" in argv else b"", b"")

    monkeypatch.setattr(process, "run", run)
    return made


def test_a_rule_names_both_ends_and_the_mark(calls: list[tuple[str, ...]]) -> None:
    PacketFilter("cephlab:ab:r1", inside=42).drop("10.0.0.1", "10.0.0.2")
    text = " ".join(calls[0])
    assert text.startswith("nsenter --net --target 42 -- iptables -w")
    assert text.endswith("-I INPUT 1 -s 10.0.0.1 -d 10.0.0.2 -m comment --comment cephlab:ab:r1 -j DROP")


def test_only_rules_with_the_mark_count(calls: list[tuple[str, ...]]) -> None:
    assert PacketFilter("cephlab:ab:r1").dropped() == 12
    assert PacketFilter("cephlab:ab:r10").dropped() == 9
    assert PacketFilter("cephlab:ab").dropped() == 0


def test_only_rules_with_the_mark_go(calls: list[tuple[str, ...]]) -> None:
    assert PacketFilter("cephlab:ab:r10").clear() == 1
    deleted = [call for call in calls if "-D" in call]
    assert len(deleted) == 1
    assert "127.77.6.2/32" in deleted[0]
    assert "cephlab:ab:r10" in deleted[0]


def test_clearing_goes_on_after_an_error(calls: list[tuple[str, ...]]) -> None:
    calls.append(("refuse",))
    with pytest.raises(CleanupFailed):
        PacketFilter("cephlab:ab:r1").clear()
    assert len([call for call in calls if "-D" in call]) == 2


def test_marks_are_found_by_their_beginning(calls: list[tuple[str, ...]]) -> None:
    assert packets.marked("cephlab:ab:") == {"cephlab:ab:r1": 2, "cephlab:ab:r10": 1}
    assert packets.marked("cephlab:cd:") == {}


def test_what_is_missing_is_named() -> None:
    reason = packets.obstacle(("no-such-program-here",))
    assert reason == "no-such-program-here is not installed"
