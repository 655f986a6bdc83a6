"""The deployer `microceph`: its command lines in order, and outputs as MicroCeph's documents show them."""

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import CephTrouble, CommandFailed, LabBroken, SpecError, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.deploy.microceph import (
    INTERFACES,
    ConfiguredDisk,
    Member,
    MicroCeph,
    Source,
    loops,
    parse_disks,
    parse_status,
    parse_token,
    source_for,
)
from cephlab.lab.providers.host import Host

TRANSCRIPTS = Path(__file__).parents[2] / "transcripts"
SNAPD = "snap    2.63\nsnapd   2.63\nseries  16\n"


def text(name: str) -> str:
    return (TRANSCRIPTS / name).read_text()


def token(name: str) -> str:
    return base64.b64encode(json.dumps({"name": name, "secret": "bdc36e9b"}).encode()).decode()


@dataclass
class Machine:
    """A host that answers by the first words of a command. answers: words -> (status, output).

    agent: whether its agent runs.
    """

    name: str
    address: str
    answers: dict[str, tuple[int, str]] = field(default_factory=dict)
    ran: list[str] = field(default_factory=list)
    removed: list[PurePosixPath] = field(default_factory=list)
    user: int = 0
    agent: bool = True

    def run(self, argv: Sequence[str], *, timeout_s: float = 60.0, check: bool = True) -> Result:
        line = " ".join(argv)
        if not self.agent:
            raise LabBroken(f"{self.name} does not answer")
        if line == "id -u":
            return Result(tuple(argv), 0, b"%d\n" % self.user, b"")
        self.ran.append(line)
        known = {"snap version": (0, SNAPD), "snap list microceph": (1, ""), "hostname": (0, f"vm-{self.name}\n")}
        known |= {f"microceph cluster add vm-{n}": (0, token(f"vm-{n}") + "\n") for n in ("n0", "n1", "n2")}
        for words, (code, out) in {**known, **self.answers}.items():
            if line.startswith(words):
                if check and code:
                    raise CommandFailed(argv, code, "", out, self.name)
                return Result(tuple(argv), code, out.encode(), b"")
        return Result(tuple(argv), 0, b"", b"")

    def push(self, source: Path, target: PurePosixPath, *, mode: int = 0o644) -> None:
        self.ran.append(f"push {source.name} to {target}")

    def remove(self, path: PurePosixPath) -> None:
        self.removed.append(path)

    def begin(self, *, again: bool) -> None:
        self.agent = again


Deploy = Callable[..., MicroCeph]


@pytest.fixture
def machines() -> list[Machine]:
    return [Machine(f"n{number}", f"10.0.0.{number}") for number in range(2)]


@pytest.fixture
def deploy(machines: list[Machine]) -> Deploy:
    def made(source: Source | None = None) -> MicroCeph:
        hosts = [cast("Host", machine) for machine in machines]
        return MicroCeph(hosts, source or source_for("squid"), lambda _line: None)

    return made


def test_two_machines_become_a_cluster_by_the_documented_commands(machines: list[Machine], deploy: Deploy) -> None:
    deploy().deploy({"n0": ["loop,4096M,3"], "n1": ["/dev/sdb", "/dev/sdc"]}, rgw={"n1": 8080})
    installed = ["snap install microceph --channel squid/stable", "snap refresh --hold microceph"]
    looked = ["snap version", "snap list microceph"]
    assert machines[0].ran == [
        *looked,
        *installed,
        "microceph cluster bootstrap --microceph-ip 10.0.0.0 --mon-ip 10.0.0.0",
        "microceph cluster add vm-n1",
        "microceph disk add loop,4096M,3",
    ]
    assert machines[1].ran == [
        *looked,
        *installed,
        "hostname",
        f"microceph cluster join {token('vm-n1')} --microceph-ip 10.0.0.1",
        "microceph disk add /dev/sdb /dev/sdc --wipe",
        "microceph enable rgw --port 8080",
    ]


