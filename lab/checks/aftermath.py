"""What a scenario left behind: crash records, dead daemons, unexpected log lines, a cluster that is not healthy."""

from collections.abc import Mapping, Sequence
from typing import Any

from cephlab.lab.checks.verdict import Outcome, Verdict, merge
from cephlab.lab.history.history import Event

_SHOWN = 10
_LOG = "in the log of"
_PLACES = {"output": "in the output of", "tool": "in the output of the command"}


def aftermath(events: Sequence[Event]) -> Verdict | None:
    """Judge events of kind `aftermath` ({crashes, dead, strangers, complaints, health, healthy}); None without any.

    Also `unseen` ({blame, what, detail}): looking at the cluster failed, by the fault of Ceph or of the lab.
    """
    seen = [event.data for event in events if event.kind == "aftermath"]
    unseen = [event.data for event in events if event.kind == "unseen"]
    if not seen and not unseen:
        return None
    return merge([*map(_unseen, unseen), *([_seen(seen)] if seen else [])])


def _unseen(data: Mapping[str, Any]) -> Verdict:
    outcome = Outcome.FAIL if data["blame"] == "ceph" else Outcome.INCONCLUSIVE
    reason = f"what it left behind could not be looked at: {data['what']}"
    return Verdict(outcome, reason, tuple(data["detail"].splitlines()))


def _seen(seen: Sequence[Mapping[str, Any]]) -> Verdict:
    wrong: list[str] = []
    for data in seen:
        wrong += [f"crash record: {crash}" for crash in data["crashes"]]
        wrong += [f"{name} is dead although nobody stopped it" for name in data["dead"]]
        wrong += data.get("strangers", [])
        lines = [
            f"unexpected line {_PLACES.get(line.get('level'), _LOG)} {line['daemon']}: {line['text']}"
            for line in data["complaints"]
        ]
        wrong += lines[:_SHOWN]
        if len(lines) > _SHOWN:
            wrong.append(f"{len(lines) - _SHOWN} more unexpected log lines")
        if not data["healthy"]:
            wrong.append(f"the cluster did not become healthy again: {data['health']}")
    if not wrong:
        return Verdict(Outcome.PASS, "it left no crash, no dead daemon, no unexpected log line and a healthy cluster")
    more = f" (and {len(wrong) - 1} more)" if len(wrong) > 1 else ""
    return Verdict(Outcome.FAIL, f"afterwards: {wrong[0]}{more}", tuple(wrong))
