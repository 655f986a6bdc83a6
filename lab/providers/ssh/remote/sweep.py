"""Runs on an existing machine: kills every process with a mark, and removes this user's folders.

Arguments: the mark, with `*` at its end for all marks that start so; a folder to remove with its content; a folder to
remove if it is empty. Either folder may be an empty argument. It prints one line of JSON: what was removed.
"""

import glob
import json
import os
import shutil
import signal
import sys
import time

MARK = b"CEPHLAB_REMOTE="
GONE_S = 10.0
SHOWN = 80  # characters of a command


def marked(mark):
    wanted = MARK + mark.rstrip("*").encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue  # it has ended, or is another user's
        if pid != os.getpid() and any(
            entry.startswith(wanted) if mark.endswith("*") else entry == wanted for entry in entries
        ):
            yield pid


def described(pid):
    """What is killed, in words; paths without their folders. Only the end of a long command, which tells most."""
    try:
        with open("/proc/%d/cmdline" % pid, "rb") as file:
            words = [word.rpartition("/")[2] for word in file.read().decode(errors="replace").split("\0")]
        with open("/proc/%d/stat" % pid) as file:
            began_s = int(file.read().rpartition(")")[2].split()[19]) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return "process %d" % pid  # it has ended
    ran_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began_s
    return "process %d (%s, ran for %.0f s)" % (pid, " ".join(words).strip()[-SHOWN:], ran_s)


def own(folder):
    """Whether it is a folder of this user, and not a link."""
    return os.path.isdir(folder) and not os.path.islink(folder) and os.lstat(folder).st_uid == os.getuid()


def main():
    mark, tree, above = sys.argv[1:]
    ended = {}
    deadline = time.monotonic() + GONE_S
    while True:
        left = list(marked(mark))
        if not left:
            break
        if time.monotonic() > deadline:
            print(json.dumps({"error": "processes did not end after SIGKILL: %s" % left}))
            return
        for pid in left:
            ended.setdefault(pid, described(pid))
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    removed = [ended[pid] for pid in sorted(ended)]
    if tree and own(tree) and (not above or own(above)):
        shutil.rmtree(tree)
        removed.append(tree)
    if above and own(above) and not os.listdir(above):
        os.rmdir(above)
    print(json.dumps({"ok": removed}))


try:
    main()
except OSError as error:
    print(json.dumps({"error": str(error)}))
