"""Finds lines of output that report broken memory, code or data, whatever exit status the program has."""

import re
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

_ALARMS = re.compile(
    "|".join(
        (
            r"\b(Address|Thread|Leak|Memory|UndefinedBehavior|HWAddress)Sanitizer\b",  # compiler-rt's and GCC's reports
            r": runtime error: ",  # UBSan, which does not print its name
            r"^\*\*\* .* \*\*\*: (terminated|unknown)",  # __fortify_fail of glibc: stack smashing, buffer overflow
            r"^(malloc|free|realloc|calloc|munmap_chunk|malloc_consolidate|tcache_\w+)\(\): ",  # glibc
            r"^(double free or corruption|corrupted (size vs\. prev_size|double-linked list|unsorted chunks))",
            r"^Fatal glibc error|: Assertion `.*' failed",
            r"src/tcmalloc\.cc:\d+\] ",  # gperftools: an attempt to free an invalid pointer
            r"^terminate called ",  # libstdc++
            r"^pure virtual method called",
            r"\bsymbol lookup error: ",  # ld.so
            r"^(Inconsistency detected by ld\.so|\S+: error while loading shared libraries: )",
            r"\b(Segmentation fault|Illegal instruction|Bus error|Floating point exception)\b",
            r"^==\d+== ?(Invalid (read|write)|Conditional jump|ERROR)",  # valgrind, sanitizers
            r"FAILED ceph_(assert|abort)|ceph_abort_msg|\*\*\* Caught signal",  # Ceph's own aborts
        )
    )
)


def alarms(text: str) -> Iterator[str]:
    """The alarm lines of a program's output."""
    return (line for line in text.splitlines() if _ALARMS.search(line))


@dataclass(frozen=True)
class Alarm:
    """One alarm line. program: name of the command that printed it."""

    program: str
    text: str


class Heard:
    """Alarms of all commands that ended in this process; safe to add to from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._alarms: list[Alarm] = []

    def listen(self, argv: Sequence[str], text: str) -> None:
        """Remember the alarms in what a command printed."""
        heard = [Alarm(PurePosixPath(argv[0]).name, line) for line in alarms(text)]
        if heard:
            with self._lock:
                self._alarms += heard

    def count(self) -> int:
        """Number of alarms so far, as a mark for `since`."""
        return len(self._alarms)

    def since(self, mark: int) -> list[Alarm]:
        """The alarms after a mark."""
        with self._lock:
            return self._alarms[mark:]


HEARD = Heard()
