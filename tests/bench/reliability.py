"""A hundred gates, a third of them killed at a random moment: what `cephlab prune` then leaves behind.

    python -m tests.bench.reliability --runs 100 --ledger FILE

Every run appends a line of JSON to the ledger, and a further call goes on where the ledger ends, so that the bench
may be cut into slices. Each run is one of PLANS in turn; every third is killed by SIGKILL to the gate's own process,
after a random part of the time that such a run takes. One that was over before its moment came counts as not
killed, and the next is aimed at in its place.
"""

import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.leftovers import look

ROOT = Path(__file__).resolve().parent.parent.parent
GATE = (sys.executable, "-c", "from cephlab.cli.main import main; main()")
KILL_EVERY = 3
RECENT = 5
"""Runs of one plan that say how long such a run takes: the machine may have become quieter since the first."""
KILLED = -9
"""Exit status of a process that SIGKILL ended, as subprocess tells it."""
GATE_S = 1200.0
"""A gate that takes longer hangs: on two cores with a load average of 25 the longest of PLANS took six minutes."""


@dataclass(frozen=True)
class Plan:
    """One sort of run. usual_s: what it takes where nothing else runs."""

    name: str
    lab: str
    suite: str
    scenario: str
    usual_s: float
    settings: tuple[tuple[str, str], ...] = ()
    """Variables of the gate's environment."""

    def arguments(self, seed: int, archive: Path) -> list[str]:
        """The gate's command line."""
        words = ["gate", "--lab", self.lab, "--suite", self.suite, "-k", self.scenario]
        return [*words, "--seed", str(seed), "--archive", str(archive)]


ONE_ROUND = (("CEPHLAB_CRASH_ROUNDS", "1"),)
PLANS = (
    Plan("mixed cluster, local", "local", "interop", "interop.roles", 35.0),
    Plan("partition, local", "local", "resilience", "partition and not way", 30.0),
    Plan("mixed cluster, container", "container", "interop", "interop.roles", 45.0),
    Plan("read errors, local", "local", "resilience", "read-errors", 30.0),
    Plan("disk reuse, local", "local", "migration", "migration.reuse", 210.0),
    Plan("crash of everything, local", "local", "resilience", "crash-everything", 60.0, ONE_ROUND),
)

NEEDED = frozenset({"docker", "iptables"})
"""Programs that know what PLANS leave behind."""


def plan_of(number: int) -> Plan:
    """One after the other, and one further on after each round: or every third would always be the same two."""
    return PLANS[(number + number // len(PLANS)) % len(PLANS)]


def due(lines: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the next run is to be killed, so that a third of all are."""
    return sum(bool(line["killed"]) for line in lines) < (len(lines) + 1) // KILL_EVERY


def usual_s(plan: Plan, lines: Sequence[Mapping[str, Any]]) -> float:
    """How long such a run takes on this machine: the median of the last ones in the ledger that came to their end."""
    known = [float(line["seconds"]) for line in lines if line["plan"] == plan.name and not ended_early(line)]
    return statistics.median(known[-RECENT:]) if known else plan.usual_s


def ended_early(line: Mapping[str, Any]) -> bool:
    """Whether a run was killed, on purpose or because it hung."""
    return bool(line["killed"] or line.get("hung"))


def one_run(lines: Sequence[Mapping[str, Any]], seed: int, home: Path) -> dict[str, Any]:
    """Run one gate, killed or not, then prune, then look: the ledger's next line."""
    number = len(lines)
    rng = random.Random(f"{seed}/{number}")
    plan = plan_of(number)
    kill_after = rng.uniform(0.0, usual_s(plan, lines)) if due(lines) else None
    temporary = home / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    archive = temporary / "pytest-of-gate" / str(number)
    shutil.rmtree(archive, ignore_errors=True)  # of a bench that was itself ended in the middle of this run
    environment = {**os.environ, "CEPHLAB_HOME": str(home), "TMPDIR": str(temporary), **dict(plan.settings)}
    began = time.monotonic()
    code = gate(plan.arguments(rng.randrange(1 << 30), archive), environment, kill_after)
    took = time.monotonic() - began
    before = look(home, temporary, NEEDED)
    pruned = subprocess.run([*GATE, "prune"], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    after = look(home, temporary, NEEDED)
    return {
        "number": number,
        "plan": plan.name,
        "kill_after_s": None if kill_after is None else round(kill_after, 2),
        **fate(kill_after, code),
        "code": code,
        "seconds": round(took, 1),
        "before_prune": before.counts(),
        "prune": pruned.returncode,
        "left": after.counts(),
        "lines": after.lines(),
    }


def fate(kill_after: float | None, code: int) -> dict[str, bool]:
    """Whether a gate was killed on purpose, or hung until its time was over."""
    return {"killed": kill_after is not None and code == KILLED, "hung": kill_after is None and code == KILLED}


def gate(arguments: Sequence[str], environment: Mapping[str, str], kill_after: float | None) -> int:
    """Its exit status; KILLED when it was, after `kill_after` or, hanging, after GATE_S.

    Only its own process is: what it started is left to itself.
    """
    with subprocess.Popen(
        [*GATE, *arguments],
        cwd=ROOT,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    ) as child:
        try:
            return child.wait(GATE_S if kill_after is None else kill_after)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


def summary(lines: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The figure, in words."""
    killed = [line for line in lines if line["killed"]]
    hung = [line for line in lines if line.get("hung")]
    whole = len(lines) - len(killed)
    passed = sum(line["code"] == 0 for line in lines)
    yield f"{len(lines)} runs, {len(killed)} of them killed; {passed} of the other {whole} passed, {len(hung)} hung"
    before: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for line in lines:
        before.update(line["before_prune"])
        left.update(line["left"])
    yield "killed runs had left: " + ", ".join(f"{count} {kind}" for kind, count in before.items() if count)
    yield "after prune: " + ", ".join(f"{count} {kind}" for kind, count in left.items())
    for line in filter(amiss, lines):
        said = f"hung for {line['seconds']} s" if line.get("hung") else f"code {line['code']}"
        yield f"run {line['number']} ({line['plan']}): {said}, prune {line['prune']}, {line['lines']}"


def amiss(line: Mapping[str, Any]) -> bool:
    """Whether a run is to be looked at: something stayed, or it ended by itself without a pass."""
    return bool(line["lines"] or line["prune"] or (line["code"] != 0 and not line["killed"]))


def read_ledger(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=100, help="how many the ledger is to hold at the end")
    parser.add_argument("--seed", type=int, default=1, help="of the moments at which runs are killed")
    parser.add_argument("--ledger", type=Path, default=Path("reliability.jsonl"), help="one line for each run")
    parser.add_argument("--home", type=Path, default=None, help="in place of CEPHLAB_HOME")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no run after this long")
    options = parser.parse_args()
    home = (options.home or Path(os.environ["CEPHLAB_HOME"])).absolute()
    over = time.monotonic() + options.seconds
    lines = read_ledger(options.ledger)
    look(home, home / "tmp", NEEDED)  # what cannot be looked at is found out before anything runs
    while len(lines) < options.runs and time.monotonic() < over:
        lines.append(one_run(lines, options.seed, home))
        with options.ledger.open("a") as ledger:
            ledger.write(json.dumps(lines[-1]) + "\n")
        print(json.dumps(lines[-1]), flush=True)
    print("\n".join(summary(lines)))
    return int(any(map(amiss, lines)))


if __name__ == "__main__":
    sys.exit(main())
