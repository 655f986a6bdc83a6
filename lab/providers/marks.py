"""Marks in the environment of programs, to find, signal and kill everything that a program started."""

import secrets
from collections.abc import Mapping

from cephlab.lab.base import process
from cephlab.lab.base.births import described
from cephlab.lab.base.errors import LabBroken

_KILL_PATIENCE_S = 60.0
_LOOKS = 5

TOKEN_VARIABLE = "CEPHLAB_EXEC"
"""Environment variable that marks one command's processes, so that all of them can be signalled from anywhere."""

# One pass misses processes that are forked meanwhile, so KILL is repeated. A pass that finds nothing is repeated once,
# because a process within execve(2) has no environment. $1: the mark, $2: the signal's number.
_SIGNAL_MARKED = r"""
empty=0
for pass in 1 2 3 4 5 6; do
  found=
  while IFS= read -r file; do
    pid=${file#/proc/}; pid=${pid%/environ}
    kill -"$2" "$pid" 2>/dev/null && found=1
  done < <(grep -lsz -x -- "$1" /proc/[0-9]*/environ)
  if [[ $found ]]; then empty=0; else (( ++empty )); fi
  [[ $found && $2 != 9 ]] || (( empty == 2 )) && exit 0
done
"""


def new_token() -> str:
    """A mark that no other command has."""
    return secrets.token_hex(8)


def signalling(token: str, number: int) -> tuple[str, ...]:
    """The command that signals, inside a node, every process with the token, whatever its parent is now.

    A child that has not executed its program yet has its parent's environment, so the token too. The command does not
    find a daemon that has dropped root, because the kernel then hides its environment.
    """
    return ("bash", "-c", _SIGNAL_MARKED, "bash", f"{TOKEN_VARIABLE}={token}", str(number))


def kill_marked(marks: Mapping[str, str], name: str) -> list[str]:
    """Kill every process here whose environment has the marks of a run or node; returns what was killed, in words.

    LabBroken lists those that do not die. name: of the run or node.
    """
    removed: list[str] = []
    # A process that is just starting still has its parent's environment; the next pass finds it.
    for _ in range(_LOOKS):
        left = process.find_marked(marks)
        if not left:
            return removed
        words = [described(running.pid) for running in left]
        for running in left:
            running.kill()
        stuck = [running.pid for running in left if not running.wait(_KILL_PATIENCE_S)]
        if stuck:
            what = f"processes did not end after SIGKILL: {stuck}"
            raise LabBroken(what, hint="look for I/O errors in the kernel's log")
        removed += words
    raise LabBroken(f"processes of {name} keep appearing", ", ".join(removed), "run `cephlab prune`")
