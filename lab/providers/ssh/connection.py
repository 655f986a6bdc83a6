"""The connection to an existing machine: one session of the system's ssh, which carries everything else."""

import json
import re
import shlex
import shutil
import socket
import stat
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from cephlab.lab.base import process
from cephlab.lab.base.errors import CommandFailed, CommandTimedOut, LabBroken
from cephlab.lab.base.home import temporary_folder
from cephlab.lab.base.process import Command, Pipe
from cephlab.lab.base.runs import ours
from cephlab.lab.spec.inventory import SSH_PORT, Machine

CONNECT_S = 15
_GREETING_S = CONNECT_S + 15.0
_SHORT_S = 60.0
_WORD = b"cephlab"
_SSH_FAILED = 255
"""Status of ssh after an error of its own; else it is that of the program (ssh(1))."""

_NOBODY_ASKED = ("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes")
# With either, ssh would add to known_hosts: further keys of a known machine, or its address.
_NOTHING_WRITTEN = ("UpdateHostKeys=no", "CheckHostIP=no")
_ALONE = (
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "ClearAllForwardings=yes",
    "Tunnel=no",
    "RequestTTY=no",
)
_WATCHED = (f"ConnectTimeout={CONNECT_S}", "ServerAliveInterval=5", "ServerAliveCountMax=6", "LogLevel=ERROR")


class ConnectionLost(LabBroken):
    """ssh lost a machine while a program ran there. What the program did is not known."""


class Unreachable(LabBroken):
    """ssh cannot log in to a machine of the inventory; the hint says what to do."""


def ssh_words(machine: Machine) -> list[str]:
    """The ssh command with the options of every call. The user's own ssh settings apply too.

    ssh asks no questions, refuses a machine with an unknown key, and forwards nothing from the user's settings.
    """
    words = ["ssh", *_NOBODY_ASKED]
    for option in (*_NOTHING_WRITTEN, *_ALONE, *_WATCHED):
        words += ["-o", option]
    if machine.port:
        words += ["-p", str(machine.port)]
    if machine.user:
        words += ["-l", machine.user]
    if machine.key:
        words += ["-i", machine.key, "-o", "IdentitiesOnly=yes"]
    if machine.known_hosts:
        words += ["-o", f"UserKnownHostsFile={machine.known_hosts}"]
    return words


class SshConnection:
    """Opened on first use, and again after it was lost. It always ends with this process.

    A later `prune` finds ssh by its environment (marks), and its folder among the temporary files by folder_prefix.
    """

    def __init__(self, machine: Machine, marks: Mapping[str, str], folder_prefix: str) -> None:
        self.machine = machine
        self._marks = dict(marks)
        self._prefix = folder_prefix
        self._lock = threading.RLock()
        self._pipe: Pipe | None = None
        self._folder: Path | None = None
        self._forwarded: dict[str, Path] = {}

    @property
    def _control(self) -> list[str]:
        return ["-o", f"ControlPath={self._own_folder() / 'control'}"]

    def _own_folder(self) -> Path:
        """A folder with a short path, because a socket's path has at most 107 bytes."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix=self._prefix, dir=temporary_folder()))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        return self._folder

    def _command(self, *argv: str) -> Command:
        return Command(argv, process.with_ours(self._marks), where=self.machine.name)

    def ensure(self) -> None:
        """Connect, unless connected. Raises Unreachable with the remedy."""
        with self._lock:
            if self._pipe is not None and self._pipe.alive():
                return
            self.close()
            # The session ends with its input, so ssh and all that goes through it ends with this process.
            control = ["-o", "ControlMaster=yes", "-o", "ControlPersist=no", *self._control]
            self._pipe = Pipe(self._command(*ssh_words(self.machine), *control, self.machine.address, "exec cat"))
            weakref.finalize(self, self._pipe.close)
            self._greet(self._pipe)

    def _greet(self, pipe: Pipe) -> None:
        try:
            answer = pipe.ask(_WORD, timeout_s=_GREETING_S)
        except (CommandFailed, CommandTimedOut) as error:
            self.close()
            raise unreachable(self.machine, error.stderr) from None
        if answer != _WORD:
            self.close()
            raise Unreachable(
                f"the login shell of {self.machine.name} prints something before it runs a command",
                f"its first line: {answer.decode(errors='replace')[:200]}",
                "let the shell's start-up files print only for interactive shells",
            )

    def alive(self) -> bool:
        """Whether the machine answers over the current connection."""
        with self._lock:
            if self._pipe is None or not self._pipe.alive():
                return False
            try:
                return self._pipe.ask(_WORD, timeout_s=_GREETING_S) == _WORD
            except (CommandFailed, CommandTimedOut):
                return False

    def python(self, source: Path, *arguments: str, stdin: bytes = b"") -> Any:
        """Run one of the programs in `remote/` there; returns its answer. ConnectionLost if there will be none."""
        self.ensure()
        command = shlex.join([self.machine.python, "-I", "-c", source.read_text(), *arguments])
        started = self._command(*ssh_words(self.machine), *self._control, self.machine.address, f"exec {command}")
        shown = (self.machine.python, source.name, *arguments)
        result = process.run_command(replace(started, shown=shown), stdin=stdin, timeout_s=_SHORT_S, check=False)
        try:
            answer = json.loads(result.stdout)
        except json.JSONDecodeError:
            if result.code == _SSH_FAILED:
                what = f"the connection to {self.machine.name} was lost while {source.name} ran on it"
                raise ConnectionLost(what, result.stderr.strip(), "check its network and power") from None
            raise LabBroken(
                f"{self.machine.python} on {self.machine.name} cannot run {source.name}",
                f"status {result.code}\n{result.stdout}{result.stderr}".strip(),
                "install Python 3.9 or later there, or name it as `python` in the inventory",
            ) from None
        if "error" in answer:
            raise LabBroken(f"{source.name} failed on {self.machine.name}", answer["error"])
        return answer["ok"]

    def socket_to(self, path: str) -> socket.socket:
        """A connection to a UNIX socket there. OSError when nobody answers."""
        try:
            return self._socket_to(path)
        except ConnectionRefusedError:
            # ssh accepts here even if nobody listens there. A refusal means that ssh itself has just ended.
            self.close()
            return self._socket_to(path)

    def _socket_to(self, path: str) -> socket.socket:
        near = self.near(path)
        connected = socket.socket(socket.AF_UNIX)
        try:
            connected.connect(str(near))
        except OSError:
            connected.close()
            raise
        return connected

    def near(self, path: str) -> Path:
        """A socket here, for this user only, that leads to a UNIX socket there."""
        with self._lock:
            self.ensure()
            if path not in self._forwarded:
                near = self._own_folder() / f"f{len(self._forwarded)}"
                self._forwarding("forward", "-L", f"{near}:{path}")
                self._forwarded[path] = near
            return self._forwarded[path]

    @contextmanager
    def far(self, path: str, near: Path) -> Iterator[None]:
        """Makes a UNIX socket there that leads to a socket here, while the block lasts."""
        with self._lock:
            self.ensure()
            self._forwarding("forward", "-R", f"{path}:{near}")
        try:
            yield
        finally:
            if self.alive():
                self._forwarding("cancel", "-R", f"{path}:{near}")

    def _forwarding(self, verb: str, *what: str) -> None:
        # Uses the current connection. With the user's settings ssh would also ask for their forwards.
        command = self._command("ssh", "-F", "none", *self._control, "-O", verb, *what, self.machine.address)
        try:
            process.run_command(command, timeout_s=_SHORT_S)
        except CommandFailed as error:
            raise no_forwarding(self.machine, error.detail) from error

    def interactive(self, command: str, *, terminal: bool) -> tuple[str, ...]:
        """A command for this machine's own streams, over a connection of its own."""
        words = ssh_words(self.machine)
        return (*words, "-t" if terminal else "-T", self.machine.address, command)

    def close(self) -> None:
        """Hang up. Programs that were started there keep running."""
        with self._lock:
            if self._pipe is not None:
                self._pipe.close()
            self._pipe = None
            self._forwarded.clear()
            if self._folder is not None:
                shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None


