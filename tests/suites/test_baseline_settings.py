"""Settings and weights that nobody meant: which the baseline suite finds, and which are in order."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.checks import Outcome, Verdict
from cephlab.lab.spec.clusterspec import GIB
from cephlab.suites.baseline import settings
from tests.fake_stage import verdict_of

SOUND = {
    "osd_heartbeat_interval": {"default": 6, "file": 1, "final": 1},
    "keyring": {"default": "$osd_data/keyring", "file": "$osd_data/keyring", "final": "/run/osd.0/keyring"},
    "host": {"default": "", "file": "n0", "override": "vm", "final": "vm"},
    "rbd_default_features": {"default": "", "final": "61"},
}


def judged(monkeypatch: pytest.MonkeyPatch, changed: dict[str, dict[str, Any]], weight: float = 0.0098) -> Verdict:
    """What the scenario says of one OSD of 10 GiB with these settings."""
    nodes = {"nodes": [{"id": 0, "crush_weight": weight}]}
    client = SimpleNamespace(tell=lambda *_: {"diff": {**SOUND, **changed}}, mon=lambda _: nodes)
    cluster = SimpleNamespace(client=client, daemons={"osd.0": SimpleNamespace(kind="osd")}, archs=())
    monkeypatch.setattr(settings, "own", lambda each: each)
    monkeypatch.setattr(settings, "sizes_of", lambda _: {0: 10 * GIB})
    return verdict_of(settings.SCENARIOS[0], cast("Any", cluster))


def test_a_daemon_with_its_files_settings_is_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(monkeypatch, {}).outcome is Outcome.PASS


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"bluestore_csum_type": {"default": "crc32c", "cmdline": "none", "final": "none"}}, "from elsewhere"),
        ({"osd_max_backfills": {"default": 1, "mon": 9, "final": 9}}, "from elsewhere"),
        ({"osd_heartbeat_interval": {"default": 6, "file": 1, "final": 6}}, "not as in its file"),
    ],
    ids=["a command line", "the database of the monitors", "a file that is ignored"],
)
def test_a_setting_that_nobody_meant_is_red(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, dict[str, Any]], reason: str
) -> None:
    verdict = judged(monkeypatch, changed)
    assert verdict.outcome is Outcome.FAIL
    assert reason in verdict.reason


def test_a_weight_that_is_not_the_disks_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    verdict = judged(monkeypatch, {}, weight=0.001)
    assert verdict.outcome is Outcome.FAIL
    assert "weight of osd.0" in verdict.reason
