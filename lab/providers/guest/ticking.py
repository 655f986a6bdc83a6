"""Becomes a program that gets SIGALRM each second: User-Mode Linux, whose kernel can lose the one it waits for.

Run as a script. Arguments: the program's. The timer and the ignored signal outlive the exec; the kernel puts a handler
of its own in its place before it starts a timer, and takes a tick that it did not ask for as any other.
"""

from __future__ import annotations

import os
import signal
import sys

EACH_S = 1.0

if __name__ == "__main__":
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, EACH_S, EACH_S)
    os.execv(sys.argv[1], sys.argv[1:])
