"""What is run on a machine to start the agent there says why it did not start, and leaves nothing."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cephlab.lab.providers.ssh.host import START

AT_ONCE_S = 20.0
"""Far below the patience for an agent that is slow."""


@pytest.mark.slow
def test_an_agent_that_ends_is_told_of_at_once(tmp_path: Path) -> None:
    run, node = tmp_path / "run", tmp_path / "run" / "n0"
    argv = [sys.executable, "-I", "-c", START.read_text(), str(run), str(node), str(node / "agent"), "mark", "", "new"]
    began = time.monotonic()
    done = subprocess.run(argv, input=b"this is no agent", capture_output=True, check=True)
    assert time.monotonic() - began < AT_ONCE_S
    error = json.loads(done.stdout)["error"]
    assert error.startswith("the agent ended: ")
    assert str(node) in error
    assert not run.exists()
