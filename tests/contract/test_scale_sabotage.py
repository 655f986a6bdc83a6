"""A scale model whose limits are not in force: the scenario goes red."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cephlab.lab.base.home import Home
from cephlab.lab.checks import Outcome
from cephlab.lab.providers.container import ContainerProvider
from cephlab.suites.scale import SCENARIOS, model
from tests.contract.raising import raised, verdict_of

pytestmark = pytest.mark.real

NETWORK = next(scenario for scenario in SCENARIOS if "scale-network" in scenario.name)


@contextmanager
def _nothing_held(*_: object) -> Iterator[None]:
    yield


def test_links_that_nobody_holds_fail_it(home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "held", _nothing_held)
    # 7-Zip takes a minute of CPU to rate this machine's cores, and what links carry hardly depends on them.
    monkeypatch.setattr(model, "rating_of", lambda home: 4000.0 * (os.cpu_count() or 1))
    with raised(ContainerProvider(), NETWORK.topology, home) as cluster:
        verdict = verdict_of(NETWORK, cluster, tmp_path)
    assert verdict.outcome is Outcome.FAIL, verdict
    assert "measured / k over predicted" in "\n".join((verdict.reason, *verdict.derivation))
