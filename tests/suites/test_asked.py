"""Scenarios last as long, and repeat as often, as an environment variable says."""

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.suites.asked import count, minutes

NAME = "CEPHLAB_TEST_ASKED"


def test_a_variable_decides_where_it_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    assert minutes(NAME, 0.5) == 0.5
    assert count(NAME, "rounds", 3) == 3
    monkeypatch.setenv(NAME, "360")
    assert minutes(NAME, 0.5) == 360
    assert count(NAME, "rounds", 3) == 360


@pytest.mark.parametrize("text", ["", "long", "0", "-1", "inf", "nan"])
def test_what_is_no_length_and_no_number_is_refused_by_name(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NAME, text)
    with pytest.raises(SpecError, match=f"{NAME} is not a length"):
        minutes(NAME, 0.5)
    with pytest.raises(SpecError, match=f"{NAME} is not a number of rounds"):
        count(NAME, "rounds", 3)
