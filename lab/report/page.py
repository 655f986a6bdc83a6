"""One self-contained HTML page from an archive: verdicts with causes and evidence, and what the run cannot say."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from functools import cache
from typing import Any

import jinja2

from cephlab.lab.archive.archive import (
    JUNIT,
    RUNNING,
    Archive,
    Ending,
    Record,
    counted,
    deciding,
    file_name,
    state_of,
)
from cephlab.lab.base.numbers import duration, how_many, si
from cephlab.lab.history.history import Event, data_of
from cephlab.lab.providers.base import LeavesUnsaid
from cephlab.lab.providers.select import PROVIDERS
from cephlab.lab.providers.ssh import SshProvider
from cephlab.lab.report.across import matrices
from cephlab.lab.report.carried import carried
from cephlab.lab.report.figures import FigureRow, figure_rows
from cephlab.lab.report.series import Plot, plots
from cephlab.lab.report.spent import spent, spent_in
from cephlab.lab.report.timeline import Timeline, timeline
from cephlab.lab.report.wanted import wanted_of

_SHOWN_FACTS = 60
_SHOWN_CHARS = 300

_NO_VERDICT = {
    Ending.SKIP: ("scenario was", "scenarios were", "skipped; what that would have shown remains open"),
    Ending.INCONCLUSIVE: ("scenario was", "scenarios were", "inconclusive, which is neither a pass nor a failure"),
    Ending.ERROR: ("scenario", "scenarios", "ended with an error of the lab, which says nothing about Ceph"),
}
_NAMED = 5
"""How many scenarios without a verdict are named."""
_SUITES = 2
"""How many suites are named at the top."""
DOUBTED = "These verdicts cannot be relied on"
MARKS = {Ending.PASS: "✓", Ending.FAIL: "✗", Ending.ERROR: "!", Ending.INCONCLUSIVE: "?", Ending.SKIP: "-"}


@dataclass(frozen=True)
class Fact:
    """One line of evidence, and whether it is as expected."""

    what: str
    value: str
    ok: bool


@dataclass(frozen=True)
class ScenarioRow:
    """One scenario as shown. left, width: of its timeline bar, in percent; more_facts: held, but not shown."""

    record: Record
    wrong: tuple[Fact, ...]
    held: tuple[Fact, ...]
    more_facts: int
    allowed: Mapping[str, int]
    left: float
    width: float
    archs: tuple[str, ...] = ()
    course: Timeline | None = None
    plots: tuple[Plot, ...] = ()
    figures: tuple[FigureRow, ...] = ()
    spent: Mapping[str, float] = field(default_factory=dict)

    @property
    def mark(self) -> str:
        return MARKS[self.record.ending]

    @property
    def anchor(self) -> str:
        return file_name(self.record.scenario)


class Agreement(StrEnum):
    """Whether what was measured here agrees with a publication."""

    AGREED = "agreed"
    NOT_AGREED = "not agreed"
    CANNOT_SAY = "cannot say"

    @property
    def tone(self) -> Ending:
        """The ending whose colour it has, although it is not a verdict on Ceph."""
        return {Agreement.AGREED: Ending.PASS, Agreement.NOT_AGREED: Ending.ERROR}.get(self, Ending.INCONCLUSIVE)


@dataclass(frozen=True)
class Judged:
    """A finding of a publication and ours. where: its place there; words: our figures, or what is missing."""

    name: str
    where: str
    agreement: Agreement
    words: str


@dataclass(frozen=True)
class Beside:
    """An archive compared with a publication. note: what a reader must know."""

    title: str
    source: str
    plots: tuple[Plot, ...]
    judged: tuple[Judged, ...]
    note: str = ""


def _anchor(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


def render_report(archive: Archive, beside: Beside | None = None) -> str:
    """The page; it loads nothing from elsewhere."""
    end = max((record.began_s + record.seconds for record in archive.records), default=0.0) or 1.0
    rows = [_row(archive, record, end) for record in archive.records]
    charts = bool(beside and beside.plots) or any(row.course or row.plots for row in rows)
    contents: list[str] = []  # the template adds each heading
    return template("report.html.j2").render(
        page=carried(charts=charts),
        contents=contents,
        manifest=archive.manifest,
        clusters=archive.manifest["clusters"],
        images=_images(archive.manifest["clusters"]),
        verdict=overall(archive),
        counts=counted(archive.records),
        groups=_groups(rows),
        bad=[row for row in rows if row.record.ending not in (Ending.PASS, Ending.SKIP)],
        rows=rows,
        spent=list(spent(archive)),
        matrices=list(matrices(archive.records)),
        limits=limits_of(archive),
        wanted=list(wanted_of(archive)),
        predictions=data_of(archive.events, "prediction"),
        recoveries=data_of(archive.events, "recovery"),
        claims=data_of(archive.events, "claim"),
        beside=beside,
        doubted=DOUBTED,
        doubts=archive.doubts,
        signer=archive.signer,
        junit=(archive.directory / JUNIT).exists(),
        suites=_suites(archive),
        began=_moment(archive.manifest["started"]),
        duration=_duration(archive.manifest),
    )


class _Lacking(jinja2.UndefinedError, LookupError):
    """A template reads what a value does not have; as in Python, it is a LookupError."""


class _Missing(jinja2.StrictUndefined):
    """Stands for what a value does not have."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **{"exc": _Lacking, **given})


