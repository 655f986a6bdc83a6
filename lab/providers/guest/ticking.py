"""Executes User-Mode Linux with a SIGALRM each second, because its kernel can lose the one that it waits for.

Run as a script. Arguments: the folder of the program's libraries, the program, and its arguments. The timer and the
blocked signal survive the exec. The kernel unblocks the signal once it has its own handler, and treats a tick that it
did not ask for like any other. A blocked signal waits, however late that is. An ignored one stops the timer, because
Linux starts it again only when a SIGALRM is taken.
"""

import os
import signal
import sys

EACH_S = 1.0

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM])
    signal.setitimer(signal.ITIMER_REAL, EACH_S, EACH_S)
    os.execve(sys.argv[2], sys.argv[2:], {**os.environ, "LD_LIBRARY_PATH": sys.argv[1]})
