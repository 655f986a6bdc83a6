"""Runs on a host with the Python of the image: writes and reads unique values, logs each operation before and after it.

A line of the log is `WORKER i MICROSECONDS ACT KEY VERSION` before an operation and `WORKER o MICROSECONDS OUTCOME
VERSION NOTE` after it. Each line is passed to the kernel at once, so that the log of a killed client is complete.
Times are of CLOCK_MONOTONIC. It needs only the `rados` and `rbd` modules of the image, and `cephfs` for files.
"""

import errno
import hashlib
import json
import mmap
import os
import random
import sys
import threading
import time

import rados
import rbd

try:
    import cephfs
except ImportError:  # only a load on files needs it
    cephfs = None

REFUSED = {
    errno.ENOSPC,
    errno.EDQUOT,
    errno.EINVAL,
    errno.EPERM,
    errno.EACCES,
    errno.EROFS,
    errno.EFBIG,
    errno.EMSGSIZE,
}
"""A write that fails with one of these was not done; after any other error it may have been done."""

POLL_S = 0.05
FAILED = (rados.Error, rbd.Error, OSError, *((cephfs.Error,) if cephfs else ()))
"""Exceptions of operations that fail."""

GIVE_UP = 2
"""How many final reads of a worker may fail before it stops reading."""


def content(load, key, version, size):
    """The value of one version: a header, then bytes derived from the header."""
    head = b"%s %d %d %d\n" % (load.encode(), key, version, size)
    return head + hashlib.shake_128(head).digest(size - len(head))


def version_of(load, key, data):
    """(version, note): 0 for an empty value, -1 for one that was never written to this key."""
    if data is None or not data.strip(b"\0"):
        return 0, ""
    fields = data[:200].split(b"\n", 1)[0].split(b" ")
    try:
        version, size = int(fields[2]), int(fields[3])
        if len(data) == size and data == content(load, key, version, size):
            return version, ""
    except (IndexError, ValueError):
        pass
    return -1, "%d bytes, sha256 %s, %r" % (len(data), hashlib.sha256(data).hexdigest()[:16], data[:60])


class Objects:
    """Every key is an object, which is always written whole."""

    def __init__(self, cluster, config):
        self.io = cluster.open_ioctx(config["pool"])
        self.load = config["load"]
        self.sizes = config["sizes"]

    def write(self, key, data):
        self.io.write_full("%s.%d" % (self.load, key), data)

    def read(self, key):
        try:
            return self.io.read("%s.%d" % (self.load, key), max(self.sizes) + 1)
        except rados.ObjectNotFound:
            return None


class Blocks:
    """Every key is a block of an image; a client writes to its own image and reads all of them."""

    def __init__(self, cluster, config):
        self.io = cluster.open_ioctx(config["pool"])
        self.config = config
        self.size = config["sizes"][0]
        self.lock = threading.Lock()
        self.images = {}

    def write(self, key, data):
        image, offset = self.place(key, writing=True)
        image.write(data, offset)

    def read(self, key):
        image, offset = self.place(key, writing=False)
        return image.read(offset, self.size)

    def place(self, key, writing):
        owner, number = divmod(key, self.config["keys"])
        read_only = not writing and (owner != self.config["client"] or self.config["mode"] == "verify")
        with self.lock:
            if owner not in self.images:
                name = "%s.c%d" % (self.config["load"], owner)
                self.images[owner] = rbd.Image(self.io, name, read_only=read_only)
            return self.images[owner], number * self.size


class Device:
    """Every key is a block of one block device, which all clients share, without the page cache (O_DIRECT)."""

    def __init__(self, _cluster, config):
        self.file = os.open(config["device"], os.O_RDWR | os.O_DIRECT)
        self.size = config["sizes"][0]

    def write(self, key, data):
        with mmap.mmap(-1, self.size) as page:  # O_DIRECT needs aligned memory
            page.write(data)
            os.pwrite(self.file, page, key * self.size)

    def read(self, key):
        with mmap.mmap(-1, self.size) as page:
            return page[: os.preadv(self.file, [page], key * self.size)]


