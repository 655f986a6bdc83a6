"""The standard streams of the command where they are closed, full, or read no further."""

from __future__ import annotations

import os
import signal
import sys
from io import TextIOWrapper
from typing import TextIO

from cephlab.lab.base.errors import LabBroken

UNREAD = 128 + signal.SIGPIPE
"""Exit code where the reader of the result ended first, as `head` does."""


class Unwritten(LabBroken):
    """The result could not be written to standard output."""


class _Stream(TextIOWrapper):
    """A standard stream. Once it cannot be written, the rest of the output is dropped."""

    @classmethod
    def of(cls, stream: TextIO) -> _Stream:
        """The same stream, with its encoding and its buffering."""
        assert isinstance(stream, TextIOWrapper)
        return cls(
            stream.detach(),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
            write_through=stream.write_through,
        )

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            return self._broken(error)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            self._broken(error)

    def _broken(self, error: OSError) -> int:
        """What was not written is still in the buffer, and Python writes it at the end: to /dev/null."""
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)
        return self.told(error)

    def told(self, _error: OSError) -> int:
        """Go on. Messages are not worth ending a run, or a clean-up after the terminal was closed."""
        return 0


class _Result(_Stream):
    """Standard output."""

    def told(self, error: OSError) -> int:
        """End the command: without its result it did not do what was asked for."""
        if isinstance(error, BrokenPipeError):
            raise SystemExit(UNREAD) from None
        raise Unwritten("standard output cannot be written", error.strerror or str(error)) from None


def prepare() -> None:
    """Make the streams of this process safe to write.

    A closed one becomes /dev/null. Otherwise the next file that is opened would get its number, and what a program
    prints would be written into that file.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.dup2(os.open(os.devnull, os.O_RDWR), number)
    sys.stdin = sys.stdin or os.fdopen(0, closefd=False)
    sys.stdout = _Result.of(sys.stdout or os.fdopen(1, "w", closefd=False))
    sys.stderr = _Stream.of(sys.stderr or os.fdopen(2, "w", errors="backslashreplace", closefd=False))
    # pytest's fault handler, among others, asks for these. The old ones have no buffer any more.
    sys.__stdout__, sys.__stderr__ = sys.stdout, sys.stderr  # type: ignore[misc]
