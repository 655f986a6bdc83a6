"""A made-up gateway for the S3 load, under a made-up clock: it keeps what it is given, or loses it on purpose."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from cephlab.lab.workloads import s3_load_program
from cephlab.lab.workloads.s3_load_program import Load
from cephlab.lab.workloads.s3_program import S3Answer, S3Connection

CONFIG: Mapping[str, Any] = {
    "bucket": "b",
    "buckets": 1,
    "objects": 6,
    "sizes": ((100, 900, 1.0),),
    "seed": 7,
    "filled": False,
    "mix": {"get": 1.0},
    "rate": 0.0,
    "workers": 1,
    "runtime_s": 6.0,
    "endpoints": [{"address": "h:1"}],
    "part_bytes": 300,
    "page": 2,
    "begin": "",
    "own_buckets": False,
    "fill_by": "put",
    "operations": 0,
    "window_s": 0.0,
    "over": {},
}


@dataclass
class FakeTime:
    """Seconds that pass only where somebody waits. It stands for the program's `time` and for its STOP."""

    now_s: float = 0.0
    end_s: float = float("inf")

    def monotonic(self) -> float:
        return self.now_s

    def time(self) -> float:
        return self.now_s

    def process_time(self) -> float:
        return 0.0

    def wait(self, seconds: float) -> bool:
        self.now_s += max(0.0, seconds)
        return self.is_set()

    def is_set(self) -> bool:
        return self.now_s >= self.end_s

    def clear(self) -> None:
        self.end_s = float("inf")

    def set(self) -> None:
        raise AssertionError("nothing but time ends a load here")


@dataclass
class FakeGateway:
    """takes_s: of each request; stands: from when to when it answers nobody.

    drops: a part of each upload that it forgets; stale: it keeps the first version of each object.
    """

    time: FakeTime
    takes_s: float = 0.005
    stands: tuple[float, float] = (0.0, 0.0)
    drops: int = 0
    stale: bool = False
    codes: list[str] = field(default_factory=list)
    objects: dict[str, bytes] = field(default_factory=dict)
    parts: dict[str, dict[int, bytes]] = field(default_factory=dict)

    def send(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: bytes | None = None
    ) -> S3Answer:
        begin_s, end_s = self.stands
        self.time.now_s = max(self.time.now_s, end_s) if begin_s <= self.time.now_s < end_s else self.time.now_s
        self.time.now_s += self.takes_s
        if self.codes:
            return S3Answer(503, {}, f"<Error><Code>{self.codes.pop()}</Code></Error>".encode())
        answer: S3Answer = getattr(self, f"_{method.lower()}")(path, dict(query or {}), body or b"")
        return answer

    def _put(self, path: str, query: dict[str, str], body: bytes) -> S3Answer:
        if "partNumber" in query:
            number = int(query["partNumber"])
            self.parts[query["uploadId"]][number] = b"" if number == self.drops else body
        elif not (self.stale and path in self.objects):
            self.objects[path] = body
        return S3Answer(200, {"etag": f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'}, b"")

    def _post(self, path: str, query: dict[str, str], body: bytes) -> S3Answer:
        if "uploads" in query:
            upload = f"u{len(self.parts)}"
            self.parts[upload] = {}
            return S3Answer(200, {}, f"<UploadId>{upload}</UploadId>".encode())
        parts = self.parts[query["uploadId"]]
        assert len(re.findall(b"<PartNumber>", body)) == len(parts)
        self.objects[path] = b"".join(parts[number] for number in sorted(parts))
        return S3Answer(200, {}, b"<CompleteMultipartUploadResult/>")

    def _get(self, path: str, query: dict[str, str], body: bytes) -> S3Answer:
        if "list-type" in query:
            names = sorted(name.removeprefix(f"{path}/") for name in self.objects)
            first = int(query.get("continuation-token", 0))
            last = first + int(query["max-keys"])
            more = f"<NextContinuationToken>{last}</NextContinuationToken>" if last < len(names) else ""
            return S3Answer(200, {}, ("".join(f"<Key>{name}</Key>" for name in names[first:last]) + more).encode())
        if path not in self.objects:
            return S3Answer(404, {}, b"<Error><Code>NoSuchKey</Code></Error>")
        return S3Answer(200, {"content-length": str(len(self.objects[path]))}, self.objects[path])

    def _head(self, path: str, query: dict[str, str], body: bytes) -> S3Answer:
        return self._get(path, query, body)._replace(body=b"")

    def _delete(self, path: str, query: dict[str, str], body: bytes) -> S3Answer:
        self.objects.pop(path, None)
        return S3Answer(204, {}, b"")


def load_of(monkeypatch: pytest.MonkeyPatch, gateway: FakeGateway, **config: Any) -> Load:
    """A load whose only connection is to this gateway."""
    monkeypatch.setattr(s3_load_program, "time", gateway.time)
    monkeypatch.setattr(s3_load_program, "STOP", gateway.time)
    timer = SimpleNamespace(start=lambda: None, cancel=lambda: None)

    def timed(seconds: float, _: object) -> SimpleNamespace:
        gateway.time.end_s = gateway.time.now_s + seconds
        return timer

    monkeypatch.setattr("threading.Timer", timed)
    load = Load({**CONFIG, **config})
    line: Any = gateway
    connection: S3Connection = line
    monkeypatch.setattr(load, "connection", lambda _: connection)
    return load
