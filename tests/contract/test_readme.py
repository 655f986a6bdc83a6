"""What README shows of a cluster of one's own, run as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import Runs
from tests.contract.elsewhere import with_images_of

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

README = Path(__file__).resolve().parents[2] / "README.md"
ENVIRONMENT = Path(sys.executable).parents[1]


def commands() -> list[str]:
    """The lines of the block under `A cluster of your own`."""
    section = README.read_text().split("## A cluster of your own\n")[1]
    block = re.search(r"```bash\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return block.group(1).splitlines()


@pytest.mark.usefixtures("images")
def test_the_readmes_cluster(home: Home, tmp_path: Path) -> None:
    assert (ENVIRONMENT / "bin" / "cephlab").exists(), "install the project into this environment"
    (tmp_path / ".venv").symlink_to(ENVIRONMENT)
    own = with_images_of(home, tmp_path / "home")
    environment = {**os.environ, "CEPHLAB_HOME": str(own.path)}
    outputs = {}
    try:
        for line in commands():
            # The shell's lines come from a person at a terminal; here they come from its input.
            done = subprocess.run(
                ["bash", "-c", line],
                cwd=tmp_path,
                env=environment,
                input="uname -m\n",
                capture_output=True,
                text=True,
                timeout=250,
                check=False,
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
            outputs[line.split()[1]] = done.stdout
    finally:
        left = [run.id for run in Runs(own).all()]
        for name in left:
            command = [str(ENVIRONMENT / "bin" / "cephlab"), "down", name]
            subprocess.run(command, env=environment, capture_output=True, timeout=100, check=False)
    assert list(outputs) == ["up", "ceph", "shell", "down"]
    assert all(f"osd.{number}" in outputs["ceph"] for number in range(3))
    assert outputs["shell"].strip() == "x86_64"
    assert left == []
