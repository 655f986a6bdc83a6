"""A proxy between initiator and gateway that flips data bits: digests detect them; without digests they arrive."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from signal import SIGTERM

from cephlab.lab.base import clock
from cephlab.lab.blockstack.initiator import Connecting, Initiator
from cephlab.lab.blockstack.nvmeof import Gateway, Pair
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.suites.nvmeof import wire_program
from cephlab.suites.nvmeof.content import both_ways
from cephlab.suites.nvmeof.stand import INITIATOR, Stand, from_first, scenario_on_pair, served

FLIPS = 3
"""Most bits flipped in each direction: an initiator tries a read six times at most (nvme_core.max_retries)."""
FIRST_PORT = 14420
_STARTED_S = 30.0


@dataclass(frozen=True)
class Wire:
    """A proxy to a gateway on the initiator's own machine. told: the file with its counts of flipped bits."""

    cluster: Cluster
    node: str
    gateway: Gateway
    port: int

    @property
    def name(self) -> str:
        return f"the wire to {self.gateway.name}"

    @property
    def address(self) -> str:
        return self.cluster.hosts[self.node].address

    @property
    def told(self) -> PurePosixPath:
        return self.cluster.hosts[self.node].directory / f"wire-{self.gateway.name}.json"

    @contextmanager
    def laid(self, **what: int | str) -> Iterator[None]:
        """Run the proxy during the block. what: flips or marker, see the program."""
        host = self.cluster.hosts[self.node]
        ends = {"listen": [self.address, self.port], "to": [self.gateway.address, self.gateway.port]}
        wanted = json.dumps({**ends, **what, "told": str(self.told)})
        script = host.directory / "wire.py"
        host.push(Path(wire_program.__file__), script)
        host.remove(self.told)
        process = host.spawn(["python3", str(script), wanted], log=self.told.with_suffix(".log"))
        try:
            clock.wait(
                lambda: host.exists(self.told),
                bool,
                what=self.name,
                timeout_s=_STARTED_S * self.cluster.patience,
            )
            yield
        finally:
            process.signal(SIGTERM)

    def counted(self) -> dict[str, dict[str, int]]:
        """Its counts so far, for data written and for data read."""
        return dict(json.loads(self.cluster.hosts[self.node].read(self.told)))


@contextmanager
def wired(pair: Pair, initiator: Initiator, **what: int | str) -> Iterator[tuple[Stand, list[Wire]]]:
    """Connect an initiator to both gateways over wires during the block. what: see `Wire.laid`."""
    cluster, gateways = pair.cluster, enumerate(pair.gateways)
    wires = [Wire(cluster, initiator.node, gateway, FIRST_PORT + number) for number, gateway in gateways]
    with ExitStack() as undo:
        for wire in wires:
            undo.enter_context(wire.laid(**what))
        undo.callback(initiator.disconnect, pair.volume)
        yield Stand(pair, initiator, initiator.connect(pair.volume, wires)), wires


def over_bad_wires(stage: Stage, first: Arch, *, digests: bool = True) -> None:
    """Pass data in both directions through each gateway, over wires that flip bits."""
    initiator = Initiator(stage.cluster, INITIATOR, Connecting(digests=digests))
    with served(stage, from_first(first)) as pair, wired(pair, initiator, flips=FLIPS) as (stand, wires):
        for wire in wires:
            both_ways(stage, stand, f"over a wire to {wire.gateway.arch}", address=wire.address)
            for way, counted in wire.counted().items():
                what = f"bits flipped in data {way}, {wire.gateway.arch}"
                stage.recorder.witness(what, got=counted["flipped"], least=1)
            pair.hand_over()


WRONG_DIGEST = {
    r"nvmet_tcp: queue \d+: .*digest error": "The wire flipped a bit, and the gateway found it.",
    r"nvme nvme\d+: queue \d+: data digest error": "The wire flipped a bit, and the initiator found it.",
}

SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.flipped-bits",
        goal="Digests detect bits that flip on the wire: the data is sent again, and no wrong data arrives.",
        method="Connects through wires that flip data bits, and passes data in both directions through each gateway.",
        run=partial(over_bad_wires, first=host_arch()),
        check="witnessed",
        tier=Tier.FULL,
        sees=("bits flipped in data .*",),
        expects=WRONG_DIGEST,
    ),
)
