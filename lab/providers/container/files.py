"""Files into and out of a container, through the engine's archive calls. They also work on a node that is down."""

import io
import posixpath
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import IO, Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.providers.container.engine import engine_errors
from cephlab.lab.providers.container.execs import ContainerRef
from cephlab.lab.providers.engine.answers import NotThere

_CHUNK = 1 << 20
_MAX_LINKS = 10
_SYMLINK = 1 << 27  # modes are Go's os.FileMode
_IRREGULAR = sum(1 << bit for bit in (31, 27, 26, 25, 24, 21, 19))  # directory, link, device, pipe, socket, odd


def put(container: ContainerRef, source: Path | bytes, target: PurePosixPath, mode: int) -> None:
    """Write a file, owned by root. The engine makes the directories above it."""
    info = tarfile.TarInfo(str(target).lstrip("/"))
    info.mode = mode
    info.mtime = time.time()
    info.size = len(source) if isinstance(source, bytes) else source.stat().st_size
    with io.BytesIO(source) if isinstance(source, bytes) else source.open("rb") as content:
        data: Any = _archive(info, content)  # the library streams any iterator, its annotation says bytes
        with engine_errors(f"writing {target} on {container.node}"):
            container.client.api.put_archive(container.name, "/", data)


def _archive(info: tarfile.TarInfo, content: IO[bytes]) -> Iterator[bytes]:
    """A tar of one file, piece by piece."""
    yield info.tobuf()
    left = info.size
    while left:
        chunk = content.read(min(left, _CHUNK))
        if not chunk:
            raise LabBroken(f"{info.name} became shorter while it was copied")
        left -= len(chunk)
        yield chunk
    yield b"\0" * (-info.size % tarfile.BLOCKSIZE + 2 * tarfile.BLOCKSIZE)


def get(container: ContainerRef, source: PurePosixPath, sink: IO[bytes]) -> None:
    """See EngineHost.get."""
    path = str(source)
    for _ in range(_MAX_LINKS):
        chunks, facts = _open(container, path)
        if int(facts["mode"]) & _SYMLINK:
            _discard(chunks)
            path = posixpath.join(posixpath.dirname(path), str(facts["linkTarget"]))
            continue
        if int(facts["mode"]) & _IRREGULAR:
            _discard(chunks)
            break
        with engine_errors(f"reading {source} on {container.node}"):
            _extract(chunks, sink)
        return
    raise LabBroken(f"{source} on {container.node} is not a file")


def _open(container: ContainerRef, path: str) -> tuple[Iterator[bytes], dict[str, Any]]:
    try:
        with engine_errors(f"reading {path} on {container.node}"):
            chunks, facts = container.client.api.get_archive(container.name, path, chunk_size=_CHUNK)
    except NotThere as error:
        raise LabBroken(f"{path} does not exist on {container.node}", error.detail) from error
    return iter(chunks), dict(facts)


def _discard(chunks: Iterator[bytes]) -> None:
    close = getattr(chunks, "close", None)
    if close is not None:
        close()


def _extract(chunks: Iterator[bytes], sink: IO[bytes]) -> None:
    stream: Any = _Stream(chunks)  # tarfile needs no more than `read`
    with tarfile.open(fileobj=stream, mode="r|") as archive:
        member = archive.next()
        content = archive.extractfile(member) if member is not None else None
        if content is None:
            raise LabBroken("the engine sent an archive without a file")
        while chunk := content.read(_CHUNK):
            sink.write(chunk)
        while archive.next() is not None:
            continue


class _Stream:
    """Chunks as a reader for tarfile."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._held = b""

    def read(self, size: int = -1) -> bytes:
        parts = [self._held]
        have = len(self._held)
        while size < 0 or have < size:
            chunk = next(self._chunks, b"")
            if not chunk:
                break
            parts.append(chunk)
            have += len(chunk)
        data = b"".join(parts)
        cut = len(data) if size < 0 else size
        self._held = data[cut:]
        return data[:cut]