class Files:
    """Every key is a file. It is replaced as careful programs do: write a new file, sync it, rename it."""

    def __init__(self, cluster, config):
        self.fs = cephfs.LibCephFS(rados_inst=cluster)
        self.fs.mount(filesystem_name=config["pool"].encode())
        self.folder = "/%s.%s" % (config["load"], config["seed"])
        self.fs.mkdirs(self.folder, 0o755)
        self.directory = self.fs.open(self.folder, os.O_RDONLY | os.O_DIRECTORY, 0)
        self.most = max(config["sizes"]) + 1

    def write(self, key, data):
        path = "%s/%d" % (self.folder, key)
        fd = self.fs.open(path + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self.fs.write(fd, data, 0)
            self.fs.fsync(fd, 0)
        finally:
            self.fs.close(fd)
        self.fs.rename(path + ".new", path)
        self.fs.fsync(self.directory, 0)

    def read(self, key):
        try:
            fd = self.fs.open("%s/%d" % (self.folder, key), os.O_RDONLY, 0)
        except cephfs.ObjectNotFound:
            return None
        try:
            return self.fs.read(fd, 0, self.most)
        finally:
            self.fs.close(fd)

    def close(self):
        """Unmount: from a client that just vanishes, the MDS takes back its capabilities only after a minute."""
        self.fs.shutdown()


class OperationLog:
    """A log whose lines have reached the kernel when `line` returns."""

    def __init__(self, path):
        self.file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def line(self, text):
        os.write(self.file, text.encode() + b"\n")

    def begin(self, worker, act, key, version):
        self.line("%d i %d %s %d %d" % (worker, now_us(), act, key, version))

    def end(self, worker, outcome, version, note=""):
        self.line(("%d o %d %s %d %s" % (worker, now_us(), outcome, version, " ".join(note.split()))).strip())


def now_us():
    return time.monotonic_ns() // 1000


def write(target, log, worker, key, version, config):
    """Write one value and log the outcome."""
    log.begin(worker, "w", key, version)
    data = content(config["load"], key, version, config["size_of"](version, key))
    if config["acknowledge_early"]:
        log.end(worker, "o", version)
    try:
        target.write(key, data)
        outcome, note = "o", ""
    except FAILED as error:
        number = abs(getattr(error, "errno", None) or 0)
        outcome, note = ("f" if number in REFUSED else "u"), "%s %d %s" % (type(error).__name__, number, error)
    if not config["acknowledge_early"]:
        log.end(worker, outcome, version, note)


def read(target, log, worker, key, act, config):
    """Read one value and log the version found; returns whether it was answered."""
    log.begin(worker, act, key, 0)
    try:
        version, note = version_of(config["load"], key, target.read(key))
        log.end(worker, "o", version, note)
        return True
    except FAILED as error:
        log.end(worker, "f", 0, "%s %s %s" % (type(error).__name__, getattr(error, "errno", ""), error))
        return False


def work(target, log, worker, config, stopping):
    """Do operations until told to stop. They depend only on seed, client and worker.

    No value is overwritten before it was read: otherwise a lost value would look like a replaced one.
    """
    rng = random.Random("%s/%d/%d" % (config["seed"], config["client"], worker))
    first = config["client"] * config["keys"]
    own = [key for key in range(first, first + config["keys"]) if key % config["workers"] == worker]
    version = config["first_version"]
    # A client that acknowledges early (before it writes) does not read its writes either.
    careful = not config["acknowledge_early"]
    unread = set(own) if careful else set()
    while not stopping.is_set():
        reads, elsewhere = rng.random() < config["read_share"], rng.random() < 0.5
        mine, any_key = rng.choice(own), rng.randrange(config["clients"] * config["keys"])
        key = any_key if elsewhere else mine
        if reads or mine in unread:
            key = key if reads else mine
            if read(target, log, worker, key, "r", config):
                unread.discard(key)
        if not reads and mine not in unread:
            write(target, log, worker, mine, version, config)
            if careful:
                unread.add(mine)
            version += 1
        if config["pause_s"]:
            stopping.wait(config["pause_s"])


def verify(target, log, worker, config, _stopping):
    """Read every key once. Stop after GIVE_UP failed reads, since each may take its whole timeout."""
    failed = 0
    for key in range(worker, config["clients"] * config["keys"], config["workers"]):
        failed += not read(target, log, worker, key, "f", config)
        if failed == GIVE_UP:
            return


def size_chooser(config):
    """(version, key) -> size: one of the sizes, chosen by the seed; blocks have only one size."""
    sizes = config["sizes"]
    return lambda version, key: sizes[random.Random("%s/%d/%d" % (config["seed"], version, key)).randrange(len(sizes))]


def main():
    conf, name, config = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    config["size_of"] = size_chooser(config)
    cluster = rados.Rados(conffile=conf, name=name, conf=config["options"])
    if config["kind"] != "device":
        cluster.connect(timeout=int(config["connect_s"]))
    targets = {"objects": Objects, "blocks": Blocks, "device": Device, "files": Files}
    target = targets[config["kind"]](cluster, config)
    log, stopping = OperationLog(config["log"]), threading.Event()
    job = verify if config["mode"] == "verify" else work
    threads = [
        threading.Thread(target=job, args=(target, log, worker, config, stopping), daemon=True)
        for worker in range(config["workers"])
    ]
    log.line("began %d" % now_us())
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads) and not os.path.exists(config["stop"]):
        time.sleep(POLL_S)
    stopping.set()
    deadline = time.monotonic() + config["drain_s"]
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    log.line("ended %d" % now_us())
    if config["kind"] == "files" and not any(thread.is_alive() for thread in threads):
        target.close()
    # A thread that still waits for its operation would keep the interpreter alive; its outcome stays unknown.
    os._exit(0)


if __name__ == "__main__":
    main()