def test_a_snap_from_a_file_is_given_its_interfaces(machines: list[Machine], deploy: Deploy, tmp_path: Path) -> None:
    file = tmp_path / "microceph_1.snap"
    file.touch()
    deploy(Source(file=file)).install(cast("Host", machines[0]))
    assert machines[0].ran == [
        "push microceph_1.snap to /var/tmp/microceph.snap",
        "snap install --dangerous /var/tmp/microceph.snap",
        *(f"snap connect microceph:{name}" for name in INTERFACES),
        "snap refresh --hold microceph",
    ]
    assert machines[0].removed == [PurePosixPath("/var/tmp/microceph.snap")]


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ({"snap version": (127, "snap: command not found")}, "n1 has no snap"),
        ({"snap version": (0, "snap    2.63\nsnapd   unavailable\n")}, "n1 has snap, but snapd does not run"),
        ({"snap list microceph": (0, "microceph 19.2.0")}, "n1 already has MicroCeph"),
    ],
)
def test_where_it_cannot_be_nothing_is_installed(
    machines: list[Machine], deploy: Deploy, answers: dict[str, Any], said: str
) -> None:
    machines[1].answers = answers
    with pytest.raises(Unavailable, match=said):
        deploy().deploy({})
    assert not any("install" in line or "remove" in line for machine in machines for line in machine.ran)


def test_a_user_who_is_not_root_takes_sudo(machines: list[Machine], deploy: Deploy) -> None:
    machines[0].user = 1000
    machines[0].answers = {"sudo -n cat": (0, "of root's\n")}
    assert deploy().access() == (b"of root's\n", b"of root's\n")
    machines[0].answers = {"sudo -n true": (1, "a password is required")}
    with pytest.raises(Unavailable, match="snaps on n0 need root"):
        deploy().deploy({})


def test_a_host_that_is_not_there_is_refused_first(machines: list[Machine], deploy: Deploy) -> None:
    with pytest.raises(SpecError, match="n9"):
        deploy().deploy({"n9": ["/dev/sdb"]})
    assert machines[0].ran == []


def test_a_step_that_fails_takes_away_what_was_installed(machines: list[Machine], deploy: Deploy) -> None:
    machines[0].answers = {"microceph disk add": (1, "Error: failed to record disk")}
    machines[1].answers = {"snap remove": (1, "snap is busy")}
    with pytest.raises(CommandFailed, match="failed to record disk") as caught:
        deploy().deploy({"n0": ["/dev/sdb"]})
    assert machines[0].ran[-1] == "snap remove microceph --purge"
    assert "could not be removed from n1" in str(caught.value.__notes__)


def test_a_token_is_in_no_message(machines: list[Machine], deploy: Deploy) -> None:
    machines[1].answers = {"microceph cluster join": (1, f"Error: {token('vm-n1')} was used already")}
    with pytest.raises(CephTrouble) as caught:
        deploy().join(cast("Host", machines[1]))
    assert token("vm-n1") not in str(caught.value)
    assert "TOKEN was used already" in caught.value.detail


def test_summaries_of_its_documents_are_read() -> None:
    assert parse_status(text("microceph-status-single.txt")) == (
        Member("node-mees", "10.246.114.49", ("mds", "mgr", "mon"), 0),
    )
    several = parse_status(text("microceph-status-multi.txt"))
    assert [(member.name, member.disks) for member in several] == [("node-01", 1), ("node-02", 1), ("node-03", 1)]
    assert several[2].services == ("mds", "mgr", "mon", "osd")


@pytest.mark.parametrize(
    "output", ["", "Error: Daemon not yet initialized", text("microceph-status-multi.txt") + "- n4 (10.0.0.4)\n"]
)
def test_a_summary_of_another_form_is_refused(output: str) -> None:
    with pytest.raises(LabBroken, match="microceph status"):
        parse_status(output)


def test_disks_are_read() -> None:
    disks = parse_disks(text("microceph-disk-list.json"))
    assert disks[1] == ConfiguredDisk(2, "/dev/sdia")
    assert len(disks) == 2
    assert parse_disks('{"ConfiguredDisks":null,"AvailableDisks":null}') == ()
    with pytest.raises(LabBroken, match="`microceph disk list` cannot be read"):
        parse_disks(text("microceph-disk-add.txt"))


def test_a_token_is_for_the_name_that_was_asked() -> None:
    assert parse_token(f"Warning: slow\n{token('vm-n1')}\n", "vm-n1") == token("vm-n1")
    with pytest.raises(LabBroken, match="the token of another"):
        parse_token(token("vm-n2"), "vm-n1")
    with pytest.raises(LabBroken, match="printed no token"):
        parse_token("Error: name in use", "vm-n1")


def test_loops_are_whole_mebibytes() -> None:
    assert loops(4 << 30, 3) == "loop,4096M,3"
    with pytest.raises(SpecError, match="whole MiB"):
        loops(1000, 1)


def test_a_release_that_it_has_not_is_refused() -> None:
    assert source_for("reef").channel == "reef/stable"
    with pytest.raises(SpecError, match="MicroCeph has no pacific"):
        source_for("pacific")
