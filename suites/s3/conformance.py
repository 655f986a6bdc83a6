"""Runs ceph/s3-tests from a checkout of the user's, at the commit for the release; each case has its own result."""

import os
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabBroken, SpecError, Unavailable
from cephlab.lab.base.given import user_path
from cephlab.lab.base.runs import write_private
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import Gateway, user_keys
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.cephtests.programs import read_known, reason_for
from cephlab.suites.object.stand import GATEWAYS, gateways
from cephlab.suites.s3.stand import LIST

VARIABLE = "CEPHLAB_S3TESTS"
SELECT_VARIABLE = "CEPHLAB_S3TESTS_SELECT"
PROGRAM = "s3-tests"
SOURCE = "https://github.com/ceph/s3-tests"


@dataclass(frozen=True)
class Revision:
    """The s3-tests for a release of Ceph. folder: where the checkout has the cases."""

    commit: str
    folder: str = "s3tests_boto3/functional"


REVISIONS = {
    "pacific": Revision("02257a74091ccd434926c12bac968b31551287fb"),
    "reef": Revision("1fb622547bb4671e26d27e32b4cc68c8c07985e7"),
    "tentacle": Revision("f552c59b1bb5caf7de229e0ebba4700be90987f7", "s3tests/functional"),
}
"""The heads of the branches ceph-pacific, ceph-reef and ceph-tentacle."""
FILES = ("test_s3.py", "test_headers.py")
WITHOUT = (
    "fails_on_rgw",
    "lifecycle_expiration",
    "lifecycle_transition",
    "cloud_transition",
    "test_of_sts",
    "webidentity_test",
    "fails_with_subdomain",
    "sse_s3",
    "encryption",
)
"""Markers of cases that are known to fail, or that need what the lab lacks: whole days, clouds, STS, a key server."""
USERS = {"s3 main": "s3tests", "s3 alt": "s3tests-alt", "s3 tenant": "testx$s3tests-tenant", "iam": "s3tests-iam"}
"""Section of the s3-tests configuration -> user."""
LIMIT_S = 1800.0
"""For a native gateway, before patience: 501 cases took 616 s on two cores that also had other work."""
LEAST_CASES = 400
"""Of the files in FILES; 464 ran for reef."""
_ASK_S = 60.0
_PASSED, _FAILED = 0, 1
"""Exit codes of pytest when cases ran. Any other code means that pytest could not start or could not collect cases."""


def checkout(release: str) -> Path:
    """The checkout that VARIABLE names. Unavailable, with a hint, if there is none; SpecError for another commit."""
    if release not in REVISIONS:
        raise Unavailable(f"no commit of ceph/s3-tests is known for {release}", "", f"known: {', '.join(REVISIONS)}")
    commit = REVISIONS[release].commit
    named = os.environ.get(VARIABLE, "")
    if not named:
        hint = f"git clone {SOURCE} DIR; git -C DIR checkout {commit}; python3 -m venv DIR/venv; "
        hint += f"DIR/venv/bin/python -m pip install -r DIR/requirements.txt; export {VARIABLE}=DIR"
        raise Unavailable("there is no checkout of ceph/s3-tests", f"{VARIABLE} is not set", hint)
    folder = user_path(named).absolute()
    head = process.run(["git", "-C", str(folder), "rev-parse", "HEAD"], timeout_s=_ASK_S, check=False).stdout.strip()
    if head != commit:
        got = f"{VARIABLE}: got {head or 'no checkout'}, wanted: {commit} for {release}"
        raise SpecError(f"{folder} is not the ceph/s3-tests of {release}", got, f"git -C {folder} checkout {commit}")
    changed = process.run(["git", "-C", str(folder), "status", "--porcelain", "-uno"], timeout_s=_ASK_S).stdout
    if changed:
        raise SpecError(f"{folder} has local changes", changed, f"git -C {folder} stash")
    if not python_of(folder).exists():
        hint = f"python3 -m venv {folder}/venv; {folder}/venv/bin/python -m pip install -r {folder}/requirements.txt"
        raise Unavailable("ceph/s3-tests has no virtual environment", f"{python_of(folder)} does not exist", hint)
    return folder


def python_of(folder: Path) -> Path:
    """The checkout's own Python, because s3-tests needs an older botocore than the lab."""
    return folder / "venv" / "bin" / "python"


