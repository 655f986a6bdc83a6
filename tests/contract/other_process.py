"""A second cephlab process for the contract: it launches and waits to be killed, or finds a daemon and ends it."""

import json
import signal
import sys
from pathlib import Path

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Run, RunId, Runs
from cephlab.lab.images.image import Image
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import MIB, ClusterSpec, Disk, Node


def launch(order: dict[str, str]) -> None:
    """Raise a node with a daemon, say where it is, then wait."""
    home = Home(Path(order["home"]))
    arch = host_arch()
    image = Image(order["release"], arch, order["key"], Path(order["root"]))
    node = Node("n0", arch, (Disk("d0", MIB),), mon=True, mgr=True)
    run = Runs(home).create(order["provider"])
    with PROVIDERS[order["provider"]]().launch(ClusterSpec((node,)), {arch: image}, run) as lab:
        host = lab.hosts["n0"]
        daemon = host.spawn(("sleep", order["mark"]), log=host.directory / "log")
        print(json.dumps({"run": run.id, "pid": daemon.pid}), flush=True)
        sys.stdin.read()


def find(order: dict[str, str]) -> None:
    """Find a daemon of a lab that another process raised, and end it."""
    run = Run(RunId(order["run"]), Path(order["directory"]))
    lab = PROVIDERS[order["provider"]]().attach(run, json.loads(order["state"]))
    daemon = lab.hosts[order["node"]].find(json.loads(order["ref"]))
    before = daemon.alive()
    daemon.signal(signal.SIGTERM)
    print(json.dumps({"before": before, "ended": daemon.wait(10)}))


if __name__ == "__main__":
    {"launch": launch, "find": find}[sys.argv[1]](json.loads(sys.argv[2]))
