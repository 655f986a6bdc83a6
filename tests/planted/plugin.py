"""A plugin of pytest that plants defects into a run: `pytest -p tests.planted.plugin`.

CEPHLAB_PLANTED names the defect, or several with commas between them.
"""

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.contract.planting import planted
from tests.planted import PLANTED

VARIABLE = "CEPHLAB_PLANTED"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """From here on programs have the defect, until the run ends.

    Stores are made from scratch: kept ones were made without the defect, and those made with it would spoil other runs.
    """
    config.option.fresh = True
    known = {defect.name: defect for defect in PLANTED}
    resources = ExitStack()
    for name in os.environ[VARIABLE].split(","):
        resources.enter_context(planted(known[name], Path(mkdtemp(prefix="cephlab-planted-"))))
    config.add_cleanup(resources.close)
