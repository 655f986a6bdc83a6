"""Several fio jobs at one time: by fio's client/server where hosts reach each other's sockets, else side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.workers import Workers
from cephlab.lab.providers.host import Host
from cephlab.lab.workloads import fio, fioserver
from cephlab.lab.workloads.fio import FioJob, FioResult

Jobs = Sequence[tuple[Host, FioJob]]


@dataclass(frozen=True)
class Together:
    """Results of jobs that ran at one time, each by its place among them.

    failed: reasons of those without a result; everyone: fio's own sum of all, None where they ran side by side or one
    failed.
    """

    jobs: Jobs
    results: Mapping[int, FioResult]
    failed: Mapping[int, str] = field(default_factory=dict)
    everyone: FioResult | None = None

    def on(self, place: int) -> str:
        """Name of a job's host."""
        return self.jobs[place][0].name

    def require(self) -> list[FioResult]:
        """All results in the jobs' order; LabBroken names the hosts whose job failed."""
        if self.failed:
            names = ", ".join(self.on(place) for place in self.failed)
            words = "\n".join(f"{self.on(place)}: {said}" for place, said in self.failed.items())
            raise LabBroken(f"fio failed on {names}", words)
        return [self.results[place] for place in range(len(self.jobs))]


def run(jobs: Jobs, *, timeout_s: float) -> Together:
    """Run each job on its host, all at one time, to the end of the last."""
    if len(jobs) > 1 and fioserver.serves([host for host, _ in jobs]):
        report = fioserver.run(jobs, timeout_s=timeout_s)
        return Together(jobs, report.results, report.failed, report.everyone)
    return _side_by_side(jobs, timeout_s)


def _side_by_side(jobs: Jobs, timeout_s: float) -> Together:
    def one(pair: tuple[Host, FioJob]) -> FioResult | str:
        try:
            return fio.run(*pair, timeout_s=timeout_s)
        except LabBroken as error:
            return str(error)

    with Workers(max_workers=len(jobs), thread_name_prefix="fio") as workers:
        done = dict(enumerate(workers.map(one, jobs)))
    results = {place: ended for place, ended in done.items() if isinstance(ended, FioResult)}
    failed = {place: ended for place, ended in done.items() if isinstance(ended, str)}
    return Together(jobs, results, failed)
