"""Takes cephx keys out of what is kept of a run."""

from __future__ import annotations

import base64
import binascii
import re
import struct

_MAYBE_KEY = re.compile(rb"A[Qg][A-D][A-Za-z0-9+/]{20,}={0,2}")
"""What may be a cephx key in base64: it begins with its type, 1 or 2, as 16 bits, little endian."""
_KEY_HEADER = "<HIIH"  # type, creation time in seconds and nanoseconds, length of the secret that follows
_REMOVED = b"[key removed]"


def without_secrets(content: bytes) -> bytes:
    """The same bytes with every cephx key taken out."""
    return _MAYBE_KEY.sub(lambda found: _REMOVED if _is_key(found[0]) else found[0], content)


def _is_key(token: bytes) -> bool:
    try:
        raw = base64.b64decode(token, validate=True)
    except binascii.Error:
        return False
    header = struct.calcsize(_KEY_HEADER)
    return len(raw) > header and struct.unpack_from(_KEY_HEADER, raw)[3] == len(raw) - header