@cache
def template(name: str) -> jinja2.Template:
    """A page of this folder. Tables and charts of all of them look the same."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("cephlab.lab.report", ""),
        autoescape=True,
        undefined=_Missing,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"anchor": _anchor, "file_name": file_name, "mark": MARKS.get}
    environment.filters |= {"seconds": seconds_text, "si": si}
    environment.globals["how_many"] = how_many
    return environment.get_template(name)


def overall(archive: Archive) -> tuple[str, str]:
    """(class, sentences) for the top of the page: the first that applies, and whether the run was cut short.

    A run that was cut short shows no less than what it found before: its ending is the one of `exit_code`.
    """
    manifest = archive.manifest
    endings = {record.ending for record in deciding(archive.records)}
    left = left_words(archive.left) or "the rest is not known"
    cut = "" if manifest["state"] == "complete" else f"This run {unfinished(manifest)}; {left}."
    cases = (
        (bool(archive.doubts), Ending.ERROR, f"{DOUBTED}: the archive is not consistent."),
        (Ending.FAIL in endings, Ending.FAIL, "At least one scenario failed."),
        (
            Ending.ERROR in endings or bool(manifest["trouble"]),
            Ending.ERROR,
            "The lab itself had an error; that is not a verdict on Ceph.",
        ),
        (bool(manifest["unexpected_skips"]), Ending.FAIL, "Scenarios were skipped that must run in this tier."),
        (bool(cut), Ending.INCONCLUSIVE, ""),
        (
            Ending.INCONCLUSIVE in endings,
            Ending.INCONCLUSIVE,
            "Nothing was found wrong, but not everything could be shown.",
        ),
        (Ending.PASS not in endings, Ending.INCONCLUSIVE, "No scenario reached a verdict."),
    )
    applying = ((ending, sentence) for applies, ending, sentence in cases if applies)
    ending, sentence = next(applying, (Ending.PASS, "Everything that ran passed."))
    return ending, " ".join(filter(None, (sentence, cut)))


def unfinished(manifest: Mapping[str, Any]) -> str:
    """What is said of a run that is not complete: its process may still be at work."""
    return "is not over yet" if state_of(manifest) == RUNNING else "was cut short"


def left_words(left: Sequence[str]) -> str:
    """The planned scenarios without a verdict: the first by name, and a count of the rest; empty for none."""
    if not left:
        return ""
    more = f", ... and {len(left) - _NAMED} more" if len(left) > _NAMED else ""
    have = how_many(len(left), "scenario has", "scenarios have")
    return f"{have} no verdict: {', '.join(left[:_NAMED])}{more}"


def left_list(left: Sequence[str]) -> str:
    """The same, with every scenario on its own line."""
    return "\n  ".join([f"{how_many(len(left), 'scenario has', 'scenarios have')} no verdict:", *left])


SHARD = "This was part {}: the other parts of the selected scenarios ran elsewhere, or not at all."
SAMPLE = "This was a sample: of the scenarios that differ only in their brackets, one was drawn and ran."


def limits_of(archive: Archive) -> list[str]:
    """What this run can and cannot say, because of where and how it ran."""
    manifest = archive.manifest
    clusters = manifest["clusters"]
    lines = [f"{line}." for line in archive.lost]
    hosts = [(name, host) for cluster in clusters for name, host in cluster["hosts"].items()]
    emulated = sorted({f"{name} ({host['arch']})" for name, host in hosts if host["emulated"]})
    if emulated:
        factor = max(cluster["patience"] for cluster in clusters)
        lines.append(
            f"Nodes {', '.join(emulated)} were emulated: they are judged only on correctness and liveness. Their speed "
            f"says nothing about hardware; their deadlines were multiplied by {factor:g}, as measured."
        )
    if any(cluster["provider"] != SshProvider.name for cluster in clusters):
        lines.append(
            "All nodes shared one machine, so no figure here is the throughput or latency of a real cluster, "
            "and durations are those of the lab."
        )
    # An archive may come from a version with other providers, or from a project with its own.
    used = [PROVIDERS[name]() for name in sorted({cluster["provider"] for cluster in clusters}) if name in PROVIDERS]
    lines += [provider.unsaid for provider in used if isinstance(provider, LeavesUnsaid)]
    lines += _alone(archive)
    counts = counted(archive.records)
    lines += [
        f"{how_many(counts[end], *words)} {rest}." for end, (*words, rest) in _NO_VERDICT.items() if end in counts
    ]
    if manifest.get("sample"):
        lines.append(SAMPLE)
    if manifest.get("shard"):
        lines.append(SHARD.format(manifest["shard"]))
    if manifest["tier"] == "quick":
        lines.append("The quick tier leaves out scenarios that only the full tier runs.")
    if manifest["state"] != "complete":
        lines.append("The run did not finish: scenarios that are not listed did not run.")
    return lines


def _row(archive: Archive, record: Record, end_s: float) -> ScenarioRow:
    events = archive.of(record.scenario)
    facts = tuple(fact for event in events if (fact := _fact(event)) is not None)
    sound = tuple(fact for fact in facts if fact.ok)
    allowed: Mapping[str, int] = next(
        (event.data.get("allowed", {}) for event in events if event.kind == "aftermath"), {}
    )
    return ScenarioRow(
        record=record,
        wrong=tuple(fact for fact in facts if not fact.ok),
        held=sound[:_SHOWN_FACTS],
        more_facts=max(0, len(sound) - _SHOWN_FACTS),
        allowed=allowed,
        left=round(100 * record.began_s / end_s, 2),
        width=round(max(0.3, 100 * record.seconds / end_s), 2),
        archs=_archs_of(archive, record),
        course=timeline(events),
        plots=plots(events),
        spent=spent_in(events, record.seconds),
        figures=tuple(figure_rows(events)),
    )


def _archs_of(archive: Archive, record: Record) -> tuple[str, ...]:
    """The architectures of the machines with daemons in a scenario's cluster."""
    for cluster in archive.manifest["clusters"]:
        if cluster["name"] == record.cluster:
            busy = set(cluster["daemons"].values())
            return tuple(sorted({host["arch"] for name, host in cluster["hosts"].items() if name in busy}))
    return ()


