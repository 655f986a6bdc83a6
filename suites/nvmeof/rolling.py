"""Both gateways restart under a recorded load: one after the other, as in an update, and after a power loss of both."""

from functools import partial

from cephlab.lab.base.workers import each_at_once
from cephlab.lab.blockstack.nvmeof import fence, fenced
from cephlab.lab.cluster.own import own
from cephlab.lab.history.history import Basis
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import host_arch
from cephlab.suites.limits import no_errors
from cephlab.suites.nvmeof.failover import LATER, UNDER_WAY, longest_before_s, more, new_load
from cephlab.suites.nvmeof.stand import HELD, connected, from_first, scenario_on_pair, standing

RECONNECTS = 2
"""Reconnect attempts that may be in progress, and fail, when the gateways come back."""


def restarted(stage: Stage) -> None:
    """Twice: switch the volume to the other gateway, and restart the machine that served it before."""
    lab, recorder = own(stage.cluster).lab, stage.recorder
    why = "nothing fails, so no failure has to be detected: less than a keep-alive"
    no_errors(recorder, "a request to a gateway that no longer serves the volume is retried at the other")
    recorder.limit("longest_gap_s", HELD.keep_alive_s, "s", why, basis=Basis.CORRECTNESS)
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
    """Cut the power of both machines under load, and bring the pair back with the other gateway serving."""
    cluster, recorder = stage.cluster, stage.recorder
    lab = own(cluster).lab
    no_errors(recorder, "an initiator keeps trying to reconnect to its gateways")
    with standing(stage, from_first(host_arch())) as stand:
        load = new_load(stage, stand)
        load.prepare()
        with load.running():
            more(load, UNDER_WAY)
            down_s = recorder.record("pair_down").at_s
            each_at_once([partial(lab.kill_node, gateway.name) for gateway in stand.pair.gateways])
            dead = [client for gateway in stand.pair.gateways for client in gateway.clients()]
            fence(cluster, stand.pair.volume.pool, dead)
            for gateway in stand.pair.gateways:
                lab.start_node(gateway.name)
            stand.pair.serve()
            up_s = recorder.record("pair_up").at_s
            connected(stand)
            more(load, LATER)
        refused = fenced(cluster, dead)
        recorder.observe("blocklisted Ceph clients of the dead gateways", got=refused, wanted=dead)
        load.verify()
        usual_s = longest_before_s(recorder.events(), down_s)
        why = f"{up_s - down_s:.1f} s without a gateway, {HELD.reconnect_s} s to reconnect to each, and a usual latency"
        high = up_s - down_s + RECONNECTS * HELD.reconnect_s + usual_s
        recorder.limit("longest_gap_s", high, "s", why, basis=Basis.CORRECTNESS)


SCENARIOS = (
    scenario_on_pair(
        name="nvmeof.rolling-restart",
        goal="When both gateways restart one after the other under load, no request waits as long as a keep-alive.",
        method="Switches the volume to the other gateway, power-cycles the one that served before; then the reverse.",
        run=restarted,
        check="recorded",
        tier=Tier.FULL,
    ),
    scenario_on_pair(
        name="nvmeof.both-down",
        goal="When both gateways lose power under load and come back, no error is seen and nothing is lost.",
        method="Cuts the power of both machines, fences their Ceph clients, starts them; the pair serves again.",
        run=both_down,
        check="recorded",
        tier=Tier.FULL,
    ),
)
