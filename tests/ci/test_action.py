"""The actions for other projects, run step by step in a job, with a stand-in for the command."""

import json
import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.ci.job import ROOT, Job

pytestmark = pytest.mark.slow

ACTION = ROOT / "ci" / "action"
SECRETS = ("AQBzyAFnAAAAABAAnWZ0J8T1s2Cw0vK5m3n4pQ==", "ACCESSKEY0123456789A", "secret/of/the/s3/user/0123456789abcdef")
HTTP = "http://127.9.0.1:7480"

STAND_IN = """#!/bin/sh
# Takes the place of `cephlab`: writes down how it was called and answers as the files beside it say.
here="$(dirname "$0")"
printf '%s\\n' "$@" >>"$here/calls"
echo "CEPHLAB_HOME=$CEPHLAB_HOME" >>"$here/homes"
cat "$here/$1.said" 2>/dev/null
if [ "$1" = logs ]; then mkdir -p "$4" && echo "a line" >"$4/n0-osd.0.log"; fi
exit "$(cat "$here/$1.code" 2>/dev/null || echo 0)"
"""


@dataclass
class World:
    """A folder with the stand-in and the actions, whose other programs do nothing. job: what a runner has of it."""

    folder: Path
    job: Job

    def says(self, command: str, value: object, code: int = 0) -> None:
        """What the stand-in answers to a command, and its exit code."""
        (self.folder / f"{command}.said").write_text(json.dumps(value) if value is not None else "")
        (self.folder / f"{command}.code").write_text(str(code))

    @property
    def calls(self) -> list[str]:
        """Every argument that the command has been given."""
        path = self.folder / "calls"
        return path.read_text().splitlines() if path.exists() else []

    def use(self, **inputs: str) -> dict[str, str]:
        """Run the action that raises a cluster; returns its outputs."""
        given = {name.replace("_", "-"): value for name, value in inputs.items()}
        return self.job.run([{"id": "it", "uses": "up", "with": given}]).get("it", {})


def made(folder: Path, **changes: object) -> dict[str, object]:
    """What `up --json` prints, with files beside the stand-in that hold the secrets."""
    (folder / "keyring").write_text(f"[client.admin]\n\tkey = {SECRETS[0]}\n")
    doors: dict[str, Any] = {
        "endpoints": {"rgw.n1.a": {"http": HTTP, "https": "https://127.9.0.1:7580"}},
        "balancers": {},
    }
    (folder / "s3.json").write_text(json.dumps({**doors, "access_key": SECRETS[1], "secret_key": SECRETS[2]}))
    return {
        "name": "action",
        "fsid": "1b4e",
        "conf": "/run/c/ceph.conf",
        "keyring": str(folder / "keyring"),
        "mons": ["127.9.0.1:3300", "127.9.0.2:3300"],
        "s3": str(folder / "s3.json"),
        "metrics": "http://127.9.0.3:9090",
        **changes,
    }


@pytest.fixture
def world(tmp_path: Path) -> World:
    command = tmp_path / "cephlab"
    command.write_text(STAND_IN)
    command.chmod(0o755)
    actions = tmp_path / "ci" / "action"
    (actions / "down").mkdir(parents=True)
    for name in ("action.yml", "check", "up", "down/action.yml", "down/down"):
        (actions / name).write_text((ACTION / name).read_text())
        (actions / name).chmod(0o755)
    for name in ("../bootstrap", "../lxd-runner", "recipes"):
        (actions / name).write_text("#!/bin/sh\n")
        (actions / name).chmod(0o755)
    temp = tmp_path / "temp"
    temp.mkdir()
    env = {"PATH": "/usr/bin:/bin", "CEPHLAB": str(command)}
    world = World(tmp_path, Job(temp, env, {"up": actions, "down": actions / "down"}))
    world.says("up", made(tmp_path))
    world.says("ls", {"clusters": [{"name": "other"}, {"name": "action"}]})
    return world


def inputs_of(path: Path) -> dict[str, Any]:
    return dict(yaml.safe_load(path.read_text())["inputs"])


GIVEN: Mapping[str, tuple[str, str]] = {
    "nodes": ("aarch64:3", "--nodes=aarch64:3"),
    "release": ("squid", "--release=squid"),
    "osds-per-node": ("2", "--osds-per-node=2"),
    "gateways": ("1", "--gateways=1"),
    "metrics": ("true", "--metrics"),
    "spec": ("spec.toml", "--spec=spec.toml"),
    "lab": ("container", "--lab=container"),
    "name": ("mine", "--name=mine"),
}
"""Input -> a value, and the option of `cephlab up` that it becomes."""


def test_every_input_reaches_the_command(world: World) -> None:
    assert GIVEN.keys() == inputs_of(ACTION / "action.yml").keys()
    (world.job.temp / "spec.toml").touch()
    world.job.run([{"uses": "up", "with": {name: value for name, (value, _) in GIVEN.items()}}])
    assert not world.job.failed, world.job.said
    assert sorted(world.calls) == sorted(["up", "--json", *(option for _, option in GIVEN.values())])


