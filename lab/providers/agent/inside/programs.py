"""Programs on the machine: starts them, reaps every orphan, and relays their streams over a connection."""

import errno
import fcntl
import json
import os
import select
import signal
import struct
import termios
import threading

from frames import CHUNK, receive, send

BASE = {
    "HOME": "/root",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "PYTHONDONTWRITEBYTECODE": "1",
    "TERM": "linux",
}
KEPT = ("CEPHLAB_REMOTE", "HOME", "LOGNAME", "PATH", "QEMU_CPU", "USER", "XDG_RUNTIME_DIR")


def base():
    """The environment of programs. A guest's first process has nothing to pass on; a user's process has."""
    if os.getpid() == 1:
        return BASE
    return {**BASE, **{key: os.environ[key] for key in KEPT if key in os.environ}}


def stat_of(pid):
    """(state, start in ticks) of a process, see proc(5); None if it does not exist."""
    try:
        with open(f"/proc/{pid}/stat", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # A zombie with other threads: one of them may be executing a program and then becomes the process.
    return "S" if fields[0] == "Z" and int(fields[17]) > 1 else fields[0], fields[19]


class Children:
    """The programs that were started here, and how they ended. Also reaps their orphans."""

    def __init__(self):
        self.changed = threading.Condition()
        self.births = {}
        self.codes = {}
        self.started = threading.Event()

    def start(self, argv, env, cwd, actions):
        """Start a program in a session of its own; returns its pid."""
        if cwd:
            argv = ["env", "--chdir", cwd, *argv]
        environment = {**base(), **env}
        with self.changed:
            pid = os.posix_spawn(
                self.find(argv[0], environment["PATH"]),
                argv,
                environment,
                file_actions=actions,
                setsid=True,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ],
            )
            self.births[pid] = (stat_of(pid) or ("", "0"))[1]
            self.codes.pop(pid, None)
        self.started.set()
        return pid

    @staticmethod
    def find(name, path):
        if "/" in name:
            return name
        for folder in path.split(":"):
            if os.access(f"{folder}/{name}", os.X_OK):
                return f"{folder}/{name}"
        raise FileNotFoundError(2, "No such file or directory", name)

    def reap(self):
        while True:
            try:
                # First only look, then reap under the lock, so that no program is reaped before its start is recorded.
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            except ChildProcessError:
                self.started.wait()
                self.started.clear()
                continue
            with self.changed:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid:
                    self.codes[pid] = os.waitstatus_to_exitcode(status)
                    self.changed.notify_all()

    def code(self, pid):
        with self.changed:
            while pid not in self.codes:
                self.changed.wait()
            return self.codes[pid]

    def state(self, pid, birth):
        with self.changed:
            if self.births.get(pid) == birth:
                # A program that has ended is reported with its status, which follows in a moment.
                while pid not in self.codes and (stat_of(pid) or "Z")[0] == "Z":
                    self.changed.wait(0.05)
                return {"alive": pid not in self.codes, "code": self.codes.get(pid)}
        stat = stat_of(pid)
        return {"alive": bool(stat) and stat[1] == birth and stat[0] not in "ZX", "code": None}


CHILDREN = Children()


def end_session(pid):
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def opened(pid):
    """A descriptor that is readable once a program has ended; -1 if it has ended and was reaped already."""
    try:
        return os.pidfd_open(pid)
    except OSError as error:
        # Kernels differ: Linux 6.1 returns EINVAL if the program was reaped during this call.
        if error.errno not in (errno.ESRCH, errno.EINVAL):
            raise
        return -1


class Program:
    """One program whose streams go over a connection. It ends with the connection."""

    def __init__(self, link, request):
        self.link = link
        self.outputs = {}
        self.pending = b""
        self.input_open = True
        self.pid = self.start(request)
        self.pidfd = opened(self.pid)

    def start(self, request):
        if request.get("terminal"):
            return self.start_on_terminal(request)
        in_r, self.input = os.pipe()
        out_r, out_w = os.pipe()
        err_r, err_w = os.pipe()
        self.outputs = {out_r: b"1", err_r: b"2"}
        actions = [(os.POSIX_SPAWN_DUP2, here, there) for there, here in enumerate((in_r, out_w, err_w))]
        try:
            return CHILDREN.start(request["argv"], request["env"], request.get("cwd"), actions)
        except OSError:
            for number in (self.input, out_r, err_r):
                os.close(number)
            raise
        finally:
            for number in (in_r, out_w, err_w):
                os.close(number)

    def start_on_terminal(self, request):
        master, slave = os.openpty()
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", *request["terminal"], 0, 0))
        # The leader of a new session opens it, so it becomes the session's terminal.
        actions = [
            (os.POSIX_SPAWN_OPEN, 0, os.ttyname(slave), os.O_RDWR, 0),
            (os.POSIX_SPAWN_DUP2, 0, 1),
            (os.POSIX_SPAWN_DUP2, 0, 2),
        ]
        self.input = os.dup(master)
        self.outputs = {master: b"1"}
        try:
            return CHILDREN.start(request["argv"], request["env"], request.get("cwd"), actions)
        finally:
            os.close(slave)

    def serve(self):
        os.set_blocking(self.input, False)
        try:
            while self.outputs or self.pidfd >= 0:
                self.turn()
            send(self.link, b"x", json.dumps({"code": CHILDREN.code(self.pid)}).encode())
        except OSError:
            end_session(self.pid)
        finally:
            for number in (*self.outputs, self.pidfd, *([self.input] if self.input_open else [])):
                if number >= 0:
                    os.close(number)

    def turn(self):
        poll = select.poll()
        poll.register(self.link, select.POLLRDHUP | (0 if self.pending else select.POLLIN))
        if self.pending:
            poll.register(self.input, select.POLLOUT)
        for number in self.outputs:
            poll.register(number, select.POLLIN)
        if self.pidfd >= 0:
            poll.register(self.pidfd, select.POLLIN)
        for number, event in poll.poll():
            if number == self.link.fileno():
                self.from_lab(event)
            elif number == self.pidfd:
                os.close(self.pidfd)
                self.pidfd = -1
            elif number in self.outputs:
                self.from_program(number)
            else:
                self.feed()

    def from_lab(self, event):
        if event & select.POLLIN and not self.pending:
            kind, payload = receive(self.link)
            if kind == b"w":
                fcntl.ioctl(self.input, termios.TIOCSWINSZ, struct.pack("HHHH", *json.loads(payload), 0, 0))
            elif payload and self.input_open:
                self.pending = payload
                self.feed()
            elif not payload:
                self.close_input()
        elif event & (select.POLLRDHUP | select.POLLHUP | select.POLLERR):
            raise ConnectionError("the lab has hung up")

    def feed(self):
        try:
            self.pending = self.pending[os.write(self.input, self.pending) :]
        except BlockingIOError:
            return
        except OSError:
            self.pending = b""
            self.close_input()

    def close_input(self):
        if self.input_open:
            os.close(self.input)
            self.input_open = False

    def from_program(self, number):
        try:
            data = os.read(number, CHUNK)
        except OSError:
            data = b""  # a terminal whose last program has ended
        if data:
            send(self.link, self.outputs[number], data)
        else:
            del self.outputs[number]
            os.close(number)
