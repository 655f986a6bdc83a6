"""Runs on an existing machine: makes a run's folder, puts the agent there (a zip on standard input) and starts it.

Arguments: the folders to make, outermost first, each for this user only; the agent's socket; the mark in the
environment of every process of the run's node; folders for the front of PATH; `again` if the folders may exist. It
prints one line of JSON. It must run on Python 3.9 and later and imports nothing of the lab.
"""

import json
import os
import shutil
import signal
import socket
import stat
import sys
import time

MARK = "CEPHLAB_REMOTE"
STARTED_S = 45.0  # enough for a busy machine, and less than the timeout of ssh
OLDEST = (3, 9)


def own_folder(path, may_exist):
    """Make a folder. Another user's folder of that name, or a link, is refused."""
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        status = os.lstat(path)
        if not may_exist or not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise


def answers(path):
    with socket.socket(socket.AF_UNIX) as link:
        try:
            link.connect(path)
        except OSError:
            return False
    return True


def start(folder, path, mark, front):
    archive, log = os.path.join(folder, "agent.zip"), os.path.join(folder, "agent.log")
    with open(archive, "wb") as file:
        file.write(sys.stdin.buffer.read())
    environment = dict(os.environ)
    environment[MARK] = mark
    if front:
        environment["PATH"] = front + ":" + environment.get("PATH", os.defpath)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", archive, path],
        environment,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setsid=True,
    )
    deadline = time.monotonic() + STARTED_S
    while not answers(path):
        ended = os.waitpid(pid, os.WNOHANG)[0] == pid
        if ended or time.monotonic() > deadline:
            if not ended:
                os.kill(pid, signal.SIGKILL)
            with open(log, errors="replace") as file:
                raise TimeoutError("the agent %s: %s" % ("ended" if ended else "does not start", file.read()[-2000:]))
        time.sleep(0.01)


def main():
    *folders, path, mark, front, again = sys.argv[1:]
    if sys.version_info < OLDEST:
        raise OSError("Python %s.%s is too old, 3.9 is needed" % tuple(sys.version_info[:2]))
    for folder in folders:
        own_folder(folder, again == "again" or folder != folders[-1])
    try:
        if not answers(path):
            if os.path.exists(path):
                os.unlink(path)
            start(folders[-1], path, mark, front)
    except OSError:
        if again != "again":
            shutil.rmtree(folders[-1])
            for above in reversed(folders[:-1]):
                if not os.listdir(above):
                    os.rmdir(above)
        raise


try:
    main()
    print(json.dumps({"ok": {"python": "%s.%s" % tuple(sys.version_info[:2])}}))
except OSError as error:
    print(json.dumps({"error": str(error)}))
