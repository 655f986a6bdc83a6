"""Many results of one pytest item, as pytest counts and shows them."""

from __future__ import annotations

import re

import pytest

pytest_plugins = ["pytester"]

SUITE = """
from fixtures.cases import report_cases
from lab.history import Event

def case(name, result):
    data = {"program": "p", "case": name, "result": result, "seconds": 0.1, "message": "", "known": None}
    return Event("s", 0.0, "gtest_case", data)

def test_program(request):
    report_cases(request.node, (case("a", "pass"), case("b", "skip"), case("c", "unfinished")))
"""


def test_each_case_counts_as_an_item(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(SUITE)
    result = pytester.runpytest_inprocess("-v", "-p", "no:cacheprovider")
    result.assert_outcomes(passed=2, skipped=1, failed=1)
    shares = [int(share) for share in re.findall(r"\[ *(\d+)%\]", result.stdout.str())]
    assert shares == sorted(shares)
    assert shares[-1] == 100
