"""The agent: starts programs and handles files and disks for the lab, as a guest's first process.

It runs under the image's Python and listens on a network interface of its own. The provider `ssh` runs it on existing
machines as an ordinary process. There it listens on a socket in a folder that only its user can enter, and does not
touch the machine's clock or priorities. Kinds of frames, in both directions: `j` a request or an answer (JSON), `0`
input of a program or a file, `1` and `2` outputs, `w` the size of a terminal, `x` how a program ended (JSON). It must
run on every Python of a supported Debian suite (3.11 and later) and imports nothing of the lab.
"""

import glob
import json
import os
import socket
import sys
import threading
import time

from frames import CHUNK, answer, receive, send
from programs import CHILDREN, Program, end_session

DISKS = "/dev/cephlab"
PATIENCE_S = 45.0
LOCK_NOW = 1  # MCL_CURRENT
SPAWNED = {}  # id of a request -> its answer
SPAWNING = threading.Lock()


def favour():
    """Give this thread priority, so that a busy guest still answers. Programs that it starts have none."""
    if os.getpid() != 1:
        return  # not our machine
    try:
        os.sched_setscheduler(0, os.SCHED_RR | os.SCHED_RESET_ON_FORK, os.sched_param(1))
    except PermissionError:
        pass


def boot_id():
    with open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()


def op_hello(request):
    """Facts about the machine. A guest's clock is first set to the lab's (seconds since the epoch), roughly."""
    own = os.getpid() == 1
    if own:
        time.clock_settime(time.CLOCK_REALTIME, request["now"])
    return {
        "boot": boot_id(),
        "own_clock": own,
        "kernel": os.uname().release,
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
    }


def op_clock(request):
    """Move a guest's clock by step_s, and return the time here."""
    if request["step_s"] and os.getpid() == 1:
        time.clock_settime(time.CLOCK_REALTIME, time.time() + request["step_s"])
    return time.time()


def op_spawn(request):
    """Start a daemon. The lab repeats a request whose answer was lost; it gets the first answer again."""
    with SPAWNING:
        if request["id"] not in SPAWNED:
            SPAWNED[request["id"]] = spawn(request)
        return SPAWNED[request["id"]]


def spawn(request):
    log = request["log"]
    os.makedirs(os.path.dirname(log), exist_ok=True)
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = CHILDREN.start(request["argv"], request["env"], None, actions)
    return {"pid": pid, "birth": CHILDREN.births[pid], "boot": boot_id()}


def op_state(request):
    return CHILDREN.state(request["pid"], request["birth"])


def op_signal(request):
    if CHILDREN.state(request["pid"], request["birth"])["alive"]:
        try:
            os.killpg(request["pid"], request["number"])
        except ProcessLookupError:
            return False
    return True


def op_end(request):
    """Kill a program with its children and wait until all of them have ended."""
    end_session(request["pid"])
    wait_for(lambda: not group_exists(request["pid"]), TimeoutError("a program did not end after SIGKILL"))


def wait_for(probe, too_late):
    """Poll until `probe` returns something true, and return that; raise `too_late` otherwise."""
    deadline = time.monotonic() + PATIENCE_S
    while not (value := probe()):
        if time.monotonic() > deadline:
            raise too_late
        time.sleep(0.005)
    return value


def group_exists(pid):
    try:
        os.killpg(pid, 0)
    except ProcessLookupError:
        return False
    return True


def op_exists(request):
    return os.path.exists(request["path"])


def op_mkdir(request):
    os.makedirs(request["path"], exist_ok=True)


def op_disks(request):
    """Make /dev/cephlab/NAME for each disk in this machine. The lab says where its device is: `ubdX` or `lun N`."""
    os.makedirs(DISKS, exist_ok=True)
    for name in os.listdir(DISKS):
        os.unlink(f"{DISKS}/{name}")
    for name, place in request["disks"].items():
        paths = wait_for(lambda place=place: devices_at(place), FileNotFoundError(2, "no such disk", place))
        os.symlink(f"/dev/{os.path.basename(paths[0])}", f"{DISKS}/{name}")


