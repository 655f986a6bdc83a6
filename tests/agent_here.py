"""A host whose agent is the real one, run here as an ordinary process, with this machine's own files and kernel."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cephlab.lab.providers.agent.host import AgentAccess
from cephlab.lab.providers.agent.wire import AGENT, READY
from cephlab.lab.providers.guest import network
from cephlab.lab.providers.guest.host import Endpoint, GuestHost
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Node


@contextmanager
def agent_here(folder: Path) -> Iterator[GuestHost]:
    """The agent on a port of the loopback interface."""
    agent = subprocess.Popen(
        [sys.executable, "-I", "-S", str(AGENT), "127.0.0.1", "0"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    keeper = subprocess.Popen(
        [sys.executable, "-I", str(network.KEEPER), str(folder), "keeper"], stdout=subprocess.PIPE, text=True
    )
    with agent, keeper:
        assert keeper.stdout is not None
        assert keeper.stdout.readline() == "ready\n"
        assert agent.stdout is not None
        line = agent.stdout.readline()
        assert READY in line.encode()
        port = int(line.split()[-1])
        kept = network.Network(folder, "10.78.0.0/24", {})
        made = GuestHost(
            Node("n0", host_arch()),
            0,
            "127.0.0.1",
            emulated=False,
            access=AgentAccess(lambda: kept.connect("127.0.0.1", port), lambda: agent.poll() is None),
            endpoint=Endpoint(folder, "127.0.0.1", port),
        )
        yield made
        made.hang_up()
        agent.kill()
        keeper.kill()