def configuration(cluster: Cluster, door: Gateway) -> str:
    """The configuration file of s3-tests. Creates the users that it names."""
    host, _, port = door.address.partition(":")
    lines = ["[DEFAULT]", f"host = {host}", f"port = {port}", "is_secure = False", "ssl_verify = False"]
    lines += ["[fixtures]", "bucket prefix = s3tests-{random}-"]
    for section, user in USERS.items():
        keys = user_keys(cluster, user, f"{user.rpartition('$')[2]}@lab.example")
        tenant, _, ident = user.rpartition("$")
        lines += [f"[{section}]", f"display_name = {user}", f"user_id = {ident}", "api_name = default"]
        lines += [f"email = {ident}@lab.example", *([f"tenant = {tenant}"] if tenant else [])]
        lines += [f"access_key = {keys['access_key']}", f"secret_key = {keys['secret_key']}"]
    return "\n".join(lines) + "\n"


def run(stage: Stage, arch: Arch) -> None:
    """Run the cases of s3-tests on this machine against the gateway of one architecture."""
    cluster = stage.cluster
    revision, folder = REVISIONS.get(cluster.spec.release), checkout(cluster.spec.release)
    assert revision is not None
    conf, report = stage.scratch / "s3tests.conf", stage.scratch / "s3tests.xml"
    write_private(conf, configuration(cluster, gateways(cluster)[arch]).encode())
    argv = [str(python_of(folder)), "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    argv += ["-m", " and ".join(f"not {marker}" for marker in WITHOUT)]
    if select := os.environ.get(SELECT_VARIABLE):
        argv += ["-k", select]
    argv += [f"{revision.folder}/{file}" for file in FILES]
    try:
        ended = process.run(
            argv,
            timeout_s=LIMIT_S * cluster.patience,
            env={"S3TEST_CONF": str(conf), "PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": "1"},
            cwd=folder,
            check=False,
        )
    finally:
        conf.unlink()  # it contains keys
    tail = "\n".join(ended.stdout.splitlines()[-20:])
    if ended.code not in (_PASSED, _FAILED):
        raise LabBroken(
            f"ceph/s3-tests could not run: pytest ended with {ended.code}", f"{tail}\n{ended.stderr[-1000:]}"
        )
    least = 1 if select else LEAST_CASES
    record(stage.recorder, report.read_bytes() if report.exists() else b"", ended.code, tail, least=least)


def record(recorder: Recorder, report: bytes, code: int, tail: str, *, least: int) -> None:
    """Record each case of a JUnit report, with the reason why it cannot pass if that is known.

    least: how many cases have to run, so that a pass says something.
    """
    known = read_known(LIST)
    cases = list(parse(report)) if report else []
    for name, result, seconds, message in cases:
        why = reason_for(known, PROGRAM, name)
        recorder.record(
            "gtest_case", program=PROGRAM, case=name, result=result, seconds=seconds, message=message, known=why
        )
    recorder.record("gtest_program", program=PROGRAM, code=code, ending=f"it ended with status {code}", tail=tail)
    cases_run = [name for name, result, _, _ in cases if result != "skip"]
    recorder.witness("cases of ceph/s3-tests that ran", got=len(cases_run), least=least)
    recorder.observe("pytest wrote its report", got=bool(report), wanted=True)


def parse(report: bytes) -> Iterator[tuple[str, str, float, str]]:
    """Name, result, seconds and message of each case. The report comes from pytest, so its XML is trusted."""
    for case in ET.fromstring(report).iter("testcase"):
        name = f"{case.get('classname', '').rpartition('.')[2]}.{case.get('name', '')}"
        trouble = next((part for part in case if part.tag in ("failure", "error", "skipped")), None)
        result = "pass" if trouble is None else "skip" if trouble.tag == "skipped" else "fail"
        yield name, result, float(case.get("time", 0)), "" if trouble is None else str(trouble.get("message", ""))


TOPOLOGY = Topology(
    native=GATEWAYS.native,
    foreign=GATEWAYS.foreign,
    services=GATEWAYS.services,
    options=(("rgw_crypt_require_ssl", "false"), ("rgw_lc_debug_interval", "10")),
)

SCENARIOS = tuple(
    Scenario(
        name=f"s3.conformance[gateway={arch}]",
        goal="The gateway passes the cases of ceph/s3-tests for its release.",
        method=f"Runs the checkout that {VARIABLE} names against the gateway, and judges each case separately.",
        run=partial(run, arch=arch),
        check="gtest",
        tier=Tier.FULL,
        topology=TOPOLOGY,
        needs=frozenset({Capability.THIS_MACHINE}),
        sees=("gtest_program",),
    )
    for arch in Arch
)
