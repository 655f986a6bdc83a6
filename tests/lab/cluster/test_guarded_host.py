"""A machine of an attached cluster does what it is asked as it is asked, once the guard has let it through."""

import errno
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken, Unavailable
from cephlab.lab.base.process import Result
from cephlab.lab.cluster.attach.guard import Existing, Guard, NotPermitted
from cephlab.lab.cluster.attach.guarded import GuardedHost
from cephlab.lab.cluster.attach.offered import OtherEntity
from cephlab.lab.cluster.attach.permit import Permit
from cephlab.lab.providers.agent.wire import Refused
from cephlab.lab.providers.host import Host
from cephlab.lab.providers.ssh.host import SshHost
from cephlab.lab.spec.arch import Arch
from tests.lab.base.test_attach_offered import machine

DIRECTORY = PurePosixPath("/var/tmp/cephlab-x/n")
OWN = DIRECTORY / "own"
LINK = PurePosixPath("/srv/link")
"""Leads to the lab's agent; /var/tmp is a link itself."""


class Asked(SshHost):
    """A machine that notes what it is asked, and does nothing or raises an error."""

    def __init__(self, error: Exception | None = None) -> None:
        self.name, self.arch, self.address, self.root = "n", Arch.AARCH64, "192.0.2.1", PurePosixPath("/r")
        self.emulated, self.directory = True, DIRECTORY
        self.error = error
        self.asked: list[object] = []
        for verb in ("spawn", "find", "channel", "interactive", "push", "pull", "read", "exists", "make_directory"):
            setattr(self, verb, partial(self.note, verb))
        for verb in ("remove", "facts", "up"):
            setattr(self, verb, partial(self.note, verb))

    def run(self, argv: Sequence[str], **options: Any) -> Any:
        if argv[0] != "realpath":
            return self.note("run", argv, **options)
        assert options == {"timeout_s": 60.0}
        real = (path.replace("/var/tmp", "/real").replace(str(LINK), "/real/cephlab-x/n/agent.py") for path in argv[4:])
        return Result(tuple(argv), 0, "".join(f"{path}\0" for path in real).encode(), b"")

    def note(self, verb: str, *given: object, **options: object) -> Any:
        self.asked.append((verb, given, options))
        if self.error is not None:
            raise self.error
        return SimpleNamespace(ask=self.line, close=partial(self.note, "close"))

    def line(self, line: bytes, *, timeout_s: float) -> bytes:
        self.note("ask", line, timeout_s)
        return b"answer"

    @contextmanager
    def reaching(self, other: Host, path: PurePosixPath, near: PurePosixPath) -> Iterator[None]:
        self.note("reaching", other, path, near)
        yield


def guarded(host: object, *, listed: bool = True, entity: str = "client.r") -> GuardedHost:
    permit = Permit(hosts=frozenset({"n"} if listed else ()))
    return GuardedHost(cast("Host", host), Guard(permit, Existing(), dict), entity)


ENV = {"CEPH_CONF": f"{OWN}/ceph.conf", "CEPH_KEYRING": f"{OWN}/keyring", "CEPH_ARGS": "--name=client.r"}
PLAIN: Mapping[str, object] = {"timeout_s": 60.0, "stdin": b"", "env": ENV, "check": True, "cwd": None}
MORE: Mapping[str, Any] = {"timeout_s": 5.0, "stdin": b"x", "check": False, "cwd": OWN}
TRUE = ("true",)
Call = Callable[[GuardedHost], object]
CALLS: list[tuple[Call, tuple[str, tuple[object, ...], Mapping[str, object]]]] = [
    (lambda host: host.run(TRUE), ("run", (TRUE,), PLAIN)),
    (lambda host: host.run(TRUE, env={"A": "b"}, **MORE), ("run", (TRUE,), {**MORE, "env": {**ENV, "A": "b"}})),
    (lambda host: host.spawn(TRUE, log=OWN / "l"), ("spawn", (TRUE,), {"log": OWN / "l", "env": ENV})),
    (lambda host: host.channel(TRUE), ("channel", (TRUE,), {"env": ENV})),
    (lambda host: host.interactive(TRUE), ("interactive", (TRUE,), {"env": ENV, "terminal": True})),
    (lambda host: host.interactive(TRUE, terminal=False), ("interactive", (TRUE,), {"env": ENV, "terminal": False})),
    (lambda host: host.find({"pid": 7}), ("find", ({"pid": 7},), {})),
    (lambda host: host.push(b"x", OWN / "f"), ("push", (b"x", OWN / "f"), {"mode": 0o644})),
    (lambda host: host.push(b"x", OWN / "f", mode=0o600), ("push", (b"x", OWN / "f"), {"mode": 0o600})),
    (lambda host: host.pull(OWN / "f", Path("here")), ("pull", (OWN / "f", Path("here")), {})),
    (lambda host: host.read(OWN / "f"), ("read", (OWN / "f",), {})),
    (lambda host: host.exists(OWN / "f"), ("exists", (OWN / "f",), {})),
    (lambda host: host.make_directory(OWN / "f"), ("make_directory", (OWN / "f",), {})),
    (lambda host: host.remove(OWN / "f"), ("remove", (OWN / "f",), {})),
    (lambda host: host.facts(), ("facts", (), {})),
    (lambda host: host.up(), ("up", (), {})),
]


