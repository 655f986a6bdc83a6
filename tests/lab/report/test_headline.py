"""The headline of a report says of every run what its exit code says, and whether it was cut short."""

import os
from itertools import chain, combinations
from pathlib import Path
from typing import Any

import pytest

from cephlab.fixtures.session import code_of
from cephlab.lab.archive.archive import Archive, Ending, Record
from cephlab.lab.base.births import identity_of
from cephlab.lab.report.page import DOUBTED, overall
from tests.lab.archive.test_archive import MANIFEST

CODES = {Ending.PASS: 0, Ending.FAIL: 1, Ending.ERROR: 3, Ending.INCONCLUSIVE: 6}
SETS = [*chain.from_iterable(combinations(Ending, count) for count in range(len(Ending) + 1))]
CUT = "This run was cut short; the rest is not known."


def archive(endings: tuple[Ending, ...], *, quarantined: tuple[Ending, ...] = (), **changes: Any) -> Archive:
    records = [Record(f"demo.{ending}", "demo", ending, "r") for ending in endings]
    records += [Record(f"demo.q-{ending}", "demo", ending, "r", quarantined="known") for ending in quarantined]
    return Archive(Path("/none"), {**MANIFEST, **changes}, tuple(records), ())


@pytest.mark.parametrize("state", ["complete", "interrupted", "running", "killed"])
@pytest.mark.parametrize("unexpected", [False, True])
@pytest.mark.parametrize("trouble", [False, True])
def test_it_is_as_bad_as_the_exit_code_also_of_a_run_that_was_cut_short(
    trouble: bool, unexpected: bool, state: str
) -> None:
    """What failed before a run was cut short has failed; without a failure it shows nothing of the rest."""
    for endings in SETS:
        for quarantined in ((), (Ending.FAIL,)):
            ended = archive(
                endings,
                quarantined=quarantined,
                state=state,
                trouble=["n1 is silent"] if trouble else [],
                unexpected_skips=["demo.skip: no engine"] if unexpected else [],
            )
            ending, sentences = overall(ended)
            code = code_of(ended.records, trouble=trouble, unexpected=unexpected)
            assert CODES[Ending(ending)] == (code if state == "complete" else code or CODES[Ending.INCONCLUSIVE])
            assert sentences.endswith(CUT) is (state != "complete")


@pytest.mark.parametrize(
    ("endings", "changes", "sentences"),
    [
        ((Ending.PASS, Ending.SKIP), {}, "Everything that ran passed."),
        ((Ending.PASS, Ending.FAIL), {}, "At least one scenario failed."),
        ((Ending.PASS, Ending.FAIL), {"state": "interrupted"}, f"At least one scenario failed. {CUT}"),
        ((Ending.PASS,), {"state": "interrupted"}, CUT),
        ((), {}, "No scenario reached a verdict."),
    ],
)
def test_it_says_what_decided_it(endings: tuple[Ending, ...], changes: dict[str, Any], sentences: str) -> None:
    assert overall(archive(endings, **changes))[1] == sentences


def test_a_run_whose_process_is_at_work_was_not_cut_short() -> None:
    own = identity_of(os.getpid())
    assert overall(archive((Ending.PASS,), state="running", process=own))[1] == (
        "This run is not over yet; the rest is not known."
    )
    assert overall(archive((Ending.PASS,), state="running", process=f"{own}1"))[1] == CUT


def test_an_archive_that_was_changed_has_no_verdict_of_its_own() -> None:
    changed = archive((Ending.FAIL,))
    doubtful = Archive(changed.directory, changed.manifest, changed.records, (), altered=("history.jsonl differs",))
    assert overall(doubtful) == (Ending.ERROR, f"{DOUBTED}: the archive is not consistent.")
