"""Prometheus: whom its configuration lists, and what it lets the managers tell."""

import json
from pathlib import Path, PurePosixPath
from typing import Any, cast

import pytest

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.probe import free_port
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.providers.host import Host
from cephlab.lab.services import prometheus
from cephlab.lab.services.exporter import EXPORTER
from cephlab.lab.services.prometheus import EVERY_S, PROMETHEUS, render, running_here
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import ONLOOKERS
from cephlab.lab.spec.layout import build_spec, with_metrics
from tests.lab.services.test_haproxy import DemoHost


def peers() -> dict[str, Host]:
    first, second = DemoHost("127.1.0.1"), DemoHost("127.1.0.2")
    second.name = "n1"
    names = {"exporter.n0": first, "exporter.n1": second, "mgr.n0": first, "rgw.n1": second, "prometheus.n0": first}
    return cast("dict[str, Host]", names)


def test_every_exporter_and_manager_is_a_target_with_its_node_and_nothing_else() -> None:
    told = json.loads(render(peers()))
    assert told["global"]["scrape_interval"] == f"{EVERY_S}s"
    targets = {
        job["job_name"]: {each["labels"]["node"]: each["targets"] for each in job["static_configs"]}
        for job in told["scrape_configs"]
    }
    assert targets == {
        "exporter": {"n0": ["127.1.0.1:9100"], "n1": ["127.1.0.2:9100"]},
        "mgr": {"n0": ["127.1.0.1:9283"]},
    }


def test_its_configuration_is_the_one_that_it_is_started_with() -> None:
    demo = DemoHost("127.1.0.1")
    host = cast("Host", demo)
    PROMETHEUS.configure(host, "n0", peers())
    (path,) = demo.files
    assert f"--config.file={path}" in PROMETHEUS.argv(host, "n0")
    assert PurePosixPath(path).parent == PROMETHEUS.data(host, "n0")


def test_managers_tell_what_osds_count() -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    class Client:
        def mon(self, command: str, **more: Any) -> None:
            asked.append((command, more))

    PROMETHEUS.tell_managers(cast("RadosClient", Client()))
    ((command, more),) = asked
    assert (command, more["who"], more["name"], more["value"]) == (
        "config set",
        "mgr",
        "mgr/prometheus/exclude_perf_counters",
        "false",
    )


def test_metrics_are_an_exporter_on_every_node_and_one_server() -> None:
    spec = with_metrics(build_spec([(Arch.X86_64, 2), (Arch.AARCH64, 1)]))
    assert [node.services for node in spec.nodes] == [("exporter", "prometheus"), ("exporter",), ("exporter",)]


def test_a_client_that_looks_on_is_still_a_machine_without_daemons() -> None:
    """Else no scenario would find its client in a cluster that has series (`gate --metrics`)."""
    spec = with_metrics(build_spec([(Arch.X86_64, 2)], bare=[Arch.X86_64]))
    assert [node.has_daemons for node in spec.nodes] == [True, True, False]
    assert [node.services for node in spec.nodes] == [("exporter",), ("exporter",), ("exporter", "prometheus")]
    assert frozenset({EXPORTER.kind, PROMETHEUS.kind}) == ONLOOKERS


@pytest.mark.parametrize(
    ("program", "words"), [("true", "prometheus ended"), ("sleep", "prometheus took more than 0 s")]
)
def test_a_server_here_that_does_not_start_is_the_labs_trouble(
    program: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prometheus, "_START_S", 10.0 if program == "true" else 0.0)
    with pytest.raises(LabBroken, match=words), running_here([program, "60"], tmp_path / "log", free_port()):
        pytest.fail("it serves")
