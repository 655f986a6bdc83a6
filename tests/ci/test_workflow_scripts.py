"""The scripts that workflows and the action call, with a stand-in for the command."""

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from tests.planted import PLANTED
from tests.planted.__main__ import dealt

CI = Path(__file__).resolve().parents[2] / "ci"


@pytest.fixture
def command(tmp_path: Path) -> Path:
    """A `cephlab` that prints its arguments."""
    path = tmp_path / "cephlab"
    path.write_text('#!/bin/sh\necho "$@"\n')
    path.chmod(0o755)
    return path


def run(script: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": "/usr/bin:/bin", **env}
    return subprocess.run(
        [str(CI / script), *args], env=environment, capture_output=True, text=True, timeout=20, check=False
    )


def test_a_summary_goes_to_the_runs_page_and_annotations_to_the_log(tmp_path: Path, command: Path) -> None:
    (tmp_path / "manifest.json").touch()
    page = tmp_path / "page.md"
    done = run("summary", str(tmp_path), CEPHLAB=str(command), GITHUB_STEP_SUMMARY=str(page))
    assert (done.returncode, done.stdout) == (0, f"summary --annotate {tmp_path}\n")
    assert page.read_text() == f"summary {tmp_path}\n"


def test_a_gate_that_never_began_is_said(tmp_path: Path, command: Path) -> None:
    done = run("summary", str(tmp_path / "none"), CEPHLAB=str(command))
    assert done.returncode == 0
    assert done.stdout.startswith("::warning title=cephlab::there is no archive")


def test_a_summary_of_nothing_is_wrong_use() -> None:
    done = run("summary")
    assert (done.returncode, done.stderr) == (2, "usage: ci/summary DIR\n")


def test_what_moved_since_the_lock_goes_to_the_runs_page(tmp_path: Path, command: Path) -> None:
    page = tmp_path / "page.md"
    done = run("moved", "reef", CEPHLAB=str(command), GITHUB_STEP_SUMMARY=str(page))
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert f"image diff {CI}/locks/reef.toml\n" in page.read_text()
    none = run("moved", "hammer", CEPHLAB=str(command), GITHUB_STEP_SUMMARY=str(tmp_path / "none"))
    assert none.stdout.startswith("::warning title=cephlab::there is no lock for hammer")
    assert not (tmp_path / "none").exists()
    assert run("moved").returncode == 2


def test_scheduled_gates_take_the_days_packages_and_say_at_a_red_end_what_moved() -> None:
    workflows = CI.parent / ".github/workflows"
    jobs = (workflows / "scheduled.yml").read_text().split("uses: ./.github/workflows/gate.yml")
    assert ["fresh: true" in job.partition("\n\n")[0] for job in jobs[1:]] == [True] * 10
    steps = (workflows / "gate.yml").read_text().split("\n      - ")
    (cache,) = [step for step in steps if "actions/cache@" in step]
    (moved,) = [step for step in steps if "ci/moved" in step]
    assert "if: ${{ !inputs.fresh }}" in cache
    assert "if: failure() && inputs.fresh" in moved


def test_the_attempts_of_every_scheduled_gate_are_awaited_before_they_are_counted() -> None:
    jobs = yaml.safe_load((CI.parent / ".github/workflows/scheduled.yml").read_text())["jobs"]
    gates = {name for name, job in jobs.items() if str(job.get("uses", "")).endswith("/gate.yml")}
    assert {"nightly", "emulated", "weekly-root"} <= gates
    assert set(jobs["track"]["needs"]) == gates


def test_every_planted_defect_is_tried_each_week_with_what_it_needs() -> None:
    jobs = yaml.safe_load((CI.parent / ".github/workflows/scheduled.yml").read_text())["jobs"]
    planted, weekly = jobs["planted"], jobs["weekly"]
    assert planted["if"] == weekly["if"]
    assert planted["strategy"]["fail-fast"] is False, "one part that is red must not end the others"
    shards = planted["strategy"]["matrix"]["shard"]
    assert sorted(each.name for shard in shards for each in dealt(PLANTED, shard)) == sorted(
        each.name for each in PLANTED
    )
    commands = [step["run"] for step in planted["steps"] if "run" in step]
    assert commands[0] == "ci/bootstrap install"
    assert commands[-1] == '.venv/bin/tox run -e planted -- --named --shard "$SHARD"'
    assert planted["steps"][-1]["env"] == {"SHARD": "${{ matrix.shard }}"}
    prepared = {command.removeprefix("ci/bootstrap ") for command in commands[1:-1]}
    assert prepared == {each.provider for each in PLANTED} - {"local"}


def test_the_actions_images_are_kept_by_the_recipes_that_it_was_used_with(tmp_path: Path) -> None:
    script = tmp_path / "ci" / "action" / "recipes"
    script.parent.mkdir(parents=True)
    shutil.copy(CI / "action" / "recipes", script)
    shutil.copytree(CI.parent / "lab" / "images", tmp_path / "lab" / "images")

    def key() -> str:
        done = run(str(script))
        assert re.fullmatch(r"recipes=[0-9a-f]{64}\n", done.stdout), done.stderr
        return done.stdout

    first = key()
    (tmp_path / "lab" / "images" / "__pycache__").mkdir(exist_ok=True)
    (tmp_path / "lab" / "images" / "__pycache__" / "made.pyc").touch()
    assert key() == first
    (tmp_path / "lab" / "images" / "shim" / "new.c").touch()
    assert key() != first
    text = (CI / "action" / "action.yml").read_text()
    release = f"${{{{ inputs.release || (inputs.spec && 'spec') || '{DEFAULT_RELEASE}' }}}}"
    assert f"key: images-{release}-${{{{ runner.arch }}}}-${{{{ steps.recipes.outputs.recipes }}}}" in text


COUNTERFEIT = """#!/bin/sh
# A cluster of one object, which is a file. Its pool must have an application.
store="$(dirname "$0")/object"
[ "$1" = ceph ] && echo "$*" >>"$store.told" && exit 0
grep -qx "ceph action osd pool application enable try [a-z]*" "$store.told" || exit 9
[ "$*" != "${*#shell action n0 -- rados --conf c --keyring k --pool try }" ] || exit 9
for file in "$@"; do :; done
case "$*" in
  *" put object "*) cp "$file" "$store" ;;
  *" get object "*) %s ;;
esac
"""


@pytest.mark.parametrize(("get", "code"), [('cp "$store" "$file"', 0), ('echo other >"$file"', 1), ("exit 3", 3)])
def test_what_the_action_handed_on_is_tried_by_an_object(tmp_path: Path, get: str, code: int) -> None:
    cephlab = tmp_path / "cephlab"
    cephlab.write_text(COUNTERFEIT % get)
    cephlab.chmod(0o755)
    assert run("action/try", CEPHLAB=str(cephlab), NAME="action", CONF="c", KEYRING="k").returncode == code


def test_the_actions_steps_call_programs_that_are_there_and_lxd_is_set_up_where_asked_for() -> None:
    folder = CI / "action"
    text = (folder / "action.yml").read_text()
    called = [(folder / name).resolve() for name in re.findall(r'"\$GITHUB_ACTION_PATH/([^"]+)"', text)]
    assert [path.name for path in called] == ["check", "bootstrap", "lxd-runner", "recipes", "up"]
    assert all(os.access(path, os.X_OK) for path in called)
    assert "if: startsWith(inputs.lab, 'lxd') && runner.environment == 'github-hosted'" in text


@pytest.fixture
def machine(tmp_path: Path) -> dict[str, str]:
    """A home and stand-ins for what ci/microceph calls beside cephlab; all of them write what they were given."""
    folder = tmp_path / "bin"
    folder.mkdir()
    programs = {
        "sudo": 'case "$*" in *"osd stat") echo "$STAT";; *) echo "$@";; esac',
        "ssh-keygen": 'while [ "$1" != -f ]; do shift; done; echo "ed25519 KEY cephlab-ci-microceph" >"$2.pub"',
        "ssh-keyscan": "echo scanned",
        "cephlab": 'echo "$@"; [ "$1" = up ] && cat "$5" >"$HOME/inventory.toml"; true',
        "sleep": "true",
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    return {"PATH": path, "HOME": str(tmp_path), "CEPHLAB": str(folder / "cephlab"), "ADDRESS": "10.1.0.4"}


def test_microceph_is_raised_awaited_and_taken_away(tmp_path: Path, machine: dict[str, str]) -> None:
    done = run("microceph", "squid", **machine, STAT="3 osds: 3 up (since 4s), 3 in (since 6s); epoch: e9")
    assert done.returncode == 0, done.stderr
    lines = [line for line in done.stdout.splitlines() if not line.startswith("systemctl")]
    assert lines[0].startswith("up --deploy microceph --inventory ")
    assert lines[0].endswith("--release squid --name microceph --osds-per-node 3 --disk-size 4GiB")
    assert lines[-1] == "down microceph"
    described = tomllib.loads((tmp_path / "inventory.toml").read_text())
    assert described["hosts"] == [{"name": "n0", "address": "10.1.0.4", "roles": ["mon", "mgr", "osd", "client"]}]
    assert (tmp_path / ".ssh" / "authorized_keys").read_text() == ""


@pytest.mark.slow
def test_microceph_whose_osds_do_not_come_fails_and_is_taken_away(machine: dict[str, str]) -> None:
    done = run("microceph", "squid", **machine, STAT="3 osds: 2 up (since 4s), 3 in (since 6s); epoch: e9")
    assert done.returncode == 1
    assert "::error title=microceph::3 OSDs were not up within 180 s: 3 osds: 2 up" in done.stdout
    assert done.stdout.splitlines()[-1] == "down microceph"


@pytest.mark.parametrize("scan", ["exit 1", "true"])
def test_microceph_without_an_sshd_is_said_and_leaves_no_key(
    tmp_path: Path, machine: dict[str, str], scan: str
) -> None:
    (tmp_path / "bin" / "ssh-keyscan").write_text(f"#!/bin/sh\n{scan}\n")
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "authorized_keys").write_text("ed25519 OTHER somebody\n")
    done = run("microceph", "squid", **machine, TMPDIR=str(tmp_path / "bin"))
    assert done.returncode == 1
    assert "::error title=microceph::no sshd answers at 10.1.0.4" in done.stdout
    assert "up --deploy" not in done.stdout
    assert "down" not in done.stdout
    assert (tmp_path / ".ssh" / "authorized_keys").read_text() == "ed25519 OTHER somebody\n"
    assert not list((tmp_path / "bin").glob("tmp.*"))


HOSTED = {"GITHUB_ACTIONS": "true", "RUNNER_ENVIRONMENT": "github-hosted"}


@pytest.mark.parametrize(
    "said",
    [{}, {**HOSTED, "RUNNER_ENVIRONMENT": "self-hosted"}, {"GITHUB_ACTIONS": "true"}, {**HOSTED, "GITHUB_ACTIONS": ""}],
)
def test_a_machine_that_is_no_hosted_runner_keeps_its_network_and_its_lxd(
    machine: dict[str, str], said: dict[str, str]
) -> None:
    snap = Path(machine["CEPHLAB"]).with_name("snap")
    snap.write_text("#!/bin/sh\nexit 0\n")
    snap.chmod(0o755)
    done = run("lxd-runner", **machine, **said, LXD_CHANNEL="6/stable")
    assert (done.returncode, done.stdout) == (3, "")
    assert "not a hosted GitHub runner" in done.stderr
    assert "ci/bootstrap lxd" in done.stderr


def test_lxd_of_a_runner_is_installed_once_and_its_socket_is_the_users(machine: dict[str, str]) -> None:
    snap = Path(machine["CEPHLAB"]).with_name("snap")
    snap.write_text("#!/bin/sh\nexit 1\n")
    snap.chmod(0o755)
    machine |= HOSTED
    done = run("lxd-runner", **machine, CEPHLAB_HOME="/cache")
    assert done.returncode == 0, done.stderr
    installed, group, *rest = done.stdout.splitlines()
    assert installed == "snap install lxd --channel 5.21/stable"
    assert group.startswith("snap set lxd daemon.group=")
    assert rest == ["snap restart lxd.daemon", "iptables -P FORWARD ACCEPT", f"env CEPHLAB_HOME=/cache {CI / 'lxd'}"]
    snap.write_text("#!/bin/sh\nexit 0\n")
    assert "snap install" not in run("lxd-runner", **machine).stdout
    chosen = run("lxd-runner", **machine, LXD_CHANNEL="6/stable")
    assert chosen.stdout.splitlines()[0] == "snap remove --purge lxd"


def test_the_archives_of_a_run_are_added_and_the_rates_published(tmp_path: Path, command: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / "archives" / name).mkdir(parents=True)
        (tmp_path / "archives" / name / "manifest.json").touch()
    page = tmp_path / "page.md"
    done = run("track", str(tmp_path / "archives"), "kept", CEPHLAB=str(command), GITHUB_STEP_SUMMARY=str(page))
    assert done.returncode == 0, done.stderr
    assert page.read_text() == f"track {tmp_path}/archives/a {tmp_path}/archives/b --kept kept\n"
    none = run("track", str(tmp_path / "none"), "kept", CEPHLAB=str(command))
    assert "::warning title=cephlab::there is no archive" in none.stdout


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A repository of ci/lock alone, with an uv that writes what it was given."""
    (tmp_path / "ci").mkdir()
    (tmp_path / "pyproject.toml").write_text('[build-system]\nrequires = ["setuptools>=80"]\n')
    (tmp_path / "ci" / "lock").write_text((CI / "lock").read_text())
    (tmp_path / "ci" / "lock").chmod(0o755)
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / ".venv" / "bin" / "python").symlink_to(sys.executable)
    uv = tmp_path / ".venv" / "bin" / "uv"
    uv.write_text('#!/bin/sh\necho "$*"; cat\n')
    uv.chmod(0o755)
    return tmp_path


@pytest.mark.slow
def test_a_lock_has_hashes_and_the_build_backend_too(checkout: Path) -> None:
    done = run(str(checkout / "ci" / "lock"), "--upgrade")
    assert done.returncode == 0, done.stderr
    whole, backend, gate, same = done.stdout.splitlines()
    assert whole.endswith(" --extra dev --extra docs --upgrade")
    assert gate.endswith(" --constraints ci/requirements.lock")
    for command, name in ((whole, "requirements"), (gate, "gate")):
        assert command.startswith("pip compile pyproject.toml - ")
        assert f" --output-file ci/{name}.lock " in command
        assert {"--generate-hashes", "--only-binary"} < set(command.split())
    assert backend == same == "setuptools>=80"


def test_a_lock_without_its_tool_says_where_that_comes_from(checkout: Path) -> None:
    (checkout / ".venv" / "bin" / "uv").unlink()
    done = run(str(checkout / "ci" / "lock"))
    assert (done.returncode, "ci/bootstrap install" in done.stderr) == (3, True)
    assert run(str(checkout / "ci" / "lock"), "--newer").returncode == 2


def test_costs_are_compared_with_the_baseline_that_a_cache_kept(tmp_path: Path, command: Path) -> None:
    page = tmp_path / "page.md"
    where = {"CEPHLAB": str(command), "CEPHLAB_HOME": str(tmp_path), "GITHUB_STEP_SUMMARY": str(page)}
    first = run("costs", "reef", **where)
    assert first.stdout.startswith("::warning title=cephlab::there is no baseline for reef")
    assert "measure --release reef --op randwrite:4k --op randread:4k --save-baseline" in first.stdout
    (tmp_path / "demands" / "baseline").mkdir(parents=True)
    (tmp_path / "demands" / "baseline" / "reef-x86_64-abc.json").touch()
    assert run("costs", "reef", **where).returncode == 0
    assert page.read_text().endswith("--beside baseline --budget 224\n")
    assert run("costs").returncode == 2


@pytest.mark.parametrize(("status", "ends"), [(0, 0), (1, 1), (3, 3), (6, 0)])
def test_a_regression_ends_the_job_and_what_cannot_be_told_does_not(
    tmp_path: Path, command: Path, status: int, ends: int
) -> None:
    command.write_text(f"#!/bin/sh\nexit {status}\n")
    (tmp_path / "demands" / "baseline").mkdir(parents=True)
    (tmp_path / "demands" / "baseline" / "reef-x86_64-abc.json").touch()
    done = run("costs", "reef", CEPHLAB=str(command), CEPHLAB_HOME=str(tmp_path))
    assert done.returncode == ends
    assert ("could not be compared" in done.stdout) is (status == 6)
