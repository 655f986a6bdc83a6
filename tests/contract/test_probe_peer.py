"""`cephlab probe --peer` against a machine with a network of its own: what is written down is that network's."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from shutil import which

import pytest

from cephlab.lab.base import clock, probe
from cephlab.lab.base.errors import LabError

pytestmark = pytest.mark.real

NAMESPACE = "cephlab-peer"
HERE, THERE = "10.99.8.1", "10.99.8.2"
MTU = 1400
SECONDS = 1.0


def command(*argv: str, check: bool = True) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert not check or done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"


@pytest.fixture(scope="module")
def peer() -> Iterator[str]:
    """A network namespace that runs `iperf3 -s`, behind a line with an MTU of its own."""
    missing = [name for name in ("ip", "iperf3") if which(name) is None]
    if os.geteuid() != 0 or missing:
        pytest.skip(f"a peer is made by root with ip and iperf3 (missing: {', '.join(missing) or 'root'})")
    with ExitStack() as undo:
        command("ip", "netns", "add", NAMESPACE)
        undo.callback(command, "ip", "netns", "delete", NAMESPACE)
        command("ip", "link", "add", "clabp0", "type", "veth", "peer", "name", "clabp1")
        undo.callback(command, "ip", "link", "delete", "clabp0", check=False)
        command("ip", "link", "set", "clabp1", "netns", NAMESPACE)
        command("ip", "address", "add", f"{HERE}/24", "dev", "clabp0")
        command("ip", "link", "set", "clabp0", "up", "mtu", str(MTU))
        for words in (f"address add {THERE}/24 dev clabp1", f"link set clabp1 up mtu {MTU}"):
            command("ip", "-n", NAMESPACE, *words.split())
        server = subprocess.Popen(
            ("ip", "netns", "exec", NAMESPACE, "iperf3", "-s"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        undo.callback(server.wait, 10)
        undo.callback(server.kill)
        clock.wait(answers, bool, what="iperf3 of the peer", timeout_s=30, interval_s=0.1)
        yield THERE


def answers() -> bool:
    try:
        return probe.line_to(THERE, SECONDS).bytes_s > 0
    except LabError:
        return False


def test_rate_round_trip_and_mtu_are_those_of_the_line(peer: str) -> None:
    line = probe.line_to(peer, SECONDS)
    assert line.bytes_s > 1e6
    # No cable is in it: more than a tenth of a second would be something else's time.
    assert 0 < line.rtt_s < 0.1
    assert line.mtu_bytes == MTU


def test_a_peer_may_be_asked_again(peer: str) -> None:
    first, second = (probe.line_to(peer, SECONDS) for _ in range(2))
    assert first.mtu_bytes == second.mtu_bytes
