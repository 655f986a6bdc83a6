"""What a scenario left behind: crash records, dead daemons, unexpected log lines, a cluster that is not healthy."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from cephlab.lab.base.numbers import how_many
from cephlab.lab.checks.verdict import Outcome, Verdict, first_of, merge
from cephlab.lab.history.history import Event, data_of

_SHOWN = 10
_LOG = "in the log of"
_PLACES = {
    "output": "in the output of",
    "tool": "in the output of the command",
    "kernel": "in the log of",
    "core": "in the core dumps of",
}


MOST_GROWN: Mapping[str, int] = {
    "resident": 768 << 20,
    "threads": 200,
    "files": 400,
    "stored": 4 << 30,
    "logged": 64 << 20,
}
"""How much any daemon may grow during a scenario, and how much it may write to its log and its output. These limits are
for clear excess only: caches fill, and an emulator keeps translated code. Limits from kept passes are tighter; the
scenario `baseline.growth` looks more closely."""
_UNITS = {
    "resident": "bytes of memory",
    "threads": "threads",
    "files": "open files",
    "stored": "bytes on its disk",
    "logged": "bytes of log and output",
}


def aftermath(events: Sequence[Event]) -> Verdict | None:
    """Judge events of kind `aftermath` ({crashes, dead, strangers, complaints, health, healthy}); None without any.

    held: what each daemon held before and after; logged: how much it wrote. The memory that an OSD reports as `cached`
    does not count. Limits: `MOST_GROWN`, and `most` from kept passes: `KIND WHAT` -> [limit, why]. unread: sentences on
    what could not be looked at; they do not affect the verdict.

    Also `unseen` ({blame, what, detail}): looking at the cluster failed; blame: `ceph`, or else the lab.
    """
    records = data_of(events, "aftermath")
    unseen = data_of(events, "unseen")
    if not records and not unseen:
        return None
    return merge([*map(_unseen, unseen), *([_seen(records)] if records else [])])


def _unseen(data: Mapping[str, Any]) -> Verdict:
    outcome = Outcome.FAIL if data["blame"] == "ceph" else Outcome.INCONCLUSIVE
    reason = f"the cluster could not be examined after the scenario: {data['what']}"
    return Verdict(outcome, reason, tuple(data["detail"].splitlines()))


def _seen(records: Sequence[Mapping[str, Any]]) -> Verdict:
    wrong: list[str] = []
    for data in records:
        wrong += [f"crash record: {crash}" for crash in data["crashes"]]
        wrong += [f"{name} is dead although nobody stopped it" for name in data["dead"]]
        wrong += data.get("strangers", [])
        lines = [
            f"unexpected line {_PLACES.get(line.get('level'), _LOG)} {line['daemon']}: {line['text']}"
            for line in data["complaints"]
        ]
        wrong += lines[:_SHOWN]
        if len(lines) > _SHOWN:
            wrong.append(how_many(len(lines) - _SHOWN, "more unexpected log line"))
        wrong += _grown(data)
        if not data["healthy"]:
            wrong.append(f"the cluster did not become healthy again: {data['health']}")
    if not wrong:
        clean = "no crash, no dead daemon, no unexpected log line, and the cluster is healthy"
        unread = tuple(f"not looked at: {sentence}" for data in records for sentence in data.get("unread", []))
        return Verdict(Outcome.PASS, clean, unread)
    return Verdict(Outcome.FAIL, f"afterwards: {first_of(wrong)}", tuple(wrong))


def _grown(data: Mapping[str, Any]) -> Iterator[str]:
    """One sentence for each daemon that holds or wrote clearly more than a healthy one does."""
    for name, what, more in _growths(data):
        kept, why = data.get("most", {}).get(f"{_kind(name)} {what}", (MOST_GROWN[what], "the limit of every scenario"))
        if more > (most := min(kept, MOST_GROWN[what])):
            yield f"{name} has {more} {_UNITS[what]} more than before the scenario, at most {most} allowed: {why}"


def largest_growth(data: Mapping[str, Any]) -> dict[str, int]:
    """The largest growth of any daemon of each kind: `KIND WHAT`, e.g. `osd resident` -> bytes or count, at least 0."""
    largest: dict[str, int] = {}
    for name, what, more in _growths(data):
        key = f"{_kind(name)} {what}"
        largest[key] = max(largest.get(key, 0), more)
    return largest


def _growths(data: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    """(daemon, what grew, by how much) for each daemon of an aftermath."""
    for name, held in data.get("held", {}).items():
        for what, (before, after) in held.items():
            if what in MOST_GROWN:
                yield name, what, after - before - (held.get("cached", (0, 0))[1] if what == "resident" else 0)
    for name, written in data.get("logged", {}).items():
        yield name, "logged", written


def _kind(daemon: str) -> str:
    return daemon.partition(".")[0]
