"""Access control: only hosts that are on the subsystem's list and have the right secret can use the volume."""

from cephlab.lab.blockstack.initiator import Initiator
from cephlab.lab.blockstack.initiator_program import DISCOVERY
from cephlab.lab.blockstack.nvmeof import Pair, Portal, host_nqn, secret_of
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.nvmeof.stand import INITIATOR, from_first, scenario_on_pair, served

SECRET_BYTES = 32


def strangers(stage: Stage) -> None:
    """Connect to both gateways with a host NQN that is not on the list, then with a listed one, from one machine."""
    recorder, cluster = stage.recorder, stage.cluster
    with served(stage, from_first(host_arch())) as pair:
        stranger = Initiator(cluster, INITIATOR, known_as=host_nqn("stranger"))
        refused_by_both(stage, pair, stranger, "on an unlisted host", who="an unlisted host")
        offers = [offered(stranger, gateway) for gateway in pair.gateways]
        recorder.observe(
            "subsystems that an unlisted host discovers",
            got=[subsystem for of_gateway in offers for subsystem in of_gateway],
            wanted=[],
            of=len(offers),
        )
        known = Initiator(cluster, INITIATOR)
        for gateway in pair.gateways:
            wanted = [[pair.volume.nqn, gateway.address]]
            recorder.observe(
                f"subsystems that a listed host discovers at {gateway.name}", got=offered(known, gateway), wanted=wanted
            )
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("live paths of a listed host", got=len(live), least=len(pair.gateways))
        finally:
            known.disconnect(pair.volume)


def offered(initiator: Initiator, portal: Portal) -> list[list[str]]:
    """The subsystems that an initiator discovers, without the discovery subsystem, which newer kernels list too."""
    return [entry for entry in initiator.discovered(portal) if entry[0] != DISCOVERY]


def proven(stage: Stage) -> None:
    """Connect to both gateways with the right NQN: without a secret, with a wrong one, then with the right one."""
    recorder, cluster = stage.recorder, stage.cluster
    right, wrong = (secret_of(stage.rng.randbytes(SECRET_BYTES)) for _ in range(2))
    with served(stage, from_first(host_arch()), secrets={host_nqn(INITIATOR): right}) as pair:
        for what, secret in (("without a secret", ""), ("with a wrong secret", wrong)):
            refused_by_both(stage, pair, Initiator(cluster, INITIATOR, secret=secret), what)
        known = Initiator(cluster, INITIATOR, secret=right)
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("live paths with the right secret", got=len(live), least=len(pair.gateways))
        finally:
            known.disconnect(pair.volume)


def refused_by_both(stage: Stage, pair: Pair, asking: Initiator, what: str, *, who: str = "") -> None:
    """Observe that both gateways refuse a host, and that it gets no device and no path.

    what: how it connects; who: the host, by default one that connects like that.
    """
    let_in = [gateway.name for gateway in pair.gateways if not asking.refused(pair.volume, gateway)]
    stage.recorder.observe(
        f"gateways that accept {who or f'a host {what}'}", got=let_in, wanted=[], of=len(pair.gateways)
    )
    device, paths = asking.look(pair.volume)
    stage.recorder.observe(f"device and paths of the volume {what}", got=[device, *map(str, paths)], wanted=[""])


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.access",
        goal="Both gateways refuse a host that is not on the subsystem's list, and it sees nothing of the volume.",
        method="Connects with a host NQN that is not on the list, then with one that is, from the same machine.",
        run=strangers,
        check="witnessed",
    ),
    scenario_on_pair(
        name="nvmeof.secrets",
        goal="Both gateways refuse a host without the right DH-HMAC-CHAP secret, and it sees nothing of the volume.",
        method="Connects to both gateways without a secret, with a wrong one, then with the right one.",
        run=proven,
        check="witnessed",
        sees=("gateways that accept a host .*", "device and paths of the volume .*"),
    ),
)
