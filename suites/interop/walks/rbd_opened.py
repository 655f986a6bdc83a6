"""The part of the model of a walk over RBD in which sides keep images open, and one writes while another snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from cephlab.suites.interop.walks.model import overwrite
from cephlab.suites.interop.walks.rbd_groups import Drawn, Groups, WantedImage
from cephlab.suites.interop.walks.walk import Unfit, content

BLOCK = 512
"""What a stream writes at a time."""
MOST_BLOCKS = 32
STREAMING = 0.6
"""The share of steps that snapshot or end a stream, while there is one."""
OFTEN = 4
"""How much more often a step takes an image that a side has open."""


@dataclass(frozen=True)
class Stream:
    """Writes that go on behind the steps, block after block, again and again. The first block is left to others."""

    image: str
    offset: int
    blocks: int


class Opened(Groups):
    """Images that sides keep open. All that a side does with such an image goes through the one that it has open.

    opened: (side, image); grown: (side, image) -> the size that the side may take it to have; streams: of sides.
    """

    side = ""
    opened: set[tuple[str, str]]
    grown: dict[tuple[str, str], int]
    streams: dict[str, Stream]

    @property
    def looking(self) -> Mapping[str, Any]:
        """What a stream writes to cannot be looked at."""
        return {"but": sorted(stream.image for stream in self.streams.values())}

    def some_image(self, rng: Random, names: list[str]) -> str:
        """One of these names, more often one that is open."""
        return rng.choice([*names, *sorted({image for _, image in self.opened}) * OFTEN])

    def open_steps(self, rng: Random, image: str, offset: int) -> list[Drawn]:
        blocks = rng.randint(1, MOST_BLOCKS)
        return [
            *[("open", {"image": image})] * 4,
            ("shut", {"image": image}),
            *[("stream", {"image": image, "offset": offset, "blocks": blocks})] * 3,
        ]

    def stream_steps(self, rng: Random) -> list[Drawn]:
        """What a side does about the streams there are: it ends its own, and snapshots those of others."""
        if self.side in self.streams:
            return [("halt", {"seed": rng.randrange(1 << 16)})]
        return [
            ("cut_in", {"image": stream.image, "offset": stream.offset, "blocks": stream.blocks, "write": write})
            for stream in self.streams.values()
            for write in (True, False)
        ]

    def _settled(self, image: str) -> WantedImage:
        self._still(image)
        return super()._settled(image)

    def _still(self, *images: str) -> None:
        """Unfit while a stream writes to one of them."""
        if any(stream.image in images for stream in self.streams.values()):
            raise Unfit

    def _reach(self, image: str, end: int) -> None:
        """Unfit beyond what a side knows of an image that grew: librbd-grown-refused in suites/defects/known.toml."""
        if end > self.grown.get((self.side, image), end):
            raise Unfit

    def _resized(self, image: str, before: int, *, but: str = "") -> None:
        """What was open before may not know the new size. but: the side that resized it through what it has open.

        That side does not know it either if another has the image open: the other may have the lock, and resizes it.
        """
        sides = {side for side, of in self.opened if of == image}
        for side in sides if sides != {but} else ():
            self.grown[side, image] = min(before, self.grown.get((side, image), before))

    def _looked(self, but: list[str]) -> None:
        """The side asks all images for their size, but these."""
        self.grown = {key: size for key, size in self.grown.items() if key[0] != self.side or key[1] in but}

    def _is_open(self, image: str) -> bool:
        return any(image == of for _, of in self.opened)

    def _mine(self, image: str) -> WantedImage:
        """An image that no other side has open, for what librbd refuses to who would have to ask for the lock."""
        if any(image == of and side != self.side for side, of in self.opened):
            raise Unfit
        return self._settled(image)

    def _closed(self, image: str) -> WantedImage:
        """An image that no side has open, for what moves it."""
        if self._is_open(image):
            raise Unfit
        return self._settled(image)

    def do_open(self, image: str) -> None:
        self._settled(image)
        if (self.side, image) in self.opened:
            raise Unfit
        self.opened = {*self.opened, (self.side, image)}

    def do_shut(self, image: str) -> None:
        self._still(image)
        if (self.side, image) not in self.opened:
            raise Unfit
        self.opened = self.opened - {(self.side, image)}
        self.grown.pop((self.side, image), None)

    def do_stream(self, image: str, offset: int, blocks: int) -> None:
        there = self._settled(image)
        self._reach(image, offset + (1 + blocks) * BLOCK)
        fits = blocks > 0 and offset + (1 + blocks) * BLOCK <= len(there.data)
        if not fits or (self.side, image) not in self.opened or self.side in self.streams:
            raise Unfit
        self.streams = {**self.streams, self.side: Stream(image, offset, blocks)}

    def do_cut_in(self, image: str, offset: int, blocks: int, *, write: bool) -> str:
        """Snapshot what another side writes to. write: whether this side first writes to the block that is left to it.

        The snapshot is removed at once.
        """
        self._reach(image, offset + (1 + blocks) * BLOCK)
        others = [stream for side, stream in self.streams.items() if side != self.side]
        if Stream(image, offset, blocks) not in others:
            raise Unfit
        return "one moment"

    def do_halt(self, seed: int) -> None:
        """End the stream, and write to all that it wrote to."""
        if self.side not in self.streams:
            raise Unfit
        stream = self.streams[self.side]
        self.streams = {side: other for side, other in self.streams.items() if side != self.side}
        there = self.images[stream.image]
        overwrite(there.data, stream.offset, content(seed, (1 + stream.blocks) * BLOCK))

    def do_group_snap(self, snap: str) -> None:
        self._still(*self.images)
        super().do_group_snap(snap)

    def do_group_drop(self, snap: str) -> None:
        self._still(*self.images)
        super().do_group_drop(snap)

    def do_group_rollback(self, snap: str) -> None:
        self._still(*self.images)
        for image in self.images:
            if snap in self.images[image].group_snaps:
                self._mine(image)
        before = {name: len(image.data) for name, image in self.images.items()}
        super().do_group_rollback(snap)
        for image, size in before.items():
            self._resized(image, size)
