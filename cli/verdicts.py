"""The last page of a gate: its verdicts for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from cephlab.fixtures.entering import called, ways_in
from cephlab.fixtures.run import Result
from cephlab.lab.archive.archive import Ending, counted

_SIGNALLED = 128  # a shell's exit codes above it say which signal ended a command


def page(result: Result) -> str:
    """The verdicts as text: what did not pass has its cause in one line, and where to look."""
    counts = ", ".join(f"{count} {ending.word}" for ending, count in counted(result.records).items())
    cut = "interrupted: " if result.code >= _SIGNALLED else ""
    lines = ["", cut + (counts or "nothing ran")]
    for ending in (Ending.FAIL, Ending.ERROR, Ending.INCONCLUSIVE, Ending.SKIP):
        rows = [record for record in result.records if record.ending is ending]
        if rows:
            lines += ["", f"{ending.word}:"]
        for record in rows:
            logs = f"\n      logs: {result.archive / record.logs}" if record.logs else ""
            lines.append(f"  {record.scenario}: {record.reason}{logs}")
    if result.unexpected_skips:
        lines += ["", "skipped although this tier does not expect it (suites/expected-skips.toml), so the run fails:"]
        lines += [f"  {line}" for line in result.unexpected_skips]
    for text in result.trouble:
        lines += ["", f"trouble: {text}"]
    for name in result.kept:
        lines += ["", f"{name} was left up. Enter it with:"]
        lines += [f"  {command}" for command in ways_in(name, result.home)]
    replay = called(result.replay, result.home)
    return "\n".join([*lines, "", f"archive: {result.archive}", f"replay:  {replay}"])


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
