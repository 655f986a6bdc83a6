"""What a lab takes and this machine has not is named all at once, with one command, before anything starts."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from cephlab.cli.main import app
from cephlab.cli.world import World
from cephlab.fixtures.raising import LabRaiser
from cephlab.lab.base.errors import LabBroken, NotInstalled, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.cluster.preflight import require_installed
from cephlab.lab.images.tools import require_all
from cephlab.lab.providers.guest.provider import qemu
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.spec.layout import build_spec
from tests.fake_image_tools import FOREIGN, FakeTools, make_store
from tests.fake_provider import FakeProvider, providers
from tests.fixtures.conftest import gate
from tests.fixtures.test_gate_command import Gate

__all__ = ["gate"]

NATIVE = host_arch()
MIXED = build_spec([(NATIVE, 1), (FOREIGN, 1)])
COMPILER = f"{FOREIGN.triplet}-gcc"


class Bare(FakeTools):
    """Is asked for other programs too."""

    def locate(self, program: str) -> str | None:
        return None if program in self.missing else f"/fake/{program}"


class Store:
    """Lacks these programs for these architectures."""

    def __init__(self, **lacking: dict[str, str]) -> None:
        self._lacking = lacking

    def lacking(self, release: str, arch: Arch, role_sets: Sequence[str] = ()) -> dict[str, str]:
        return self._lacking.get("native" if arch is NATIVE else "foreign", {})


def test_one_command_installs_each_package_once() -> None:
    error = NotInstalled({"unshare": "util-linux", "depmod": "kmod", "nsenter": "util-linux"}, "guests need it")
    assert error.what == "depmod, nsenter, unshare are not installed"
    assert error.hint == "on Debian and Ubuntu: sudo apt-get install kmod util-linux"
    assert error.exit_code == 3


def test_every_missing_tool_is_named_at_once() -> None:
    tools = Bare(missing=frozenset({"depmod", "mke2fs"}))
    with pytest.raises(NotInstalled, match="depmod, mke2fs are not installed"):
        require_all(tools, ("mmdebstrap", "mke2fs", "depmod"))


def test_guests_name_their_machines_disks_and_network_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cephlab.lab.images.tools.SystemTools.locate", lambda _self, _name: None)
    reason = qemu().unavailable(MIXED)
    assert isinstance(reason, NotInstalled)
    emulators = {"qemu-system-aarch64": "qemu-system-arm", "qemu-system-x86_64": "qemu-system-x86"}
    made_with = {"depmod": "kmod", "mke2fs": "e2fsprogs", "mmdebstrap": "mmdebstrap"}
    assert reason.missing == {
        **emulators,
        **made_with,
        "ip": "iproute2",
        "nsenter": "util-linux",
        "unshare": "util-linux",
    }


@pytest.mark.slow
def test_an_image_that_has_to_be_made_takes_tools_and_a_cached_one_none(tmp_path: Path) -> None:
    bare = Bare(missing=frozenset({"mmdebstrap", COMPILER}))
    store = make_store(tmp_path, bare, keyring=False)
    unpacks = {"mmdebstrap": "mmdebstrap", "debian-archive-keyring": "debian-archive-keyring"}
    assert store.lacking("reef", NATIVE) == unpacks
    assert store.lacking("reef", FOREIGN).keys() == {*unpacks, COMPILER}
    make_store(tmp_path).get("reef", FOREIGN)
    (tmp_path / "keyring.gpg").unlink()
    assert store.lacking("reef", NATIVE) == store.lacking("reef", FOREIGN) == {}


def test_what_the_provider_and_the_images_lack_is_one_refusal() -> None:
    store = Store(native={"mmdebstrap": "mmdebstrap"}, foreign={"compiler": "gcc-foreign"})
    with pytest.raises(NotInstalled) as refused:
        require_installed(MIXED, store, NotInstalled({"depmod": "kmod"}, "guests need it"))
    assert refused.value.missing.keys() == {"compiler", "depmod", "mmdebstrap"}
    require_installed(replace(MIXED, image="example/ceph:reef"), store, Unavailable("no engine is running"))


def test_where_scenarios_are_left_out_only_what_all_of_them_take_is_refused() -> None:
    foreign = {"compiler": "gcc-foreign"}
    require_installed(MIXED, Store(foreign=foreign), skips=True)
    with pytest.raises(NotInstalled) as refused:
        require_installed(MIXED, Store(native={"mmdebstrap": "mmdebstrap"}, foreign=foreign), skips=True)
    assert refused.value.missing.keys() == {"compiler", "mmdebstrap"}


def test_a_lab_that_was_asked_for_is_refused_with_all_that_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "cephlab.lab.images.tools.SystemTools.locate",
        lambda _self, name: None if name == "depmod" else f"/usr/bin/{name}",
    )
    store = make_store(tmp_path, Bare(missing=frozenset({"mmdebstrap"})))
    raiser = LabRaiser(Home(tmp_path / "home"), "qemu", DEFAULT_RELEASE, None, store, lambda _line: None)
    with pytest.raises(NotInstalled) as refused:
        raiser.refuse(Topology(native=1, foreign=0))
    assert refused.value.missing == {"depmod": "kmod", "mmdebstrap": "mmdebstrap"}


@pytest.mark.slow
def test_a_gate_names_what_all_its_scenarios_lack_and_ends_with_3(gate: Gate) -> None:
    machines = (f"'bare.{count}', fake.good, topology=fake.Topology(native={count})" for count in (1, 2, 3))
    gate.suite("bare", *machines)
    gate.raiser.absent = (NotInstalled({"depmod": "kmod"}, "a"), NotInstalled({"mke2fs": "e2fsprogs"}, "b"))
    with pytest.raises(LabBroken) as refused:
        gate.run()
    assert refused.value.exit_code == 3
    assert refused.value.what == "depmod, mke2fs are not installed"
    assert refused.value.hint == "on Debian and Ubuntu: sudo apt-get install e2fsprogs kmod"
    assert not (gate.path / "archive").exists()


def test_up_names_them_together_and_ends_with_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeProvider()
    monkeypatch.setattr(
        "cephlab.lab.images.tools.SystemTools.locate",
        lambda _self, name: None if name in {"mmdebstrap", COMPILER} else name,
    )
    monkeypatch.setattr(fake, "unavailable", lambda spec=None: NotInstalled({"depmod": "kmod"}, "guests need it"))
    world = World(Home(tmp_path / "home").ensure(), providers(fake))
    asked = ["up", "--lab", "local", "--nodes", f"{NATIVE}:1,{FOREIGN}:1"]
    ended = CliRunner().invoke(app, asked, obj=world)
    assert ended.exit_code == 3, ended.output
    assert f"{COMPILER}, depmod, mmdebstrap are not installed" in ended.output
