"""An S3 client on a host: puts or gets objects with many requests in flight, and notes when each of them ended.

It is copied to the host and runs there, so it needs nothing but Python. Requests are signed by AWS Signature Version 4
(docs.aws.amazon.com, "Authenticating Requests"), without their bodies. Its argument is the configuration's file.
"""

import hashlib
import hmac
import http.client
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

REGION = "us-east-1"
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = ""
STOP = threading.Event()


def signed(config: dict[str, Any], method: str, path: str, now: time.struct_time) -> dict[str, str]:
    """Headers of one request, with its signature."""
    stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    headers = {"host": config["address"], "x-amz-content-sha256": UNSIGNED, "x-amz-date": stamp}
    names = ";".join(headers)
    canonical = [method, path, EMPTY, *(f"{key}:{value}" for key, value in headers.items()), EMPTY, names, UNSIGNED]
    scope = f"{day}/{REGION}/s3/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{config['secret_key']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hex()
    credential = f"Credential={config['access_key']}/{scope}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"}


class S3Connection:
    """One connection, kept open, as a client library keeps it."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.line = http.client.HTTPConnection(config["address"], timeout=config["timeout_s"])

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """The answer's body; OSError when it is no success."""
        headers = signed(self.config, method, path, time.gmtime())
        self.line.request(method, path, body=body, headers=headers)
        answer = self.line.getresponse()
        content = answer.read()
        if answer.status // 100 != 2:
            raise OSError(f"{method} {path}: {answer.status} {answer.reason} {content[:300]!r}")
        return content


class Work:
    """What all threads share. times: when each operation ended, in seconds since the epoch."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.times: list[float] = []
        self.lock = threading.Lock()
        self.operations, self.waited_s, self.errors = 0, 0.0, 0
        self.words = ""

    def one(self, connection: S3Connection, name: str, content: bytes) -> None:
        """Put or get one object, and note it."""
        path = f"/{self.config['bucket']}/{name}"
        began = time.monotonic()
        if self.config["operation"] == "put":
            connection.ask("PUT", path, content)
        elif len(connection.ask("GET", path)) != len(content):
            raise OSError(f"GET {path}: another size than was put")
        took = time.monotonic() - began
        with self.lock:
            self.times.append(time.time())
            self.operations += 1
            if self.operations == 1:
                print("the first request was answered", flush=True)
            self.waited_s += took

    def loop(self, number: int, content: bytes) -> None:
        """One request after the other, until told to stop."""
        connection = S3Connection(self.config)
        for name in self.names(number):
            if STOP.is_set():
                return
            try:
                self.one(connection, name, content)
            except (OSError, http.client.HTTPException) as error:
                with self.lock:
                    self.errors, self.words = self.errors + 1, str(error)
                STOP.set()

    def names(self, number: int) -> Iterator[str]:
        """What a thread asks for: a new object to put, or any existing one.

        A put of an existing object would reach its OSD twice: the gateway first tries to create it.
        """
        rng = random.Random(f"{self.config['seed']} {number}")
        if self.config["operation"] == "put":
            yield from (f"{os.getpid()}-{number}-{turn}" for turn in itertools.count())
        while True:
            yield f"o{rng.randrange(self.config['objects'])}"

    def fill(self, content: bytes) -> None:
        """Make the bucket and every object once; an existing bucket stays."""
        S3Connection(self.config).ask("PUT", f"/{self.config['bucket']}")
        with ThreadPoolExecutor(self.config["depth"]) as workers:
            list(workers.map(lambda first: self.share(first, content), range(self.config["depth"])))

    def share(self, first: int, content: bytes) -> None:
        """Put every depth-th object, from `first` on, over one connection."""
        connection = S3Connection(self.config)
        for number in range(first, self.config["objects"], self.config["depth"]):
            connection.ask("PUT", f"/{self.config['bucket']}/o{number}", content)


def main() -> int:
    """Fill, put or get, as the configuration says; 1 when a request failed."""
    config = json.loads(Path(sys.argv[1]).read_text())
    content = random.Random(config["seed"]).randbytes(config["object_bytes"])
    work = Work(config)
    if config["operation"] == "fill":
        work.fill(content)
        return 0
    signal.signal(signal.SIGINT, lambda *_: STOP.set())
    signal.signal(signal.SIGTERM, lambda *_: STOP.set())
    began = time.monotonic()
    threads = [threading.Thread(target=work.loop, args=(number, content)) for number in range(config["depth"])]
    for thread in threads:
        thread.start()
    STOP.wait(config["runtime_s"])
    STOP.set()
    for thread in threads:
        thread.join()
    seconds = time.monotonic() - began
    Path(config["log"]).write_text("".join(f"{ended:.3f}\n" for ended in work.times))
    report = {"operations": work.operations, "seconds": seconds, "waited_s": work.waited_s, "errors": work.errors}
    Path(config["output"]).write_text(json.dumps({**report, "words": work.words}))
    return 0 if not work.errors else 1


if __name__ == "__main__":
    sys.exit(main())
