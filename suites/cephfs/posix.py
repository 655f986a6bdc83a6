"""pjdfstest on a kernel mount in a guest: POSIX rules on names, modes, owners, times and links, case by case."""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from cephlab.lab.base.errors import SpecError, Unavailable
from cephlab.lab.base.given import user_path
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.gtest import Case, CaseResult, GtestRun, run_cases
from cephlab.suites.cephfs.mounted import GUESTS, mounted
from cephlab.suites.cephfs.stand import EXPECTED, requests, wait_active
from cephlab.suites.cephtests.programs import read_known, record_run

PROGRAM, VERSION = "pjdfstest", "0.2.2"
VARIABLE = "CEPHLAB_PJDFSTEST"
LIST = Path(__file__).with_name("known-posix.toml")
INSTALL = (
    'RUSTFLAGS="-C target-feature=+crt-static" '
    f"cargo install {PROGRAM} --version {VERSION} --target x86_64-unknown-linux-gnu --root DIR"
)
"""Static, because a guest has a different C library. Without --target, cargo's macros would be static and not build."""
LIMIT_S = 600.0
"""Time limit of the program, before patience."""
SETTINGS = """
[features]
posix_fallocate = {}
rename_ctime = {}
utime_now = {}
utimensat = {}
[settings]
naptime = 0.1
allow_remount = false
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
"""These settings leave out cases that mount the file system read-only, and cases on FreeBSD flags and birth times."""

WHICH = b'#!/bin/sh\ncommand -v "$@"\n'
"""Two cases call `which` to find a program, and images do not have `which`."""

_CASE = re.compile(r"^(\w+(?:::\w+)+) +(ok|skipped|FAILED)$", re.MULTILINE)
_TOTAL = re.compile(r"^Summary: .* (\d+) total$", re.MULTILINE)
_SAID = {"ok": CaseResult.PASS, "skipped": CaseResult.SKIP, "FAILED": CaseResult.FAIL}


def program() -> Path:
    """The program that VARIABLE names. Unavailable, with the install command, if unset; SpecError if it is no file."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        hint = f"{INSTALL}; export {VARIABLE}=DIR/bin/{PROGRAM}"
        raise Unavailable(f"{PROGRAM} is not installed", f"{VARIABLE} is not set", hint)
    path = user_path(named).absolute()
    if not path.is_file():
        raise SpecError(f"{VARIABLE} does not name a file", f"got {named!r}, wanted the program {PROGRAM}")
    return path


def parse(text: str) -> Iterator[Case]:
    """Each case in the output, as `call.rest/of/its/name`. The text up to the next case is its message."""
    matches = [*_CASE.finditer(text)]
    ends = [*(case.start() for case in matches[1:]), text.find("\nSummary: ")]
    for case, end in zip(matches, ends, strict=False):
        call, _, rest = case[1].partition("::")
        message = text[case.end() : end if end > 0 else None].strip()
        yield Case(f"{call}.{rest.replace('::', '/')}", _SAID[case[2]], message=message)


def total(text: str) -> int:
    """The number of cases that the program reports; 0 if it did not run to its end."""
    match = _TOTAL.search(text)
    return int(match[1]) if match else 0


def run(stage: Stage) -> None:
    """Run every case of pjdfstest on a mount on the client machine, as root, which switches to two ordinary users."""
    cluster, host, source = stage.cluster, stage.cluster.hosts["c0"], program()
    [server] = wait_active(cluster)
    there, settings = host.directory / PROGRAM, host.directory / "pjdfstest.toml"
    host.push(source, there, mode=0o755)
    host.push(SETTINGS.encode(), settings)
    host.push(WHICH, host.directory / "posix" / "which", mode=0o755)
    env = {"PATH": f"{host.directory}/posix:/usr/sbin:/usr/bin:/sbin:/bin"}
    before = requests(cluster, server)
    with mounted(cluster, host) as folder:
        argv = [str(there), "-c", str(settings), "-p", str(folder)]
        code, stdout, tail = run_cases(host, argv, env=env, timeout_s=LIMIT_S * cluster.patience)
        handled = requests(cluster, server) - before
    cases = tuple(parse(stdout))
    record_run(stage.recorder, GtestRun(PROGRAM, cases, code, tail), read_known(LIST))
    stage.recorder.observe(f"cases that {PROGRAM} counts", got=total(stdout), wanted=len(cases))
    stage.recorder.witness("requests to the metadata server", got=handled, least=len(cases))


SCENARIOS = (
    Scenario(
        name="cephfs.pjdfstest",
        goal="A kernel mount of CephFS in a guest behaves as POSIX specifies.",
        method=f"Runs every case of the {PROGRAM} that {VARIABLE} names on the mount, and judges each separately.",
        run=run,
        check="gtest",
        tier=Tier.FULL,
        topology=GUESTS,
        needs=frozenset({Capability.OWN_KERNEL}),
        sees=("gtest_program",),
        expects=EXPECTED,
    ),
)
