"""An S3 client on a host: one operation on objects, with many requests in flight. It logs when each request ended.

It is copied to the host and runs there, so it needs nothing but Python. Requests are signed with AWS Signature Version
4 (docs.aws.amazon.com, "Authenticating Requests"), without their bodies. Its argument is the configuration file. The
access keys come in its environment, so that they are never in a file, however the program or its parent ends.
"""

import hashlib
import hmac
import http.client
import itertools
import json
import os
import random
import re
import signal
import socket
import ssl
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

KEYS = "CEPHLAB_S3_KEYS"
REGION = "us-east-1"
UNSIGNED = "UNSIGNED-PAYLOAD"
EMPTY = ""
NO_QUERY: dict[str, str] = {}
PLAIN = "-_.~"
"""Characters other than letters and digits that need no quoting in a query."""
PROBE_S, MOST_PROBES = 5, 127
"""Probes of a connection that waits for an answer. A machine that lost its power closes none of its connections. Once
it is up again it refuses the next probe, and the request fails then instead of after its whole timeout. A machine that
does not answer probes is left to the timeout: the kernel sends as many as it can."""
STOP = threading.Event()


def environment(access_key: str, secret_key: str) -> dict[str, str]:
    """The environment with which this program is started."""
    return {KEYS: json.dumps({"access_key": access_key, "secret_key": secret_key})}


def configured() -> dict[str, Any]:
    """The configuration of this program: the file named by its argument, and the access keys."""
    return {**json.loads(Path(sys.argv[1]).read_text()), **json.loads(os.environ.pop(KEYS))}


def signed(config: dict[str, Any], method: str, path: str, now: time.struct_time, query: str = EMPTY) -> dict[str, str]:
    """Headers of one request, with its signature. path, query: as sent, the query sorted by its keys."""
    stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    headers = {"host": config["address"], "x-amz-content-sha256": UNSIGNED, "x-amz-date": stamp}
    names = ";".join(headers)
    canonical = [method, path, query, *(f"{key}:{value}" for key, value in headers.items()), EMPTY, names, UNSIGNED]
    scope = f"{day}/{REGION}/s3/aws4_request"
    digest = hashlib.sha256("\n".join(canonical).encode()).hexdigest()
    key = f"AWS4{config['secret_key']}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{digest}".encode(), "sha256").hex()
    credential = f"Credential={config['access_key']}/{scope}"
    return {**headers, "Authorization": f"AWS4-HMAC-SHA256 {credential}, SignedHeaders={names}, Signature={signature}"}


class S3Answer(NamedTuple):
    """An answer: HTTP status, headers by lower-case name, and body."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The S3 error code, or the status if the body has none; empty for a success."""
        if self.status // 100 == 2:
            return EMPTY
        word = re.search(rb"<Code>([^<]+)</Code>", self.body)
        return word[1].decode() if word else str(self.status)


class S3Connection:
    """One connection, kept open as in a client library.

    config: address, access_key, secret_key, timeout_s, and for TLS `trusted`: PEM certificates.
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        address, timeout_s = config["address"], config["timeout_s"]
        if config.get("trusted"):
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_verify_locations(cadata=config["trusted"])
            self.line: http.client.HTTPConnection = http.client.HTTPSConnection(
                address, timeout=timeout_s, context=context
            )
        else:
            self.line = http.client.HTTPConnection(address, timeout=timeout_s)

    def send(self, method: str, path: str, query: Mapping[str, str] = NO_QUERY, body: bytes | None = None) -> S3Answer:
        """Send a request; its answer may have any status. After an OSError or HTTPException the next reconnects."""
        path = quote(path, safe="/-_.~")
        text = "&".join(f"{quote(key, safe=PLAIN)}={quote(query[key], safe=PLAIN)}" for key in sorted(query))
        headers = signed(self.config, method, path, time.gmtime(), text)
        try:
            if self.line.sock is None:
                self.line.connect()
                probe(self.line)
            self.line.request(method, f"{path}?{text}" if text else path, body=body, headers=headers)
            answer = self.line.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException):
            self.line.close()
            raise
        return S3Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, content)

    def ask(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send one request and return the body of the answer; OSError if it is an error."""
        answer = self.send(method, path, body=body)
        if answer.code:
            raise OSError(f"{method} {path}: {answer.status} {answer.body[:300]!r}")
        return answer.body


def probe(line: http.client.HTTPConnection) -> None:
    """Have the kernel probe an open connection on which nothing arrives."""
    line.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, PROBE_S)
    line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, PROBE_S)
    line.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, MOST_PROBES)


class Work:
    """State shared by all threads. times: when each operation ended, in seconds since the epoch."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config
        self.times: list[float] = []
        self.lock = threading.Lock()
        self.operations, self.waited_s, self.errors = 0, 0.0, 0
        self.words = ""

    def one(self, connection: S3Connection, name: str, content: bytes) -> None:
        """Run the operation on one object, or list a page of all objects, and note it."""
        path = f"/{self.config['bucket']}/{name}"
        began = time.monotonic()
        if self.config["operation"] == "put":
            connection.ask("PUT", path, content)
        elif self.config["operation"] == "delete":
            connection.ask("DELETE", path)
        elif self.config["operation"] == "list":
            self.list_page(connection)
        elif len(connection.ask("GET", path)) != len(content):
            raise OSError(f"GET {path}: another size than was put")
        took_s = time.monotonic() - began
        with self.lock:
            self.times.append(time.time())
            self.operations += 1
            if self.operations == 1:
                print("the first request was answered", flush=True)
            self.waited_s += took_s

    def list_page(self, connection: S3Connection) -> None:
        """Read the first page of the bucket; OSError if its number of keys is wrong."""
        keys = self.config["page"]
        answer = connection.send("GET", f"/{self.config['bucket']}", {"list-type": "2", "max-keys": str(keys)})
        keys_given, wanted = answer.body.count(b"<Key>"), min(keys, self.config["objects"])
        if answer.code or keys_given != wanted:
            raise OSError(f"LIST: {answer.status}, {keys_given} keys, wanted {wanted}: {answer.body[:300]!r}")

    def loop(self, number: int, content: bytes) -> None:
        """Send one request after another, until told to stop."""
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
        """Object names for a thread: new ones to put, its own ones to delete until none is left, or any existing ones.

        A put of an existing object would reach its OSD twice: the gateway first tries to create it.
        """
        if self.config["operation"] == "delete":
            yield from (f"o{own}" for own in range(number, self.config["objects"], self.config["depth"]))
            return
        rng = random.Random(f"{self.config['seed']} {number}")
        if self.config["operation"] == "put":
            yield from (f"{os.getpid()}-{number}-{turn}" for turn in itertools.count())
        while True:
            yield f"o{rng.randrange(self.config['objects'])}"

    def fill(self, content: bytes) -> None:
        """Create the bucket and put every object once; an existing bucket stays."""
        S3Connection(self.config).ask("PUT", f"/{self.config['bucket']}")
        with ThreadPoolExecutor(self.config["depth"]) as workers:
            list(workers.map(lambda first: self.share(first, content), range(self.config["depth"])))

    def share(self, first: int, content: bytes) -> None:
        """Put every depth-th object, from `first` on, over one connection."""
        connection = S3Connection(self.config)
        for number in range(first, self.config["objects"], self.config["depth"]):
            connection.ask("PUT", f"/{self.config['bucket']}/o{number}", content)


def main() -> int:
    """Fill, or run the operation named by the configuration; 1 if a request failed."""
    config = configured()
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
