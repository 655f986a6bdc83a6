"""Series of an archive: unpacked as one store, refused where there are none, written out, drawn in Grafana."""

import io
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from cephlab.lab.archive import series
from cephlab.lab.archive.archive import SERIES, STORE
from cephlab.lab.base.errors import NotInstalled, SpecError
from cephlab.lab.images.store import ImageStore
from cephlab.lab.services.prometheus import ENDS_WITH_US, PROMETHEUS, server_argv
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.telemetry.tsdb import QUERIES


def keep(archive: Path, cluster: str, name: str) -> None:
    (archive / SERIES).mkdir(exist_ok=True)
    with tarfile.open(archive / SERIES / f"{cluster}{STORE}", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())


def test_the_stores_of_all_clusters_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive, folder = tmp_path / "archive", tmp_path / "folder"
    monkeypatch.chdir(tmp_path)  # where a store would be unpacked if it forgot the folder
    archive.mkdir()
    folder.mkdir()
    keep(archive, "a", "tsdb/block-a")
    keep(archive, "b", "tsdb/block-b")
    series.unpack(archive, folder)
    assert sorted(path.name for path in (folder / "tsdb").iterdir()) == ["block-a", "block-b"]
    assert (folder / "prometheus.yml").read_text() == "{}\n"


def test_a_store_that_points_outside_is_refused(tmp_path: Path) -> None:
    keep(tmp_path, "a", "../outside")
    with pytest.raises(tarfile.OutsideDestinationError):
        series.unpack(tmp_path, tmp_path / "folder")


def test_an_archive_without_series_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="has no series"):
        series.unpack(tmp_path, tmp_path)


def test_a_server_is_this_machines_or_an_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert series.program(tmp_path) == f"{tmp_path}/usr/bin/prometheus"
    with pytest.raises(NotInstalled, match="prometheus is not installed"):
        series.program(None)


def test_a_server_of_this_machine_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed(tmp_path / "prometheus")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert series.program(Path("/image")) == f"{tmp_path}/prometheus"


def installed(path: Path, script: str = "") -> None:
    path.write_text(f"#!/bin/sh\n{script}")
    path.chmod(0o755)


@pytest.mark.parametrize("root", [Path("/image"), None])
def test_an_images_server_is_of_this_machines_architecture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, root: Path | None
) -> None:
    def cached(*given: object) -> Any:
        assert given == (DEFAULT_RELEASE, host_arch(), ("ceph", PROMETHEUS.role_set))
        return SimpleNamespace(root=root) if root else None

    monkeypatch.setenv("PATH", str(tmp_path))
    images = cast("ImageStore", SimpleNamespace(cached=cached))
    if root:
        assert series.server_program(images) == "/image/usr/bin/prometheus"
    else:
        with pytest.raises(NotInstalled):
            series.server_program(images)


def test_a_store_is_served_while_it_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    @contextmanager
    def running_here(*given: object) -> Iterator[str]:
        assert given == (series.argv("server", tmp_path, 9095), tmp_path / "prometheus.log", 9095)
        yield "http://api"

    monkeypatch.setattr(series, "running_here", running_here)
    with series.served("server", tmp_path, 9095) as api:
        assert api == "http://api"


def test_a_store_is_served_on_loopback_alone_and_forgets_nothing(tmp_path: Path) -> None:
    argv = series.argv("prometheus", tmp_path, 9095)
    served = server_argv("prometheus", tmp_path, "127.0.0.1:9095")
    assert argv == (*ENDS_WITH_US, *served, "--storage.tsdb.retention.time=100y")


def test_samples_are_written_with_their_times_and_escaped_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = {"job": 'm"gr', "__name__": "up", "at": "größe\\\n"}
    answers = {
        "http://x/label/__name__/values": ["a:rule", "up"],
        "http://x/query?query=up%5B100y%5D": {"result": [{"metric": labels, "values": [[1.5, "1"], [6.5, "0"]]}]},
    }

    def ask(url: str) -> Any:
        return answers[url]

    monkeypatch.setattr(series, "_ask", ask)
    written = list(series.openmetrics("http://x"))
    shown = 'up{at="größe\\\\\\n",job="m\\"gr"}'
    assert written == ["# TYPE up unknown\n", f"{shown} 1 1.5\n", f"{shown} 0 6.5\n", "# EOF\n"]


