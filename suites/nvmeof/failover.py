"""Failover under a recorded load: the other gateway takes over, no write is lost, and the failed one serves again."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.blockstack.initiator import Connecting
from cephlab.lab.blockstack.nvmeof import Pair, fenced
from cephlab.lab.faults import Fault, inflict
from cephlab.lab.faults.fault import EVENT
from cephlab.lab.faults.nodes import KillNode
from cephlab.lab.history.history import Basis, Event, Recorder
from cephlab.lab.history.operations import Act, Ended, operations_of
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.limits import RECORDED, no_errors
from cephlab.suites.nvmeof.faults import IsolateNode, PauseMachine
from cephlab.suites.nvmeof.stand import (
    HELD,
    NODES,
    POOL,
    Stand,
    connected,
    from_first,
    scenario_on_pair,
    serves,
    standing,
)

KEYS, WORKERS, BLOCK_BYTES, READ_SHARE = 16, 8, 4096, 0.2
"""Enough workers, and few enough extra reads, that some workers are writing when the fault comes."""
PAUSE_S = 0.02
UNDER_WAY, LATER = 60, 120
"""Operations before the fault, and after each step: about eight for each key, so that blocks with a write in flight are
written again."""
OPERATIONS_S = 120.0

REFUSED = {r"I/O error, dev rbd\d+": "The gateway's kernel sends writes that it held, but Ceph has fenced its client."}


def failed_over(stage: Stage, fault: Fault, first: Arch, *, fenced: bool = True) -> None:
    """Fail the serving gateway under load, and let the other take over; then bring it back and let it serve again."""
    recorder = stage.recorder
    no_errors(recorder, "an initiator waits for the other gateway and passes no error to its programs")
    with standing(stage, from_first(first), fenced=fenced) as stand:
        load = new_load(stage, stand)
        load.prepare()
        # The load ends before the fault is healed: late writes of the failed gateway must not overwrite newer data.
        with ExitStack() as struck:
            with load.running():
                more(load, UNDER_WAY)
                struck.enter_context(inflict(fault, stage.cluster, recorder))
                took_over_s = take_over(recorder, stand.pair)
                more(load, LATER)
            noticed_in_time(recorder, HELD, took_over_s)
            if not isinstance(fault, KillNode):  # a killed gateway holds nothing
                held_writes(recorder)
        stand.pair.rejoin()
        load.verify()
        connected(stand)
        with load.running():
            more(load, LATER)
            stand.pair.hand_over()
            recorder.step("handed back")
            more(load, LATER)
            serves(recorder, stand, "handed back")
        load.verify()


def new_load(stage: Stage, stand: Stand) -> RecordedLoad:
    """A recorded load on the initiator's device."""
    load = Load(
        POOL,
        (stand.initiator.node,),
        stage.rng.randrange(1 << 30),
        kind="device",
        device=str(stand.device),
        keys=KEYS,
        workers=WORKERS,
        sizes=(BLOCK_BYTES,),
        read_share=READ_SHARE,
        pause_s=PAUSE_S,
    )
    return RecordedLoad(stage.cluster, stage.recorder, load)


def more(load: RecordedLoad, count: int) -> None:
    """Wait until the load has done `count` more operations."""
    before = load.completed()
    clock.wait(
        load.completed,
        lambda completed: completed >= before + count,
        what=f"{count} operations on {load.load.device}",
        timeout_s=OPERATIONS_S * load.cluster.patience,
    )


def take_over(recorder: Recorder, pair: Pair) -> float:
    """Let the other gateway serve; returns when it did, in seconds of the history."""
    failed = pair.serving
    pair.take_over()
    event = recorder.record("took_over", gateway=pair.serving.name, from_gateway=failed.name)
    refused = fenced(pair.cluster, failed.clients())
    recorder.observe(f"blocklisted Ceph clients of {failed.name}", got=refused, wanted=list(failed.clients()))
    return event.at_s


def noticed_in_time(recorder: Recorder, connecting: Connecting, took_over_s: float) -> None:
    """Limit the longest gap to detection, takeover and reconnect times, and the longest latency before the fault."""
    events = recorder.events()
    struck_s, broken_s = (phase_s(events, phase) for phase in ("inflicting", "broken"))
    usual_s = longest_before_s(events, struck_s)
    took_s = took_over_s - broken_s
    recorder.figure("time until the twin served", took_s, "s", RECORDED)
    recorder.figure("longest wait before the fault", usual_s, "s", RECORDED)
    noticed_s = connecting.noticed_s
    high = broken_s - struck_s + max(noticed_s, took_s) + connecting.reconnect_s + usual_s
    why = (
        f"{broken_s - struck_s:.1f} s to inflict the fault; {noticed_s:g} s to detect it (a keep-alive of "
        f"{connecting.keep_alive_s} s, sent every half of it) or {took_s:.1f} s to take over, whichever is longer; "
        f"{connecting.reconnect_s} s to reconnect; the longest latency before the fault"
    )
    recorder.limit("longest_gap_s", high, "s", why, basis=Basis.CORRECTNESS)


def held_writes(recorder: Recorder) -> None:
    """Witness that the gateway held writes when it was cut off or paused: without them, no write had to be fenced."""
    broken_s = phase_s(recorder.events(), "broken")
    writes = [op for op in operations_of(recorder.events()) if op.act is Act.WRITE and op.began_s < broken_s]
    waiting = [op for op in writes if op.ended_s is None or op.ended_s > broken_s]
    recorder.witness("writes that the gateway held when it was cut off or paused", got=len(waiting), least=1)


def phase_s(events: Sequence[Event], phase: str) -> float:
    """When the only fault of a history reached a phase, in seconds."""
    return next(event.at_s for event in events if event.kind == EVENT and event.data["phase"] == phase)


def longest_before_s(events: Sequence[Event], moment_s: float) -> float:
    """The longest latency of the operations that had ended by then, in seconds."""
    answered = [op for op in operations_of(events) if op.outcome is Ended.OK and op.ended_s is not None]
    return max(op.ended_s - op.began_s for op in answered if op.ended_s is not None and op.ended_s < moment_s)


def _scenario(fault: type[KillNode | IsolateNode | PauseMachine], first: Arch, tier: Tier) -> Scenario:
    return scenario_on_pair(
        name=f"nvmeof.failover[fault={fault.name},gateway={first}]",
        goal="When a gateway fails under load the other takes over: nothing is lost or stale, and no error is seen.",
        method="Fails a gateway, fences its Ceph client, lets the other serve; brings it back and lets it serve again.",
        run=partial(failed_over, fault=fault(NODES[first]), first=first),
        check="recorded",
        tier=tier,
        sees=("blocklisted Ceph clients of .*",),
        expects={} if fault is KillNode else REFUSED,
    )


SCENARIOS = (
    _scenario(KillNode, host_arch().other, Tier.QUICK),
    _scenario(IsolateNode, host_arch().other, Tier.QUICK),
    _scenario(KillNode, host_arch(), Tier.FULL),
    _scenario(IsolateNode, host_arch(), Tier.FULL),
    _scenario(PauseMachine, host_arch(), Tier.FULL),
)
