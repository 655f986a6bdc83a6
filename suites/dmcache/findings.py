"""The 2015 paper's findings as figures of the scenario that runs both of their sides. They count in its verdict."""

from cephlab.lab.history.history import Basis, Bound
from cephlab.lab.providers.host import Host
from cephlab.lab.report.page import Agreement
from cephlab.lab.scenario.scenario import Stage
from cephlab.suites.machines import profile_of_disks
from cephlab.tuning.comparison import (
    PAPER,
    Held,
    Metric,
    PaperFinding,
    agreement,
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
        held = held_in(finding, group)
        if held is None:
            continue
        bound, off = judged_by(finding, held, at_home=at_home)
        unit = TIMES if finding.beside else UNITS[finding.metric]
        ends = (held.measured.low / off, min(held.measured.high * off, _MOST))
        stage.recorder.figure(finding.name, held.measured.mean, unit, bound, interval=ends)


def judged_by(finding: PaperFinding, held: Held, *, at_home: bool) -> tuple[Bound, float]:
    """The bound of a finding, and the factor by which its interval is wider than the seconds of its runs say.

    Where runs of one setting scatter, the opposite of the finding fails only beyond that scatter, and is inconclusive
    within it. Agreement, or no clear result, is noted. at_home: the machines are a profile's and not a lab's, so what
    a lab cannot show is judged like the rest.
    """
    why = f"finding of the paper, {finding.where}"
    if not finding.here or (at_home and not finding.anywhere):
        return Bound(why, held.least, held.most, basis=Basis.SHAPE), 1.0
    opposite = agreement(held.measured, held.least, held.most) is Agreement.NOT_AGREED
    if finding.scatter is None or not opposite:
        return Bound(f"{why}: not judged, {finding.here}", basis=Basis.NOTED), 1.0
    why = f"{why}; {finding.here}, by up to {finding.scatter:g} times, which the interval includes"
    return Bound(why, held.least, held.most, basis=Basis.SHAPE), finding.scatter


def thread_counts(host: Host, at_least: int) -> tuple[int, ...]:
    """1, 2, 4 ... up to the paper's number of threads for each processor of the client, but at least `at_least`."""
    most = max(at_least, round(host.facts().cores * PAPER_THREADS / PAPER_HARDWARE_THREADS))
    doubled = [1 << power for power in range(most.bit_length()) if 1 << power < most]
    return (*doubled, most)
