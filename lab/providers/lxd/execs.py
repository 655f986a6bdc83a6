"""Running commands inside an instance: to the end, with a deadline that kills for real."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath
from signal import SIGKILL
from typing import Any

from lab import clock
from lab.errors import CommandFailed, CommandTimedOut, LabBroken
from lab.process import LocalProcess, Result, find_marked
from lab.providers.lxd import files, names
from lab.providers.lxd.server import lxd_errors, status_of
from lab.providers.lxd.where import Where
from lab.providers.marks import TOKEN_VARIABLE, new_token, signalling

_DRAIN_S = 2.0
_PASSES = 5
_POLL_S = 0.02
_PRIVATE = 0o600
_NOT_FOUND = 404
RUNNING = 103
"""Status code of LXD's API."""

# $1: the file with the input; the rest is the command.
_FROM_FILE = 'exec 0<"$1"; shift; exec "$@"'


class Mode(Enum):
    """Where a command's streams go: nowhere, into files of LXD's, or to us once all of them are opened."""

    SILENT = "silent"
    RECORDED = "recorded"
    STREAMED = "streamed"


@dataclass(frozen=True)
class Exec:
    """A command that LXD has begun: its operation, and the secrets of its streams where it has any."""

    operation: str
    secrets: Mapping[str, str]


def begin(
    where: Where,
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    mode: Mode,
    cwd: PurePosixPath | None = None,
) -> Exec:
    """Have a command begun. LabBroken when the node is down."""
    order = {
        "command": list(argv),
        "environment": dict(env),
        "wait-for-websocket": mode is Mode.STREAMED,
        "interactive": False,
        "record-output": mode is Mode.RECORDED,
        "cwd": str(cwd) if cwd else "",
    }
    try:
        with lxd_errors(f"starting {argv[0]} on {where.node}"):
            found = where.api["exec"].post(json=order).json()["metadata"]
    except LabBroken as error:
        if status_of(error) in {400, 404}:
            raise LabBroken(f"{where.node} is down", f"{argv[0]} was not run: {error.detail}") from error
        raise
    return Exec(str(found["id"]), dict((found.get("metadata") or {}).get("fds") or {}))


def look(where: Where, operation: str) -> dict[str, Any] | None:
    """{status_code, metadata: {return}, ...}; None once LXD has forgotten it, seconds after its end."""
    try:
        return dict(where.server.get("looking at a command", where.server.api(where.project).operations[operation]))
    except LabBroken as error:
        if status_of(error) == 404:
            return None
        raise


def running(where: Where, operation: str) -> bool:
    """Whether LXD knows of the command and that it goes on."""
    state = look(where, operation)
    return state is not None and state["status_code"] == RUNNING


def code_of(state: Mapping[str, Any] | None) -> int | None:
    """Status of a command that has ended, 128 + N after signal N; None when LXD does not know."""
    code = None if state is None else (state.get("metadata") or {}).get("return")
    return None if code is None or code < 0 else int(code)


def marked_here(where: Where, token: str) -> list[LocalProcess]:
    """A command's processes as those of this machine; none where they cannot be seen."""
    return find_marked({TOKEN_VARIABLE: token}) if where.sees_processes else []


def signal_marked(where: Where, token: str, number: int) -> None:
    """Signal every process in the instance that carries the token, whoever its parent is by now.

    It does not see a daemon that has dropped root, as that hides its environment.
    """
    begun = begin(where, signalling(token, number), env={}, mode=Mode.SILENT)
    with lxd_errors(f"signalling on {where.node}"):
        where.server.api(where.project).operations[begun.operation].wait.get()


def kill_all(where: Where, token: str) -> None:
    """Kill all that carries a token."""
    if not where.sees_processes:
        signal_marked(where, token, int(SIGKILL))
        return
    for _ in range(_PASSES):
        found = marked_here(where, token)
        for process in found:
            process.kill()
        if not found:
            return


