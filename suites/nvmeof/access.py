"""Who may connect: a host that is not on the list gets nothing, and one that is gets the volume."""

from cephlab.lab.blockstack.initiator import Initiator
from cephlab.lab.blockstack.nvmeof import host_nqn
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.nvmeof.stand import INITIATOR, scenario_on_pair, served


def strangers(stage: Stage) -> None:
    """Ask both gateways by a name that is not on the list, then by one that is, from the same machine."""
    recorder, cluster = stage.recorder, stage.cluster
    with served(stage, host_arch()) as pair:
        stranger = Initiator(cluster, INITIATOR, known_as=host_nqn("stranger"))
        let_in = [gateway.name for gateway in pair.gateways if not stranger.refused(pair.volume, gateway)]
        recorder.observe("gateways that let a stranger in", got=let_in, wanted=[], of=len(pair.gateways))
        device, paths = stranger.look(pair.volume)
        recorder.observe("what a stranger's machine has of the volume", got=[device, *paths], wanted=[""])
        known = Initiator(cluster, INITIATOR)
        try:
            known.connect(pair.volume, pair.gateways)
            live = [path for path in known.look(pair.volume)[1] if path.state == "live"]
            recorder.witness("ways of one that is on the list", got=len(live), least=len(pair.gateways))
        finally:
            known.disconnect(pair.volume)


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.access",
        goal="A host that is not on a subsystem's list is refused by both gateways, and sees nothing of the volume.",
        method="Connects by a name that is not on the list, then by one that is, from the same machine.",
        run=strangers,
        check="witnessed",
    ),
)
