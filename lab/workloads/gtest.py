"""Runs GoogleTest programs on a host and returns one result for every case, even after a crash or a hang."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Any

from cephlab.lab.base.errors import CommandTimedOut, output_of
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.providers.host import Host, preloading

_LIST_S = 60.0
_TAIL_LINES = 20
_DISABLED = "DISABLED_"
_LINE = re.compile(r"^\[ +(RUN|OK|FAILED|SKIPPED) +\] ([\w./]+)(?:,.*?)?(?: \((\d+) ms\))?$", re.MULTILINE)


class CaseResult(StrEnum):
    """How a case ended. UNFINISHED: the program stopped while the case ran; MISSING: before the case began."""

    PASS = "pass"
    FAIL = "fail"
    SKIP = "skip"
    UNFINISHED = "unfinished"
    MISSING = "missing"


_SAID = {"OK": CaseResult.PASS, "FAILED": CaseResult.FAIL, "SKIPPED": CaseResult.SKIP, "RUN": CaseResult.UNFINISHED}


@dataclass(frozen=True)
class Case:
    """One case as `Suite.name`. message: why it did not pass."""

    name: str
    result: CaseResult
    seconds: float = 0.0
    message: str = ""


@dataclass(frozen=True)
class GtestRun:
    """One run of a program. code: its exit status, None if it was killed after its timeout; tail: its last lines."""

    program: str
    cases: tuple[Case, ...]
    code: int | None
    tail: str

    @property
    def ending(self) -> str:
        """How the program ended, as text for a reader."""
        if self.code is None:
            return "it did not end in time"
        return f"it was killed by signal {-self.code}" if self.code < 0 else f"it ended with status {self.code}"


def list_cases(host: Host, program: str, *, env: Mapping[str, str], select: str) -> tuple[str, ...]:
    """Names of the cases that a filter selects, without disabled ones. Some programs need a cluster even for this."""
    argv = [program, "--gtest_list_tests", f"--gtest_filter={select}"]
    return parse_list(run_tool(host, argv, env=env, timeout_s=_LIST_S).stdout)


def parse_list(text: str) -> tuple[str, ...]:
    """Parse the output of --gtest_list_tests: a suite name and a dot, below it the indented names of its cases."""
    names, suite = [], ""
    for line in text.splitlines():
        name = line.partition("#")[0].rstrip()
        if re.fullmatch(r"[\w/]+\.", name):
            suite = name
        elif suite and re.fullmatch(r"  [\w/]+", name):
            names.append(suite + name.strip())
    return tuple(name for name in names if _DISABLED not in name)


@dataclass(frozen=True)
class Call:
    """How a program is started. report: path on the host for its results, removed afterwards; select: a filter."""

    program: str
    report: PurePosixPath
    timeout_s: float
    env: Mapping[str, str]
    select: str = "*"
    preload: Sequence[PurePosixPath] = ()
    cwd: PurePosixPath | None = None


def run_gtest(host: Host, call: Call, wanted: Sequence[str]) -> GtestRun:
    """Run the cases of a program and account for every wanted one."""
    argv, report = [call.program, f"--gtest_filter={call.select}", f"--gtest_output=json:{call.report}"], call.report
    host.remove(report)
    env = preloading(call.preload, call.env)
    code, stdout, tail = run_cases(host, argv, env=env, timeout_s=call.timeout_s, cwd=call.cwd)
    # The report is written only at the end. After a crash there is only the output of the program.
    written = host.read(report) if host.exists(report) else b""
    host.remove(report)
    cases = parse_report(written) if written else parse_output(stdout)
    run = GtestRun(call.program, tuple(cases), code, tail)
    return replace(run, cases=tuple(_accounted(run, wanted)))


def run_cases(
    host: Host, argv: Sequence[str], *, env: Mapping[str, str], timeout_s: float, cwd: PurePosixPath | None = None
) -> tuple[int | None, str, str]:
    """Run a program of many cases. Returns (exit status, None after the timeout; stdout; last lines of all output)."""
    code: int | None
    try:
        ended = host.run(argv, env=env, timeout_s=timeout_s, check=False, cwd=cwd)
        code, stdout, stderr = ended.code, ended.stdout, ended.stderr
    except CommandTimedOut as error:
        code, stdout, stderr = None, error.stdout, error.stderr
    return code, stdout, "\n".join([*stdout.splitlines(), *stderr.splitlines()][-_TAIL_LINES:])


@output_of("a test program")
def parse_report(text: bytes) -> list[Case]:
    """Parse a report of --gtest_output=json; cases that were not selected are left out."""
    suites: list[dict[str, Any]] = json.loads(text)["testsuites"]
    return [
        _reported(suite["name"], case) for suite in suites for case in suite["testsuite"] if case["status"] == "RUN"
    ]


def _reported(suite: str, case: Mapping[str, Any]) -> Case:
    failures = [str(failure["failure"]).strip() for failure in case.get("failures", ())]
    result = CaseResult.FAIL if failures else CaseResult.SKIP if case["result"] == "SKIPPED" else CaseResult.PASS
    return Case(f"{suite}.{case['name']}", result, float(case["time"].rstrip("s")), "\n".join(failures))


def parse_output(text: str) -> list[Case]:
    """Parse the progress that a program printed: the last line about each case counts."""
    cases: dict[str, Case] = {}
    for status, name, milliseconds in _LINE.findall(text):
        # The summary at the end names failed cases once more, without a time.
        if status == "RUN" or (name in cases and milliseconds):
            cases[name] = Case(name, _SAID[status], int(milliseconds or 0) / 1000)
    return list(cases.values())


def _accounted(run: GtestRun, wanted: Sequence[str]) -> Iterator[Case]:
    known = {case.name: case for case in run.cases}
    for name in dict.fromkeys([*wanted, *known]):
        case = known.get(name)
        if case is None:
            yield Case(name, CaseResult.MISSING, message=f"it was not reached: {run.ending}")
        elif case.result is CaseResult.UNFINISHED:
            yield replace(case, message=f"it was running when {run.program} stopped: {run.ending}")
        elif case.result is CaseResult.FAIL and not case.message:
            yield replace(case, message=f"there is no report: {run.ending}")
        else:
            yield case
