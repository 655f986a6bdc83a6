"""The lab's own tests run on every core; scenarios, and what is named, run in one process, which shares clusters."""

from __future__ import annotations

import os

import pytest

ALL = ["tests"]
"""What a bare `pytest` runs; one file is sooner done than a second process is started."""
WITHOUT_A_LAB = "not real and not bench"


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Processes beside this one; none means that this one runs the tests itself."""
    if config.args != ALL:
        return 0
    # A file's tests stay together: some share what is dear to make.
    config.option.dist = "loadfile"
    # What takes minutes has few tests a file. It begins first if files keep their order, as tests/contract is early.
    config.option.loadscopereorder = config.option.markexpr == WITHOUT_A_LAB
    return len(os.sched_getaffinity(0))