def no_forwarding(machine: Machine, detail: str) -> LabBroken:
    """The error for a machine that ssh can log in to, but whose sockets it cannot forward."""
    return LabBroken(
        f"ssh cannot forward sockets of {machine.name}",
        detail,
        "its sshd must allow that: AllowStreamLocalForwarding yes (the default), no DisableForwarding",
    )


_REMEDIES = (
    (
        "IDENTIFICATION HAS CHANGED",
        "its host key differs from the known one",
        "find out why before you go on; only if the machine was installed again, run `ssh-keygen -R {place}` and go on "
        "as for a new machine",
    ),
    (
        "Host key verification failed",
        "its host key is not known",
        "run `ssh-keyscan -p {port} {address}`, compare with `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the "
        "machine itself, then add the line to {known_hosts}",
    ),
    (
        "Permission denied",
        "it does not let {user} in",
        "put the public key into ~/.ssh/authorized_keys there; name user and key in the inventory; a key with a "
        "passphrase must be in ssh-agent",
    ),
    ("Could not resolve", "its address cannot be resolved here", "write an address that this machine resolves"),
    ("", "it does not answer at {address} port {port}", "check its power, its sshd, and firewalls on the path"),
)


def unreachable(machine: Machine, message: str) -> Unreachable:
    """An error with a remedy for ssh's own error message."""
    # ssh prints both messages when a key has changed, so the first entry that fits counts.
    why, remedy = next((why, remedy) for sign, why, remedy in _REMEDIES if sign in message)
    port = machine.port or _port_in(message)
    facts = {
        "address": machine.address,
        "port": port,
        "place": machine.address if port == SSH_PORT else f"[{machine.address}]:{port}",
        "user": machine.user or "this user",
        "known_hosts": machine.known_hosts or "~/.ssh/known_hosts",
    }
    what = f"cannot log in to {machine.name}: {why.format(**facts)}"
    return Unreachable(what, message.strip(), remedy.format(**facts))


def _port_in(message: str) -> int:
    """The port from the user's ssh settings, if ssh's message names it."""
    named = re.search(r"(?: port |\]:)(\d+)", message)
    return int(named[1]) if named else SSH_PORT


def left_folders(prefix: str) -> list[Path]:
    """The folders of connections whose process was killed."""
    return [folder for folder in temporary_folder().glob(f"{prefix}*") if ours(folder, stat.S_ISDIR)]