def test_inputs_that_are_left_out_leave_the_choice_to_the_command(world: World) -> None:
    world.use()
    assert world.calls == ["up", "--lab=auto", "--name=action", "--nodes=x86_64:2,aarch64:1", "--json"]


def test_a_spec_file_alone_describes_the_cluster(world: World) -> None:
    (world.job.temp / "spec.toml").touch()
    world.use(spec="spec.toml")
    assert world.calls == ["up", "--lab=auto", "--name=action", "--spec=spec.toml", "--json"]


def test_every_output_that_the_action_names_is_set(world: World) -> None:
    assert world.use() == {
        "name": "action",
        "fsid": "1b4e",
        "mons": "127.9.0.1:3300,127.9.0.2:3300",
        "conf": "/run/c/ceph.conf",
        "keyring": str(world.folder / "keyring"),
        "s3": str(world.folder / "s3.json"),
        "s3-endpoint": HTTP,
        "metrics": "http://127.9.0.3:9090",
    }


def test_what_a_cluster_does_not_have_is_an_empty_output(world: World) -> None:
    world.says("up", made(world.folder, s3=None, metrics=None))
    outputs = world.use()
    assert (outputs["s3"], outputs["s3-endpoint"], outputs["metrics"]) == ("", "", "")
    assert outputs["fsid"] == "1b4e"


def test_a_load_balancer_is_the_endpoint_before_its_gateways(world: World) -> None:
    keys = json.loads((world.folder / "s3.json").read_text())
    keys["balancers"] = {"haproxy.n0": {"http": "http://127.9.0.9:8080"}}
    (world.folder / "s3.json").write_text(json.dumps(keys))
    assert world.use()["s3-endpoint"] == "http://127.9.0.9:8080"


def test_keys_are_masked_before_anything_else_and_never_printed(world: World) -> None:
    outputs = world.use()
    lines = world.job.said.splitlines()
    assert lines[:3] == [f"::add-mask::{secret}" for secret in SECRETS]
    rest = "\n".join([*lines[3:], *outputs.values()])
    assert not [secret for secret in SECRETS if secret in rest]


def test_a_mask_begins_its_line_on_a_terminal_too(world: World) -> None:
    """Progress on a terminal leaves its last line open, and a mask in the midst of a line would print the key."""
    text = STAND_IN.replace('cat "$here', '[ -t 2 ] && printf "a line of progress" >&2\ncat "$here', 1)
    (world.folder / "cephlab").write_text(text)
    ours, theirs = os.openpty()
    by_hand(world, theirs, GITHUB_ACTIONS="true", GITHUB_OUTPUT=str(world.folder / "outputs"))
    os.close(theirs)
    with os.fdopen(ours, "rb") as terminal:
        said = terminal.read1().decode()
    assert [line for line in said.splitlines() if SECRETS[0] in line] == [f"::add-mask::{SECRETS[0]}"]


def by_hand(world: World, sink: int, **env: str) -> None:
    """Run the step itself, with what it prints in a file."""
    given = {"NODES": "", "RELEASE": "", "OSDS_PER_NODE": "", "GATEWAYS": "", "METRICS": "false", "SPEC": ""}
    environment = {**world.job.env, **given, "LAB": "auto", "NAME": "action", **env}
    subprocess.run([str(ACTION / "up")], env=environment, stdout=sink, stderr=sink, timeout=20, check=True)


