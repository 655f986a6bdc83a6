"""The Markdown of a run, and its annotations: nothing in a reason can break out of its place."""

import re
from dataclasses import replace
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cephlab.lab.archive.archive import Archive, Ending, Record, read_archive
from cephlab.lab.report.page import DOUBTED, overall, render_report
from cephlab.lab.report.summary import markdown, notices
from tests.lab.archive.test_archive import add, write
from tests.lab.report.test_headline import SETS
from tests.lab.report.test_headline import archive as made

WORST_FIRST = (Ending.FAIL, Ending.ERROR, Ending.INCONCLUSIVE, Ending.SKIP, Ending.PASS)
ODD = "osd.0: got `1` | <b>wanted</b>\nand 50%"


def archive(tmp_path: Path) -> Archive:
    writer = write(tmp_path)
    add(writer, Record("demo.fine", "demo", Ending.PASS, "12 observations hold", seconds=4.25))
    add(writer, Record("demo.missing", "demo", Ending.SKIP, "no disks"))
    add(writer, Record("demo.open[a=1,b=2]", "demo", Ending.INCONCLUSIVE, "too little load"))
    add(writer, Record("demo.wrong", "demo", Ending.FAIL, ODD))
    writer.seal(render_report)
    return read_archive(tmp_path)


def test_the_worst_comes_first_and_what_passed_is_folded_away(tmp_path: Path) -> None:
    lines = markdown(archive(tmp_path)).splitlines()
    assert lines[0] == "## cephlab: 1 failed, 1 inconclusive, 1 skipped, 1 passed"
    table = [line for line in lines if line.startswith("| ")]
    assert [line.split(" | ")[1] for line in table[1:4]] == ["demo.wrong", "demo.open[a=1,b=2]", "demo.missing"]
    assert "<details><summary>1 passed</summary>" in lines
    assert lines.index("| demo.fine | 4.2 s |") > lines.index("<details><summary>1 passed</summary>")


def test_a_reason_stays_in_its_cell(tmp_path: Path) -> None:
    wrong = next(line for line in markdown(archive(tmp_path)).splitlines() if "demo.wrong" in line)
    assert wrong == "| failed | demo.wrong | osd.0: got '1' \\| &lt;b>wanted&lt;/b> and 50% |"


def test_annotations_are_one_line_each_and_escaped(tmp_path: Path) -> None:
    assert list(notices(archive(tmp_path))) == [
        "::warning title=demo.open[a=1%2Cb=2]::inconclusive: too little load",
        "::error title=demo.wrong::failed: osd.0: got `1` | <b>wanted</b>%0Aand 50%25",
    ]


def test_what_was_cut_short_is_named(tmp_path: Path) -> None:
    writer = write(tmp_path, manifest={"state": "interrupted", "planned": ["demo.fine", "demo.left"]})
    add(writer, Record("demo.fine", "demo", Ending.PASS, "12 observations hold", seconds=4.25))
    writer.seal(render_report)
    assert "**This run was cut short; 1 scenario has no verdict: demo.left.**" in markdown(read_archive(tmp_path))


@pytest.mark.parametrize("unexpected", [(), ("demo.skip: no engine",)])
@pytest.mark.parametrize("trouble", [(), ("n1 is\nsilent", "n2 too")])
@pytest.mark.parametrize("altered", [(), ("history.jsonl differs",)])
def test_a_run_that_fails_always_has_an_error_and_no_other_run_has(
    altered: tuple[str, ...], trouble: tuple[str, ...], unexpected: tuple[str, ...]
) -> None:
    """Whatever made it fail; the page has the same headline as the report."""
    for endings in SETS:
        for quarantined in ((), (Ending.FAIL,)):
            changes = {"trouble": trouble, "unexpected_skips": unexpected}
            ended = replace(made(endings, quarantined=quarantined, **changes), altered=altered)
            ending, sentences = overall(ended)
            said = [*notices(ended)]
            levels = [line.split(" ")[0] for line in said]
            assert ("::error" in levels) is (ending in (Ending.FAIL, Ending.ERROR))
            assert levels.count("::warning") == endings.count(Ending.INCONCLUSIVE)
            assert levels.count("::notice") == len(quarantined)
            assert (
                len(said)
                == len(set(said))
                == sum(map(len, (altered, trouble, unexpected, quarantined)))
                + len({*endings} - {Ending.PASS, Ending.SKIP})
            )
            lines = markdown(ended).splitlines()
            assert lines[2] == f"**{sentences}**"
            rows = [line.split(" | ") for line in lines if line.startswith("| ")]
            words = [row[0].removeprefix("| ") for row in rows]
            shown = [ending.word for ending in WORST_FIRST if ending in endings and ending is not Ending.PASS]
            assert [word for word in words if word in {each.word for each in Ending}] == shown
            assert words.count("failed, quarantined") == len(quarantined)
            assert [line for line in lines if line.startswith("- ")][: len([*altered, *trouble, *unexpected])] == [
                *(f"- {DOUBTED}: {line}" for line in altered),
                *(f"- Skipped, although it must run in this tier: {line}" for line in unexpected),
                *(f"- The lab itself had an error: {' '.join(text.split())}" for text in trouble),
            ]


