"""The placement of an object by its name, computed here independently of Ceph's code.

Sources, in Ceph: ceph_str_hash_rjenkins in src/common/ceph_hash.cc (Robert Jenkins' "evahash" of 1996, public domain,
https://burtleburtle.net/bob/hash/evahash.html), pg_pool_t::hash_key in src/osd/osd_types.cc, ceph_stable_mod in
src/include/rados.h.
"""

_GOLDEN = 0x9E3779B9  # from the golden ratio: an arbitrary value
_MASK = 0xFFFFFFFF
_BLOCK = 12
NAMESPACE_END = b"\x1f"
"""Separates a namespace from a name."""


def _mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    for first, second, third in ((13, 8, 13), (12, 16, 5), (3, 10, 15)):
        a = ((a - b - c) & _MASK) ^ (c >> first)
        b = ((b - c - a) & _MASK) ^ ((a << second) & _MASK)
        c = ((c - a - b) & _MASK) ^ (b >> third)
    return a, b, c


def rjenkins(key: bytes) -> int:
    """The 32-bit hash of a string."""
    a, b, c = _GOLDEN, _GOLDEN, 0
    whole = len(key) - len(key) % _BLOCK
    for at in range(0, whole, _BLOCK):
        words = [int.from_bytes(key[at + 4 * n : at + 4 * n + 4], "little") for n in range(3)]
        a, b, c = _mix(*((old + word) & _MASK for old, word in zip((a, b, c), words, strict=True)))
    rest = key[whole:]
    c += len(key)
    # The lowest byte of c holds the length.
    a = (a + int.from_bytes(rest[:4], "little")) & _MASK
    b = (b + int.from_bytes(rest[4:8], "little")) & _MASK
    c = (c + (int.from_bytes(rest[8:], "little") << 8)) & _MASK
    return _mix(a, b, c)[2]


def object_hash(name: str, *, namespace: str = "", locator: str = "") -> int:
    """The hash that decides an object's PG: of its namespace and its locator key, or its name if it has no key."""
    key = (locator or name).encode()
    return rjenkins(namespace.encode() + NAMESPACE_END + key if namespace else key)


def stable_mod(value: int, count: int) -> int:
    """The PG of a hash among `count` PGs, which need not be a power of two."""
    mask = (1 << (count - 1).bit_length()) - 1
    masked = value & mask
    return masked if masked < count else value & (mask >> 1)