def _alone(archive: Archive) -> Iterator[str]:
    """A line for each architecture that scenarios ran on alone, although a lab would have mixed both for them."""
    alone: dict[tuple[str, ...], list[str]] = {}
    for record in archive.records:
        if any(event.data.get("any_arch") for event in archive.of(record.scenario) if event.kind == "began"):
            alone.setdefault(_archs_of(archive, record), []).append(record.scenario)
    for archs, names in sorted(alone.items()):
        if len(archs) == 1:
            scenarios = how_many(len(names), "scenario that a lab runs", "scenarios that a lab runs")
            yield f"{scenarios} on mixed architectures ran on {archs[0]} alone: {', '.join(names)}."


def _fact(event: Event) -> Fact | None:
    data = event.data
    if event.kind == "observation":
        ok = data["got"] == data["wanted"]
        value = _short(data["got"]) if ok else f"{_short(data['got'])}, wanted {_short(data['wanted'])}"
        return Fact(str(data["what"]), value, ok)
    if event.kind == "witness":
        ok = data["got"] >= data["least"]
        return Fact(str(data["what"]), f"{data['got']:g} (at least {data['least']:g})", ok)
    return None


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."


def _groups(rows: Sequence[ScenarioRow]) -> dict[str, list[ScenarioRow]]:
    """Rows by suite and topic, in order of first appearance; names are `suite.topic[-variant]`."""
    groups: dict[str, list[ScenarioRow]] = {}
    for row in rows:
        groups.setdefault(re.split(r"[-\[]", row.record.scenario)[0], []).append(row)
    return groups


def _images(clusters: Sequence[Mapping[str, Any]]) -> list[tuple[str, Mapping[str, Any]]]:
    """(architecture, image) of all clusters, each once."""
    images = {(arch, image["key"]): (arch, image) for cluster in clusters for arch, image in cluster["images"].items()}
    return list(images.values())


def _suites(archive: Archive) -> str:
    """`, suites interop and block`, or `, 18 suites`; empty if no scenario ran."""
    suites = list(dict.fromkeys(record.suite for record in archive.records))
    if len(suites) > _SUITES:
        return f", {len(suites)} suites"
    return f", {'suite' if len(suites) == 1 else 'suites'} {' and '.join(suites)}" if suites else ""


def _moment(text: str) -> str:
    """`2026-11-27 04:25 UTC`."""
    return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")


def _duration(manifest: Mapping[str, Any]) -> str:
    if manifest["ended"] is None:
        return "not finished"
    began, ended = (datetime.fromisoformat(str(manifest[key])) for key in ("started", "ended"))
    return f"took {seconds_text((ended - began).total_seconds())}"


def seconds_text(value: float | None) -> str:
    """A duration, or that there is none."""
    return "not measured" if value is None else duration(value)
