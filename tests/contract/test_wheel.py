"""The wheel in an empty environment outside the checkout, as an ordinary user has it: what `ci/wheel` does."""

import os
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.real, pytest.mark.timeout(1200), pytest.mark.usefixtures("images")]

SCRIPT = Path(__file__).resolve().parents[2] / "ci" / "wheel"


def test_an_ordinary_user_works_with_the_wheel_alone() -> None:
    done = subprocess.run([SCRIPT], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    # The gate's line, and that of the tests of the example and of the manual.
    assert "\n1 passed\n" in done.stdout
    assert " 4 passed in " in done.stdout
    # An ordinary user's own id is what it is; root hands the wheel to somebody else.
    assert "wheel: using it as 0\n" not in done.stderr
    assert os.geteuid() != 0 or "wheel: using it as 65534\n" in done.stderr
