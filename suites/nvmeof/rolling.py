"""Both gateways are restarted under a recorded load: in turn, as for an update, and after both lost their power."""

from functools import partial

from cephlab.lab.blockstack.nvmeof import fence, fenced
from cephlab.lab.cluster.own import own
from cephlab.lab.faults.daemons import each_at_once
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.limits import no_errors
from cephlab.suites.nvmeof.failover import LATER, UNDER_WAY, longest_before_s, more, new_load
from cephlab.suites.nvmeof.stand import HELD, connected, from_first, scenario_on_pair, standing

RECONNECTS = 2
"""Tries that may be under way, and fail, when the gateways are back."""


def restarted(stage: Stage) -> None:
    """Hand the volume over and restart the machine that had it, twice."""
    lab, recorder = own(stage.cluster).lab, stage.recorder
    why = "nothing fails, so nobody has to notice: less than a keep-alive"
    no_errors(recorder, "a request that meets a gateway without the volume is asked of the other one")
    recorder.limit("longest_gap_s", HELD.keep_alive_s, "s", why)
    with standing(stage, from_first(host_arch())) as stand:
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


def both_down(stage: Stage) -> None:
    """Cut the power of both machines under load, and bring the pair back with the other one serving."""
    cluster, recorder = stage.cluster, stage.recorder
    lab = own(cluster).lab
    no_errors(recorder, "an initiator goes on looking for its gateways")
    with standing(stage, from_first(host_arch())) as stand:
        load = new_load(stage, stand)
        load.prepare()
        with load.running():
            more(load, UNDER_WAY)
            down_s = recorder.record("pair_down").at_s
            each_at_once([partial(lab.kill_node, gateway.name) for gateway in stand.pair.gateways])
            dead = [client for gateway in stand.pair.gateways for client in gateway.clients()]
            fence(cluster, dead)
            for gateway in stand.pair.gateways:
                lab.start_node(gateway.name)
            stand.pair.serve()
            up_s = recorder.record("pair_up").at_s
            connected(stand)
            more(load, LATER)
        refused = fenced(cluster, dead)
        recorder.observe("Ceph clients of the dead gateways that Ceph refuses", got=refused, wanted=dead)
        load.verify()
        usual_s = longest_before_s(recorder.events(), down_s)
        why = f"{up_s - down_s:.1f} s without a gateway, {HELD.reconnect_s} s to reconnect to each, a usual wait"
        recorder.limit("longest_gap_s", up_s - down_s + RECONNECTS * HELD.reconnect_s + usual_s, "s", why)


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.rolling-restart",
        goal="Both gateways are restarted in turn under load, and no request waits as long as a keep-alive.",
        method="Hands the volume over, cuts the power of the gateway that had it and starts it again; then the other.",
        run=restarted,
        check="recorded",
        tier=Tier.FULL,
    ),
    scenario_on_pair(
        name="nvmeof.both-down",
        goal="Both gateways lose their power under load and come back: no error is seen, and nothing is lost.",
        method="Cuts the power of both machines, fences their clients, starts them, and has the pair serve again.",
        run=both_down,
        check="recorded",
        tier=Tier.FULL,
    ),
)
