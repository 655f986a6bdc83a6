"""All errors of the lab: what went wrong, the evidence, and what to do about it.

LabError
├── SpecError        the user's input cannot be used; nothing was started          (exit 2)
├── Unavailable      a capability is missing here; scenarios turn it into a skip   (exit 2)
│   └── NotInstalled     programs are missing here, and one command installs them  (exit 3)
├── LabBroken        the lab itself failed: engine, disk, network                  (exit 3)
│   ├── CommandFailed    a command on a host or on this machine ended non-zero
│   ├── CommandTimedOut  a command did not end in time and was killed
│   ├── DiskFull         a program of Ceph ended where the disk of this machine, or of its node, is full
│   ├── LeftBehind       something of a run is left on a cluster that stays
│   └── CleanupFailed    some steps of a clean-up failed; all others were done
└── CephTrouble      Ceph did something wrong while the lab worked                 (exit 1)
    ├── DaemonDied       a daemon ended although nobody stopped it
    └── NotReached       a state was not reached in time; carries the last state seen
"""

import errno
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import ClassVar, Concatenate, ParamSpec, TypeVar

from cephlab.lab.base.numbers import how_many

_Text = TypeVar("_Text")
_Read = TypeVar("_Read")
_Rest = ParamSpec("_Rest")

_TAIL_CHARS = 4000
_PRUNE = "run `cephlab prune`"
_PACKAGE = Path(__file__).parents[2]
_PAGE = re.compile(r"(?<![\w/.-])docs/[\w/-]+\.md")


def page_paths(hint: str, package: Path = _PACKAGE) -> str:
    """The hint with full paths to its pages (docs/NAME.md), unless the current folder is the checkout that has them."""
    docs = (package / "docs").resolve()
    try:
        if Path("docs").samefile(docs):
            return hint
    except OSError:  # one of the two does not exist, or the current folder may not be read
        pass
    return _PAGE.sub(lambda page: str(docs.parent / page[0]) if (docs.parent / page[0]).exists() else page[0], hint)


class LabError(Exception):
    """Root of every error that cephlab raises on purpose.

    what: one sentence that says what went wrong. detail: the evidence (output, paths, values), may be empty.
    hint: what the reader can do next, may be empty.
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, what: str, detail: str = "", hint: str = "") -> None:
        super().__init__(what, detail, hint)
        self.what = what
        self.detail = detail
        self.hint = page_paths(hint)

    def __str__(self) -> str:
        hint = f"hint: {self.hint}" if self.hint else ""
        return "\n".join(part for part in (self.what, self.detail, hint) if part)


class SpecError(LabError):
    """Input that cannot be used. It is refused before anything starts."""

    exit_code = 2


class Unavailable(LabError):
    """Something this machine lacks; `hint` says how to get it."""

    exit_code = 2


class NotInstalled(Unavailable):
    """Names every program that this machine lacks. missing: program -> the Debian package that has it."""

    exit_code = 3

    def __init__(self, missing: Mapping[str, str], why: str) -> None:
        self.missing = dict(sorted(missing.items()))
        names, packages = ", ".join(self.missing), " ".join(sorted(set(missing.values())))
        be = "is" if len(missing) == 1 else "are"
        super().__init__(f"{names} {be} not installed", why, f"on Debian and Ubuntu: sudo apt-get install {packages}")


class LabBroken(LabError):
    """The lab failed, not Ceph."""


def output_of(
    program: str,
) -> Callable[[Callable[Concatenate[_Text, _Rest], _Read]], Callable[Concatenate[_Text, _Rest], _Read]]:
    """A function that reads the output of a program, its first argument: LabBroken shows output that it cannot read.

    Output may be cut off, or lack what another version of the program writes.
    """

    def reading(read: Callable[Concatenate[_Text, _Rest], _Read]) -> Callable[Concatenate[_Text, _Rest], _Read]:
        @wraps(read)
        def guarded(output: _Text, /, *args: _Rest.args, **kwargs: _Rest.kwargs) -> _Read:
            try:
                return read(output, *args, **kwargs)
            except (ArithmeticError, AttributeError, LookupError, StopIteration, TypeError, ValueError) as error:
                text = output.decode(errors="replace") if isinstance(output, bytes) else str(output)
                detail = f"{type(error).__name__}: {error}\n{_tail(text)}"
                raise LabBroken(f"the output of {program} cannot be read", detail) from error

        return guarded

    return reading


class CommandFailed(LabBroken):
    """A command ended with a status that its caller does not accept."""

    def __init__(self, argv: Sequence[str], code: int, stdout: str, stderr: str, where: str) -> None:
        self.argv = tuple(argv)
        self.code = code
        self.stdout = stdout
        self.stderr = stderr
        super().__init__(f"{argv[0]} ended with status {code} on {where}", _printed(argv, stdout, stderr))


class CommandTimedOut(LabBroken):
    """A command was killed because it did not end in `timeout_s` seconds."""

    def __init__(self, argv: Sequence[str], timeout_s: float, stdout: str, stderr: str, where: str) -> None:
        self.argv = tuple(argv)
        self.timeout_s = timeout_s
        self.stdout = stdout
        self.stderr = stderr
        super().__init__(f"{argv[0]} did not end within {timeout_s:g} s on {where}", _printed(argv, stdout, stderr))


class CleanupFailed(LabBroken):
    """Some steps of a clean-up failed; all other steps were done."""

    def __init__(self, errors: Sequence[str], then: str = _PRUNE) -> None:
        """then: what finishes the clean-up."""
        self.errors = tuple(errors)
        super().__init__(
            f"{how_many(len(errors), 'clean-up step')} failed",
            "\n".join(f"- {error}" for error in errors),
            f"fix the causes above, then {then}",
        )


class CleanUp:
    """A clean-up that goes on after a step that failed. errors: of the steps that failed, in words."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    @contextmanager
    def step(self, of: str = "") -> Iterator[None]:
        """One step. An error ends it, but not the clean-up. of: what is cleaned up, where the error may not say it."""
        try:
            yield
        except (LabError, OSError) as error:
            self.errors.append(f"{of}: {error}" if of else str(error))

    def end(self) -> None:
        """Raise CleanupFailed with all errors, if there are any."""
        if self.errors:
            raise CleanupFailed(self.errors)