def run(
    where: Where,
    argv: Sequence[str],
    *,
    timeout_s: float,
    stdin: bytes,
    env: Mapping[str, str],
    check: bool,
    cwd: PurePosixPath | None = None,
) -> Result:
    """Run to the end. A command that a signal ended has status 128 plus the signal's number.

    LXD keeps the outputs in files, which are fetched afterwards: before 5.14 it loses those of a short command now and
    then when they are streamed (https://github.com/canonical/lxd/issues/11890).
    Raises CommandFailed when check and the status is not 0, CommandTimedOut after killing all that the
    command started, LabBroken when the node is down.
    """
    if not stdin:
        return _run(where, argv, argv, timeout_s=timeout_s, env=env, check=check, cwd=cwd)
    source = names.NODE_DIRECTORY / f".stdin-{new_token()}"
    files.put(where, stdin, source, _PRIVATE)
    try:
        command = ("bash", "-c", _FROM_FILE, "bash", str(source), *argv)
        return _run(where, argv, command, timeout_s=timeout_s, env=env, check=check, cwd=cwd)
    finally:
        files.delete(where, source)


def _run(
    where: Where,
    argv: Sequence[str],
    command: Sequence[str],
    *,
    timeout_s: float,
    env: Mapping[str, str],
    check: bool,
    cwd: PurePosixPath | None,
) -> Result:
    token = new_token()
    begun = begin(where, command, env={**env, TOKEN_VARIABLE: token}, mode=Mode.RECORDED, cwd=cwd)
    try:
        found = ended(where, begun.operation, clock.Deadline.after(timeout_s))
    except BaseException:
        kill_all(where, token)
        raise
    if found is None:
        kill_all(where, token)
        found = ended(where, begun.operation, clock.Deadline.after(_DRAIN_S)) or {}
        stdout, stderr = _outputs(where, found, begun)
        raise CommandTimedOut(argv, timeout_s, _text(stdout), _text(stderr), where.node)
    return _judged(where, argv, code_of(found), _outputs(where, found, begun), check=check)


def _judged(
    where: Where, argv: Sequence[str], code: int | None, outputs: tuple[bytes, bytes], *, check: bool
) -> Result:
    if code is None:
        raise LabBroken(f"{where.node} went down while {argv[0]} ran", _text(outputs[1]))
    result = Result(tuple(argv), code, *outputs)
    if check and code != 0:
        raise CommandFailed(argv, code, result.stdout, result.stderr, where.node)
    return result


def ended(where: Where, operation: str, deadline: clock.Deadline) -> dict[str, Any] | None:
    """How a command ended; None when it did not by the deadline. Empty when LXD has forgotten it already."""
    node = where.server.api(where.project).operations[operation].wait
    while True:
        # LXD waits for whole seconds only; what is left of the last one is looked at again and again.
        last, whole_s = deadline.passed(), int(deadline.remaining_s())
        try:
            state = where.server.get("waiting for a command", node, params={"timeout": whole_s})
        except LabBroken as error:
            if status_of(error) == _NOT_FOUND:
                return {}
            raise
        if state["status_code"] != RUNNING:
            return dict(state)
        if last:
            return None
        deadline.pause(_POLL_S)


def _outputs(where: Where, ended: Mapping[str, Any], begun: Exec) -> tuple[bytes, bytes]:
    """Both outputs of a command, which LXD then forgets."""
    named = (ended.get("metadata") or {}).get("output") or {}
    paths = [str(named.get(number) or "") for number in ("1", "2")]
    if not all(paths):  # it was killed and LXD has not noticed: the files have been there from the beginning
        paths = [f"/logs/exec_{begun.operation}.{name}" for name in ("stdout", "stderr")]
    return _fetch(where, paths[0]), _fetch(where, paths[1])


def _fetch(where: Where, path: str) -> bytes:
    node = where.api.logs[path.partition("/logs/")[2]]
    try:
        with lxd_errors(f"fetching an output from {where.node}"):
            data: bytes = node.get(is_api=False).content
            node.delete()
    except LabBroken as error:
        if status_of(error) == _NOT_FOUND:
            return b""
        raise
    return data


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
