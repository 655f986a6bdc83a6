"""The doctor's judgement of made-up machines, and its look at this one."""

import re
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.cluster import doctor
from cephlab.lab.cluster.doctor import MachineFacts, Need, lacking, look, machine_needs
from cephlab.lab.providers.base import Images, Lab
from cephlab.lab.providers.local.programs import find_emulator
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import GIB, Capability, ClusterSpec

PACKAGES_FILE = Path(__file__).resolve().parents[3] / "ci" / "packages.txt"


FOREIGN = next(arch for arch in Arch if arch is not host_arch())


def complete(arch: Arch = Arch.X86_64) -> MachineFacts:
    """A machine that lacks nothing."""
    return MachineFacts(
        arch=arch,
        python=(3, 13),
        tools=frozenset(tool.name for tool in doctor.tools(arch)),
        binfmt_obstacle=None,
        home=Path("/srv/lab"),
        home_writable=True,
        free_bytes=100 * GIB,
        memory_bytes=16 * GIB,
        memory_limit="",
        aio_free=65536,
        open_files=1024,
    )


def missing(machine: MachineFacts) -> dict[str, Need]:
    return {need.name: need for need in doctor.machine_needs(machine) if not need.present}


@pytest.mark.parametrize("arch", list(Arch))
def test_a_complete_machine_lacks_nothing(arch: Arch) -> None:
    needs = tuple(doctor.machine_needs(complete(arch)))
    assert [need.name for need in needs if not need.present] == []
    assert [need.name for need in needs if need.remedy] == []
    assert all(need.unlocks and need.detail for need in needs)


@pytest.mark.parametrize(
    ("change", "name", "remedy"),
    [
        ({"python": (3, 10)}, "python", "Python 3.11"),
        ({"tools": frozenset()}, "mmdebstrap", "apt-get install mmdebstrap"),
        ({"tools": frozenset()}, "qemu-aarch64-static", "apt-get install qemu-user-static"),
        ({"binfmt_obstacle": Unavailable("not here", "", "as root: do")}, "binfmt for aarch64", "as root: do"),
        ({"home_writable": False}, "cache folder", "CEPHLAB_HOME"),
        ({"free_bytes": GIB}, "disk space", "cephlab prune"),
        ({"memory_bytes": GIB}, "memory", "fewer nodes"),
        ({"aio_free": 1024}, "kernel AIO requests", "fs.aio-max-nr"),
        ({"open_files": 256}, "open files", "ulimit -n"),
    ],
)
def test_what_is_missing_is_named_with_its_remedy(change: dict[str, Any], name: str, remedy: str) -> None:
    needs = missing(replace(complete(), **change))
    assert remedy in needs[name].remedy
    if name not in {"mmdebstrap", "qemu-aarch64-static"}:
        assert set(needs) == {name}


@pytest.mark.parametrize(("free_bytes", "ready"), [(GIB, True), (1 << 20, False)])
def test_a_disk_without_room_for_one_osd_makes_no_machine_ready(*, free_bytes: int, ready: bool) -> None:
    facts = replace(complete(), free_bytes=free_bytes)
    place = Need("provider local", present=True, detail="ready", remedy="", unlocks="--lab local")
    assert (not lacking([*machine_needs(facts), place])) is ready


def test_an_unlimited_number_of_open_files_is_enough() -> None:
    assert missing(replace(complete(), open_files=-1)) == {}


def test_a_kernel_that_says_nothing_about_aio_is_not_blamed() -> None:
    assert "kernel AIO requests" not in {need.name for need in doctor.machine_needs(replace(complete(), aio_free=None))}


@pytest.mark.parametrize("arch", list(Arch))
def test_every_package_it_names_is_one_that_bootstrap_installs(arch: Arch) -> None:
    rows = [line.split() for line in PACKAGES_FILE.read_text().splitlines() if line and not line.startswith("#")]
    installed = {row[0] for row in rows if row[1] in {"always", arch.value}}
    named = missing(replace(complete(arch), tools=frozenset()))
    packages = {match[1] for need in named.values() if (match := re.search(r"apt-get install (\S+)", need.remedy))}
    assert len(packages) >= 6
    assert packages <= installed


class FakeProvider:
    """A provider that can say why it cannot serve, and does nothing else."""

    def __init__(self, name: str, cost: int, reason: Unavailable | None) -> None:
        self.name = name
        self.cost = cost
        self._reason = reason

    def capabilities(self) -> frozenset[Capability]:
        return frozenset({Capability.PARTITION})

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        return self._reason

    def launch(
        self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet
    ) -> AbstractContextManager[Lab]:
        raise AssertionError("the doctor launches nothing")

    def attach(self, run: Run, state: Mapping[str, Any]) -> Lab:
        raise AssertionError("the doctor attaches to nothing")

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        raise AssertionError("the doctor removes nothing")

    def leftovers(self, home: Home) -> frozenset[RunId]:
        raise AssertionError("the doctor looks for no leftovers")


def test_providers_speak_for_themselves_cheapest_first() -> None:
    silent = FakeProvider("container", 20, Unavailable("no engine answers", "socket missing", "start dockerd"))
    ready = FakeProvider("local", 10, None)
    first, second = doctor.provider_needs([silent, ready])
    assert (first.name, first.present, first.remedy) == ("provider local", True, "")
    assert (second.name, second.present, second.remedy) == ("provider container", False, "start dockerd")
    assert second.detail == "no engine answers: socket missing"
    assert "partition" in second.unlocks


@pytest.mark.parametrize(
    ("missing", "words"),
    [
        ((), "ready providers: local, uml, ssh (one is enough)"),
        (("ssh",), "ready providers: local, uml (one is enough); optional: ssh"),
        (("uml", "ssh"), "ready providers: local (one is enough); optional: uml, ssh"),
    ],
)
def test_what_is_ready_is_said_with_what_nobody_has_to_install(missing: tuple[str, ...], words: str) -> None:
    providers = [Need(f"provider {name}", name not in missing, "", "", "") for name in ("local", "uml", "ssh")]
    assert doctor.ready_words([Need("python", True, "", "", ""), *providers]) == words


def test_this_machine_can_be_looked_at_without_changing_it(tmp_path: Path) -> None:
    home = tmp_path / "not" / "there"
    machine = doctor.look(Home(home))
    assert not home.exists()
    assert machine.home == home
    assert machine.home_writable
    assert machine.free_bytes > 0
    assert machine.memory_bytes > 0
    assert missing(machine).get("python") is None


def test_a_folder_in_which_nothing_can_be_made_is_not_writable() -> None:
    assert not doctor.look(Home(Path("/proc/not/there"))).home_writable


def test_every_name_that_a_program_is_started_by_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A distribution without static emulators has them under the plain name."""
    plain = tmp_path / FOREIGN.qemu_user_names[1]
    plain.write_text("#!/bin/sh\n")
    plain.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_emulator(FOREIGN) == str(plain)
    assert FOREIGN.qemu_user in look(Home(tmp_path)).tools
