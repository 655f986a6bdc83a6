"""The last page of a gate: its verdicts for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from fixtures.entering import called, ways_in
from fixtures.run import Result
from lab.archive import Ending, Record

WORDS = {
    Ending.PASS: "passed",
    Ending.FAIL: "failed",
    Ending.ERROR: "lab trouble",
    Ending.INCONCLUSIVE: "inconclusive",
    Ending.SKIP: "skipped",
}
"""How each ending is called on the last page, in the order it is shown."""


_SIGNALLED = 128  # a shell's exit codes above it say which signal ended a command


def page(result: Result) -> str:
    """The verdicts as text: what did not pass has its cause in one line, and where to look."""
    cut = "interrupted: " if result.code >= _SIGNALLED else ""
    lines = ["", cut + (", ".join(counts(result.records)) or "nothing ran")]
    for ending in (Ending.FAIL, Ending.ERROR, Ending.INCONCLUSIVE, Ending.SKIP):
        rows = [record for record in result.records if record.ending is ending]
        if rows:
            lines += ["", f"{WORDS[ending]}:"]
            lines += [f"  {record.scenario}: {record.reason}{_where(result, record)}" for record in rows]
    if result.unexpected_skips:
        lines += ["", "skipped although this tier does not expect it (ci/expected-skips.toml), so the run fails:"]
        lines += [f"  {line}" for line in result.unexpected_skips]
    for text in result.trouble:
        lines += ["", f"trouble: {text}"]
    for name in result.kept:
        lines += ["", f"{name} was left up. Enter it with:"]
        lines += [f"  {command}" for command in ways_in(name, result.home)]
    replay = called(result.replay, result.home)
    return "\n".join([*lines, "", f"archive: {result.archive}", f"replay:  {replay}"])


def _where(result: Result, record: Record) -> str:
    return f"\n      logs: {result.archive / record.logs}" if record.logs else ""


def counts(records: Sequence[Record]) -> list[str]:
    """`3 passed`, `1 failed`, ... of those that there are."""
    found = [(sum(1 for record in records if record.ending is ending), name) for ending, name in WORDS.items()]
    return [f"{count} {name}" for count, name in found if count]


def describe(result: Result) -> dict[str, Any]:
    """What `gate --json` prints."""
    return {
        "code": result.code,
        "archive": str(result.archive),
        "replay": result.replay,
        "seed": result.seed,
        "kept": list(result.kept),
        "trouble": list(result.trouble),
        "unexpected_skips": list(result.unexpected_skips),
        "verdicts": [asdict(record) for record in result.records],
    }
