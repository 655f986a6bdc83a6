"""The bench's look for leftovers finds what names the home, and only that."""

from pathlib import Path
from typing import Any

import pytest

from tests.bench.leftovers import Leftovers, Unseen, files, look, loops, names, processes
from tests.bench.reliability import KILLED, PLANS, amiss, due, fate, plan_of, read_ledger, summary, usual_s

HOME = Path("/srv/lab")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("overlay /srv/lab/runs/r1/merged overlay rw", True),
        ("CEPHLAB_RUN_HOME=/srv/lab\0PATH=/bin", True),
        ("tmpfs /srv/lab tmpfs rw", True),
        ("x /srv/lab/images/abc/root overlay", False),
        ("x /srv/laboratory/runs/r1", False),
        ("x /srv/other", False),
    ],
)
def test_what_names_a_home(text: str, named: bool) -> None:
    assert names(text, HOME) is named


def process(proc: Path, pid: int, environment: str, command: str) -> None:
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "environ").write_text(environment)
    (folder / "cmdline").write_text(command)


def test_processes_of_the_home_by_environment_and_command(tmp_path: Path) -> None:
    process(tmp_path, 1, "CEPHLAB_RUN_HOME=/srv/lab\0A=b\0", "ceph-osd\0-f")
    process(tmp_path, 2, "A=b\0", "python3\0/srv/lab/runs/r1/nodes/n0/agent.py")
    process(tmp_path, 3, "CEPHLAB_RUN_HOME=/srv/lab2\0", "ceph-osd\0")
    process(tmp_path, 4, "CEPHLAB_HOME=/srv/lab\0", "bench\0")
    (tmp_path / "5").mkdir()  # it ended while it was looked at
    assert [line.split()[0] for line in processes(HOME, tmp_path)] == ["1", "2"]


def test_loops_over_files_of_ours(tmp_path: Path) -> None:
    for number, file in enumerate(
        ("/srv/lab/runs/r1/d", "/var/v/cephlab-r2.disks/x", "/var/v/cephlab-old.disks/x (deleted)", "/home/me/disk")
    ):
        (tmp_path / f"loop{number}/loop").mkdir(parents=True)
        (tmp_path / f"loop{number}/loop/backing_file").write_text(file + "\n")
    devices = [line.split()[0] for line in loops(HOME, ("cephlab-r2.disks",), tmp_path)]
    assert devices == ["loop0", "loop1", "loop2"]


def test_files_but_for_what_is_to_stay(tmp_path: Path) -> None:
    home, temporary = tmp_path / "home", tmp_path / "tmp"
    for path in (home / "runs/r1/disks", home / "images/abc", home / "archive/a", temporary / "pytest-of-me"):
        path.mkdir(parents=True)
    (home / "runs/.subnets.lock").touch()
    (home / "runs/r1/disks/d").touch()
    (temporary / "cephlab-0-r1").touch()
    paths = [Path(line).relative_to(tmp_path).as_posix() for line in files(home, temporary)]
    assert paths == ["home/runs/r1", "home/runs/r1/disks", "home/runs/r1/disks/d", "tmp/cephlab-0-r1"]


def test_the_figure_tells_what_was_left_and_of_which_run() -> None:
    clean = Leftovers()
    dirty = Leftovers(loops=("loop0 /x",))
    lines = [
        {"number": 0, "plan": "a", "killed": False, "code": 0, "prune": 0},
        {"number": 1, "plan": "b", "killed": True, "code": -9, "prune": 0},
    ]
    made = [
        {**line, "before_prune": left.counts(), "left": left.counts(), "lines": left.lines()}
        for line, left in zip(lines, (clean, dirty), strict=True)
    ]
    said = "\n".join(summary(made))
    assert "2 runs, 1 of them killed; 1 of the other 1 passed, 0 hung" in said
    assert "1 loops" in said
    assert "run 1 (b): code -9, prune 0, ['loops: loop0 /x']" in said
    assert "run 0" not in said


def test_every_plan_is_killed_now_and_then() -> None:
    lines: list[dict[str, Any]] = []
    for number in range(100):
        lines.append(line_of(number, *((5.0, KILLED) if due(lines) else (None, 0))))
    killed = [line["number"] for line in lines if line["killed"]]
    assert len(killed) == 33
    assert {plan_of(number).name for number in killed} == {plan.name for plan in PLANS}
    assert {plan_of(number).name for number in range(len(PLANS))} == {plan.name for plan in PLANS}


def test_the_next_run_is_aimed_at_when_one_was_over_too_soon() -> None:
    lines = [line_of(0, None, 0), line_of(1, None, 0)]
    assert due(lines)
    lines.append(line_of(2, 50.0, 0))  # its moment never came
    assert due(lines)
    lines.append(line_of(3, 5.0, KILLED))
    assert not due(lines)


def test_how_long_a_run_takes_is_read_off_the_last_ones() -> None:
    lines = [line_of(number, None, 0, seconds) for number, seconds in enumerate((300, 290, 280, 50, 40, 30))]
    assert usual_s(PLANS[0], lines) == 50


def test_a_ledger_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_ledger(tmp_path / "none.jsonl") == []


def line_of(number: int, kill_after: float | None, code: int, seconds: float = 600.0) -> dict[str, Any]:
    nothing = Leftovers().counts()
    known = {"number": number, "plan": PLANS[0].name, "code": code, "seconds": seconds, "prune": 0}
    return {**known, **fate(kill_after, code), "before_prune": nothing, "left": nothing, "lines": []}


def test_a_gate_that_hangs_is_no_deliberate_kill() -> None:
    lines = [
        line_of(0, None, KILLED),
        line_of(1, 2.5, KILLED, 2.5),
        line_of(2, None, 0, 40.0),
        line_of(3, 30.0, 0, 20.0),
    ]
    assert [(line["killed"], line["hung"]) for line in lines] == [
        (False, True),
        (True, False),
        (False, False),
        (False, False),  # it had ended before its moment came
    ]
    said = "\n".join(summary(lines))
    assert "4 runs, 1 of them killed; 2 of the other 3 passed, 1 hung" in said
    assert f"run 0 ({PLANS[0].name}): hung for 600.0 s" in said
    assert [amiss(line) for line in lines] == [True, False, False, False]
    assert usual_s(PLANS[0], lines) == 30.0  # of the two that came to their end


def test_a_gate_that_failed_is_told_with_its_code() -> None:
    line = line_of(0, None, 6)
    assert amiss(line)
    assert "code 6" in "\n".join(summary([line]))


def program(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(f"#!/bin/sh\n{script}\n")
    (folder / name).chmod(0o755)


def test_an_engine_that_does_not_answer_is_not_nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    program(tmp_path / "bin", "docker", "echo no engine here >&2; exit 1")
    with pytest.raises(Unseen, match="ended with 1: no engine here"):
        look(tmp_path / "home", tmp_path / "tmp")


def test_rules_that_may_not_be_read_are_not_nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    program(tmp_path / "bin", "iptables", "echo only root may >&2; exit 4")
    with pytest.raises(Unseen, match="only root may"):
        look(tmp_path / "home", tmp_path / "tmp")


def test_a_program_may_be_absent_only_where_nothing_uses_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert look(tmp_path / "home", tmp_path / "tmp").containers == ()
    with pytest.raises(Unseen, match="not installed: docker"):
        look(tmp_path / "home", tmp_path / "tmp", {"docker"})
