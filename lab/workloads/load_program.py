"""Runs on a host, under the image's Python: writes and reads unique values and logs every operation before and after.

A line of the log is `WORKER i MICROSECONDS ACT KEY VERSION` before an operation and `WORKER o MICROSECONDS OUTCOME
VERSION NOTE` after it, each written through to the kernel at once, so that a killed client leaves what it knew.
Times are of CLOCK_MONOTONIC. It needs only the image's own `rados` and `rbd` modules.
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
"""A write that ends with one of these was not done; after any other error it may have been."""

POLL_S = 0.05
FAILED = (rados.Error, rbd.Error, OSError)
"""What an operation ends with that is not done."""

GIVE_UP = 2
"""How many final reads of a worker may fail before it stops reading."""


def content(load, key, version, size):
    """The value of one version: a header, then bytes that follow from the header."""
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
    """Every key is an object, written whole."""

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
    """Every key is a block of one block device, which all clients share; no page of it is kept in memory."""

    def __init__(self, _cluster, config):
        self.file = os.open(config["device"], os.O_RDWR | os.O_DIRECT)
        self.size = config["sizes"][0]

    def write(self, key, data):
        with mmap.mmap(-1, self.size) as page:  # the kernel takes aligned memory only
            page.write(data)
            os.pwrite(self.file, page, key * self.size)

    def read(self, key):
        with mmap.mmap(-1, self.size) as page:
            return page[: os.preadv(self.file, [page], key * self.size)]


class OperationLog:
    """A log whose lines the kernel has when `line` returns."""

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
    """Do operations until told to stop. Which ones depends on seed, client and worker alone.

    No value is overwritten before it was read: otherwise a lost value would look like a replaced one.
    """
    rng = random.Random("%s/%d/%d" % (config["seed"], config["client"], worker))
    first = config["client"] * config["keys"]
    own = [key for key in range(first, first + config["keys"]) if key % config["workers"] == worker]
    version = config["first_version"]
    # A client that lies about its writes does not read them either.
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
    """Read every key once. After GIVE_UP failed reads the rest is left out, as each may take its whole timeout."""
    failed = 0
    for key in range(worker, config["clients"] * config["keys"], config["workers"]):
        failed += not read(target, log, worker, key, "f", config)
        if failed == GIVE_UP:
            return


def size_chooser(config):
    """version, key -> size: one of the sizes, by the seed; of a block always the same."""
    sizes = config["sizes"]
    return lambda version, key: sizes[random.Random("%s/%d/%d" % (config["seed"], version, key)).randrange(len(sizes))]


def main():
    conf, name, config = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
    config["size_of"] = size_chooser(config)
    cluster = rados.Rados(conffile=conf, name=name, conf=config["options"])
    if config["kind"] != "device":
        cluster.connect(timeout=int(config["connect_s"]))
    target = {"objects": Objects, "blocks": Blocks, "device": Device}[config["kind"]](cluster, config)
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
    # A thread that still waits for its operation would keep the interpreter alive; that outcome stays unknown.
    os._exit(0)


if __name__ == "__main__":
    main()
