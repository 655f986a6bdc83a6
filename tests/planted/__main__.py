"""`tox -e planted`: run suites over each planted defect, and show what found it, in which time.

    python -m tests.planted [--tier TIER] [--suite SUITE ...] [--named] [--shard N/M] [DEFECT ...]

--named runs only the scenarios that the table names for a defect, in their own tier; without it whole suites run, which
takes hours. A defect is found where a scenario fails. Ends with 1 where one was not found.
"""

import argparse
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from cephlab.fixtures.selection import parse_shard
from cephlab.lab.archive.archive import MANIFEST, Ending, Record, read_archive
from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.scenario.scenario import Tier
from tests.planted import PLANTED, Planted
from tests.planted.plugin import VARIABLE

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 4 * 3600.0
SUITES = ("interop", "baseline")


@dataclass(frozen=True)
class Hunt:
    """What a run over one defect came to. by: scenarios that found it, in their order; at_s: when the first did."""

    defect: Planted
    ran: int
    by: tuple[str, ...]
    at_s: float
    reason: str

    @property
    def tier(self) -> str:
        """The quickest one that has a scenario which found it; empty where none did."""
        tiers = {tier_of(name) for name in self.by}
        return next((tier.value for tier in Tier if tier in tiers), "")


def judged(defect: Planted, records: Sequence[Record]) -> Hunt:
    """Read a run's records: trouble of the lab finds nothing."""
    failed = [record for record in records if record.ending is Ending.FAIL]
    first = failed[0] if failed else None
    return Hunt(
        defect,
        sum(record.ending is not Ending.SKIP for record in records),
        tuple(record.scenario for record in failed),
        first.began_s + first.seconds if first else 0.0,
        first.reason if first else "",
    )


def hunt(defect: Planted, tier: str, suites: Sequence[str], *, named: bool) -> Hunt:
    """Run the suites, or the scenarios named for the defect, on the provider that the defect needs, with it planted."""
    items = [item(name) for name in defect.finds] if named else [f"suites/{suite}" for suite in suites]
    tier = Tier.FULL if named and Tier.FULL in map(tier_of, defect.finds) else tier
    with TemporaryDirectory(prefix="cephlab-planted-") as folder:
        archive = Path(folder) / "archive"
        argv = [sys.executable, "-m", "pytest", *items, "-p", "tests.planted.plugin", "-p", "no:cacheprovider"]
        argv += ["--lab", defect.provider, "--tier", tier, "--archive", str(archive), "--seed", "1"]
        run = process.run(argv, timeout_s=LIMIT_S, env={VARIABLE: defect.name}, cwd=ROOT, check=False)
        if not (archive / MANIFEST).exists():
            raise LabBroken(
                f"nothing ran over {defect.name}", f"status {run.code}\n{run.stdout[-2000:]}{run.stderr[-2000:]}"
            )
        return judged(defect, read_archive(archive).records)


def tried(defect: Planted, tier: str, suites: Sequence[str], *, named: bool) -> Hunt:
    """As `hunt`, but trouble of the lab costs this defect alone, which then counts as not found."""
    try:
        return hunt(defect, tier, suites, named=named)
    except LabError as trouble:
        return Hunt(defect, 0, (), 0.0, str(trouble))


def dealt(defects: Sequence[Planted], shard: str) -> list[Planted]:
    """The defects of one part. Neighbours are in different parts, because they are often alike and take as long."""
    part, parts = parse_shard(shard)
    return list(defects[part - 1 :: parts])


def tier_of(scenario: str) -> Tier:
    """The tier that a scenario belongs to; those of the quick one are in the full one too."""
    suite = import_module(f"cephlab.suites.{scenario.partition('.')[0]}")
    (tier,) = {known.tier for known in suite.SCENARIOS if known.name == scenario}
    return Tier(tier)


def item(scenario: str) -> str:
    suite = scenario.partition(".")[0]
    function = "test_group" if suite == "s3" else "test_scenario"
    return f"suites/{suite}/test_{suite}.py::{function}[{scenario}]"


def table(hunts: Sequence[Hunt]) -> Table:
    """One line for each defect."""
    shown = Table("defect", "in", "tier", "found", "after s", "first by", "what it said", expand=True)
    for each in hunts:
        where = f"{each.defect.arch} {each.defect.into}"
        share = f"{len(each.by)} of {each.ran}" if each.by else f"not by {each.ran}"
        at = f"{each.at_s:.0f}" if each.by else ""
        shown.add_row(each.defect.name, where, each.tier, share, at, each.by[0] if each.by else "", each.reason)
    return shown


def score(hunts: Sequence[Hunt]) -> Iterator[str]:
    """How many defects each tier found, and which were not, in sentences. The full tier has all of the quick one."""
    quick = [each.defect.name for each in hunts if each.tier == Tier.QUICK]
    caught = [each.defect.name for each in hunts if each.by]
    yield f"the quick tier found {len(quick)} of {len(hunts)}, quick and full together {len(caught)}"
    if missed := [each.defect.name for each in hunts if not each.by]:
        yield f"not found: {', '.join(missed)}"


def main(argv: Sequence[str] | None = None) -> int:
    """The command; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.planted", description=__doc__)
    parser.add_argument("defects", nargs="*", metavar="DEFECT", help=", ".join(each.name for each in PLANTED))
    parser.add_argument("--tier", default="quick", choices=("quick", "full"))
    parser.add_argument("--suite", action="append", dest="suites", help="more than once; default: interop, baseline")
    parser.add_argument("--named", action="store_true", help="only the scenarios named for each defect")
    parser.add_argument("--shard", default="1/1", metavar="N/M", help="only the Nth of M parts of the defects")
    asked = parser.parse_args(argv)
    unknown = set(asked.defects) - {each.name for each in PLANTED}
    if unknown:
        parser.error(f"there is no defect {', '.join(sorted(unknown))}")
    chosen = [each for each in PLANTED if not asked.defects or each.name in asked.defects]
    console = Console(width=int(os.environ.get("COLUMNS", "160")))
    hunts = []
    for defect in dealt(chosen, asked.shard):
        hunts.append(tried(defect, asked.tier, asked.suites or SUITES, named=asked.named))
        console.print(table(hunts[-1:]))
    console.print(table(hunts))
    for sentence in score(hunts):
        console.print(sentence)
    return 0 if all(each.by for each in hunts) else 1


if __name__ == "__main__":
    sys.exit(main())
