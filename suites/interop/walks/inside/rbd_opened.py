"""Images that a side of a walk over RBD keeps open, and writes to behind the steps."""

import contextlib
import threading

import rbd

BLOCK = 512
CUT = "cut in"


def block_of(number):
    """A block of a round of a stream."""
    return (b"%015d\n" % number) * (BLOCK // 16)


def moment_of(data):
    """`one moment`, if there are blocks of one round, and then only some of the round before. Else the rounds."""
    blocks = [data[at : at + BLOCK] for at in range(0, len(data), BLOCK)]
    try:
        rounds = [int(block[:15]) if block.strip(b"\0") else 0 for block in blocks]
    except ValueError:
        return "blocks that the stream did not write"
    if blocks != [block_of(number) if number else bytes(BLOCK) for number in rounds]:
        return "blocks that the stream did not write"
    if rounds[0] - rounds[-1] > 1 or rounds != sorted(rounds, reverse=True):
        return rounds
    return "one moment"


class Stream(threading.Thread):
    """Writes to a part of an image, block after block, round after round."""

    def __init__(self, image, offset, blocks):
        super().__init__(daemon=True)
        self.image, self.offset, self.blocks = image, offset, blocks
        self.over, self.error = False, None

    def run(self):
        number = 0
        try:
            while not self.over:
                number += 1
                for block in range(self.blocks):
                    self.image.write(block_of(number), self.offset + block * BLOCK)
        except rbd.Error as error:
            self.error = error

    def halt(self):
        self.over = True
        self.join()
        if self.error:
            raise self.error


class Opened:
    """The images that a side keeps open. kept: name -> image."""

    def image(self, image, snap=None):
        if snap is None and image in self.kept:
            return contextlib.nullcontext(self.kept[image])
        return rbd.Image(self.io, self.place + image, snapshot=snap)

    def close_all(self):
        if self.stream:
            with contextlib.suppress(rbd.Error):
                self.stream.halt()
        for image in self.kept.values():
            image.close()
        self.kept, self.stream = {}, None

    def op_open(self, image):
        self.kept[image] = rbd.Image(self.io, self.place + image)

    def op_shut(self, image):
        self.kept.pop(image).close()

    def op_stream(self, image, offset, blocks):
        """Begin to write. The first block is left to other sides."""
        self.kept[image].write_zeroes(offset, (1 + blocks) * BLOCK)
        self.stream = Stream(self.kept[image], offset + BLOCK, blocks)
        self.stream.start()

    def op_cut_in(self, image, offset, blocks, write):
        """Whether a snapshot shows what the stream of another side had written at one moment, and one's own write."""
        own = bytes(BLOCK)
        with self.image(image) as opened:
            if write:
                own = content("%s cuts in" % self.place, BLOCK)
                opened.write(own, offset)
            opened.create_snap(CUT)
            try:
                with self.image(image, CUT) as cut:
                    data = cut.read(offset, (1 + blocks) * BLOCK)
            finally:
                opened.remove_snap(CUT)
        return moment_of(data[BLOCK:]) if data[:BLOCK] == own or not write else "its own write is not in the snapshot"

    def op_halt(self, seed):
        stream, self.stream = self.stream, None
        stream.halt()
        stream.image.write(content(seed, (1 + stream.blocks) * BLOCK), stream.offset - BLOCK)
