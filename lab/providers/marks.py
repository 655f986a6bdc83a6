"""A mark in the environment of a command inside a node, by which all that it started is found and signalled."""

from __future__ import annotations

import secrets

TOKEN_VARIABLE = "CEPHLAB_EXEC"
"""Environment variable that marks one command's processes, so that all of them can be signalled, also from afar."""

# One pass misses what is forked meanwhile, hence the repetition for KILL. $1: the mark, $2: the signal's number.
_SIGNAL_MARKED = r"""
for pass in 1 2 3 4 5; do
  found=
  while IFS= read -r file; do
    pid=${file#/proc/}; pid=${pid%/environ}
    kill -"$2" "$pid" 2>/dev/null && found=1
  done < <(grep -lsz -x -- "$1" /proc/[0-9]*/environ)
  [[ $2 == 9 && $found ]] || exit 0
done
"""


def new_token() -> str:
    """A mark that no other command has."""
    return secrets.token_hex(8)


def signalling(token: str, number: int) -> tuple[str, ...]:
    """The command that signals, inside the node, every process with the token, whoever its parent is by now.

    It does not see a daemon that has dropped root, as that hides its environment.
    """
    return ("bash", "-c", _SIGNAL_MARKED, "bash", f"{TOKEN_VARIABLE}={token}", str(number))
