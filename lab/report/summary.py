"""An archive as a page of Markdown and as GitHub annotations: what a hosted run shows in addition to its log."""

from collections import Counter
from collections.abc import Iterator

from cephlab.lab.archive.archive import Archive, Ending, Record, state_of
from cephlab.lab.report.page import DOUBTED, overall, seconds_text

_WORST_FIRST = (Ending.FAIL, Ending.ERROR, Ending.INCONCLUSIVE, Ending.SKIP, Ending.PASS)
_LEVELS = {Ending.FAIL: "error", Ending.ERROR: "error", Ending.INCONCLUSIVE: "warning"}
_MAX_REASON = 300
_SKIPPED = "Skipped, although it must run in this tier"
_TROUBLE = "The lab itself had an error"


def markdown(archive: Archive) -> str:
    """The counts, the report's headline, then a table of what did not pass, then what passed, folded."""
    counts = Counter(record.ending for record in archive.records)
    total = ", ".join(f"{counts[ending]} {ending.word}" for ending in _WORST_FIRST if counts[ending]) or "nothing ran"
    lines = [f"## cephlab: {total}", "", f"**{_cell(overall(archive)[1])}**", ""]
    if apart := [f"- {title}: {_cell(text)}" for title, text in _apart(archive)]:
        lines += [*apart, ""]
    lines += [*_facts(archive), ""]
    odd = [record for ending in _WORST_FIRST[:-1] for record in archive.records if record.ending is ending]
    fine = [record for record in archive.records if record.ending is Ending.PASS]
    if odd:
        lines += ["| verdict | scenario | why |", "|---|---|---|"]
        lines += [f"| {_word(record)} | {_cell(record.scenario)} | {_cell(record.reason)} |" for record in odd]
        lines.append("")
    if fine:
        lines += [f"<details><summary>{len(fine)} passed</summary>", "", "| scenario | took |", "|---|---|"]
        lines += [f"| {_cell(record.scenario)} | {seconds_text(record.seconds)} |" for record in fine]
        lines += ["", "</details>", ""]
    lines += [f"- {lost}" for lost in archive.lost]
    return "\n".join(lines)


def notices(archive: Archive) -> Iterator[str]:
    """Workflow commands of GitHub Actions, one for each scenario that did not pass and was not skipped.

    And one for whatever else makes the run fail, so that a job that fails always has an error.

    https://docs.github.com/en/actions/reference/workflow-commands-for-github-actions
    """
    for title, text in _apart(archive):
        yield f"::error title={_property(title)}::{_data(text)}"
    for record in archive.records:
        level = _LEVELS.get(record.ending)
        if level is not None and record.quarantined is not None:
            level = "notice"
        if level is not None:
            yield f"::{level} title={_property(record.scenario)}::{_data(f'{_word(record)}: {record.reason}')}"


def _apart(archive: Archive) -> Iterator[tuple[str, str]]:
    """What makes a run fail apart from its scenarios: a title and the text of each."""
    manifest = archive.manifest
    yield from ((DOUBTED, doubt) for doubt in archive.doubts)
    yield from ((_SKIPPED, line) for line in manifest["unexpected_skips"])
    yield from ((_TROUBLE, text) for text in manifest["trouble"])


def _word(record: Record) -> str:
    return record.ending.word if record.quarantined is None else f"{record.ending.word}, quarantined"


def _facts(archive: Archive) -> Iterator[str]:
    for key in ("tier", "lab", "release", "seed", "state"):
        if key in archive.manifest:
            yield f"- {key}: `{state_of(archive.manifest) if key == 'state' else archive.manifest[key]}`"
    if archive.signer:
        yield f"- signed by: `{_cell(archive.signer)}`"


def _cell(text: str) -> str:
    """Text, escaped so that it cannot end its cell or become markup."""
    first = " ".join(text.split())[:_MAX_REASON]
    return first.replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
