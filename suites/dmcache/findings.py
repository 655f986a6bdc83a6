"""The 2015 paper's findings as figures of the scenario that runs both of their sides. They count in its verdict."""

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.machines import profile_of_disks
from cephlab.tuning.comparison import (
    PAPER,
    Held,
    Metric,
    PaperFinding,
    held_in,
    load_findings,
    runs,
)

UNITS = {Metric.TPS: "transactions/s", Metric.P95_MS: "ms", Metric.HITS: "of accesses"}
TIMES = "times"
_MOST = 1e9

PAPER_THREADS, PAPER_HARDWARE_THREADS = 152, 40
"""The paper's most threads, on two processors of ten cores with two threads each."""


def note_findings(stage: Stage) -> None:
    """Record each finding of which this scenario ran both sides; with a limit where these machines can show it."""
    group, at_home = runs(stage.recorder.events()), profile_of_disks(stage) is not None
    for finding in load_findings(PAPER).findings:
        holds = held_in(finding, group)
        if holds is None:
            continue
        bound = judged_by(finding, holds, at_home=at_home)
        if finding.by_run and bound.judges and holds.cold:
            what = f"caches as warm as each other, before the opposite counts: {finding.name}"
            stage.recorder.witness(what, got=0, least=1)
            bound = Bound(f"{bound.why}: not judged, more misses of one cache explain it", basis=Basis.NOTED)
        unit = TIMES if finding.beside else UNITS[finding.metric]
        ends = (holds.measured.low, min(holds.measured.high, _MOST))
        stage.recorder.figure(finding.name, holds.measured.mean, unit, bound, interval=ends)


def judged_by(finding: PaperFinding, held: Held, *, at_home: bool) -> Bound:
    """The bound of a finding.

    What a lab cannot show is noted, but the opposite of it fails where the interval is over runs, and so includes what
    differs between them. at_home: the machines are a profile's and not a lab's, so what a lab cannot show is judged
    like the rest.
    """
    why = f"finding of the paper, {finding.where}"
    if not finding.here or (at_home and not finding.anywhere):
        return Bound(why, held.least, held.most, basis=Basis.SHAPE)
    if not (finding.by_run and held.opposite):
        return Bound(f"{why}: not judged, {finding.here}", basis=Basis.NOTED)
    return Bound(f"{why}; {finding.here}, which the interval includes", held.least, held.most, basis=Basis.SHAPE)


def thread_counts(host: Host, at_least: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to the paper's number of threads for each processor of the client, but at least `at_least`."""
    most = max(at_least, round(host.facts().cores * PAPER_THREADS / PAPER_HARDWARE_THREADS))
    doubled = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*doubled, most)
