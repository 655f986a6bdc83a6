"""Blocks that a guest writes and flushes, recorded outside of it, and whether they are on the image afterwards."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from cephlab.suites.hci.hypervisor.guest import GuestGone, HostedGuest
from cephlab.suites.hci.hypervisor.inside import BLOCK_BYTES, content, place

MOST_AT_ONCE = 6
FLUSHED_SHARE = 0.3
"""Share of requests that flush; after the others, data waits where the cache mode lets it."""
_ANSWER_S = 240.0
_JOIN_S = 300.0


@dataclass(frozen=True)
class WrongBlocks:
    """What is wrong with an image, by numbers of blocks. unacknowledged: blocks there that were not promised."""

    lost: tuple[int, ...]
    made_up: tuple[str, ...]
    unacknowledged: int


def compare(data: bytes, seed: int, begun: int, promised: int) -> WrongBlocks:
    """Compare an image, empty at first, with a ledger. begun, promised: how many blocks were sent, must be there."""
    blocks = len(data) // BLOCK_BYTES
    where = {place(seed, number, blocks): number for number in range(begun)}
    lost, made_up, more = [], [], 0
    for at in range(0, len(data), BLOCK_BYTES):
        piece, number = data[at : at + BLOCK_BYTES], where.get(at)
        empty = not piece.strip(b"\0")
        if number is not None and empty and number < promised:
            lost.append(number)
        elif number is not None and piece == content(seed, number):
            more += number >= promised
        elif not empty:
            made_up.append(f"byte {at}: {piece[:16].hex()}")
    return WrongBlocks(tuple(sorted(lost)), tuple(made_up), more)


@dataclass
class BlockLedger:
    """Numbered blocks that one guest writes to a disk, in order. size_bytes: of that disk, a power of two.

    begun, written, flushed: how many blocks were sent, acknowledged, and covered by an acknowledged flush.
    """

    guest: HostedGuest
    device: str
    size_bytes: int
    rng: random.Random
    begun: int = 0
    written: int = 0
    flushed: int = 0
    seed: int = field(init=False)
    _stop: threading.Event = field(default_factory=threading.Event, repr=False)
    _unflushed: threading.Event = field(default_factory=threading.Event, repr=False)

    def __post_init__(self) -> None:
        self.seed = self.rng.randrange(1 << 31)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Write for the length of a block; the end of the guest ends it silently."""
        worker = threading.Thread(target=self._work, daemon=True)
        worker.start()
        try:
            yield
        finally:
            self._stop.set()
            worker.join(timeout=_JOIN_S)

    def flush_no_more(self) -> None:
        """From now on, leave written data where the cache mode lets it wait."""
        self._unflushed.set()

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                flush = self.rng.random() < FLUSHED_SHARE and not self._unflushed.is_set()
                self.step(self.rng.randint(1, MOST_AT_ONCE), flush=flush)
        except GuestGone:
            return  # the request under way was not acknowledged, so that nothing was promised

    def step(self, count: int, *, flush: bool) -> None:
        """Write some blocks. flush: then flush them and all before."""
        first, self.begun = self.begun, self.begun + count
        request = {"seed": self.seed, "first": first, "count": count, "flush": flush}
        blocks = self.size_bytes // BLOCK_BYTES
        self.guest.ask("write", timeout_s=_ANSWER_S, device=self.device, blocks=blocks, **request)
        self.written = self.begun
        if flush:
            self.flushed = self.begun
