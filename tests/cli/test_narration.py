"""What a gate shows while it runs: how far it is, and how long it may take yet."""

import io

import pytest
from rich.console import Console

from cephlab.cli import narration, output
from cephlab.cli.narration import Narration
from cephlab.cli.output import Output
from cephlab.lab.archive.archive import Ending, Record


class Time:
    """In place of the clock. now_s: seconds."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    made = Time()
    monkeypatch.setattr(narration, "SYSTEM", made)
    return made


def passed(number: int) -> Record:
    return Record(f"demo.{number}", "demo", Ending.PASS, "held", seconds=1.0)


def test_the_rest_is_told_by_the_pace_so_far(time: Time) -> None:
    said = io.StringIO()
    shown = Narration(Console(file=said, width=200))
    time.now_s = 5.0  # what collecting took is no pace
    shown.pytest_cephlab_planned(10, 7, "again", "archive")
    reached = [shown.reached()]
    for number in range(10):
        time.now_s += 60.0
        shown.pytest_cephlab_begin(f"demo.{number}")
        shown.pytest_cephlab_verdict(passed(number))
        reached.append(shown.reached())
    assert reached[:3] == ["0/10", "1/10", "2/10"]
    assert reached[3] == "3/10, about 7 min left"
    assert reached[8] == "8/10, about 2 min left"
    assert reached[9] == "9/10, about 60 s left"
    assert reached[10] == "10/10"
    assert "begin demo.4 (4/10, about 8 min left)" in said.getvalue()


def test_on_a_narrow_terminal_lines_are_broken_between_words_and_commands_not_at_all(time: Time) -> None:
    said = io.StringIO()
    shown = Narration(Console(file=said, width=40, force_terminal=True, color_system=None))
    shown.pytest_cephlab_planned(1, 7, "cephlab gate --tier quick --lab local --release reef", "/archive")
    shown.pytest_cephlab_progress("three words and then somewhat more than one line holds")
    lines = said.getvalue().splitlines()
    assert "   0.0 s  replay: cephlab gate --tier quick --lab local --release reef" in lines
    broken = ["   0.0 s  three words and then somewhat", "          more than one line holds"]
    assert [line.rstrip() for line in lines[-2:]] == broken


def test_lines_of_a_result_wrap_between_words_but_a_command_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    command = "replay: cephlab gate --tier quick --lab local"
    Output(as_json=False).lines("", "  demo.one: less load than was asked for", command, whole="cephlab ")
    shown = ["", "  demo.one: less load than was", "    asked for", command]
    assert capsys.readouterr().out.splitlines() == shown


def test_notes_and_warnings_on_a_terminal_are_indented_where_they_continue(monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(
        output, "console", lambda *, error: Console(file=said, width=30, force_terminal=True, color_system=None)
    )
    Output(as_json=False).note("not known: what the network [of the lab] takes\nfor one round")
    Output(as_json=False).warn("two monitors tolerate no more failures than one")
    assert said.getvalue().splitlines() == [
        "not known: what the network",
        "  [of the lab] takes",
        "for one round",
        "warning: two monitors tolerate",
        "  no more failures than one",
    ]


@pytest.mark.parametrize("width", [80, 120])
def test_the_figures_of_the_live_line_are_whole_however_long_the_name_is(time: Time, width: int) -> None:
    said = io.StringIO()
    shown = Narration(Console(file=said, width=width, force_terminal=True, color_system=None))
    shown.pytest_cephlab_planned(10, 7, "again", "archive")
    for number in range(3):
        time.now_s += 60.0
        shown.pytest_cephlab_verdict(passed(number))
    shown.pytest_cephlab_begin("interop.objects[client=x86_64,primary=aarch64,pool=replicated]")
    said.truncate(0)
    with shown.bar:
        pass
    live = next(line for line in said.getvalue().splitlines() if "interop.objects" in line)
    assert all(
        whole in live
        for whole in ("interop.objects[client=x86_64,", "… ", "3/10, about 7 min left", "3 pass", "0:00:00")
    ), live
