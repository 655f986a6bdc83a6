"""Runs on a machine that exists: ends every process that carries a mark, and removes this user's folders.

Arguments: the mark, `*` at its end for all that begin so; a folder to remove with all that is in it, and one to remove
when nothing else is in it; either may be empty. It prints one line of JSON: what was there.
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


def marked(mark):
    wanted = MARK + mark.rstrip("*").encode()
    for path in glob.glob("/proc/[0-9]*/environ"):
        pid = int(path.split("/")[2])
        try:
            with open(path, "rb") as file:
                entries = file.read().split(b"\0")
        except OSError:
            continue  # it has ended, or is not ours
        if pid != os.getpid() and any(
            entry.startswith(wanted) if mark.endswith("*") else entry == wanted for entry in entries
        ):
            yield pid


def own(folder):
    """Not one of somebody else's, nor a link to any."""
    return os.path.isdir(folder) and not os.path.islink(folder) and os.lstat(folder).st_uid == os.getuid()


def main():
    mark, tree, above = sys.argv[1:]
    ended = set()
    deadline = time.monotonic() + GONE_S
    while True:
        left = list(marked(mark))
        if not left:
            break
        if time.monotonic() > deadline:
            print(json.dumps({"error": "processes do not die: %s" % left}))
            return
        for pid in left:
            ended.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(0.01)
    removed = ["process %d" % pid for pid in sorted(ended)]
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