class LeftBehind(LabBroken):
    """Something of a run is left on a cluster that stays. Its detail has what and why, its hint how to remove it."""


def try_all(steps: Iterable[Callable[[], object]]) -> None:
    """Do every step, also after one failed. Raises the first error at the end, with the others in its detail."""
    failed: list[LabError] = []
    for step in steps:
        try:
            step()
        except LabError as error:
            failed.append(error)
    if failed:
        first, *others = failed
        first.detail = "\n".join([first.detail, *(f"another step failed too: {other}" for other in others)]).strip()
        raise first


@contextmanager
def noted_on(error: BaseException, what: str) -> Iterator[None]:
    """Make a later error a note of an earlier one, which says what went wrong. what: the block does this."""
    try:
        yield
    except LabError as also:
        error.add_note(f"and {what} failed: {also}")


def interruption(error: BaseException) -> KeyboardInterrupt | None:
    """The KeyboardInterrupt behind an error, if any. When it ends a scenario, a failed clean-up may hide it."""
    seen: list[BaseException] = []
    ahead = [error]
    while ahead:
        cause = ahead.pop()
        if isinstance(cause, KeyboardInterrupt):
            return cause
        seen.append(cause)
        ahead.extend(before for before in (cause.__cause__, cause.__context__) if before and before not in seen)
    return None


def prefer_interruption(error: BaseException) -> None:
    """Raise the KeyboardInterrupt behind an error, with the error as a note. Return if there is none."""
    stopped = interruption(error)
    if stopped is not None and stopped is not error:
        stopped.add_note(f"and after that: {getattr(error, 'what', error)}")
        raise stopped from None


def end_if_interrupted() -> None:
    """Raise a KeyboardInterrupt again while it is handled. The cluster is removed next: its state does not matter."""
    handled = sys.exception()
    stopped = interruption(handled) if handled is not None else None
    if stopped is not None:
        raise stopped


_MAKE_ROOM = "free some space, e.g. `cephlab prune`, `cephlab image rm`"
_MAY_WRITE = "check whether this user may write there, and whether its file system is mounted read-only"
_MAY_READ = "check the path, and whether this user may read it"


def is_full(error: OSError) -> bool:
    """Whether a file could not be written because its disk is full, or the share that this user may fill."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritable(path: object, error: OSError) -> LabBroken:
    """The error to raise when a file of the lab cannot be written. A full disk gets a hint."""
    full = is_full(error)
    what = f"the disk of {path} is full" if full else f"{path} cannot be written"
    return LabBroken(what, error.strerror or str(error), _MAKE_ROOM if full else _MAY_WRITE)


def unreadable(path: object, error: OSError | UnicodeDecodeError, hint: str = "") -> SpecError:
    """The error to raise when a file that the user named cannot be read."""
    why = error.strerror if isinstance(error, OSError) else not_text(error)
    return SpecError(f"{path} cannot be read", why or str(error), hint or _MAY_READ)


def not_text(error: UnicodeDecodeError) -> str:
    """Where the content of a file is no text, in words."""
    return f"it is not text: byte 0x{error.object[error.start]:02x} at position {error.start} is not UTF-8"


class CephTrouble(LabError):
    """Ceph misbehaved while the lab worked."""

    exit_code = 1


class DaemonDied(CephTrouble):
    """A daemon ended although nobody stopped it."""

    def __init__(self, name: str, node: str, command: str, log_tail: str, crash: str, exit_code: int | None) -> None:
        self.daemon = name
        self.node = node
        how = "for an unknown reason" if exit_code is None else f"with status {exit_code}"
        detail = f"command: {command}\nlast log lines:\n{_tail(log_tail)}"
        if crash:
            detail += f"\ncrash record:\n{_tail(crash)}"
        super().__init__(f"{name} on {node} died {how}", detail, "if the cluster was kept, `cephlab logs` shows more")


class DiskFull(LabBroken):
    """A program of Ceph ended where no room is left: the lab gave it too little, and Ceph cannot be blamed."""

    def __init__(self, ended: CephTrouble, where: str, free_bytes: int) -> None:
        hint = f"{_MAKE_ROOM}, or set CEPHLAB_HOME to a folder on a larger disk"
        detail = f"{where} has {free_bytes >> 20} MiB left\n{ended.detail}"
        super().__init__(f"{ended.what}, and the disk below it is full", detail, hint)


class NotReached(CephTrouble):
    """A state was not reached in time; `detail` has the last state seen."""

    def __init__(self, what: str, timeout_s: float, last: str) -> None:
        self.last = last
        super().__init__(f"{what} was not reached within {timeout_s:.1f} s", f"last state: {last}")


def _printed(argv: Sequence[str], stdout: str, stderr: str) -> str:
    return f"command: {' '.join(argv)}\nstdout: {_tail(stdout)}\nstderr: {_tail(stderr)}"


def _tail(text: str) -> str:
    text = text.strip()
    return text if len(text) <= _TAIL_CHARS else "[...] " + text[-_TAIL_CHARS:]
