"""The upgrade suite: what a newer release finds fault with that the older one had made."""

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.ceph.status import Status, parse_status
from cephlab.lab.cluster import pools
from cephlab.lab.history.history import History, data_of
from cephlab.lab.scenario.scenario import Stage, Tier
from cephlab.lab.spec.arch import Arch
from cephlab.suites.upgrade import clients, rolling
from cephlab.suites.upgrade.rolling import EXPECTED, missing_metrics, others, put_up_with_old_keys

KEYS = ("AUTH_INSECURE_KEYS_ALLOWED", "AUTH_INSECURE_SERVICE_KEY_TYPE")


def status(*codes: str) -> Status:
    checks = {code: {"severity": "HEALTH_ERR", "summary": {"message": "said"}} for code in codes}
    return parse_status(
        {
            "health": {"status": "HEALTH_ERR" if codes else "HEALTH_OK", "checks": checks},
            "osdmap": {"num_osds": 1, "num_up_osds": 1, "num_in_osds": 1},
            "pgmap": {"num_pgs": 1, "pgs_by_state": [{"state_name": "active+clean", "count": 1}]},
        }
    )


@dataclass
class FakeCluster:
    """statuses: what it says, one after the other."""

    statuses: list[Status]
    muted: list[str] = field(default_factory=list)

    def wait(self, ready: Callable[[Status], bool], *, what: str, timeout_s: float) -> Status:
        assert "keys" in what
        assert timeout_s > 0
        return next(status for status in self.statuses if ready(status))

    @property
    def client(self) -> Any:
        return SimpleNamespace(mon=self._mon)

    def _mon(self, prefix: str, *, code: str, sticky: bool) -> None:
        assert (prefix, sticky) == ("health mute", True)
        self.muted.append(code)


@pytest.mark.parametrize("codes", [(), KEYS])
def test_only_the_type_of_keys_is_put_up_with(codes: tuple[str, ...]) -> None:
    history = History()
    cluster = FakeCluster([status("OSD_DOWN"), status("OSD_DOWN", *codes), status(*codes)])
    put_up_with_old_keys(cast("Stage", SimpleNamespace(cluster=cluster, recorder=history.recorder("upgrade"))))
    assert cluster.muted == list(codes)
    [noted] = data_of(history.events("upgrade"), "muted")
    assert noted["codes"] == list(codes)


RESTARTED = """\
[29/Nov/2026:18:47:07] ENGINE Error in 'start' listener <bound method Server.start of <cherrypy._cpserver.Server>>
[29/Nov/2026:18:47:07] ENGINE Shutting down due to error in start listener:"""


def test_a_metrics_server_may_be_restarted_while_it_starts_but_must_answer_afterwards() -> None:
    """Seen in a run of pacific to reef: a monitor stopped while its manager started."""
    expected = [re.compile(pattern) for pattern in EXPECTED]
    assert [any(pattern.search(line) for pattern in expected) for line in RESTARTED.splitlines()] == [True, True]
    worse = ("ENGINE Error in 'stop' listener <bound method Server.stop", '- "GET /metrics HTTP/1.1" 500 1735')
    assert not any(pattern.search(line) for pattern in expected for line in worse)
    asked: list[str] = []

    def missing(code: int, **services: str) -> str:
        def run(argv: Sequence[str], **_options: object) -> Any:
            asked.append(argv[-1])
            return SimpleNamespace(code=code)

        client = SimpleNamespace(mon=lambda _prefix: services, host=SimpleNamespace(run=run))
        return missing_metrics(cast("Any", SimpleNamespace(client=client)))

    assert missing(0) == "the active manager names no address of its metrics"
    assert asked == []
    assert missing(1, prometheus="http://127.77.38.1:9283/") == "the active manager does not answer HTTP"
    assert missing(0, prometheus="http://127.77.38.1:9283/") == ""
    assert all("'http://127.77.38.1:9283/metrics'" in program for program in asked)


def test_what_else_is_raised_counts() -> None:
    assert others(status("PG_DEGRADED", *KEYS)) == ["PG_DEGRADED"]
    assert others(status(*KEYS)) == []


@pytest.mark.parametrize(("other", "keys"), [("pacific", "text"), ("tentacle", "bytes")])
def test_clients_of_two_releases_have_unlike_architectures_and_change_places(
    other: str, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    walks: list[tuple[str, dict[str, str], str]] = []

    def walk(_stage: Any, kind: str, _model: Any, sides: Any, _tier: Any) -> None:
        releases = {name: host.release for name, (host, _settings) in sides.items()}
        walks.append((kind, releases, *{settings.get("keys", "") for _host, settings in sides.values()}))

    def host(arch: Arch, release: str) -> Any:
        return SimpleNamespace(arch=arch, release=release, root=PurePosixPath("/"), directory=PurePosixPath("/n"))

    there = {arch.value: host(arch, other) for arch in Arch}
    monkeypatch.setattr(rolling, "images_of", lambda *_: {})
    monkeypatch.setattr(rolling, "hosts_of", lambda *_: there)
    monkeypatch.setattr(clients, "take_walk", walk)
    monkeypatch.setattr(pools, "pool", lambda *_, **__: nullcontext("walk"))
    cluster = SimpleNamespace(
        spec=SimpleNamespace(release="reef"), client_name="client.admin", host_with=lambda arch: host(arch, "reef")
    )
    clients.walked(cast("Stage", SimpleNamespace(cluster=cluster)), Tier.QUICK, other=other)
    natively = {"reef-x86_64": "reef", f"{other}-aarch64": other}
    swapped = {"reef-aarch64": "reef", f"{other}-x86_64": other}
    assert walks == [(kind, on, used) for on in (natively, swapped) for kind, used in (("rados", keys), ("rbd", ""))]
