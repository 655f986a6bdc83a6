"""Jobs: the papers' own COSBench and CBT plans, and the job file that a run is given with --job."""

from pathlib import Path

from cephlab.lab.jobs.jobfile import load_job
from cephlab.suites.job.scenarios import scenarios_of

PAPERS = tuple(sorted(Path(__file__).with_name("papers").glob("*.toml")))
"""Jobs that `cephlab import` made from the papers' plans, which are in tests/lab/jobs."""
SCENARIOS = tuple(scenario for path in PAPERS for scenario in scenarios_of(load_job(path)))
