"""Whatever strikes a cluster strikes one whose OSDs are of both architectures, or says here why it cannot."""

import inspect
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from cephlab.lab.faults import inflict
from cephlab.lab.scenario.scenario import Scenario
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from tests.suites.test_declared_suites import scenarios

WITHIN = ("cephlab.suites", "cephlab.lab.faults")
"""Packages whose functions are followed."""
ALIKE = {
    "powerloss.cut[pool=replicated,nodes=alike]": "LXD's virtual machines all have this machine's architecture.",
    "nvmeof.spdk-failover": "It runs on an attached cluster, which has the machines that it has.",
}
"""Scenarios that strike machines of one architecture, and why."""


def reached(start: Any) -> set[FunctionType]:
    """All functions of WITHIN that a function may call, by the names in its code and what it was given."""
    reachable: set[FunctionType] = set()
    left = [start]
    while left:
        value = left.pop()
        if isinstance(value, partial):
            left += [value.func, *value.args, *value.keywords.values()]
        elif isinstance(value, type) and value.__module__.startswith(WITHIN):
            left += [each for each in vars(value).values() if isinstance(each, FunctionType)]
        elif isinstance(value, FunctionType):
            function = inspect.unwrap(value)
            if function not in reachable and function.__module__.startswith(WITHIN):
                reachable.add(function)
                left += named(function)
    return reachable


def named(function: FunctionType) -> Iterator[Any]:
    """What the names in a function's code stand for: in its module, in modules that it names, and around it."""
    names = set(names_in(function.__code__))
    for value in (function.__globals__[name] for name in names if name in function.__globals__):
        yield value
        if isinstance(value, ModuleType) and value.__name__.startswith(WITHIN):
            yield from (vars(value)[name] for name in names if name in vars(value))
    yield from (cell.cell_contents for cell in function.__closure__ or ())


def names_in(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from names_in(constant)


def strikes(scenario: Scenario) -> bool:
    return inspect.unwrap(inflict) in reached(scenario.run)


def archs_of_osds(scenario: Scenario) -> set[Arch]:
    """Not of all machines: a foreign client or gateway makes no OSD foreign."""
    return {node.arch for node in scenario.topology.spec(DEFAULT_RELEASE).nodes if node.osds}


@pytest.mark.slow
def test_every_cluster_that_is_struck_has_osds_of_both_architectures() -> None:
    struck = [scenario for scenario in scenarios() if strikes(scenario)]
    assert len(struck) > 60
    assert {"archive", "cephfs", "nvmeof", "object", "powerloss", "resilience", "stress"} <= {
        scenario.suite for scenario in struck
    }
    assert {scenario.name for scenario in struck if archs_of_osds(scenario) != set(Arch)} == ALIKE.keys()
