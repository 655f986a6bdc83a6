"""Running commands inside an instance, to the end or to a deadline that kills them with their children."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from signal import SIGKILL
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CommandTimedOut, LabBroken
from cephlab.lab.base.process import LocalProcess, Result, find_marked
from cephlab.lab.providers.engine import places
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.engine.process import NodeCommand
from cephlab.lab.providers.lxd import files
from cephlab.lab.providers.lxd.server import RUNNING, InstanceRef, lxd_errors, status_of
from cephlab.lab.providers.marks import TOKEN_VARIABLE, new_token, signalling

_DRAIN_S = 2.0
_PASSES = 5
_POLL_S = 0.02
_PRIVATE = 0o600

# $1: the file with the input; the rest is the command.
_FROM_FILE = 'exec 0<"$1"; shift; exec "$@"'


class ExecMode(Enum):
    """Where a command's streams go: nowhere, into LXD's files, or to this process once it has opened all of them."""

    SILENT = "silent"
    RECORDED = "recorded"
    STREAMED = "streamed"


@dataclass(frozen=True)
class Exec:
    """A command that LXD has started: its operation, and the secrets of its streams, if any."""

    operation: str
    secrets: Mapping[str, str]


def begin(instance: InstanceRef, command: NodeCommand, mode: ExecMode) -> Exec:
    """Start a command; LabBroken when the node is down."""
    request = {
        "command": list(command.argv),
        "environment": dict(command.env),
        "wait-for-websocket": mode is ExecMode.STREAMED,
        "interactive": False,
        "record-output": mode is ExecMode.RECORDED,
        "cwd": str(command.cwd) if command.cwd else "",
    }
    try:
        with lxd_errors(f"starting {command.argv[0]} on {instance.node}"):
            operation = instance.api["exec"].post(json=request).json()["metadata"]
    except LabBroken as error:
        if status_of(error) in {400, 404}:
            raise LabBroken(f"{instance.node} is down", f"{command.argv[0]} was not run: {error.detail}") from error
        raise
    return Exec(str(operation["id"]), dict((operation.get("metadata") or {}).get("fds") or {}))


def look(instance: InstanceRef, operation: str) -> dict[str, Any] | None:
    """{status_code, metadata: {return}, ...}; None once LXD has forgotten it, seconds after its end."""
    node = instance.server.api(instance.project).operations[operation]
    try:
        return dict(instance.server.get("inspecting a command", node))
    except NotThere:
        return None


def running(instance: InstanceRef, operation: str) -> bool:
    """Whether LXD knows the command and reports it as running."""
    state = look(instance, operation)
    return state is not None and state["status_code"] == RUNNING


def code_of(state: Mapping[str, Any] | None) -> int | None:
    """Status of a command that has ended, 128 + N after signal N; None if LXD does not know."""
    code = None if state is None else (state.get("metadata") or {}).get("return")
    return None if code is None or code < 0 else int(code)


def marked_here(instance: InstanceRef, token: str) -> list[LocalProcess]:
    """A command's processes as this machine sees them; empty if they are not visible here."""
    return find_marked({TOKEN_VARIABLE: token}, of_all=True) if instance.sees_processes else []


def signal_marked(instance: InstanceRef, token: str, number: int) -> None:
    """Signal every process in the instance that carries the token (see `signalling`)."""
    signaller = begin(instance, NodeCommand(signalling(token, number)), ExecMode.SILENT)
    with lxd_errors(f"signalling on {instance.node}"):
        instance.server.api(instance.project).operations[signaller.operation].wait.get()


def kill_all(instance: InstanceRef, token: str) -> None:
    """Kill every process that carries a token."""
    if not instance.sees_processes:
        signal_marked(instance, token, int(SIGKILL))
        return
    for _ in range(_PASSES):
        processes = marked_here(instance, token)
        for process in processes:
            process.kill()
        if not processes:
            return


def run(instance: InstanceRef, command: NodeCommand, timeout_s: float) -> Result:
    """See EngineHost.execute.

    LXD writes the outputs into files, which are fetched afterwards. Before 5.14 it sometimes loses the outputs of a
    short command when they are streamed (https://github.com/canonical/lxd/issues/11890).
    """
    if not command.stdin:
        return _run(instance, command, command, timeout_s)
    source = places.NODE_DIRECTORY / f".stdin-{new_token()}"
    files.put(instance, command.stdin, source, _PRIVATE)
    try:
        return _run(instance, command, command.under(_FROM_FILE, str(source)), timeout_s)
    finally:
        files.delete(instance, source)


def _run(instance: InstanceRef, command: NodeCommand, wrapped: NodeCommand, timeout_s: float) -> Result:
    """wrapped: what is really started; errors name the command."""
    token = new_token()
    started = begin(instance, wrapped.marked(token), ExecMode.RECORDED)
    try:
        end = ended(instance, started.operation, clock.Deadline.after(timeout_s))
    except BaseException:
        kill_all(instance, token)
        raise
    if end is None:
        kill_all(instance, token)
        end = ended(instance, started.operation, clock.Deadline.after(_DRAIN_S)) or {}
        stdout, stderr = _outputs(instance, end, started)
        raise CommandTimedOut(command.argv, timeout_s, _text(stdout), _text(stderr), instance.node)
    code, (stdout, stderr) = code_of(end), _outputs(instance, end, started)
    if code is None:
        raise LabBroken(f"{instance.node} went down while {command.argv[0]} ran", _text(stderr))
    return Result(tuple(command.argv), code, stdout, stderr)


def ended(instance: InstanceRef, operation: str, deadline: clock.Deadline) -> dict[str, Any] | None:
    """How a command ended; None if it did not by the deadline. Empty if LXD has already forgotten it."""
    node = instance.server.api(instance.project).operations[operation].wait
    while True:
        # LXD waits for whole seconds only, so the rest of the last second is polled.
        last, whole_s = deadline.passed(), int(deadline.slice_s())
        try:
            state = instance.server.get("waiting for a command", node, params={"timeout": whole_s})
        except NotThere:
            return {}
        if state["status_code"] != RUNNING:
            return dict(state)
        if last:
            return None
        clock.look_on(deadline.elapsed_s())
        deadline.pause(_POLL_S)


def _outputs(instance: InstanceRef, end: Mapping[str, Any], started: Exec) -> tuple[bytes, bytes]:
    named = (end.get("metadata") or {}).get("output") or {}
    paths = [str(named.get(number) or "") for number in ("1", "2")]
    if not all(paths):  # the command was killed and LXD has not noticed yet; the files exist from the start
        paths = [f"/logs/exec_{started.operation}.{name}" for name in ("stdout", "stderr")]
    return _fetch(instance, paths[0]), _fetch(instance, paths[1])


def _fetch(instance: InstanceRef, path: str) -> bytes:
    node = instance.api.logs[path.partition("/logs/")[2]]
    try:
        with lxd_errors(f"fetching an output from {instance.node}"):
            data: bytes = node.get(is_api=False).content
            node.delete()
    except NotThere:
        return b""
    return data


def _text(data: bytes) -> str:
    return data.decode(errors="replace")
