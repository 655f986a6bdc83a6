"""The 2015 paper's findings as figures of the scenario that runs both of their sides: they count in its verdict."""

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.scenario.scenario import Stage
from cephlab.tuning.comparison import PAPER, Metric, held_in, load_findings, runs

UNITS = {Metric.TPS: "transactions/s", Metric.P95_MS: "ms", Metric.HITS: "of accesses"}
TIMES = "times"
_MOST = 1e9

PAPER_THREADS, PAPER_HARDWARE_THREADS = 152, 40
"""The paper's most threads, on two processors of ten cores with two threads each."""


def note_findings(stage: Stage) -> None:
    """Note each finding of which this scenario ran both sides, by its interval; limited where a lab shows it."""
    group = runs(stage.recorder.events())
    for finding in load_findings(PAPER).findings:
        held = held_in(finding, group)
        if held is None:
            continue
        bound = Bound(f"finding of the paper, {finding.where}", held.least, held.most, basis=Basis.SHAPE)
        if finding.here:
            bound = Bound(f"finding of the paper, {finding.where}: not judged, {finding.here}", basis=Basis.PROFILE)
        unit = TIMES if finding.beside else UNITS[finding.metric]
        ends = (held.measured.low, min(held.measured.high, _MOST))
        stage.recorder.figure(finding.name, held.measured.mean, unit, bound, interval=ends)


def thread_counts(host: Host, at_least: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to as many threads for each of the client's processors as the paper had, at least so many."""
    most = max(at_least, round(host.facts().cores * PAPER_THREADS / PAPER_HARDWARE_THREADS))
    doubled = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*doubled, most)