def devices_at(place):
    kind, _, number = place.partition(" ")
    return glob.glob(f"/sys/class/scsi_disk/*:0:0:{number}/device/block/*" if number else f"/sys/block/{kind}")


def op_absent(request):
    place = request["place"]
    wait_for(lambda: not devices_at(place), TimeoutError(f"{place} does not go away"))


OPERATIONS = {
    "hello": op_hello,
    "clock": op_clock,
    "spawn": op_spawn,
    "state": op_state,
    "signal": op_signal,
    "end": op_end,
    "exists": op_exists,
    "mkdir": op_mkdir,
    "disks": op_disks,
    "absent": op_absent,
}


def put(link, request):
    """Receive a file. It appears only when it is complete, and is on the disk before the answer is sent."""
    path, scratch = request["path"], f"{request['path']}.{threading.get_ident()}.part"
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    file = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        while data := receive(link)[1]:
            while data:
                data = data[os.write(file, data) :]
        os.fchmod(file, request["mode"])
        os.fsync(file)
        os.rename(scratch, path)
    except OSError:
        os.unlink(scratch)
        raise
    finally:
        os.close(file)
    above = os.open(folder, os.O_RDONLY)
    os.fsync(above)
    os.close(above)


def get(link, request):
    with open(request["path"], "rb", buffering=0) as file:
        while data := file.read(CHUNK):
            send(link, b"1", data)


def serve(link):
    favour()
    if link.family == socket.AF_INET:
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with link:
        try:
            while True:
                request = json.loads(receive(link)[1])
                if serve_request(link, request):
                    drain(link)
                    return
        except OSError:
            return


def drain(link):
    """Wait until the lab hangs up, because closing with unread input would discard the last answer."""
    link.shutdown(socket.SHUT_WR)
    while link.recv(CHUNK):
        pass


def serve_request(link, request):
    """Answer a request. Returns whether the connection ends with it."""
    operation = request["op"]
    try:
        if operation == "run":
            program = Program(link, request)
            answer(link, {"ok": program.pid})
            program.serve()
            return True
        if operation in ("put", "get"):
            value = (put if operation == "put" else get)(link, request)
        else:
            value = OPERATIONS[operation](request)
    except OSError as error:
        if isinstance(error, ConnectionError):
            raise
        reply = {"type": type(error).__name__, "errno": error.errno or 0, "message": str(error)}
        answer(link, {"error": reply})
        return operation in ("run", "put", "get")
    answer(link, {"ok": value})
    return False


def accept(server):
    favour()
    while True:
        link, _ = server.accept()
        threading.Thread(target=serve, args=(link,), daemon=True).start()


def stay_in_memory():
    """Lock the agent's pages, so that a guest without free memory cannot drop them."""
    import ctypes

    ctypes.CDLL(None).mlockall(LOCK_NOW)


def listen():
    """Listen on an address and a port, or on a path."""
    if len(sys.argv) > 2:
        server = socket.create_server((sys.argv[1], int(sys.argv[2])), backlog=64)
        return server, server.getsockname()[1]
    server = socket.socket(socket.AF_UNIX)
    server.bind(sys.argv[1])
    server.listen(64)
    return server, sys.argv[1]


def age_machine(seconds):
    """Show programs a machine that has been up for so much longer, if the kernel and Python can."""
    if not hasattr(os, "unshare") or not os.path.exists("/proc/self/ns/time"):
        return
    os.unshare(os.CLONE_NEWTIME)  # of the programs, not of this process
    with open("/proc/self/timens_offsets", "w") as file:
        file.write(f"monotonic {seconds} 0\nboottime {seconds} 0\n")


def main():
    if len(sys.argv) > 3:
        age_machine(int(sys.argv[3]))
    server, where = listen()
    threading.stack_size(1 << 19)
    threading.Thread(target=accept, args=(server,), daemon=True).start()
    os.write(1, f"cephlab: the agent listens {where}\n".encode())
    if os.getpid() == 1:
        stay_in_memory()
    CHILDREN.reap()


if __name__ == "__main__":
    main()
