"""Standard streams that are closed, full, or read no further end the command in a known way, without a traceback."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cephlab.cli.conventions import write_named
from cephlab.lab.base.errors import LabBroken

COMMAND = f'"{sys.executable}" -m cephlab'
BUFFERED = ("", "1")


def shell(line: str, home: Path, unbuffered: str = "", before: str = "") -> subprocess.CompletedProcess[str]:
    """Run the command with redirections, as a shell does."""
    environment = {**os.environ, "CEPHLAB_HOME": str(home), "PYTHONUNBUFFERED": unbuffered}
    return subprocess.run(
        ["bash", "-c", f"{before}{COMMAND} {line}"], env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", BUFFERED)
@pytest.mark.parametrize("arguments", ["profile ls", "--help", "frob --json"])
def test_a_result_that_cannot_be_written_is_an_error(tmp_path: Path, arguments: str, unbuffered: str) -> None:
    ended = shell(f"{arguments} >/dev/full", tmp_path, unbuffered)
    assert ended.returncode == 3
    assert ended.stderr == "error: standard output cannot be written\n  No space left on device\n"


@pytest.mark.slow
@pytest.mark.parametrize("unbuffered", BUFFERED)
@pytest.mark.parametrize("arguments", ["profile ls --json", "--help"])
def test_a_reader_that_ends_first_is_not_a_verdict(tmp_path: Path, arguments: str, unbuffered: str) -> None:
    ended = shell(f"{arguments} | true; exit ${{PIPESTATUS[0]}}", tmp_path, unbuffered)
    assert (ended.returncode, ended.stderr) == (141, "")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_not_the_next_file_that_is_opened(tmp_path: Path, closed: str) -> None:
    for arguments in ("profile ls", "predict --profile kunpeng920"):
        ended = shell(f"{arguments} {closed}", tmp_path)
        assert (ended.returncode, "Traceback" in ended.stderr) == (0, False), ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-"])
def test_messages_that_cannot_be_written_change_no_result_and_no_code(tmp_path: Path, lost: str) -> None:
    listed = shell(f"ls {lost}", tmp_path)
    assert (listed.returncode, listed.stdout) == (0, "no clusters\n")
    assert shell(f"down absent {lost}", tmp_path).returncode == 2


@pytest.mark.slow
@pytest.mark.parametrize("arguments", ["gate --list", "spec init x.toml"])
def test_a_current_folder_that_was_removed_is_named(tmp_path: Path, arguments: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    ended = shell(arguments, tmp_path / "home", before=f"cd {gone}; rmdir {gone}; ")
    assert ended.returncode == 2
    assert ended.stderr.startswith("error: the current folder was removed\n")


def test_of_a_file_that_does_not_fit_no_part_is_left(tmp_path: Path) -> None:
    most, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    page = tmp_path / "page.html"
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
    try:
        with pytest.raises(LabBroken, match=f"^{page} cannot be written"):
            write_named(page, "line\n" * 10_000)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, hard))
    assert not page.exists()


def test_a_full_disk_is_named_with_the_file() -> None:
    with pytest.raises(LabBroken, match=r"^the disk of /dev/full is full"):
        write_named(Path("/dev/full"), "text")
    assert Path("/dev/full").exists()


@pytest.mark.slow
def test_programs_that_ask_for_the_first_streams_get_those_in_use() -> None:
    """pytest's fault handler wants the number of the first one."""
    program = (
        "import faulthandler, sys; from cephlab.cli.streams import prepare; prepare(); faulthandler.enable();"
        "print(sys.__stderr__.fileno(), file=sys.__stdout__)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert (ended.stdout, ended.stderr) == ("2\n", "")