def test_each_reason_to_fail_has_its_title() -> None:
    ended = made((Ending.PASS,), trouble=["n1 is silent"], unexpected_skips=["demo.skip: no engine"])
    assert [*notices(ended)] == [
        "::error title=Skipped%2C although it must run in this tier::demo.skip: no engine",
        "::error title=The lab itself had an error::n1 is silent",
    ]


@pytest.mark.slow
@given(st.text(st.sampled_from("a|\\<`'%:, \n\r"), max_size=400), st.text(min_size=1, max_size=20))
@example("\\|", "a:b,c")
@settings(deadline=None, max_examples=60)
def test_no_text_breaks_out_of_its_line_or_cell(reason: str, name: str) -> None:
    records = (Record(name, "demo", Ending.FAIL, reason), Record(name, "demo", Ending.PASS, reason, seconds=1.0))
    ended = replace(made(()), records=records)
    lines = markdown(ended).split("\n")
    plain = markdown(made((Ending.FAIL, Ending.PASS))).split("\n")
    assert len(lines) == len(plain)
    for line, like in zip(lines, plain, strict=True):
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == like.count("|")
    [said] = notices(ended)
    assert not set("\r\n") & set(said)
    title, _, text = said.removeprefix("::error title=").partition("::")
    assert (unquote(title), unquote(text)) == (name, f"failed: {reason}")
    assert not set(":,") & set(title)


def test_a_page_has_what_was_run_who_signed_it_and_what_is_lost() -> None:
    ended = replace(made((Ending.PASS,), state="interrupted"), signer="ann`s key", lost=("history.jsonl ends early",))
    lines = markdown(ended).splitlines()
    facts = [line for line in lines if line.startswith("- ")]
    assert facts == [
        "- tier: `quick`",
        "- lab: `auto`",
        "- release: `reef`",
        "- seed: `7`",
        "- state: `interrupted`",
        "- signed by: `ann's key`",
        "- history.jsonl ends early",
    ]
    assert markdown(made(())).splitlines()[0] == "## cephlab: nothing ran"
    assert "signed by" not in markdown(made((Ending.PASS,)))
    running = markdown(made((), state="running", process=""))
    assert "- state: `killed`" in running, "its process is gone"


def test_a_long_reason_is_cut_in_a_cell_and_whole_in_an_annotation() -> None:
    ended = replace(made(()), records=(Record("demo.x", "demo", Ending.ERROR, "w" * 301),))
    assert f"| {Ending.ERROR.word} | demo.x | {'w' * 300} |" in markdown(ended).splitlines()
    assert [*notices(ended)] == [f"::error title=demo.x::{Ending.ERROR.word}: {'w' * 301}"]


def test_tables_have_their_heads_only_where_they_have_rows() -> None:
    odd, fine = (markdown(made((ending,))) for ending in (Ending.FAIL, Ending.PASS))
    assert ("| verdict |" in odd, "<details>" in odd) == (True, False)
    assert ("| verdict |" in fine, "<details>" in fine) == (False, True)


def test_parts_of_the_page_have_empty_lines_between_them() -> None:
    """Without one, Markdown takes a table or a list for a part of the text before it."""
    ended = made((Ending.FAIL, Ending.PASS), unexpected_skips=["demo.skip: no engine"])
    assert markdown(replace(ended, lost=("one event is lost",))).split("\n") == [
        "## cephlab: 1 failed, 1 passed",
        "",
        "**At least one scenario failed.**",
        "",
        "- Skipped, although it must run in this tier: demo.skip: no engine",
        "",
        "- tier: `quick`",
        "- lab: `auto`",
        "- release: `reef`",
        "- seed: `7`",
        "- state: `complete`",
        "",
        "| verdict | scenario | why |",
        "|---|---|---|",
        "| failed | demo.fail | r |",
        "",
        "<details><summary>1 passed</summary>",
        "",
        "| scenario | took |",
        "|---|---|",
        "| demo.pass | 0.0 s |",
        "",
        "</details>",
        "",
        "- one event is lost",
    ]