def test_by_hand_no_key_is_printed_at_all(world: World) -> None:
    with (world.folder / "said").open("w") as sink:
        by_hand(world, sink.fileno())
    said = (world.folder / "said").read_text()
    assert "fsid=1b4e" in said
    assert not [secret for secret in SECRETS if secret in said]


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("osds_per_node", "two", "input osds-per-node: 'two' is not a number of OSDs, 1 or more"),
        ("osds_per_node", "0", "input osds-per-node: '0' is not a number of OSDs, 1 or more"),
        ("gateways", "-1", "input gateways: '-1' is not a number of gateways, 1 or more; leave it out for none"),
        ("metrics", "yes", "input metrics: 'yes' is not true or false"),
        ("spec", "none.toml", "input spec: 'none.toml' is not a file of this checkout"),
        ("name", "Mine", "input name: 'Mine' is not 1 to 31 of the characters a-z, 0-9 and -"),
        ("name", "a\n::add-mask::b", "input name: 'a ::add-mask::b' is not 1 to 31"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_before_anything_is_installed(
    world: World, name: str, value: str, wanted: str
) -> None:
    world.use(**{name: value})
    assert world.job.failed
    assert f"::error title=cephlab::{wanted}" in world.job.said
    assert world.job.ran == ["Refuse inputs that cannot be meant"]
    assert world.calls == []


def test_what_the_command_refuses_is_an_annotation_and_ends_the_job(world: World) -> None:
    error = {"what": "unknown release 'ref'", "detail": "known: reef\nsquid", "hint": "did you mean reef?"}
    world.says("up", {"error": error}, code=2)
    outputs = world.use(release="ref")
    assert world.job.failed
    assert "::error title=cephlab::unknown release 'ref'. known: reef%0Asquid. did you mean reef?\n" in world.job.said
    assert set(outputs.values()) == {""}


@pytest.mark.parametrize("code", [0, 2, 3])
def test_a_command_that_answers_nothing_fails_the_step(world: World, code: int) -> None:
    world.says("up", None, code=code)
    world.use()
    assert world.job.failed


PAGE = (ROOT / "docs" / "action.md").read_text()


def example() -> list[dict[str, Any]]:
    """The steps of the page's workflow."""
    (block,) = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    return list(yaml.safe_load(block)["jobs"]["test"]["steps"])


def of_page(world: World, test: str) -> Job:
    """The job of the page, with this in place of the user's own test."""
    folders = {f"OWNER/cephlab/ci/{name}": path for name, path in (("action", "up"), ("action/down", "down"))}
    job = Job(world.job.temp, world.job.env, {use: world.job.folders[path] for use, path in folders.items()})
    steps = [{**step, "run": test} if step.get("run") == "./my-tests" else step for step in example()]
    outputs = job.run(steps)
    assert outputs["down"] == {"logs": str(job.temp / "cephlab-logs" / "action")}
    return job


@pytest.mark.parametrize(
    ("test", "uploaded"), [("exit 1", True), ('test "$S3_ENDPOINT" = http://127.9.0.1:7480', False)]
)
def test_the_pages_workflow_removes_the_cluster_whether_its_tests_fail_or_not(
    world: World, test: str, uploaded: bool
) -> None:
    job = of_page(world, test)
    assert job.failed is uploaded, job.said
    assert world.calls[-2:] == ["down", "action"]
    assert (job.temp / "cephlab-logs" / "action" / "daemons" / "n0-osd.0.log").read_text() == "a line\n"
    assert ("actions/upload-artifact" in job.ran) is uploaded


def test_both_actions_use_one_home(world: World) -> None:
    of_page(world, "true")
    assert set((world.folder / "homes").read_text().splitlines()) == {f"CEPHLAB_HOME={world.job.temp}/cephlab"}


def test_a_cluster_that_was_not_raised_is_no_trouble_of_the_one_that_removes_it(world: World) -> None:
    world.says("up", {"error": {"what": "no room", "detail": "", "hint": ""}}, code=3)
    world.says("ls", {"clusters": [{"name": "other"}]})
    job = of_page(world, "true")
    assert "::warning title=cephlab::there is no cluster 'action' to remove" in job.said
    assert "down" not in world.calls
    assert job.ran[-2:] == ["Collect logs and remove the cluster", "actions/upload-artifact"]


def test_without_an_installation_there_is_nothing_to_remove(world: World) -> None:
    world.job.env = {**world.job.env, "CEPHLAB": str(world.folder / "none")}
    world.job.run([{"uses": "down"}])
    assert not world.job.failed
    assert "::warning title=cephlab::cephlab was not installed" in world.job.said


def test_logs_that_cannot_be_read_do_not_keep_the_cluster(world: World) -> None:
    for command in ("status", "ceph", "logs"):
        world.says(command, None, code=3)
    world.job.run([{"uses": "down"}])
    assert not world.job.failed
    assert "::warning title=cephlab::cephlab status ended with 3, as status.txt says" in world.job.said
    assert world.calls[-2:] == ["down", "action"]


def test_a_cluster_that_cannot_be_removed_fails_the_step(world: World) -> None:
    world.says("down", None, code=3)
    world.job.run([{"uses": "down"}])
    assert world.job.failed


def test_the_folder_of_logs_and_the_name_can_be_chosen(world: World) -> None:
    logs = world.folder / "kept"
    outputs = world.job.run([{"id": "down", "uses": "down", "with": {"name": "other", "logs": str(logs)}}])
    assert outputs["down"] == {"logs": str(logs)}
    assert (logs / "daemons").is_dir()
    assert world.calls[-2:] == ["down", "other"]


def test_the_page_has_every_input_and_output() -> None:
    for name in ("action.yml", "down/action.yml"):
        action = yaml.safe_load((ACTION / name).read_text())
        assert [key for key in (*action["inputs"], *action["outputs"]) if f"`{key}`" not in PAGE] == []


def test_the_projects_own_job_removes_its_cluster_after_a_failure_too() -> None:
    job = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]["action"]
    used = {step["uses"]: step.get("if") for step in job["steps"] if "uses" in step}
    assert used["./ci/action/down"] == "always()"
