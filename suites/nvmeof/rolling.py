"""Both gateways are restarted in turn under a recorded load, as for an update: each after its twin took the volume."""

from cephlab.lab.cluster.own import own
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.limits import no_errors
from cephlab.suites.nvmeof.failover import LATER, UNDER_WAY, more, new_load
from cephlab.suites.nvmeof.stand import HELD, connected, scenario_on_pair, standing


def restarted(stage: Stage) -> None:
    """Hand the volume over and restart the machine that had it, twice."""
    lab, recorder = own(stage.cluster).lab, stage.recorder
    why = "nothing fails, so nobody has to notice: less than a keep-alive"
    no_errors(recorder, "a request that meets a gateway without the volume is asked of the other one")
    recorder.limit("longest_gap_s", HELD.keep_alive_s, "s", why)
    with standing(stage, host_arch()) as stand:
        load = new_load(stage, stand)
        load.prepare()
        with load.running():
            more(load, UNDER_WAY)
            for gateway in stand.pair.gateways:
                stand.pair.hand_over()
                more(load, LATER)
                lab.kill_node(gateway.name)
                lab.start_node(gateway.name)
                stand.pair.rejoin()
                connected(stand)
                recorder.step(f"{gateway.name} restarted")
            more(load, LATER)
        load.verify()


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.rolling-restart",
        goal="Both gateways are restarted in turn under load, and no request waits as long as a keep-alive.",
        method="Hands the volume over, cuts the power of the gateway that had it and starts it again; then the other.",
        run=restarted,
        check="recorded",
        tier=Tier.FULL,
    ),
)