@pytest.mark.parametrize(("call", "asked"), CALLS)
def test_what_is_permitted_is_asked_of_the_machine_unchanged(call: Call, asked: tuple[str, object, object]) -> None:
    host = Asked()
    call(guarded(host))
    assert host.asked == [asked]


def test_it_is_the_machine_that_it_guards() -> None:
    host = guarded(Asked())
    assert (host.name, host.arch, host.address, host.root) == ("n", Arch.AARCH64, "192.0.2.1", PurePosixPath("/r"))
    assert (host.emulated, host.own_kernel, host.directory) == (True, True, OWN)


def test_without_an_entity_a_program_has_no_keys() -> None:
    host = Asked()
    GuardedHost(cast("Host", host), Guard(Permit(hosts=frozenset({"n"})), Existing(), dict)).channel(TRUE)
    assert host.asked == [("channel", (TRUE,), {"env": {"CEPH_CONF": "/dev/null", "CEPH_KEYRING": "/dev/null"}})]


def caused(cause: Exception) -> LabBroken:
    error = LabBroken("it failed", "no such file")
    error.__cause__ = cause
    return error


def refused(number: int) -> Refused:
    return Refused("n", "spawn", {"type": "OSError", "errno": number, "message": "m"})


@pytest.mark.parametrize("start", [lambda host: host.run(TRUE), lambda host: host.spawn(TRUE, log=OWN / "l")])
def test_a_program_that_is_not_there_is_a_lack_and_any_other_error_is_not(start: Call) -> None:
    with pytest.raises(Unavailable) as lacking:
        start(guarded(Asked(caused(refused(errno.ENOENT)))))
    assert lacking.value.what == "n of the attached cluster has no program true"
    assert (lacking.value.detail, lacking.value.hint) == (
        "no such file",
        "install the package that contains it on n",
    )
    for error in (caused(refused(errno.EACCES)), caused(OSError(errno.ENOENT, "x")), LabBroken("it failed")):
        with pytest.raises(LabBroken) as broken:
            start(guarded(Asked(error)))
        assert broken.value is error


def test_input_and_folder_of_a_program_are_judged() -> None:
    host = Asked()
    with pytest.raises(OtherEntity, match=r"ceph.* on n"):
        guarded(host).run(("python3",), stdin=b"os.system('ceph status')")
    with pytest.raises(OtherEntity, match="keys of other entities"):
        guarded(host).run(("cat", "ceph/x"), cwd=PurePosixPath("/etc"))
    assert host.asked == []


def test_a_refusal_names_what_was_asked() -> None:
    host = guarded(Asked(), listed=False)
    with pytest.raises(NotPermitted, match="true on n"):
        host.run(TRUE)
    with pytest.raises(NotPermitted, match="a process on n"):
        host.find({"pid": 7})
    with pytest.raises(NotPermitted, match="reading /srv/x on n"):
        host.read(PurePosixPath("/srv/x"))
    with pytest.raises(OtherEntity, match=r"reading .*/agent.py, in the lab's own folder"):
        host.read(DIRECTORY / "agent.py")


def test_a_link_does_not_lead_into_the_labs_folder_where_that_is_reached_by_a_link_too() -> None:
    host = Asked()
    with pytest.raises(OtherEntity, match=r"reading /srv/link, which is /real/.*, in the lab's own folder"):
        guarded(host).read(LINK)
    assert host.asked == []


def test_the_labs_agent_is_asked_what_the_guard_lets_through() -> None:
    host = Asked()
    _, channel = guarded(host).start_agent(())
    line = b'{"op": "command", "target": "mon", "command": {"prefix": "status"}}'
    assert channel.ask(line, timeout_s=3.0) == b"answer"
    channel.close()
    assert host.asked[-2:] == [("ask", (line, 3.0), {}), ("close", (), {})]


def test_sockets_reach_between_guarded_machines_that_are_entered_by_ssh() -> None:
    near, far = Asked(), Asked()
    with guarded(near).reaching(guarded(far), OWN / "far", OWN / "near"):
        assert near.asked == [("reaching", (far, OWN / "far", OWN / "near"), {})]
    with pytest.raises(NotPermitted, match="reaching n, which is not"), guarded(near).reaching(far, OWN, OWN):
        pytest.fail("it was reached")
    for near_listed, far_listed in ((True, False), (False, True)):
        pair = guarded(near, listed=near_listed), guarded(far, listed=far_listed)
        with pytest.raises(NotPermitted, match=r"a socket at .* on n"), pair[0].reaching(pair[1], OWN / "f", OWN / "n"):
            pytest.fail("it was reached")


def test_a_machine_that_is_not_entered_by_ssh_is_not_reached(tmp_path: Path) -> None:
    _, host = machine(tmp_path)
    places = host.directory / "far", host.directory / "near"
    with pytest.raises(LabBroken, match="n is not reached through ssh"), host.reaching(host, *places):
        pytest.fail("it was reached")
