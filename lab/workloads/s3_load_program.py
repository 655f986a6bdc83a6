"""An S3 load on a host: a mix of operations, closed loop or at a rate. Every body is checked, every time recorded.

It is copied to the host with the modules that it imports and runs there, so it needs nothing but Python. Its argument
is the configuration file; the access keys are in its environment (s3_program.py). It runs the phases that the file
names: `fill` puts every object once, `run` is the load, `final` reads every object once, `clean` deletes all.
"""

import hashlib
import http.client
import itertools
import json
import random
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from cephlab.lab.workloads.s3_ledger import Entry, Key, Ledger, ObjectBytes
from cephlab.lab.workloads.s3_program import EMPTY, STOP, S3Answer, S3Connection, configured

WRONG = "WrongContent"
"""Reported in place of an S3 error code if an answer was successful but had the wrong content."""
SHOWN = 20
FILL, RUN, FINAL, CLEAN = "fill", "run", "final", "clean"
WINDOW = "window"
WAITS, BEGUN = "the load waits for its moment", "the load has begun"
"""Progress messages that the lab waits for."""
EXIST = "buckets that exist already"
"""Begins the message of a load that ends because of buckets that are not its own."""
_ABSENT = ("NoSuchKey", "404")
_NEVER_S = 1e9
_NOT_FOUND, _NO_ANSWER = 404, 500
_BREATH_S = 0.05
KEY = re.compile(rb"<Key>([^<]+)</Key>")
_NEXT = re.compile(rb"<NextContinuationToken>([^<]+)</NextContinuationToken>")
_UPLOAD = re.compile(rb"<UploadId>([^<]+)</UploadId>")


class Wrong(Exception):
    """An answer that matches no possible state of the object."""


class Due(NamedTuple):
    """A planned operation. due_s: when it should begin; None: at once."""

    number: int
    kind: str
    due_s: float | None


class Failed(Exception):
    """An answer with an error; its argument is the S3 error code."""


def plan(config: dict[str, Any], began_s: float) -> Iterator[Due]:
    """The operations of the load in order, from the seed alone: kinds by their shares, due times a Poisson process."""
    kinds, shares = zip(*sorted(config["mix"].items()), strict=True)
    kind_of, gap_of = (random.Random(f"{config['seed']} {what}") for what in ("kinds", "gaps"))
    rate, due_s = config["rate"], began_s
    for number in itertools.count():
        if rate:
            due_s += gap_of.expovariate(rate)
        yield Due(number, kind_of.choices(kinds, shares)[0], due_s if rate else None)


