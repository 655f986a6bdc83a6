"""A plugin of pytest that plants one defect into a run: `pytest -p tests.planted.plugin`, CEPHLAB_PLANTED names it."""

import os
from contextlib import ExitStack
from pathlib import Path
from tempfile import mkdtemp

import pytest

from tests.contract.planting import planted
from tests.planted import PLANTED

VARIABLE = "CEPHLAB_PLANTED"


def pytest_configure(config: pytest.Config) -> None:
    """From here on programs have the defect, until the run ends."""
    (defect,) = [known for known in PLANTED if known.name == os.environ[VARIABLE]]
    resources = ExitStack()
    resources.enter_context(planted(defect, Path(mkdtemp(prefix="cephlab-planted-"))))
    config.add_cleanup(resources.close)
