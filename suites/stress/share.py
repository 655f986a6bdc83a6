"""The share of the machines' cores that the OSDs of a stress run take, with the model's prediction for the blocks."""

from collections.abc import Mapping

from cephlab.lab.base.errors import LabError
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import has_own_kernel
from cephlab.lab.scenario.scenario import Stage
from cephlab.lab.telemetry.daemons import DaemonReading
from cephlab.suites.machines import profile_of
from cephlab.tuning.demandsets import find_demands
from cephlab.tuning.model import Prediction, predict
from cephlab.tuning.workload import Shape

OPERATIONS = {"block writes": "randwrite", "block reads": "randread"}
"""Jobs of the load that the model knows, by name."""
BLOCK_BYTES = 4096
DEPTH = 4
PAPER = "a paper's cluster ran at 60 to 65 % for six hours"


def note_share(
    stage: Stage, before: Mapping[str, DaemonReading], now: Mapping[str, DaemonReading], seconds: float
) -> None:
    """Record the share for the time between two looks."""
    osds = [name for name in now if name.startswith("osd.") and name in before]
    if not osds or seconds <= 0:
        return
    spent_s = sum(now[name].cpu_s - before[name].cpu_s for name in osds)
    cores = cores_of(stage.cluster)
    why = f"recorded only: it depends on this machine; {len(osds)} OSDs on {cores:g} cores; {PAPER}; {predicted(stage)}"
    share = spent_s / seconds / cores
    stage.recorder.figure("CPU share of the cores by OSDs", share, "", Bound(why, basis=Basis.NOTED))


def cores_of(cluster: Cluster) -> float:
    """Cores of all machines with OSDs; nodes that share a kernel share its cores."""
    hosts = {cluster.daemon(f"osd.{number}").host.name: None for number in cluster.osd_ids()}
    own = [cluster.hosts[name] for name in hosts if has_own_kernel(cluster.hosts[name])]
    shared = [cluster.hosts[name].facts().cores for name in hosts if not has_own_kernel(cluster.hosts[name])]
    return sum(host.facts().cores for host in own) + max(shared, default=0.0)


def cpu_of_one(prediction: Prediction) -> float:
    """Share of the busiest nodes' cores that one operation a second takes."""
    nodes = [
        share for name, share in prediction.utilisation.items() if name.endswith(": CPU") and "clients" not in name
    ]
    return max(nodes) / prediction.ops


def predicted(stage: Stage) -> str:
    """The model's prediction for the block jobs' rates on the run's profile, in words."""
    profile = profile_of(stage)
    if profile is None:
        return "no prediction, as the run has no profile"
    rates = {e.data["job"]: e.data["rate"] for e in stage.recorder.events() if e.kind == "calibrated"}
    try:
        demands, _ = find_demands(stage.cluster.run.home.demands)
        share = sum(
            rates[name] * cpu_of_one(predict(demands, profile, Shape(operation, BLOCK_BYTES, clients=1, depth=DEPTH)))
            for name, operation in OPERATIONS.items()
            if name in rates
        )
    except LabError as error:
        return f"not predicted: {error.what}"
    return f"{share:.3f} predicted for the block jobs only, on {profile.name}"
