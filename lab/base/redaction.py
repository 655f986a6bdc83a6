"""Removes keys from the files kept of a run: cephx keys by their form, S3 keys by their name or known value."""

import base64
import binascii
import re
import struct
from collections.abc import Callable
from functools import cache

_REMOVED = b"[key removed]"
_KEY_HEADER = "<HIIH"  # type, creation time in seconds and nanoseconds, length of the secret that follows
_LENGTHS = {1: 16, 2: 32}
"""Type of a cephx key -> bytes of its secret: AES, and AES-256 from tentacle on."""
_NANOSECONDS = 10**9
_LEAST = 16
"""Least length of a known secret. A shorter one could be part of ordinary words."""

_BYTE = rb"[0-9A-Fa-f]{2}"
_ESCAPE = re.compile(
    rb"[%%\\&](?:(?<=%%)(?:25)*(%(byte)s)|(?<=&)#(?:x(%(byte)s)|([0-9]{2,3}));"
    rb"|(?<=\\)\\*(?:u00(%(byte)s)|x(%(byte)s)|(/)))" % {b"byte": _BYTE}
)
"""One character as URLs, JSON, C and HTML write it: `%3D`, `\\u003d`, `\\x3d`, `&#x3d;`, `&#61;`, `\\/`.

Where possible, the patterns begin with a set of characters, because that makes Python's search much faster.
"""


def _char(chars: str) -> bytes:
    """A pattern for one of these characters, plain or escaped."""
    values = "|".join(_hex(char.encode()) for char in chars)
    decimal = "|".join(str(ord(char)) for char in chars)
    escaped = rf"%(?:25)*(?:{values})|\\+u00(?:{values})|\\+x(?:{values})|&#x(?:{values});|&#(?:{decimal});"
    slash = r"|\\+/" if "/" in chars else ""
    return f"(?>[{re.escape(chars)}]|{escaped}{slash})".encode()


def _hex(value: bytes, between: str = "") -> str:
    """A pattern for bytes in hex, in either case."""
    digits = [f"{byte:02x}" for byte in value]
    return between.join("".join(f"[{c}{c.upper()}]" if c.isalpha() else c for c in pair) for pair in digits)


_ANY = rb"(?>[A-Za-z0-9+/_-]|%%(?:25)*%(b)s|\\+u00%(b)s|\\+x%(b)s|&#x%(b)s;|&#[0-9]{2,3};|\\+/)" % {b"b": _BYTE}
_PAD = _char("=")
_BASE64_KEY = re.compile(
    rb"[A%%\\&](?:(?<=A)|(?:25)*41|\\*[ux](?:00)?41|#x41;|#65;)(?:%s%s{36}%s{0,2}|%s%s{57}%s?)"
    % (_char("Q"), _ANY, _PAD, _char("g"), _ANY, _PAD)
)
"""A cephx key in base64 begins with its type, 1 or 2, as 16 bits, little endian."""
_PAIR = rb"(?:[ :]?%s)" % _BYTE
_HEX_KEY = re.compile(
    rb"0(?:1[ :]?00%(p)s{8}[ :]?10[ :]?00%(p)s{16}|2[ :]?00%(p)s{8}[ :]?20[ :]?00%(p)s{32})" % {b"p": _PAIR}
)
_HEX_OF_BASE64 = re.compile(
    rb"41(?:[ :]?51%(p)s{36}(?:[ :]?3[dD]){0,2}|[ :]?67%(p)s{57}(?:[ :]?3[dD])?)" % {b"p": _PAIR}
)

_VALUE = rb"(?P<value>(?:[A-Za-z0-9_-]|%s){16,})" % _char("+/=")
_NAMED = re.compile(
    rb"[aAsS](?i:(?:ccess|ecret)[ _-]?(?:access[ _-]?)?key(?:[ _-]?id)?|ecret(?<=--secret)(?=[ =]))"
    rb"(?:[\\\"']*\s*(?:[:=>]|%%3[aAdD]|\\+u003[aAdDeE])\s*[\\\"']*|(?<=-key)\s+|(?<=--secret)\s+)%s" % _VALUE
)
"""An S3 key after its name: in JSON, XML, a configuration, an environment or on a command line."""
_CREDENTIAL = re.compile(
    rb"[CA](?:redential(?:=|%3[dD])|WS (?<=\bAWS ))(?P<value>[A-Za-z0-9]{16,128})(?=/|:|%2[fF]|%3[aA])"
)
"""The access key in a request with a signature of version 4 or 2."""

