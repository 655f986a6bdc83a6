"""Helpers for the models of several services: overwriting and cutting content, and drawing sizes near edges."""

from random import Random

from cephlab.suites.interop import edges


def overwrite(data: bytearray, offset: int, piece: bytes) -> None:
    """Overwrite or extend. A gap before the offset is filled with zeros."""
    data.extend(bytes(max(0, offset - len(data))))
    data[offset : offset + len(piece)] = piece


def put_tail(data: bytearray, size: int) -> None:
    """Cut, or extend with zeros."""
    data.extend(bytes(max(0, size - len(data))))
    del data[size:]


def draw_size(rng: Random, most: int) -> int:
    """Draw a size or an offset of at most `most`, half of the time an edge case."""
    fitting = [size for size in edges.SIZES if size <= most]
    return rng.choice(fitting) if rng.random() < 0.5 else rng.randint(0, most)
