"""A connection that was lost a moment ago is made again, before its end can be told; and what ssh is told to do."""

import socket
from pathlib import Path

import pytest

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandTimedOut, LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.process import Result
from cephlab.lab.base.runs import Runs
from cephlab.lab.providers.ssh.connection import ConnectionLost, SshConnection, Unreachable, ssh_words, unreachable
from cephlab.lab.providers.ssh.host import START, SshHost
from cephlab.lab.providers.ssh.lab import SshLab
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


# A program whose answer did not come back may have done its work.


@pytest.mark.parametrize(("code", "lost"), [(255, True), (127, False)])
def test_a_connection_that_was_lost_is_no_missing_python(
    code: int, lost: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SshConnection, "ensure", lambda _connection: None)
    monkeypatch.setattr(process, "run_command", lambda *_arguments, **_given: Result((), code, b"", b"said"))
    with pytest.raises(LabBroken, match="said") as caught:
        SshConnection(machine_of(), {}, "cephlab-test-").python(START)
    assert isinstance(caught.value, ConnectionLost) is lost
    assert ("Python 3.9" in caught.value.hint) is not lost


@pytest.mark.parametrize(
    ("where", "error", "removed"),
    [
        (SshHost, ConnectionLost("gone"), ["m"]),
        (SshHost, CommandTimedOut(("python3",), 60.0, "", "", "m"), ["m"]),
        (SshHost, KeyboardInterrupt(), ["m"]),
        (SshHost, LabBroken("it refused"), []),
        (SshConnection, Unreachable("nobody answers"), []),
        (SshConnection, KeyboardInterrupt(), []),
    ],
)
def test_what_may_have_been_left_on_a_machine_is_removed_at_the_end(
    where: type,
    error: BaseException,
    removed: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def failing(_self: object) -> None:
        raise error

    ended: list[str] = []
    monkeypatch.setattr(SshConnection, "ensure", lambda _connection: None)
    monkeypatch.setattr(where, "begin" if where is SshHost else "ensure", failing)
    monkeypatch.setattr(SshHost, "remove_all", lambda host: ended.append(host.name))
    lab = SshLab(Runs(Home(tmp_path)).create("ssh"), [machine_of()])
    with pytest.raises(type(error)):
        lab.add_machine(machine_of())
    lab.close()
    assert ended == removed
