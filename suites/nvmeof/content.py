"""Data integrity through the gateways in both directions: initiator to RBD, and RBD to initiator."""

from functools import partial
from hashlib import sha256

from cephlab.lab.cluster.pools import primary_on
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import MIB
from cephlab.suites.nvmeof.stand import (
    IMAGE,
    INITIATOR,
    NODES,
    POOL,
    Stand,
    from_first,
    scenario_on_pair,
    serves,
    standing,
)

PIECE_BYTES = 2 * MIB
"""Spans two objects of the image, so that a request crosses an object boundary."""
BLOCK_BYTES = 64 << 10
_COPY_S = 120.0


def across(stage: Stage, initiator: Arch, primaries: tuple[Arch, ...]) -> None:
    """Write and read through the gateway of each architecture, with primary OSDs of each architecture."""
    node = INITIATOR if initiator is host_arch() else NODES[initiator]
    with standing(stage, from_first(host_arch()), node=node) as stand:
        for primary in primaries:
            with primary_on(stage.cluster, primary, POOL):
                for _ in stand.pair.gateways:
                    both_ways(stage, stand, f"{initiator} initiator, {stand.pair.serving.arch} gateway, {primary} OSD")
                    stand.pair.hand_over()


def both_ways(stage: Stage, stand: Stand, way: str, *, address: str = "", mark: bytes = b"") -> None:
    """Write over NVMe and read with librbd, then the other way around.

    way: the name of this part in the history. address: where the initiator reaches the serving gateway, if not at its
    own address. mark: what the data begins with.
    """
    client, host, recorder = stage.cluster.client, stand.initiator.host, stage.recorder
    timeout_s = _COPY_S * stage.cluster.patience
    serves(recorder, stand, way, address)
    sent, file = mark + stage.rng.randbytes(PIECE_BYTES - len(mark)), host.directory / "nvmeof-piece"
    host.push(sent, file)
    block = (f"bs={BLOCK_BYTES}", "status=none")
    host.run(["dd", f"if={file}", f"of={stand.device}", "oflag=direct", *block], timeout_s=timeout_s)
    read = client.rbd_digest(POOL, IMAGE, PIECE_BYTES)
    recorder.observe(f"written over NVMe, read by librbd: {way}", got=read, wanted=sha256(sent).hexdigest())
    sent = mark + stage.rng.randbytes(PIECE_BYTES - len(mark))
    client.rbd_write(POOL, IMAGE, sent, 0)
    count = f"count={PIECE_BYTES // BLOCK_BYTES}"
    host.run(["dd", f"if={stand.device}", f"of={file}", "iflag=direct", count, *block], timeout_s=timeout_s)
    read = host.run(["sha256sum", str(file)], timeout_s=timeout_s).stdout.split()[0]
    recorder.observe(f"written by librbd, read over NVMe: {way}", got=read, wanted=sha256(sent).hexdigest())


def _scenario(initiator: Arch, tier: Tier) -> Scenario:
    return scenario_on_pair(
        name=f"nvmeof.content[initiator={initiator}]",
        goal="Data passes unchanged in both directions through gateways of both architectures, with digests on.",
        method="Writes over NVMe and reads with librbd, then the reverse, through each gateway with each primary.",
        run=partial(across, initiator=initiator, primaries=tuple(Arch)),
        tier=tier,
    )


SCENARIOS = (_scenario(host_arch(), Tier.QUICK), _scenario(host_arch().other, Tier.FULL))
