"""Running commands inside an instance: to the end, or to a deadline at which it is killed with its children."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from signal import SIGKILL
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandTimedOut, LabBroken
from cephlab.lab.base.process import LocalProcess, Result, find_marked
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.order import Order
from cephlab.lab.providers.lxd import files
from cephlab.lab.providers.lxd.server import lxd_errors, status_of
from cephlab.lab.providers.lxd.where import Where
from cephlab.lab.providers.marks import TOKEN_VARIABLE, new_token, signalling

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


def begin(where: Where, order: Order, mode: Mode) -> Exec:
    """Have a command begun. LabBroken when the node is down."""
    wanted = {
        "command": list(order.argv),
        "environment": dict(order.env),
        "wait-for-websocket": mode is Mode.STREAMED,
        "interactive": False,
        "record-output": mode is Mode.RECORDED,
        "cwd": str(order.cwd) if order.cwd else "",
    }
    try:
        with lxd_errors(f"starting {order.program} on {where.node}"):
            begun = where.api["exec"].post(json=wanted).json()["metadata"]
    except LabBroken as error:
        if status_of(error) in {400, 404}:
            raise LabBroken(f"{where.node} is down", f"{order.program} was not run: {error.detail}") from error
        raise
    return Exec(str(begun["id"]), dict((begun.get("metadata") or {}).get("fds") or {}))


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
    return find_marked({TOKEN_VARIABLE: token}, of_all=True) if where.sees_processes else []


def signal_marked(where: Where, token: str, number: int) -> None:
    """Signal every process in the instance that carries the token, whoever its parent is by now.

    It does not see a daemon that has dropped root, as that hides its environment.
    """
    begun = begin(where, Order(signalling(token, number)), Mode.SILENT)
    with lxd_errors(f"signalling on {where.node}"):
        where.server.api(where.project).operations[begun.operation].wait.get()


def kill_all(where: Where, token: str) -> None:
    """Kill all that carries a token."""
    if not where.sees_processes:
        signal_marked(where, token, int(SIGKILL))
        return
    for _ in range(_PASSES):
        processes = marked_here(where, token)
        for process in processes:
            process.kill()
        if not processes:
            return


def run(where: Where, order: Order, timeout_s: float) -> Result:
    """See EngineHost.execute.

    LXD keeps the outputs in files, which are fetched afterwards: before 5.14 it loses those of a short command now and
    then when they are streamed (https://github.com/canonical/lxd/issues/11890).
    """
    if not order.stdin:
        return _run(where, order, order, timeout_s)
    source = places.NODE_DIRECTORY / f".stdin-{new_token()}"
    files.put(where, order.stdin, source, _PRIVATE)
    try:
        return _run(where, order, order.under(_FROM_FILE, str(source)), timeout_s)
    finally:
        files.delete(where, source)


def _run(where: Where, order: Order, wrapped: Order, timeout_s: float) -> Result:
    """wrapped: what is really started; errors tell of the order."""
    token = new_token()
    begun = begin(where, wrapped.marked(token), Mode.RECORDED)
    try:
        end = ended(where, begun.operation, clock.Deadline.after(timeout_s))
    except BaseException:
        kill_all(where, token)
        raise
    if end is None:
        kill_all(where, token)
        end = ended(where, begun.operation, clock.Deadline.after(_DRAIN_S)) or {}
        stdout, stderr = _outputs(where, end, begun)
        raise CommandTimedOut(order.argv, timeout_s, _text(stdout), _text(stderr), where.node)
    code, (stdout, stderr) = code_of(end), _outputs(where, end, begun)
    if code is None:
        raise LabBroken(f"{where.node} went down while {order.program} ran", _text(stderr))
    return Result(tuple(order.argv), code, stdout, stderr)


def ended(where: Where, operation: str, deadline: clock.Deadline) -> dict[str, Any] | None:
    """How a command ended; None when it did not by the deadline. Empty when LXD has forgotten it already."""
    node = where.server.api(where.project).operations[operation].wait
    while True:
        # LXD waits for whole seconds only, so the rest of the last second is polled.
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
