"""What the lxd provider has beyond the contract: limits, links that are cut, disks plugged while a node runs."""

import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from signal import SIGKILL

import pytest

from cephlab.lab.base import clock, process
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.base import CutsLinks, Images, Provider
from cephlab.lab.spec.clusterspec import MIB, Capability, Disk
from tests.contract import probes
from tests.contract.conftest import Place, has, node, spec_of
from tests.contract.probes import python, scratch
from tests.contract.test_container import EAT, IOPS, WRITES, bounded, direct_writes_s, machine

pytestmark = [pytest.mark.real, pytest.mark.parametrize("provider", ["lxd"], indirect=True)]

Launch = Callable[..., AbstractContextManager[Place]]

BURN = "import time\nend = time.monotonic() + 1\nwhile time.monotonic() < end: pass\nprint(time.process_time())"


def test_memory_and_cpu_stay_within_the_spec(launch: Launch) -> None:
    with launch(node("n0"), machine("n1", cores=0.25, memory_bytes=96 * MIB)) as place:
        free, tight = place.lab.hosts["n0"], place.lab.hosts["n1"]
        assert tight.facts().memory_bytes == 96 * MIB
        assert tight.facts().cores == 0.25
        assert free.run(python(EAT, "200")).code == 0
        assert tight.run(python(EAT, "20")).code == 0
        assert tight.run(python(EAT, "200"), check=False).code == 128 + SIGKILL
        assert float(tight.run(python(BURN)).stdout) < 0.4


def test_one_limited_disk_has_its_rate(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.DISK_LIMIT)
    with launch(machine("n0", bounded("slow")), machine("n1", Disk("fast", 16 * MIB))) as place:
        assert direct_writes_s(place.lab.hosts["n0"], "slow") == pytest.approx(WRITES / IOPS, rel=0.1)
        assert direct_writes_s(place.lab.hosts["n1"], "fast") < WRITES / IOPS / 2


def test_a_disk_is_plugged_into_a_node_whose_daemons_go_on(launch: Launch) -> None:
    with launch(node("n0", None, "d0"), node("n1")) as place:
        source, target = place.lab.hosts["n0"], place.lab.hosts["n1"]
        daemons = [host.spawn(("sleep", "300"), log=scratch(host)) for host in (source, target)]
        path = source.disk("d0")
        place.lab.move_disk("d0", "n1")
        assert target.exists(target.disk("d0"))
        assert not source.exists(path)
        assert all(daemon.alive() for daemon in daemons)


def test_a_cut_link_loses_packets_one_way_until_it_is_mended(launch: Launch, provider: Provider) -> None:
    has(provider, Capability.CUT_LINKS)
    with launch(node("n0"), node("n1")) as place:
        lab = place.lab
        assert isinstance(lab, CutsLinks)
        server, client = lab.hosts["n0"], lab.hosts["n1"]
        log = scratch(server)
        daemon = server.spawn(python(probes.LISTEN, "0.0.0.0", "7412"), log=log)
        clock.wait(
            lambda: server.exists(log) and server.read(log), lambda text: text == b"ready\n", what="x", timeout_s=15
        )
        connect = python(probes.CONNECT, server.address, "7412")
        assert client.run(connect).stdout == "hello\n"
        lab.cut("n1", "n0")
        assert client.run(connect, check=False).code != 0
        assert lab.cut_packets() > 0
        lab.mend_links()
        assert client.run(connect).stdout == "hello\n"
        daemon.signal(signal.SIGKILL)


def test_a_name_that_is_taken_is_refused_and_left_alone(
    launch: Launch, provider: Provider, images: Images, tmp_path: Path
) -> None:
    with launch(node("n0")) as place:
        elsewhere = Home(tmp_path)
        run = Runs(elsewhere).create(provider.name, place.run.id)
        with pytest.raises(SpecError, match=place.run.id), provider.launch(spec_of(node("n0")), images, run):
            pytest.fail("two runs of one name")
        assert provider.prune(elsewhere, run.id) == []
        assert place.native.run(("true",)).code == 0


def test_a_terminal_is_on_this_machine_whatever_remote_its_user_prefers(
    launch: Launch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config.yml").write_text(
        "default-remote: far\nremotes:\n  far: {addr: 'https://far.invalid', protocol: simplestreams, public: true}\n"
    )
    monkeypatch.setenv("LXD_CONF", str(tmp_path))
    with launch(node("n0")) as place:
        assert process.run(place.native.interactive(("hostname",), terminal=False)).stdout.strip() == "n0"
