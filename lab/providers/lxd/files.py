"""Files into and out of an instance, through LXD's file calls. They also work on a node that is down."""

import posixpath
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.lxd.server import InstanceRef, lxd_errors, repeat_while

_CHUNK = 1 << 20
_MAX_LINKS = 10
_HELPER = "forkfile.sock"
_HELPER_S = 15.0
"""Time for LXD to notice that an instance's helper has ended, which it does at the next call."""


def put(instance: InstanceRef, source: Path | bytes, target: PurePosixPath, mode: int) -> None:
    """Write a file, owned by root. Missing directories above it are made."""
    delete(instance, target)  # LXD 5.0 does not change the mode of an existing file
    try:
        _post(instance, source, target, mode)
    except NotThere:
        for directory in reversed(target.parents):
            _make_directory(instance, directory)
        _post(instance, source, target, mode)


def _post(instance: InstanceRef, source: Path | bytes, target: PurePosixPath, mode: int) -> None:
    headers = {"X-LXD-type": "file", "X-LXD-write": "overwrite", **_owned(mode)}

    def post() -> None:
        if isinstance(source, bytes):
            instance.api.files.post(params={"path": str(target)}, data=source, headers=headers)
            return
        with source.open("rb") as content:
            instance.api.files.post(params={"path": str(target)}, data=content, headers=headers)

    _helped(f"writing {target} on {instance.node}", post)


def _make_directory(instance: InstanceRef, path: PurePosixPath) -> None:
    try:
        _open(instance, str(path)).close()
    except LabBroken:
        headers = {"X-LXD-type": "directory", **_owned(0o755)}
        _helped(
            f"making {path} on {instance.node}",
            lambda: instance.api.files.post(params={"path": str(path)}, headers=headers),
        )


def _owned(mode: int) -> dict[str, str]:
    # Without a content type, LXD reads part of the body as parameters of the call.
    return {
        "X-LXD-mode": f"{mode:04o}",
        "X-LXD-uid": "0",
        "X-LXD-gid": "0",
        "Content-Type": "application/octet-stream",
    }


def delete(instance: InstanceRef, target: PurePosixPath) -> None:
    """Remove a file, if it exists."""
    with suppress(NotThere):
        _helped(
            f"removing {target} on {instance.node}", lambda: instance.api.files.delete(params={"path": str(target)})
        )


def get(instance: InstanceRef, source: PurePosixPath, sink: IO[bytes]) -> None:
    """See EngineHost.get."""
    path = str(source)
    for _ in range(_MAX_LINKS):
        response = _open(instance, path)
        try:
            kind = response.headers.get("X-LXD-type")
            if kind == "symlink":
                path = posixpath.join(posixpath.dirname(path), response.content.decode())
                continue
            if kind != "file":
                break
            with lxd_errors(f"reading {source} on {instance.node}"):
                for piece in response.iter_content(_CHUNK):
                    sink.write(piece)
            return
        finally:
            response.close()
    raise LabBroken(f"{source} on {instance.node} is not a file")


def _open(instance: InstanceRef, path: str) -> Any:
    try:
        return _helped(
            f"reading {path} on {instance.node}",
            lambda: instance.api.files.get(params={"path": path}, stream=True, is_api=False),
        )
    except NotThere as error:
        raise LabBroken(f"{path} does not exist on {instance.node}", error.detail) from error


def _helped(doing: str, call: Callable[[], Any]) -> Any:
    """Make a file call, and repeat it while LXD's helper for the instance's files is shutting down.

    The helper ends after ten seconds without a call. A call at that moment is refused before anything is done
    (described in https://github.com/lxc/incus/pull/3623; LXD 5.0 and 5.21 have it too).
    """

    def attempt() -> Any:
        with lxd_errors(doing):
            return call()

    return repeat_while(_HELPER, attempt, what=doing, timeout_s=_HELPER_S)