def test_a_server_is_asked_for_the_data_of_its_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def urlopen(url: str, *, timeout: float) -> Any:
        assert (url, timeout) == ("http://x/label", 60.0)
        return io.BytesIO(b'{"data": ["up"]}')

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    assert series._ask("http://x/label") == ["up"]


def test_a_step_is_1_from_its_begin_to_its_end() -> None:
    once = series.StepSpan("s", 'kill "a"', 100.0, 107.5)
    again = series.StepSpan("s", 'kill "a"', 200.0, 200.0)
    labels = '{scenario="s",step="kill \\"a\\""}'
    samples = [f"cephlab_step{labels} 1 {at_s}\n" for at_s in ("100.000", "105.000", "107.500", "200.000")]
    assert list(series.step_samples([once, again])) == ["# TYPE cephlab_step gauge\n", *samples, "# EOF\n"]


def test_without_promtool_no_step_is_put_into_a_store(tmp_path: Path) -> None:
    assert not series.add_steps(f"{tmp_path}/prometheus", tmp_path, [series.StepSpan("s", "a", 1.0, 2.0)])


def test_promtool_beside_the_server_puts_steps_into_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[object] = []
    bins, folder, spans = tmp_path / "bin", tmp_path / "folder", [series.StepSpan("s", "a", 1.0, 2.0)]
    bins.mkdir()
    folder.mkdir()
    installed(bins / "promtool")
    monkeypatch.setattr(series, "run", lambda argv, *, timeout_s: ran.append((argv, timeout_s)))
    assert series.add_steps(f"{bins}/prometheus", folder, spans)
    samples = folder / "steps.om"
    assert samples.read_text() == "".join(series.step_samples(spans))
    made = (f"{bins}/promtool", "tsdb", "create-blocks-from", "openmetrics", str(samples), f"{folder}/tsdb")
    assert ran == [(made, 60.0)]


def test_a_dashboard_marks_the_steps_and_faults() -> None:
    made = series.dashboard()
    assert {key: made[key] for key in ("title", "timezone", "schemaVersion")} == {
        "title": "cephlab",
        "timezone": "utc",
        "schemaVersion": 39,
    }
    (marks,) = made["annotations"]["list"]
    assert marks == {
        "name": "steps and faults",
        "datasource": {"type": "prometheus"},
        "enable": True,
        "iconColor": "orange",
        "expr": "cephlab_step",
        "step": "5s",
        "titleFormat": "{{step}}",
        "textFormat": "{{scenario}}",
    }


def test_panels_are_two_beside_each_other_with_a_letter_for_each_query(monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [
        SimpleNamespace(panel="a", expr="rate(x[$w])", label="{host} of {rack}"),
        SimpleNamespace(panel="b", expr="y", label="y"),
        SimpleNamespace(panel="a", expr="z", label="z"),
        SimpleNamespace(panel="c", expr="w", label="w"),
    ]
    monkeypatch.setattr(series, "QUERIES", queries)

    def target(letter: str, expr: str, legend: str) -> dict[str, str]:
        return {"refId": letter, "expr": expr, "legendFormat": legend}

    first = [target("A", "rate(x[$__rate_interval])", "{{host}} of {{rack}}"), target("B", "z", "z")]
    drawn = {"a": first, "b": [target("A", "y", "y")], "c": [target("A", "w", "w")]}
    places = {"a": (0, 0), "b": (12, 0), "c": (0, 8)}
    assert series.dashboard()["panels"] == [
        {
            "type": "timeseries",
            "title": title,
            "targets": targets,
            "gridPos": {"x": places[title][0], "y": places[title][1], "w": 12, "h": 8},
        }
        for title, targets in drawn.items()
    ]


def test_a_dashboard_draws_all_that_the_report_draws() -> None:
    panels = series.dashboard()["panels"]
    assert sum(len(panel["targets"]) for panel in panels) == len(QUERIES)
    assert [panel["title"] for panel in panels] == list(dict.fromkeys(query.panel for query in QUERIES))
    assert not any("$w" in target["expr"] for panel in panels for target in panel["targets"])
