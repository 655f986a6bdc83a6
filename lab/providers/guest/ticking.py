"""Executes User-Mode Linux with a SIGALRM each second, because its kernel can lose the one that it waits for.

Run as a script. Arguments: the program's. The timer and the ignored signal survive the exec. The kernel installs its
own handler before it starts a timer, and treats a tick that it did not ask for like any other.
"""

import os
import signal
import sys

EACH_S = 1.0

if __name__ == "__main__":
    signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.setitimer(signal.ITIMER_REAL, EACH_S, EACH_S)
    os.execv(sys.argv[1], sys.argv[1:])