_KNOWN: set[bytes] = set()


def remember(*secrets: str) -> None:
    """From now on remove these too, in any encoding. S3 keys have no form to recognise them by."""
    _KNOWN.update(secret.encode() for secret in secrets if len(secret) >= _LEAST)


def without_secrets(content: bytes) -> bytes:
    """The same bytes without cephx keys, named S3 keys and remembered secrets."""
    for pattern in _held(content):
        content = pattern.sub(_REMOVED, content)
    content = _without(content, _BASE64_KEY, lambda text: _is_key(_from_base64(_unescaped(text))))
    content = _without(content, _HEX_KEY, lambda text: _is_key(_from_hex(text)))
    content = _without(content, _HEX_OF_BASE64, lambda text: _is_key(_from_base64(_from_hex(text))))
    for named in (_NAMED, _CREDENTIAL):
        content = named.sub(lambda match: match[0][: -len(match["value"])] + _REMOVED, content)
    return content


def _without(content: bytes, pattern: re.Pattern[bytes], is_key: Callable[[bytes], bool]) -> bytes:
    """Remove every match that is a key, even one that begins inside a match that is not a key."""
    kept, start, place = [], 0, 0
    while match := pattern.search(content, place):
        place = match.start() + 1
        if is_key(match[0]):
            kept += [content[start : match.start()], _REMOVED]
            start = place = match.end()
    return b"".join([*kept, content[start:]])


def _is_key(raw: bytes) -> bool:
    header = struct.calcsize(_KEY_HEADER)
    if len(raw) <= header:
        return False
    kind, _, nanoseconds, length = struct.unpack_from(_KEY_HEADER, raw)
    return _LENGTHS.get(kind) == len(raw) - header == length and bool(nanoseconds < _NANOSECONDS)


def _from_base64(text: bytes) -> bytes:
    plain = _plain64(text.rstrip(b"="))
    try:
        return base64.b64decode(plain + b"=" * (-len(plain) % 4), validate=True)
    except binascii.Error:
        return b""


def _from_hex(text: bytes) -> bytes:
    return bytes.fromhex(text.translate(None, b" :").decode())


def _unescaped(text: bytes) -> bytes:
    def plain(match: re.Match[bytes]) -> bytes:
        percent, html, decimal, json, c, slash = match.groups()
        digits = percent or html or json or c
        return bytes([int(digits, 16)]) if digits else slash or bytes([int(decimal) & 0xFF])

    return _ESCAPE.sub(plain, text)


# Secrets that are known


def _base64_parts(secret: bytes) -> list[str]:
    """One text for each offset modulo 3. The base64 of anything that contains the secret contains one of them."""
    parts = []
    for before in range(3):
        whole = base64.b64encode(bytes(before) + secret).decode()
        parts.append(whole[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6])
    return parts


def _held(content: bytes) -> list[re.Pattern[bytes]]:
    """Patterns of the known secrets and encodings that the content may hold, longer secrets first.

    This quick check avoids most runs of the slow patterns, and compiling them, which takes longer.
    """
    if not _KNOWN:
        return []
    text = _plain64(content + b"\n" + _unescaped(content))
    in_hex = text.translate(None, b" :").lower()
    patterns = []
    for secret in sorted(_KNOWN, key=len, reverse=True):
        if secret.hex().encode() in in_hex:
            patterns.append(_in_hex(secret))
        forms = (secret, *(part.encode() for part in _base64_parts(secret)))
        patterns += [_escaped(form) for form in forms if _plain64(form) in text]
    return patterns


def _plain64(text: bytes) -> bytes:
    return text.translate(bytes.maketrans(b"-_", b"+/"))


@cache
def _escaped(text: bytes) -> re.Pattern[bytes]:
    """A pattern for a text in every escape, and in base64 of either alphabet."""
    either = {"+": "+-", "/": "/_"}
    return re.compile(b"".join(_char(either.get(char, char)) for char in map(chr, text)))


@cache
def _in_hex(secret: bytes) -> re.Pattern[bytes]:
    return re.compile(_hex(secret, "[ :]?").encode())
