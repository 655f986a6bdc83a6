"""Files into and out of an instance, through LXD's file calls; they work on a node that is down, too."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.lxd.server import lxd_errors, status_of
from cephlab.lab.providers.lxd.where import Where

_CHUNK = 1 << 20
_MAX_LINKS = 10
_NOT_FOUND = 404
_HELPER = "forkfile.sock"
_HELPER_S = 15.0
"""Time for LXD to notice that an instance's helper has gone, which it does at the next call."""


def put(where: Where, source: Path | bytes, target: PurePosixPath, mode: int) -> None:
    """Write a file, owned by root; the directories above it are made where they are absent."""
    delete(where, target)  # LXD 5.0 leaves the mode of a file that exists as it is
    try:
        _post(where, source, target, mode)
    except LabBroken as error:
        if status_of(error) != _NOT_FOUND:
            raise
        for directory in reversed(target.parents):
            _make_directory(where, directory)
        _post(where, source, target, mode)


def _post(where: Where, source: Path | bytes, target: PurePosixPath, mode: int) -> None:
    headers = {"X-LXD-type": "file", "X-LXD-write": "overwrite", **_owned(mode)}

    def post() -> None:
        if isinstance(source, bytes):
            where.api.files.post(params={"path": str(target)}, data=source, headers=headers)
            return
        with source.open("rb") as content:
            where.api.files.post(params={"path": str(target)}, data=content, headers=headers)

    _helped(f"writing {target} on {where.node}", post)


def _make_directory(where: Where, path: PurePosixPath) -> None:
    try:
        _open(where, str(path)).close()
    except LabBroken:
        headers = {"X-LXD-type": "directory", **_owned(0o755)}
        _helped(
            f"making {path} on {where.node}",
            lambda: where.api.files.post(params={"path": str(path)}, headers=headers),
        )


def _owned(mode: int) -> dict[str, str]:
    # When the body has no type, LXD reads part of it as parameters of the call.
    return {
        "X-LXD-mode": f"{mode:04o}",
        "X-LXD-uid": "0",
        "X-LXD-gid": "0",
        "Content-Type": "application/octet-stream",
    }


def delete(where: Where, target: PurePosixPath) -> None:
    """Remove a file; nothing happens when it is not there."""
    try:
        _helped(f"removing {target} on {where.node}", lambda: where.api.files.delete(params={"path": str(target)}))
    except LabBroken as error:
        if status_of(error) != _NOT_FOUND:
            raise


def get(where: Where, source: PurePosixPath, sink: IO[bytes]) -> None:
    """Read a regular file, following links; LabBroken when it is not there or is none."""
    path = str(source)
    for _ in range(_MAX_LINKS):
        response = _open(where, path)
        try:
            kind = response.headers.get("X-LXD-type")
            if kind == "symlink":
                path = posixpath.join(posixpath.dirname(path), response.content.decode())
                continue
            if kind != "file":
                break
            with lxd_errors(f"reading {source} on {where.node}"):
                for piece in response.iter_content(_CHUNK):
                    sink.write(piece)
            return
        finally:
            response.close()
    raise LabBroken(f"{source} on {where.node} is not a file")


def _open(where: Where, path: str) -> Any:
    try:
        return _helped(
            f"reading {path} on {where.node}",
            lambda: where.api.files.get(params={"path": path}, stream=True, is_api=False),
        )
    except LabBroken as error:
        if status_of(error) == _NOT_FOUND:
            raise LabBroken(f"{path} is not there on {where.node}", error.detail) from error
        raise


def _helped(doing: str, call: Callable[[], Any]) -> Any:
    """What a file call answers, asked again while the helper that LXD has for an instance's files is on its way out.

    It leaves when nothing was asked for ten seconds, and whoever comes at that moment is turned away before anything
    was done (https://github.com/lxc/incus/pull/3623 tells of it, LXD has it in 5.0 as in 5.21).
    """

    def attempt() -> tuple[Any, LabBroken | None]:
        try:
            with lxd_errors(doing):
                return call(), None
        except LabBroken as error:
            if _HELPER not in error.detail:
                raise
            return None, error

    answer, _ = clock.wait(
        attempt,
        lambda outcome: outcome[1] is None,
        what=doing,
        timeout_s=_HELPER_S,
        timed_out=lambda what, timeout_s, last: LabBroken(
            f"LXD failed at {what} for {timeout_s:g} s", last[1].detail if last[1] else ""
        ),
    )
    return answer
