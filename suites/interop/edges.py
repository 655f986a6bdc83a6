"""Random names, keys, values, sizes and counts from all that Ceph accepts, edge cases first.

The caller passes its scenario's `rng`, so that the scenario's seed gives the same inputs again.
"""

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
"""osd_max_omap_entries_per_request: a client that reads more entries needs several requests."""
OBJECT_BYTES = 128 << 20
"""osd_max_object_size."""

PG_NUM = 12
"""PGs of pools with such names. It is no power of two, so that the PG is not simply the low bits of the hash."""
ODD_PG_NUM = {
    r"log_channel\(cluster\) log \[WRN\] : Health check failed: .*\(POOL_PG_NUM_NOT_POWER_OF_TWO\)": (
        "The scenario's pool has such a number of PGs on purpose."
    ),
}

BLOCK = 4096
"""Bytes of BlueStore's allocation unit on the lab's disks, and of a chunk of an erasure-coded pool."""

HASHED = 12
"""ceph_str_hash_rjenkins mixes this many bytes at a time, and treats the last 0 to 11 bytes differently."""

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
"""Sizes of an object, an attribute or an omap value, in bytes."""

COUNTS = (0, 1, 255, 256, 257, 1000, OMAP_PAGE - 1, OMAP_PAGE, OMAP_PAGE + 1)
"""Numbers of keys in an omap."""

PLAIN = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_."
AWKWARD = "!\"#$%&'()*+,:;<=>?@[\\]^`{|}~ /\n\t\x01\x7f"
"""BlueStore escapes characters up to # and from ~ on in its keys for objects."""
FOREIGN = "éßøĐŁñ中文字日本語Ж\u0301\u200d😀🦑\U0010fffd"
"""Characters of two, three and four bytes in UTF-8, and combining marks."""

ALPHABETS = (PLAIN, AWKWARD, FOREIGN, PLAIN + AWKWARD + FOREIGN)


def text(rng: Random, size: int, alphabet: str) -> str:
    """Text of exactly `size` bytes in UTF-8."""
    drawn = "".join(rng.choices(alphabet, k=size)).encode()[:size].decode(errors="ignore")
    return drawn + "".join(rng.choices(PLAIN, k=size - len(drawn.encode())))


def texts(rng: Random, count: int, most: int, *, but: str = "") -> list[str]:
    """Distinct texts: first each length of LENGTHS up to `most` bytes, in each alphabet, then random lengths.

    but: characters that must not occur.
    """
    alphabets = ["".join(letter for letter in alphabet if letter not in but) for alphabet in ALPHABETS]
    lengths = [length for length in LENGTHS if length < most] + [most]
    chosen: dict[str, None] = {}
    turn = rng.randrange(len(alphabets))
    for number in range(100 * count):
        if len(chosen) == count:
            break
        size = lengths[number] if number < len(lengths) else rng.randint(1, min(most, rng.choice(lengths)))
        chosen[text(rng, size, alphabets[(turn + number) % len(alphabets)])] = None
    return list(chosen)


def namespaces(rng: Random, count: int) -> list[str]:
    """Distinct names of namespaces, never the name that means all namespaces."""
    names = texts(rng, count + 1, NAMESPACE_BYTES)
    return [name for name in names if name != ALL_NAMESPACES][:count]


def binary_keys(rng: Random, count: int) -> list[bytes]:
    """Distinct keys of any bytes except NUL, which ends a key in librados' C API. The lowest and highest are included.

    Some keys are prefixes of others or differ only in the last byte, so that a wrong sort order shows to a reader.
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
    """A key as the client takes it. Bytes that are not UTF-8 become lone surrogates, and turn back on the host."""
    return key.decode("utf-8", "surrogateescape")


def sizes(rng: Random, count: int) -> list[int]:
    """Every edge in random order, then random sizes up to the largest edge."""
    shuffled = rng.sample(SIZES, k=len(SIZES))
    return [shuffled[number] if number < len(shuffled) else rng.randrange(max(SIZES) + 1) for number in range(count)]
