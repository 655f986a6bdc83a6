"""Names, keys, values, sizes and counts, drawn over all that Ceph takes, the edges of it first.

Whoever draws passes its scenario's own `rng`, so that the scenario's seed gives the same inputs again.
"""

from collections.abc import Sequence
from random import Random

NAME_BYTES = 2048
"""osd_max_object_name_len; a locator key may be as long."""
NAMESPACE_BYTES = 256
"""osd_max_object_namespace_len."""
ALL_NAMESPACES = "\x01"
"""librados lists the objects of every namespace by this name (LIBRADOS_ALL_NSPACES in librados.h)."""
XATTR_NAME_BYTES = 100
"""osd_max_attr_name_len."""
OMAP_PAGE = 1024
"""osd_max_omap_entries_per_request: a reader of more has to ask again."""
OBJECT_BYTES = 128 << 20
"""osd_max_object_size."""

PG_NUM = 12
"""Of pools whose objects are named by this: no power of two, so that a hash's PG is no plain remainder."""
ODD_PG_NUM = {
    r"log_channel\(cluster\) log \[WRN\] : Health check failed: .*\(POOL_PG_NUM_NOT_POWER_OF_TWO\)": (
        "The scenario's pool has such a number on purpose."
    ),
}

BLOCK = 4096
"""BlueStore's allocation unit on the lab's disks; a chunk of an erasure-coded pool."""

HASHED = 12
"""ceph_str_hash_rjenkins mixes so many bytes at a time, and the rest of them, 0 to 11, in its own way."""

LENGTHS = (
    *(1, 2, 3),
    *(HASHED - 1, HASHED, HASHED + 1, 2 * HASHED - 1, 2 * HASHED, 2 * HASHED + 1),
    *(47, 48, 49, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1000, 1023, 1024, 1025, 2047, 2048),
)
"""Lengths of a name, in bytes."""

SIZES = (
    *(0, 1, 255, 256, 1000),
    *(BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK - 1, 2 * BLOCK, 2 * BLOCK + 1),
    *(65535, 65536, 65537),
)
"""Bytes of an object, an attribute or a value of an omap."""

COUNTS = (0, 1, 255, 256, 257, 1000, OMAP_PAGE - 1, OMAP_PAGE, OMAP_PAGE + 1)
"""Keys of an omap."""

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
AWKWARD = "!\"#$%&'()*+,:;<=>?@[\\]^`{|}~ /\n\t\x01\x7f"
"""BlueStore writes characters up to # and from ~ on otherwise, in the keys that it keeps objects by."""
FOREIGN = "éßøĐŁñ中文字日本語Ж\u0301\u200d😀🦑\U0010fffd"
"""Two, three and four bytes of UTF-8, and marks that combine."""

ALPHABETS = (PLAIN, AWKWARD, FOREIGN, PLAIN + AWKWARD + FOREIGN)


def text(rng: Random, size: int, alphabet: str) -> str:
    """Text of just so many bytes of UTF-8."""
    made = "".join(rng.choices(alphabet, k=size)).encode()[:size].decode(errors="ignore")
    return made + "".join(rng.choices(PLAIN, k=size - len(made.encode())))


def texts(rng: Random, count: int, most: int, *, but: str = "") -> list[str]:
    """Different texts: each length of LENGTHS up to `most` bytes and each alphabet, then whatever is drawn.

    but: characters that may not be in them.
    """
    alphabets = ["".join(letter for letter in alphabet if letter not in but) for alphabet in ALPHABETS]
    lengths = [length for length in LENGTHS if length < most] + [most]
    drawn: dict[str, None] = {}
    turn = rng.randrange(len(alphabets))
    for number in range(100 * count):
        if len(drawn) == count:
            break
        size = lengths[number] if number < len(lengths) else rng.randint(1, min(most, rng.choice(lengths)))
        drawn[text(rng, size, alphabets[(turn + number) % len(alphabets)])] = None
    return list(drawn)


def namespaces(rng: Random, count: int) -> list[str]:
    """Different names of namespaces, none of them the one that stands for all."""
    drawn = texts(rng, count + 1, NAMESPACE_BYTES)
    return [name for name in drawn if name != ALL_NAMESPACES][:count]


def binary_keys(rng: Random, count: int) -> list[bytes]:
    """Different keys of any bytes but NUL, where librados for C ends them, the lowest and the highest among them.

    One is the beginning of the next, and some differ in their last byte alone: their order is what a reader sees.
    """
    stem = bytes(rng.randrange(1, 256) for _ in range(30))
    edges = [b"\x01", b"\xff", b"\x7f", b"\x80", b"\xff" * 255, b"a", b"a.", b"a.b", b"a~", b"A", b"-", b"~", b"_"]
    edges += [stem, stem + b"\x01", stem + b"\xff", stem[:-1], stem * 33, stem * 136]
    edges += ["é".encode(), "😀".encode(), "Ж".encode() * 500]
    keys = dict.fromkeys(edges[:count])
    while len(keys) < count:
        keys[bytes(rng.randrange(1, 256) for _ in range(rng.choice((4, 12, 30, 64))))] = None
    return list(keys)


def as_text(key: bytes) -> str:
    """A key as the client takes it: bytes that are no UTF-8 become lone surrogates, and bytes again on the host."""
    return key.decode("utf-8", "surrogateescape")


def sizes(rng: Random, count: int, edges: Sequence[int] = SIZES) -> list[int]:
    """Every edge in a drawn order, then sizes between them."""
    drawn = rng.sample(list(edges), k=len(edges))
    return [drawn[number] if number < len(drawn) else rng.randrange(max(edges) + 1) for number in range(count)]
