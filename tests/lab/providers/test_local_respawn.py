"""The shell around a program that executes itself anew, with programs of this machine in its place."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cephlab.lab.providers.local.programs import respawning

# argv: a file, codes. Ends with the next of the codes each time that it is started.
COUNTING = 'file=$1; shift; n=$(wc -l < "$file"); echo x >> "$file"; shift $n; exit $1'


def ended(tmp_path: Path, *codes: str) -> tuple[int, int]:
    """(exit code, number of starts) of a program that ends with these codes in turn."""
    count = tmp_path / "count"
    count.touch()
    argv = respawning(("/bin/sh", "-c", COUNTING, "sh", str(count), *codes))
    code = subprocess.run(argv, timeout=20, check=False).returncode
    return code, len(count.read_text().splitlines())


@pytest.mark.parametrize(("codes", "wanted"), [(("127", "127", "0"), (0, 3)), (("3", "0"), (3, 1)), (("0",), (0, 1))])
def test_only_what_wanted_to_begin_anew_is_started_again(
    tmp_path: Path, codes: tuple[str, ...], wanted: tuple[int, int]
) -> None:
    assert ended(tmp_path, *codes) == wanted


def test_a_signal_to_both_ends_the_program_and_then_the_shell() -> None:
    program = 'trap "exit 5" TERM; echo ready; while :; do sleep 0.02; done'
    child = subprocess.Popen(
        respawning(("/bin/sh", "-c", program)), stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        os.killpg(child.pid, signal.SIGTERM)
        assert child.wait(timeout=20) == 5
