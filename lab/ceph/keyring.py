"""Makes cephx keys and keyrings, so that no daemon has to wait for a monitor to hand them out."""

import base64
import secrets
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass, field

_HEADER = "<HIIH"
"""Type, creation time (s, ns) and length of a key, as CryptoKey::encode in Ceph's src/auth/Crypto.cc writes them."""


def new_key(sample: str) -> str:
    """A fresh cephx key of the sample's type and length, in base64.

    sample: any key from the release's own ceph-authtool. Releases differ (AES with 16 bytes up to reef, AES-256 with
    32 in tentacle), and a monitor refuses a key of the other type.
    """
    kind, _, _, length = struct.unpack_from(_HEADER, base64.b64decode(sample))
    now = time.time()
    header = struct.pack(_HEADER, kind, int(now), int(now % 1 * 1e9), length)
    return base64.b64encode(header + secrets.token_bytes(length)).decode()


@dataclass(frozen=True)
class Entity:
    """One cephx entity, e.g. `osd.0`, with its key and capabilities."""

    name: str
    key: str = field(repr=False)
    caps: Mapping[str, str] = field(default_factory=dict)

    def render(self) -> str:
        caps = "".join(f'\tcaps {kind} = "{cap}"\n' for kind, cap in self.caps.items())
        return f"[{self.name}]\n\tkey = {self.key}\n{caps}"


def render(entities: list[Entity]) -> bytes:
    """A keyring file. Write it with mode 0600."""
    return "".join(entity.render() for entity in entities).encode()


def admin_entity(sample: str) -> Entity:
    """The administrator."""
    caps = {"mon": "allow *", "mgr": "allow *", "osd": "allow *", "mds": "allow *"}
    return Entity("client.admin", new_key(sample), caps)
