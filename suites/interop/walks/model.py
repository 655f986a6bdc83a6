"""What models of several services need: content that is written over, and sizes about edges."""

from random import Random

from cephlab.suites.interop import edges


def overwrite(data: bytearray, offset: int, piece: bytes) -> None:
    """Overwrite or extend; a gap before the offset is filled with zeros."""
    data.extend(bytes(max(0, offset - len(data))))
    data[offset : offset + len(piece)] = piece


def put_tail(data: bytearray, size: int) -> None:
    """Cut, or extend with zeros."""
    data.extend(bytes(max(0, size - len(data))))
    del data[size:]


def draw_size(rng: Random, most: int) -> int:
    """A size or an offset: an edge as often as not, at most `most`."""
    fitting = [size for size in edges.SIZES if size <= most]
    return rng.choice(fitting) if rng.random() < 0.5 else rng.randint(0, most)
