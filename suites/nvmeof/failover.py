"""The serving gateway fails under a recorded load: its twin takes over, nothing is lost, and it serves again later."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from cephlab.lab.base import clock
from cephlab.lab.blockstack.initiator import Connecting
from cephlab.lab.blockstack.nvmeof import Pair, fenced
from cephlab.lab.faults import Fault, inflict
from cephlab.lab.faults.fault import EVENT
from cephlab.lab.faults.nodes import KillNode
from cephlab.lab.history.history import Basis, Bound, Event, Recorder
from cephlab.lab.history.operations import Act, Ended, operations_of
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.workloads.recorded import Load, RecordedLoad
from cephlab.suites.limits import no_errors
from cephlab.suites.nvmeof.faults import IsolateNode, PauseMachine
from cephlab.suites.nvmeof.stand import HELD, NODES, POOL, Stand, connected, from_first, scenario_on_pair, standing

KEYS, WORKERS, BLOCK_BYTES, READ_SHARE = 16, 8, 4096, 0.2
"""So many workers, and so few reads beyond those that follow a write, that some of them write when the fault comes."""
PAUSE_S = 0.02
UNDER_WAY, LATER = 60, 120
"""Operations before the fault, and after each step: about eight for each key, so that what was under way is written
anew."""
OPERATIONS_S = 120.0


REFUSED = {r"I/O error, dev rbd\d+": "The gateway's kernel sends what it held, and Ceph refuses its client by then."}


def failed_over(stage: Stage, fault: Fault, first: Arch, *, fenced: bool = True) -> None:
    """Strike the serving gateway under load, have its twin take over; bring it back, and have it serve again."""
    recorder = stage.recorder
    no_errors(recorder, "an initiator waits for the twin, and tells its programs nothing")
    with standing(stage, from_first(first), fenced=fenced) as stand:
        load = new_load(stage, stand)
        load.prepare()
        # The load ends before the fault does: what the twin acknowledged must outlast what the dead one still holds.
        with ExitStack() as struck:
            with load.running():
                more(load, UNDER_WAY)
                struck.enter_context(inflict(fault, stage.cluster, recorder))
                took_over_s = take_over(recorder, stand.pair)
                more(load, LATER)
            noticed_in_time(recorder, HELD, took_over_s)
            if isinstance(fault, IsolateNode):
                held_writes(recorder)
        stand.pair.rejoin()
        load.verify()
        connected(stand)
        with load.running():
            more(load, LATER)
            stand.pair.hand_over()
            recorder.step("handed back")
            more(load, LATER)
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
    """Wait for so many operations from now on."""
    before = load.completed()
    clock.wait(
        load.completed,
        lambda done: done >= before + count,
        what=f"{count} operations on {load.load.device}",
        timeout_s=OPERATIONS_S * load.cluster.patience,
    )
    load.recorder.witness("operations in a part of the load", got=load.completed() - before, least=count)


def take_over(recorder: Recorder, pair: Pair) -> float:
    """Have the twin serve; returns when it did, in seconds of the history."""
    failed = pair.serving
    pair.take_over()
    done = recorder.record("took_over", gateway=pair.serving.name, from_gateway=failed.name)
    refused = fenced(pair.cluster, failed.clients())
    recorder.observe(f"Ceph clients of {failed.name} that Ceph refuses", got=refused, wanted=list(failed.clients()))
    return done.at_s


def noticed_in_time(recorder: Recorder, connecting: Connecting, took_over_s: float) -> None:
    """Limit the longest gap by the settings in force, what the pair took, and what the load waited before the fault."""
    events = recorder.events()
    struck_s, broken_s = (phase_s(events, phase) for phase in ("inflicting", "broken"))
    usual_s = longest_before_s(events, struck_s)
    took_s = took_over_s - broken_s
    recorder.figure("time until the twin served", took_s, "s", Bound("of this machine", basis=Basis.NOTED))
    recorder.figure("longest wait before the fault", usual_s, "s", Bound("of this machine", basis=Basis.NOTED))
    noticed_s = connecting.noticed_s
    high = broken_s - struck_s + max(noticed_s, took_s) + connecting.reconnect_s + usual_s
    why = (
        f"{broken_s - struck_s:.1f} s of breaking; a keep-alive of {connecting.keep_alive_s} s, asked every half of "
        f"it: {noticed_s:g} s, or the {took_s:.1f} s of the twin; {connecting.reconnect_s} s to reconnect; a usual wait"
    )
    recorder.limit("longest_gap_s", high, "s", why)


def held_writes(recorder: Recorder) -> None:
    """Witness that the gateway held writes when it was cut off: without them, fencing has nothing to do."""
    broken_s = phase_s(recorder.events(), "broken")
    writes = [op for op in operations_of(recorder.events()) if op.act is Act.WRITE and op.began_s < broken_s]
    held = [op for op in writes if op.ended_s is None or op.ended_s > broken_s]
    recorder.witness("writes that the gateway held when it was cut off", got=len(held), least=1)


def phase_s(events: Sequence[Event], phase: str) -> float:
    """When the only fault of a history came to a phase."""
    return next(event.at_s for event in events if event.kind == EVENT and event.data["phase"] == phase)


def longest_before_s(events: Sequence[Event], moment_s: float) -> float:
    """The longest wait of an operation that was over by then."""
    done = [op for op in operations_of(events) if op.outcome is Ended.OK and op.ended_s is not None]
    return max(op.ended_s - op.began_s for op in done if op.ended_s is not None and op.ended_s < moment_s)


def _scenario(fault: type[KillNode | IsolateNode | PauseMachine], first: Arch, tier: Tier) -> Scenario:
    return scenario_on_pair(
        name=f"nvmeof.failover[fault={fault.name},gateway={first}]",
        goal="A gateway that fails under load is replaced by its twin: nothing is lost or stale, and no error is seen.",
        method="Fences the failed gateway's client, has its twin serve, brings it back and hands the volume back.",
        run=partial(failed_over, fault=fault(NODES[first]), first=first),
        check="recorded",
        tier=tier,
        sees=("Ceph clients of .* that Ceph refuses",),
        expects={} if fault is KillNode else REFUSED,
    )


SCENARIOS = (
    _scenario(KillNode, host_arch().other, Tier.QUICK),
    _scenario(IsolateNode, host_arch().other, Tier.QUICK),
    _scenario(KillNode, host_arch(), Tier.FULL),
    _scenario(IsolateNode, host_arch(), Tier.FULL),
    _scenario(PauseMachine, host_arch(), Tier.FULL),
)
