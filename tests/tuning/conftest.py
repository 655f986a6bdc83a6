"""The arithmetic of the model is tested without its free constants, which have tests of their own."""

import pytest

from cephlab.tuning.constants import Constants, priors

NEUTRAL = Constants(**dict.fromkeys(priors(), 1.0))
"""With these, a prediction rests on the measured costs and the rated figures only."""


@pytest.fixture(autouse=True)
def no_constants(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Costs as measured, figures as rated; `shipped_constants` marks what needs the model as it ships."""
    if "shipped_constants" not in request.keywords:
        monkeypatch.setattr("cephlab.tuning.model.current", lambda: NEUTRAL)
