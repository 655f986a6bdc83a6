"""Who may connect: who is not on the list or cannot prove it gets nothing, and who is and can gets the volume."""

from cephlab.lab.blockstack.initiator import Initiator
from cephlab.lab.blockstack.initiator_program import DISCOVERY
from cephlab.lab.blockstack.nvmeof import Pair, Portal, host_nqn, secret_of
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.nvmeof.stand import INITIATOR, from_first, scenario_on_pair, served

SECRET_BYTES = 32


def strangers(stage: Stage) -> None:
    """Ask both gateways by a name that is not on the list, then by one that is, from the same machine."""
    recorder, cluster = stage.recorder, stage.cluster
    with served(stage, from_first(host_arch())) as pair:
        stranger = Initiator(cluster, INITIATOR, known_as=host_nqn("stranger"))
        let_in = [gateway.name for gateway in pair.gateways if not stranger.refused(pair.volume, gateway)]
        recorder.observe("gateways that let a stranger in", got=let_in, wanted=[], of=len(pair.gateways))
        told = [offered(stranger, gateway) for gateway in pair.gateways]
        recorder.observe(
            "subsystems that a stranger discovers", got=[each for one in told for each in one], wanted=[], of=len(told)
        )
        device, paths = stranger.look(pair.volume)
        recorder.observe("what a stranger's machine has of the volume", got=[device, *paths], wanted=[""])
        known = Initiator(cluster, INITIATOR)
        for gateway in pair.gateways:
            wanted = [[pair.volume.nqn, gateway.address]]
            recorder.observe(
                f"what {gateway.name} lets one on the list discover", got=offered(known, gateway), wanted=wanted
            )
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("ways of one that is on the list", got=len(live), least=len(pair.gateways))
        finally:
            known.disconnect(pair.volume)


def offered(initiator: Initiator, portal: Portal) -> list[list[str]]:
    """What it discovers beside the discovery service itself, which newer kernels name too."""
    return [entry for entry in initiator.discovered(portal) if entry[0] != DISCOVERY]


def proven(stage: Stage) -> None:
    """Ask both gateways by the right name: without a secret, with a wrong one, then with the right one."""
    recorder, cluster = stage.recorder, stage.cluster
    right, wrong = (secret_of(stage.rng.randbytes(SECRET_BYTES)) for _ in range(2))
    with served(stage, from_first(host_arch()), secrets={host_nqn(INITIATOR): right}) as pair:
        for what, secret in (("without a secret", ""), ("with a wrong secret", wrong)):
            refused_by_both(stage, pair, Initiator(cluster, INITIATOR, secret=secret), what)
        known = Initiator(cluster, INITIATOR, secret=right)
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("ways with the right secret", got=len(live), least=len(pair.gateways))
        finally:
            known.disconnect(pair.volume)


def refused_by_both(stage: Stage, pair: Pair, asking: Initiator, what: str) -> None:
    """Observe that neither gateway lets one in, and that its machine has nothing of the volume. what: how it asks."""
    let_in = [gateway.name for gateway in pair.gateways if not asking.refused(pair.volume, gateway)]
    stage.recorder.observe(f"gateways that let one in {what}", got=let_in, wanted=[], of=len(pair.gateways))
    device, paths = asking.look(pair.volume)
    stage.recorder.observe(f"what a machine has of the volume {what}", got=[device, *paths], wanted=[""])


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.access",
        goal="A host that is not on a subsystem's list is refused by both gateways, and sees nothing of the volume.",
        method="Connects by a name that is not on the list, then by one that is, from the same machine.",
        run=strangers,
        check="witnessed",
    ),
    scenario_on_pair(
        name="nvmeof.secrets",
        goal="A host that cannot prove its name by its secret (DH-HMAC-CHAP) is refused, and sees nothing.",
        method="Connects to both gateways without a secret, with a wrong one, then with the right one.",
        run=proven,
        check="witnessed",
        sees=("gateways that let one in .*", "what a machine has of the volume .*"),
    ),
)