class Windows:
    """Sums up the operations of a long run, one line per window, so that hours take little more memory than minutes.

    A line: WINDOW, began, ended (since the epoch), operations, mean and 99th percentile of their response times.
    """

    def __init__(self, length_s: float) -> None:
        self.length_s = length_s
        self.lines: list[str] = []
        self._began_s = 0.0
        self._waited: list[float] = []

    def add(self, ended_s: float, response_s: float) -> None:
        """Add an operation that ended at this time since the epoch. The first operation opens the first window."""
        self._began_s = self._began_s or ended_s - response_s
        if ended_s >= self._began_s + self.length_s:
            self.close()
            self._began_s += (ended_s - self._began_s) // self.length_s * self.length_s
        self._waited.append(response_s)

    def close(self) -> None:
        """Write the line of the open window; a window without operations has no line."""
        count = len(self._waited)
        if count:
            p99_s = sorted(self._waited)[min(count - 1, count * 99 // 100)]
            times = f"{self._began_s:.6f},{self._began_s + self.length_s:.6f}"
            self.lines.append(f"{WINDOW},{times},{count},{sum(self._waited) / count:.6f},{p99_s:.6f}\n")
        self._waited = []


class Load:
    """State shared by all workers."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.lock = threading.Lock()
        self.ledger = Ledger(config)
        self.bodies = ObjectBytes(config["seed"])
        self.rows: list[str] = []
        self.windows = Windows(config["window_s"]) if config["window_s"] else None
        self.wrong: list[str] = []
        self.epoch_s = time.time() - time.monotonic()
        self.local = threading.local()

    def connection(self, number: int) -> S3Connection:
        """The connection of this thread to the endpoint with this number."""
        known: dict[int, S3Connection] = self.local.__dict__.setdefault("known", {})
        if number not in known:
            known[number] = S3Connection({**self.config, **self.config["endpoints"][number]})
        return known[number]

    def do(self, phase: str, due: Due, entry: Entry, began_s: float, *, idle: bool) -> str:
        """Run one operation: send, check, note it. Returns its error code, empty for none."""
        endpoint = due.number % len(self.config["endpoints"])
        code, moved = EMPTY, 0
        try:
            moved = self.kinds[entry.kind](self.connection(endpoint), entry)
        except Failed as error:
            code = str(error)
        except Wrong as error:
            code = WRONG
            with self.lock:
                self.wrong.append(f"{entry.kind} of {entry.key.path}: {error}")
        except (OSError, http.client.HTTPException) as error:
            code = type(error).__name__
        self.ledger.end(entry, failed=bool(code))
        self.note(phase, due, entry, (began_s, time.monotonic(), moved, code, endpoint, idle))
        return code

    def note(self, phase: str, due: Due, entry: Entry, done: tuple[float, float, int, str, int, bool]) -> None:
        """Keep a row: phase, kind, endpoint, path, version, bytes, due, began, ended, idle, code.

        If the run is summed up in windows, only its failed operations have rows.
        """
        began_s, ended_s, moved, code, endpoint, idle = done
        due_s = began_s if due.due_s is None else due.due_s
        times = ",".join(f"{self.epoch_s + moment:.6f}" for moment in (due_s, began_s, ended_s))
        where = f"{phase},{entry.kind},{endpoint},{entry.key.path},{entry.version},{moved}"
        with self.lock:
            if self.windows is not None and phase == RUN:
                self.windows.add(self.epoch_s + ended_s, ended_s - due_s)
            if self.windows is None or phase != RUN or code:
                self.rows.append(f"{where},{times},{int(idle)},{code}\n")

    @property
    def kinds(self) -> dict[str, Callable[[S3Connection, Entry], int]]:
        """Operation -> the method that runs it and returns how many bytes of bodies it moved."""
        return {
            "put": self.put,
            "get": self.get,
            "head": self.head,
            "list": self.listed,
            "delete": self.delete,
            "multipart": self.multipart,
        }

    def body(self, key: Key, version: int) -> bytes:
        return self.bodies.of(key.path, version, self.ledger.length(key, version))

    def put(self, line: S3Connection, entry: Entry) -> int:
        content = self.body(entry.key, entry.version)
        answer = fine(line.send("PUT", entry.key.path, body=content))
        tag = answer.headers.get("etag", EMPTY).strip('"')
        if tag != hashlib.md5(content, usedforsecurity=False).hexdigest():
            raise Wrong(f"ETag {tag} of version {entry.version}")
        return len(content)

    def multipart(self, line: S3Connection, entry: Entry) -> int:
        """Put the object in parts of part_bytes; S3 requires at least 5 MiB for all parts but the last."""
        content, size, path = self.body(entry.key, entry.version), self.config["part_bytes"], entry.key.path
        upload = found(_UPLOAD, fine(line.send("POST", path, {"uploads": EMPTY})).body)
        parts = []
        for number, first in enumerate(range(0, max(1, len(content)), size), 1):
            query = {"partNumber": str(number), "uploadId": upload}
            tag = fine(line.send("PUT", path, query, content[first : first + size])).headers.get("etag", EMPTY)
            parts.append(f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>")
        whole = f"<CompleteMultipartUpload>{''.join(parts)}</CompleteMultipartUpload>".encode()
        fine(line.send("POST", path, {"uploadId": upload}, whole))
        return len(content)

    def get(self, line: S3Connection, entry: Entry) -> int:
        answer = line.send("GET", entry.key.path)
        here = self.there(answer, entry, lambda version: answer.body == self.body(entry.key, version))
        return len(answer.body) if here else 0

    def head(self, line: S3Connection, entry: Entry) -> int:
        answer = line.send("HEAD", entry.key.path)
        length = int(answer.headers.get("content-length", -1))
        self.there(answer, entry, lambda version: self.ledger.length(entry.key, version) == length)
        return 0

    def there(self, answer: S3Answer, entry: Entry, fits: Callable[[int], bool]) -> bool:
        """Whether the object exists; Wrong if its absence or its content matches no possible version."""
        possible = self.ledger.possible(entry)
        if answer.code in _ABSENT:
            if not any(self.ledger.absent(entry.key, version) for version in possible):
                raise Wrong(f"nothing is there, where version {min(possible)} or later is")
            return False
        fine(answer)
        if not any(fits(version) for version in possible if not self.ledger.absent(entry.key, version)):
            raise Wrong(f"{len(answer.body)} bytes, {answer.body[:60]!r}, are no version of {sorted(possible)}")
        return True

    def listed(self, line: S3Connection, entry: Entry) -> int:
        """List all pages of a bucket. Objects that exist all the time must be listed, absent ones must not."""
        bucket = entry.key.bucket
        before = self.ledger.settled(bucket)
        names: list[str] = []
        query = {"list-type": "2", "max-keys": str(self.config["page"])}
        while True:
            body = fine(line.send("GET", f"/{bucket}", query)).body
            names += [name.decode() for name in KEY.findall(body)]
            token = _NEXT.search(body)
            if token is None:
                break
            query["continuation-token"] = token[1].decode()
        after = self.ledger.settled(bucket)
        steady = {name: here for name, here in before.items() if after.get(name) == here}
        there = set(names)
        if len(there) != len(names):
            raise Wrong(f"{len(names) - len(there)} names are listed twice")
        odd = sorted(name for name, (_, present) in steady.items() if present != (name in there))
        if odd:
            raise Wrong(f"{len(odd)} names are listed or left out against what is there, {odd[:3]}")
        return 0

    def delete(self, line: S3Connection, entry: Entry) -> int:
        fine(line.send("DELETE", entry.key.path))
        return 0


def fine(answer: S3Answer) -> S3Answer:
    """The answer; Failed, with the S3 error code, if it is an error."""
    if answer.code:
        raise Failed(answer.code)
    if b"<Error>" in answer.body[:200]:
        # S3 may answer the completion of an upload with status 200 and an error.
        raise Failed(answer._replace(status=500).code)
    return answer


def found(pattern: "re.Pattern[bytes]", body: bytes) -> str:
    """The text that the group of a pattern matches in an answer; Wrong if nothing matches."""
    match = pattern.search(body)
    if match is None:
        raise Wrong(f"the answer lacks what {pattern.pattern!r} finds: {body[:200]!r}")
    return match[1].decode()


def worker(load: Load, todo: Iterator[Due], number: int) -> None:
    """Take the next operation, wait until it is due, and run it, until told to stop."""
    rng = random.Random(f"{load.config['seed']} keys {number}")
    while not STOP.is_set():
        with load.lock:
            due = next(todo, None)
        if due is None:
            return
        early_s = due.due_s - time.monotonic() if due.due_s is not None else 0.0
        if early_s > 0 and STOP.wait(early_s):
            return
        entry = load.ledger.begin(due.kind, rng)
        if load.do(RUN, due, entry, time.monotonic(), idle=early_s > 0) and due.due_s is None:
            # A port without a listener refuses thousands of connections per second.
            STOP.wait(_BREATH_S)


def each_once(load: Load, phase: str, kind: str) -> None:
    """Put, get or delete every object of the phase once."""
    keys = iter(list(enumerate(load.ledger.keys_of(phase))))

    def share() -> None:
        while not STOP.is_set():
            with load.lock:
                number, key = next(keys, (0, None))
            if key is None:
                return
            load.do(phase, Due(number, kind, None), load.ledger.take(key, kind), time.monotonic(), idle=False)

    together([share] * load.config["workers"])


def together(works: list[Callable[[], None]]) -> None:
    """Run all of them, each in its own thread."""
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def make_buckets(line: S3Connection, buckets: list[str], *, new: bool) -> None:
    """Create the buckets. new: SystemExit, before any is created, if one already exists, whoever owns it."""
    if new:
        refuse_existing(line, buckets)
    for bucket in buckets:
        line.ask("PUT", f"/{bucket}")


def existing(line: S3Connection, buckets: list[str]) -> list[str]:
    """Which of these buckets exist, whoever owns them; OSError if the gateway cannot tell."""
    answers = {bucket: line.send("HEAD", f"/{bucket}") for bucket in buckets}
    for bucket, answer in answers.items():
        if answer.status >= _NO_ANSWER:  # a balancer answers so when no gateway is up
            raise OSError(f"HEAD /{bucket}: {answer.status}")
    return [bucket for bucket, answer in answers.items() if answer.status != _NOT_FOUND]


def refuse_existing(line: S3Connection, buckets: list[str]) -> None:
    """SystemExit if one of these buckets exists."""
    taken = existing(line, buckets)
    if taken:
        raise SystemExit(f"{EXIST}: {', '.join(taken)}")


def wait_for_moment(path: Path) -> None:
    """For a common start: wait for a file with the start time in seconds since the epoch, then until that time."""
    print(WAITS, flush=True)
    while not STOP.is_set():
        content = path.read_text() if path.exists() else EMPTY
        if content.endswith("\n"):
            STOP.wait(max(0.0, float(content) - time.time()))
            return
        STOP.wait(_BREATH_S)


def run(load: Load) -> None:
    """The load itself: for its runtime, for its number of operations, or until a signal."""
    todo = itertools.islice(plan(load.config, time.monotonic()), load.config["operations"] or None)
    timer = threading.Timer(load.config["runtime_s"] or _NEVER_S, STOP.set)
    timer.daemon = True
    timer.start()
    print(BEGUN, flush=True)
    together([partial(worker, load, todo, number) for number in range(load.config["workers"])])
    timer.cancel()
    STOP.clear()


def clean(load: Load, line: S3Connection) -> None:
    """Delete all objects, and the load's own buckets. A load that was ended early may not have made them."""
    there = existing(line, load.ledger.buckets)
    if there:
        each_once(load, CLEAN, "delete")
    for bucket in there if load.config["own_buckets"] else []:
        line.ask("DELETE", f"/{bucket}")


PHASES: dict[str, Callable[[Load, S3Connection], None]] = {
    FILL: lambda load, _: each_once(load, FILL, load.config["fill_by"]),
    RUN: lambda load, _: run(load),
    FINAL: lambda load, _: each_once(load, FINAL, "get"),
    CLEAN: clean,
}


def main() -> int:
    """Run the phases, then write the rows and a report."""
    config = configured()
    load = Load(config)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: STOP.set())
    spent: dict[str, tuple[float, float]] = {}
    first = S3Connection({**config, **config["endpoints"][0]})
    make_buckets(first, [] if config["filled"] else load.ledger.buckets, new=config["own_buckets"])
    if config["own_buckets"] and not config["phases"]:
        refuse_existing(first, load.ledger.buckets)
    for phase in config["phases"]:
        if phase == RUN and config["begin"]:
            wait_for_moment(Path(config["begin"]))
        began_s, cpu_s = time.monotonic(), time.process_time()
        PHASES[phase](load, first)
        spent[phase] = (time.monotonic() - began_s, time.process_time() - cpu_s)
    if load.windows is not None:
        load.windows.close()
        load.rows += load.windows.lines
    Path(config["log"]).write_text("".join(load.rows))
    report = {"spent": spent, "wrong": load.wrong[:SHOWN], "wrongs": len(load.wrong)}
    Path(config["output"]).write_text(json.dumps(report))
    return 0
