"""Flakiness of each scenario: how often attempts at the same code ended differently, over all kept runs."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from cephlab.lab.archive.archive import Archive, Ending
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import parse_json, read_text
from cephlab.lab.base.numbers import how_many, percent
from cephlab.lab.base.runs import write_private

LIMIT = 0.01
"""Largest share of flaky attempts of a scenario: beyond it, nobody trusts a failed run any more."""

MARK = "attempts"
"""Name of the place on the page where the table goes."""

_SHOWN_BELOW = 3.0
"""With no flaky attempt in n, the rate is below 3/n with a confidence of 95 % (the rule of three)."""

_ALL = "all"
_MODE = 0o644
INTERRUPTED = "it was interrupted"
"""The cause of a scenario that was interrupted. Such an attempt says nothing about it."""


@dataclass(frozen=True)
class KeptRun:
    """What is kept of an archive. name: start time, seed, architecture; endings: scenario -> ending, no skips."""

    name: str
    commit: str
    lab: str
    release: str
    machine: str
    endings: Mapping[str, str]


@dataclass(frozen=True)
class Rate:
    """One scenario over all attempts. flaky: those that did not pass where others at the same commit and place did."""

    scenario: str
    attempts: int
    flaky: int
    failed: int
    """Attempts that did not pass where none passed: the scenario or Ceph is broken there, which is not flakiness."""

    @property
    def rate(self) -> float:
        return self.flaky / self.attempts

    @property
    def above(self) -> bool:
        return self.rate > LIMIT

    @property
    def words(self) -> str:
        """The rate as quoted in an entry of the quarantine."""
        return f"{self.flaky} of {how_many(self.attempts, 'attempt')}"


def run_of(archive: Archive) -> KeptRun:
    """What is kept of an archive; SpecError if it does not record its commit."""
    manifest = archive.manifest
    commit = manifest.get("commit")
    if not isinstance(commit, str):
        raise SpecError(
            f"{archive.directory} does not record the commit that it ran",
            "attempts are compared only if they ran the same code",
            "run from a checkout without local changes",
        )
    host = manifest["host"]
    taken = manifest.get("taken", ())  # from the run that this one resumed, which counts separately
    own = [record for record in archive.records if record.scenario not in taken]
    counting = [r for r in own if r.ending is not Ending.SKIP and INTERRUPTED not in r.reason]
    return KeptRun(
        name=f"{manifest['started']} seed {manifest['seed']} {host['arch']}",
        commit=commit,
        lab="+".join(sorted({str(cluster["provider"]) for cluster in manifest["clusters"]})) or str(manifest["lab"]),
        release=str(manifest["release"]),
        machine=f"{host['arch']}, {host['cores']} cores, {host['system']}",
        endings={record.scenario: str(record.ending) for record in counting},
    )


def read_kept(path: Path) -> list[KeptRun]:
    """Runs in a file of JSON lines, none if there is no file; SpecError names a line that is not a run."""
    if not path.exists():
        return []
    runs = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        try:
            raw = parse_json(line, f"{path}:{number}")
            runs.append(KeptRun(**{**raw, "endings": {str(k): str(Ending(v)) for k, v in raw["endings"].items()}}))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise SpecError(f"{path}:{number} is not a run", str(error), "check whether the file was edited") from None
    return runs


def _text(path: Path) -> str:
    """The text of a file; SpecError if it cannot be read as text."""
    return read_text(path, "check the name of the file", most_bytes=None)


def keep(path: Path, runs: Iterable[KeptRun]) -> list[KeptRun]:
    """Add the runs that are not kept yet; returns all kept runs."""
    known = {(run.name, run.commit): run for run in read_kept(path)}
    for run in runs:
        known.setdefault((run.name, run.commit), run)
    lines = [json.dumps(asdict(run), sort_keys=True) for run in known.values()]
    write_private(path, "".join(f"{line}\n" for line in lines).encode(), mode=_MODE)
    return list(known.values())


def rates(runs: Sequence[KeptRun]) -> list[Rate]:
    """One rate for each scenario, the most flaky first."""
    endings: dict[str, dict[tuple[str, str, str], Counter[bool]]] = {}
    for run in runs:
        for scenario, ending in run.endings.items():
            place = (run.commit, run.lab, run.release)
            endings.setdefault(scenario, {}).setdefault(place, Counter())[ending == Ending.PASS] += 1
    all_rates = [_rate(scenario, list(places.values())) for scenario, places in endings.items()]
    return sorted(all_rates, key=lambda rate: (-rate.rate, rate.scenario))


def _rate(scenario: str, places: Sequence[Counter[bool]]) -> Rate:
    """places: for each commit, lab and release, how often it passed and did not."""
    flaky = sum(place[False] for place in places if place[True])
    return Rate(
        scenario=scenario,
        attempts=sum(place.total() for place in places),
        flaky=flaky,
        failed=sum(place[False] for place in places) - flaky,
    )


@dataclass(frozen=True)
class FalseAlarms:
    """Sound attempts of a suite: those at a commit and a place where the scenario passed at least once.

    fail, inconclusive, error: how many of them did not pass, by ending. low, high: 95 % confidence interval of the
    share of all three, by Clopper and Pearson.
    """

    suite: str
    sound: int
    fail: int
    inconclusive: int
    error: int
    low: float
    high: float

    @property
    def alarms(self) -> int:
        return self.fail + self.inconclusive + self.error

    @property
    def above(self) -> bool:
        """Whether its share is certainly above the limit."""
        return self.low > LIMIT


def false_alarms(runs: Sequence[KeptRun], quarantined: Collection[str] = ()) -> list[FalseAlarms]:
    """One for each suite with a sound attempt, by name, and `all` at the end. quarantined: scenarios to leave out."""
    places: dict[tuple[str, str, str, str], Counter[str]] = {}
    for run in runs:
        for scenario, ending in run.endings.items():
            places.setdefault((scenario, run.commit, run.lab, run.release), Counter())[ending] += 1
    suites: dict[str, Counter[str]] = {}
    for (scenario, *_), endings in places.items():
        if endings[Ending.PASS] and scenario not in quarantined:
            for suite in (scenario.partition(".")[0], _ALL):
                suites.setdefault(suite, Counter()).update(endings)
    return [_alarms(suite, suites[suite]) for suite in sorted(suites, key=lambda suite: (suite == _ALL, suite))]


def _alarms(suite: str, endings: Counter[str]) -> FalseAlarms:
    from scipy.stats import binomtest  # takes half a second to import, so other commands should not wait for it

    sound = endings.total()
    interval = binomtest(sound - endings[Ending.PASS], sound).proportion_ci()  # 95 %, by Clopper and Pearson
    bad = (endings[Ending.FAIL], endings[Ending.INCONCLUSIVE], endings[Ending.ERROR])
    return FalseAlarms(suite, sound, *bad, float(interval.low), float(interval.high))


def alarms_table(alarms: Sequence[FalseAlarms]) -> list[str]:
    """The table as lines of Markdown."""
    lines = ["| suite | sound attempts | red | inconclusive | lab trouble | false alarms, 95 % |"]
    return [
        *lines,
        "|---|---|---|---|---|---|",
        *(
            f"| {row.suite} | {row.sound} | {row.fail} | {row.inconclusive} | {row.error} "
            f"| {percent(row.alarms / row.sound)}, {percent(row.low)} to {percent(row.high)} |"
            for row in alarms
        ),
    ]


def page(runs: Sequence[KeptRun], quarantined: Mapping[str, str]) -> str:
    """The generated part of the track record, in Markdown."""
    all_rates = rates(runs)
    attempts, flaky = sum(rate.attempts for rate in all_rates), sum(rate.flaky for rate in all_rates)
    if not attempts:
        return "No attempt is kept yet.\n"
    commits = len({run.commit for run in runs})
    summary = f"{flaky} of {how_many(attempts, 'attempt was', 'attempts were')} flaky"
    limit = f"({percent(flaky / attempts)}; limit for a scenario: {percent(LIMIT, '.0f')})"
    lines = [
        f"{summary} {limit}, in {how_many(len(runs), 'run')} of {how_many(commits, 'commit')}.",
        "",
        *alarms_table(false_alarms(runs, quarantined)),
        "",
    ]
    lines += ["| scenario | attempts | flaky | rate | broken | quarantine |", "|---|---|---|---|---|---|"]
    lines += [_row(rate, quarantined) for rate in all_rates]
    return "\n".join([*lines, ""])


def _row(row: Rate, quarantined: Mapping[str, str]) -> str:
    # Rounded up: with less the sentence would be false.
    rate = percent(row.rate) if row.flaky else f"below {min(100, math.ceil(100 * _SHOWN_BELOW / row.attempts))} %"
    quarantine = " yes" if row.scenario in quarantined else " **wanted**" if row.above else ""
    return f"| {row.scenario} | {row.attempts} | {row.flaky} | {rate} | {row.failed} |{quarantine} |"


def put_into(path: Path, generated: str, mark: str = MARK) -> None:
    """Replace the text between `<!-- mark -->` and `<!-- end of mark -->` on a page; SpecError if it has none."""
    text = _text(path)
    opening, closing = f"<!-- {mark} -->", f"<!-- end of {mark} -->"
    before, begin, rest = text.partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise SpecError(f"{path} has no place for {mark}", f"wanted: lines with {opening} and {closing}")
    write_private(path, f"{before}{opening}\n\n{generated}\n{closing}{after}".encode(), mode=_MODE)


def wanted(runs: Sequence[KeptRun], quarantined: Mapping[str, str]) -> Iterator[Rate]:
    """Scenarios above the limit that are not in quarantine."""
    return (rate for rate in rates(runs) if rate.above and rate.scenario not in quarantined)
