"""Standard streams that are closed, full, or read no further end the command in a known way, without a traceback."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

COMMAND = f'"{sys.executable}" -m cephlab'
BUFFERED = ("", "1")


def shell(line: str, home: Path, unbuffered: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with redirections, as a shell does."""
    environment = {**os.environ, "CEPHLAB_HOME": str(home), "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(
        ["bash", "-c", f"{COMMAND} {line}"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("unbuffered", BUFFERED)
@pytest.mark.parametrize("arguments", ["profile ls", "--help", "frob --json"])
def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path, arguments: str, unbuffered: str) -> None:
    ended = shell(f"{arguments} >/dev/full", tmp_path, unbuffered)
    assert ended.returncode == 3
    assert ended.stderr == "error: standard output cannot be written\n  No space left on device\n"


@pytest.mark.parametrize("unbuffered", BUFFERED)
@pytest.mark.parametrize("arguments", ["profile ls --json", "--help"])
def test_a_reader_that_ends_first_is_not_a_verdict(tmp_path: Path, arguments: str, unbuffered: str) -> None:
    ended = shell(f"{arguments} | true; exit ${{PIPESTATUS[0]}}", tmp_path, unbuffered)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_not_the_next_file_that_is_opened(tmp_path: Path, closed: str) -> None:
    for arguments in ("profile ls", "predict --profile kunpeng920"):
        ended = shell(f"{arguments} {closed}", tmp_path)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr


@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-"])
def test_messages_that_cannot_be_written_change_no_result_and_no_code(tmp_path: Path, lost: str) -> None:
    listed = shell(f"ls {lost}", tmp_path)
    assert (listed.returncode, listed.stdout) == (0, "no clusters\n")
    assert shell(f"down absent {lost}", tmp_path).returncode == 2
