"""Namespaces that are added, grown and removed while another namespace of the same subsystem is in use."""

from hashlib import sha256

from cephlab.lab.base import clock
from cephlab.lab.blockstack.nvmeof import Namespace
from cephlab.lab.history.history import Basis, Recorder
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.limits import no_errors
from cephlab.suites.nvmeof.failover import LATER, UNDER_WAY, more, new_load
from cephlab.suites.nvmeof.stand import HELD, LAYERING, POOL, Stand, from_first, scenario_on_pair, standing

SECOND = Namespace(POOL, "second", number=2)
SMALL_BYTES, LARGE_BYTES = 4 * MIB, 6 * MIB
PIECE_BYTES = 1 * MIB
SEEN_S = 30.0
_COPY_S = 120.0


def come_grow_go(stage: Stage) -> None:
    """Add a second namespace next to one under load, write to it, grow it, write to the new part, and remove it."""
    recorder, client = stage.recorder, stage.cluster.client
    no_errors(recorder, "a change of one namespace must not affect another")
    why = "nothing fails, so it is less than a keep-alive"
    recorder.limit("longest_gap_s", HELD.keep_alive_s, "s", why, basis=Basis.CORRECTNESS)
    with standing(stage, from_first(host_arch())) as stand:
        load = new_load(stage, stand)
        load.prepare()
        client.rbd_create(POOL, SECOND.image, SMALL_BYTES, features=LAYERING)
        with load.running():
            more(load, UNDER_WAY)
            for gateway in stand.pair.gateways:
                gateway.add(SECOND)
            size_seen(recorder, stand, SMALL_BYTES)
            written(stage, stand, SMALL_BYTES - PIECE_BYTES, "before it grew")
            client.rbd_resize(POOL, SECOND.image, LARGE_BYTES)
            size_seen(recorder, stand, LARGE_BYTES, grown=True)
            written(stage, stand, LARGE_BYTES - PIECE_BYTES, "in its new part")
            for gateway in stand.pair.gateways:
                gateway.remove(SECOND)
            size_seen(recorder, stand, 0)
            more(load, LATER)
        load.verify()


def size_seen(recorder: Recorder, stand: Stand, size_bytes: int, *, grown: bool = False) -> None:
    """Wait until the initiator sees the namespace with this size; 0: until it is gone."""

    def seen() -> int:
        for gateway in stand.pair.gateways if grown else ():
            gateway.grow(SECOND)  # its own kernel may not know yet that the image is larger
        return stand.initiator.size_bytes(stand.volume, SECOND)

    reached = clock.wait(
        seen,
        lambda got: got == size_bytes,
        what=f"a second namespace of {size_bytes} bytes on {stand.initiator.node}",
        timeout_s=SEEN_S * stand.cluster.patience,
    )
    recorder.step(f"the second namespace has {reached} bytes")


def written(stage: Stage, stand: Stand, offset: int, what: str) -> None:
    """Write a piece of the second namespace over NVMe; librbd and the initiator must both read it back."""
    host, timeout_s = stand.initiator.host, _COPY_S * stage.cluster.patience
    device, file = stand.initiator.device(stand.volume, SECOND), host.directory / "nvmeof-piece"
    sent = stage.rng.randbytes(PIECE_BYTES)
    host.push(sent, file)
    block = ("bs=64k", "status=none")
    at = offset >> 16
    host.run(["dd", f"if={file}", f"of={device}", "oflag=direct", f"seek={at}", *block], timeout_s=timeout_s)
    [piece] = stage.cluster.client.rbd_look(POOL, SECOND.image, [(offset, PIECE_BYTES)])["pieces"]
    stage.recorder.observe(f"read by librbd: {what}", got=sha256(piece).hexdigest(), wanted=sha256(sent).hexdigest())
    back = ("iflag=direct", f"skip={at}", f"count={PIECE_BYTES >> 16}")
    host.run(["dd", f"if={device}", f"of={file}", *back, *block], timeout_s=timeout_s)
    read = host.run(["sha256sum", str(file)], timeout_s=timeout_s).stdout.split()[0]
    stage.recorder.observe(f"read over NVMe: {what}", got=read, wanted=sha256(sent).hexdigest())


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.namespaces",
        goal="A namespace can be added, grown and removed under load: its data is right, and others are unaffected.",
        method="Adds a second image on both gateways next to one under a recorded load; writes its end; resizes the "
        "image and writes its new end; removes it. Reads back with librbd and over NVMe.",
        run=come_grow_go,
        check="recorded",
        tier=Tier.FULL,
        sees=("read by librbd: .*", "read over NVMe: .*"),
    ),
)
