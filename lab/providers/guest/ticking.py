"""Executes User-Mode Linux on one CPU, with a SIGALRM each second, because its kernel can lose the one it waits for.

Run as a script. Arguments: the CPU, the folder of the program's libraries, the program, and its arguments.

The kernel and the programs that it runs are processes that wait for each other. On two CPUs they wake each other across
them, and a page fault takes three times as long.

The timer and the blocked signal survive the exec. The kernel unblocks the signal once it has its own handler, and
treats a tick that it did not ask for like any other. A blocked signal waits, however late that is. An ignored one stops
the timer, because Linux starts it again only when a SIGALRM is taken.
"""

import contextlib
import os
import signal
import sys

EACH_S = 1.0

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, EACH_S, EACH_S)
    with contextlib.suppress(OSError):  # it was taken offline meanwhile
        os.sched_setaffinity(0, {int(sys.argv[1])})
    os.execve(sys.argv[3], sys.argv[3:], {**os.environ, "LD_LIBRARY_PATH": sys.argv[2]})
