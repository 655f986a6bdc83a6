"""Known defects: the list, their part of the track record, and a report that a Ceph developer can reproduce."""

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

import cephlab
from cephlab.lab.archive.archive import Archive
from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.nearest import did_you_mean
from cephlab.lab.history.history import data_of
from cephlab.lab.spec.specfile import TomlTable, load_model, refuse_twice
from cephlab.lab.spec.written import Flag

SUITE = "defects"
"""The suite whose scenarios look for them. The reasons of its passes are shown too, because they may be news."""

KNOWN = Path(cephlab.__file__).parent / "suites" / SUITE / "known.toml"
"""The list that ships with cephlab."""

MARK = "defects"
"""Marks the place of the list on the page of the track record."""

Version = Annotated[str, Field(pattern=r"^\d+\.\d+\.\d+$")]
Words = Annotated[str, Field(min_length=10)]


class Defect(TomlTable):
    """One entry. there, gone: tried versions of Ceph with and without it; seen, of: `seen` of `of` tries showed it.

    text: paragraphs of Markdown; mend: place in the source and what to change; tracker: what Ceph's tracker has on it;
    command: shows it without the suite; on: whose defect it is. program: whether programs/NAME.sh shows it; scenario:
    False if the lab cannot look for it, and `text` says why. releases: the only ones for which the program can tell;
    all if empty.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]+$")]
    title: Words
    text: Words
    found_by: Words
    command: Words
    mend: Words
    tracker: Words
    there: Annotated[tuple[Version, ...], Field(min_length=1)]
    gone: tuple[Version, ...] = ()
    seen: Annotated[int, Field(ge=1, strict=True)] = 1
    of: Annotated[int, Field(ge=1, strict=True)] = 1
    on: Literal["Ceph", "Debian's packages"] = "Ceph"
    releases: tuple[str, ...] = ()
    program: Flag = True
    scenario: Flag = True

    @model_validator(mode="after")
    def _consistent(self) -> "Defect":
        if both := set(self.there) & set(self.gone):
            raise ValueError(f"there, gone: got {', '.join(sorted(both))} in both; wanted: each version in one")
        if self.seen > self.of:
            raise ValueError(f"seen: got {self.seen} of {self.of}; wanted: at most as many as there were tries")
        return self

    def expected(self, version: str) -> tuple[str, bool]:
        """(`there`, `gone` or empty: of this version or the newest older one; whether it was this version)."""
        known = {**dict.fromkeys(self.there, "there"), **dict.fromkeys(self.gone, "gone")}
        older = [release for release in known if _numbers(release) <= _numbers(version)]
        nearest = max(older, key=_numbers, default="")
        return known.get(nearest, ""), nearest == version


class _File(TomlTable):
    defect: tuple[Defect, ...]

    @model_validator(mode="after")
    def _once(self) -> "_File":
        refuse_twice("defect.name", [defect.name for defect in self.defect])
        return self


def read_defects(path: Path) -> tuple[Defect, ...]:
    """The `[[defect]]` tables of a file; SpecError names the wrong key."""
    return load_model(path, _File, what="a list of known defects", hint="see its other entries").defect


def part(defects: Sequence[Defect]) -> str:
    """The generated part of the track record, in Markdown."""
    lines: list[str] = []
    for on in dict.fromkeys(defect.on for defect in defects):
        lines += [f"## Found in {on}", ""]
        for defect in defects:
            if defect.on == on:
                lines += _entry(defect)
    return "\n".join(lines)


def _entry(defect: Defect) -> list[str]:
    run = f"`cephlab gate --tier full --suite {SUITE} -k {defect.name}`"
    facts = [
        f"In: Ceph {', '.join(defect.there)}" + (f"; not in {', '.join(defect.gone)}" if defect.gone else ""),
        f"Found by: {defect.found_by}",
        f"Command: {defect.command}",
        *([f"Test: {run}"] if defect.scenario else []),
        f"Fix: {defect.mend}",
        f"In Ceph's tracker: {defect.tracker}",
    ]
    return [f"### {defect.title}", "", *defect.text.strip().splitlines(), "", *_wrapped(facts), ""]


def _wrapped(facts: Sequence[str]) -> list[str]:
    """List items, wrapped at spaces outside of code."""
    lines: list[str] = []
    for fact in facts:
        words, line = re.findall(r"(?:`[^`]*`|[^\s`])+", fact), "-"
        for word in words:
            if len(line) + 1 + len(word) > _WIDTH:
                lines.append(line)
                line = " "
            line = f"{line} {word}"
        lines.append(line)
    return lines


_WIDTH = 118


def developer_report(archive: Archive, name: str) -> str:
    """What a run saw of one defect, with a program that shows it, in Markdown; SpecError if it did not look for it.

    It is made from the history of the run, so it says what that run used.
    """
    events = archive.of(f"{SUITE}.{name}")
    known = next(iter(data_of(events, "known_defect")), None)
    if known is None:
        scenarios = sorted({e.scenario.partition(".")[2] for e in archive.events if e.kind == "known_defect"})
        what = f"{archive.directory} has no defect {name!r}"
        raise SpecError(what, f"it has: {', '.join(scenarios) or 'none'}", did_you_mean(name, scenarios))
    record = next((record for record in archive.records if record.scenario == f"{SUITE}.{name}"), None)
    tries = data_of(events, "defect_try")
    lines = [f"# {known['title']}", "", known["text"].strip(), ""]
    lines += [f"- Ceph: {known['version']}, {known['build']}"]
    lines += [f"- Verdict: {record.reason}"] if record is not None else []
    lines += [f"- Command: {known['command']}"] if "command" in known else []
    lines += [f"- Fix: {known['mend']}", f"- In Ceph's tracker: {known['tracker']}", "", "## What was seen", ""]
    lines += ["```text", *(f"try {number}: {data['said']}" for number, data in enumerate(tries, 1)), "```", ""]
    lines += ["## Show it", ""]
    if known["program"]:
        lines += [f"Save as `{name}.sh`, then `bash {name}.sh`. It prints `seen` or `not seen`.", ""]
        lines += ["```bash", *known["program"].rstrip().splitlines(), "```", ""]
    else:
        lines += ["With cephlab, which raises the cluster and injects the faults:", ""]
        lines += ["```bash", _only(archive.manifest["replay"], name), "```", ""]
    return "\n".join(lines)


def _only(replay: str, name: str) -> str:
    """The command of a gate, reduced to the scenario of one defect."""
    words, kept = iter(shlex.split(replay)[2:]), []
    for word in words:
        if word in _CHOOSES:
            next(words)
        else:
            kept.append(word)
    return shlex.join(["cephlab", "gate", *kept, "--suite", SUITE, "-k", name])


_CHOOSES = ("--suite", "-k", "--rerun-failed", "--resume", "--job")
"""Options of a gate, each with a value, that select scenarios."""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in version.split("."))
