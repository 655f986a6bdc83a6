"""A connection that was lost a moment ago is made again, before its end can be told; and what ssh is told to do."""

import socket
from pathlib import Path

import pytest

from cephlab.lab.base import process
from cephlab.lab.providers.ssh.connection import SshConnection, ssh_words, unreachable
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.inventory import Machine


class Forwarding(SshConnection):
    """Sockets as ssh leaves them: one whose listener is gone until the connection is closed, then `after`."""

    def __init__(self, folder: Path, after: Path) -> None:
        super().__init__(Machine("m", "192.0.2.1", "192.0.2.1", host_arch(), frozenset()), {}, "cephlab-test-")
        self.paths = [after, folder / "stale"]
        gone = socket.socket(socket.AF_UNIX)
        gone.bind(str(self.paths[-1]))
        gone.close()

    def near(self, path: str) -> Path:
        assert path == "/there"
        return self.paths[-1]

    def close(self) -> None:
        self.paths = self.paths[:1]


def test_a_connection_that_has_just_been_lost_is_made_again(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "live"))
        listening.listen()
        with Forwarding(tmp_path, tmp_path / "live").socket_to("/there") as made:
            assert made.getpeername() == str(tmp_path / "live")


def test_it_is_tried_once_more_and_not_for_ever(tmp_path: Path) -> None:
    connection = Forwarding(tmp_path, tmp_path / "stale")
    with pytest.raises(ConnectionRefusedError):
        connection.socket_to("/there")


# What the user's own settings say, and what ssh makes of them: asked of ssh itself.

SETTINGS = """
Host node
    Port 2222
    User somebody
    UpdateHostKeys yes
    CheckHostIP yes
    Tunnel point-to-point
    RemoteForward /tmp/there /tmp/here
    LocalForward 7777 db:5432
    DynamicForward 1080
"""


def settled(folder: Path, machine: Machine) -> dict[str, str]:
    """Option -> value, as ssh would enter the machine with the settings above."""
    settings = folder / "config"
    settings.write_text(SETTINGS)
    program, *words = ssh_words(machine)
    done = process.run([program, "-F", str(settings), "-G", *words, machine.address])
    return dict(line.partition(" ")[::2] for line in done.stdout.splitlines())


def machine_of(**given: object) -> Machine:
    return Machine("m", "node", "node", host_arch(), frozenset(), **given)  # type: ignore[arg-type]


def test_what_the_inventory_leaves_out_is_what_the_users_settings_say(tmp_path: Path) -> None:
    left_out = settled(tmp_path, machine_of())
    assert (left_out["port"], left_out["user"]) == ("2222", "somebody")
    written = settled(tmp_path, machine_of(port=22, user="ceph"))
    assert (written["port"], written["user"]) == ("22", "ceph")


def test_nothing_of_the_users_is_forwarded_and_no_key_is_written(tmp_path: Path) -> None:
    options = settled(tmp_path, machine_of())
    assert options["clearallforwardings"] == "yes"
    assert options["tunnel"] == "false"
    assert {option for option in options if option.endswith("forward")} == set()
    assert options["updatehostkeys"] == "false"
    assert options["checkhostip"] == "no"
    assert options["stricthostkeychecking"] == "true"


@pytest.mark.parametrize(
    ("port", "said", "told"),
    [
        (None, "ssh: connect to host node port 2222: Connection refused", "node port 2222"),
        (None, "Connection timed out", "node port 22"),
        (7422, "ssh: connect to host node port 7422: Connection refused", "node port 7422"),
    ],
)
def test_what_is_told_of_a_machine_has_the_port_that_ssh_took(port: int | None, said: str, told: str) -> None:
    assert told in unreachable(machine_of(port=port), said).what


def test_a_place_in_known_hosts_has_the_port_that_ssh_took() -> None:
    said = "No ED25519 host key is known for [node]:2222\nHost key verification failed."
    assert "`ssh-keyscan -p 2222 node`" in unreachable(machine_of(), said).hint
