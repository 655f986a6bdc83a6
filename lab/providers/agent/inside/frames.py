"""Frames of the agent's connections: one byte of kind, four of length, the payload."""

import json
import struct

HEAD = struct.Struct(">cI")
CHUNK = 1 << 17


def send(link, kind, payload=b""):
    link.sendall(HEAD.pack(kind, len(payload)) + payload)


def answer(link, value):
    send(link, b"j", json.dumps(value).encode())


def exactly(link, count):
    parts = []
    while count:
        part = link.recv(min(count, CHUNK))
        if not part:
            raise ConnectionError("the lab has hung up")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def receive(link):
    kind, length = HEAD.unpack(exactly(link, HEAD.size))
    return kind, exactly(link, length)
