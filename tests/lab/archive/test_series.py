"""Series of an archive: unpacked as one store, refused where there are none, written out, drawn in Grafana."""

import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.archive import series
from cephlab.lab.archive.archive import SERIES, STORE
from cephlab.lab.base.errors import NotInstalled, SpecError
from cephlab.lab.services.prometheus import ENDS_WITH_US
from cephlab.lab.telemetry.tsdb import QUERIES


def keep(archive: Path, cluster: str, name: str) -> None:
    (archive / SERIES).mkdir(exist_ok=True)
    with tarfile.open(archive / SERIES / f"{cluster}{STORE}", "w:gz") as tar:
        tar.addfile(tarfile.TarInfo(name), io.BytesIO())


def test_the_stores_of_all_clusters_are_one(tmp_path: Path) -> None:
    archive, folder = tmp_path / "archive", tmp_path / "folder"
    archive.mkdir()
    folder.mkdir()
    keep(archive, "a", "tsdb/block-a")
    keep(archive, "b", "tsdb/block-b")
    series.unpack(archive, folder)
    assert sorted(path.name for path in (folder / "tsdb").iterdir()) == ["block-a", "block-b"]
    assert json.loads((folder / "prometheus.yml").read_text()) == {}


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


def test_a_store_is_served_on_loopback_alone_and_forgets_nothing(tmp_path: Path) -> None:
    argv = series.argv("prometheus", tmp_path, 9095)
    assert "--web.listen-address=127.0.0.1:9095" in argv
    assert "--storage.tsdb.retention.time=100y" in argv
    assert argv[: len(ENDS_WITH_US)] == ENDS_WITH_US  # or a killed command leaves it


def test_samples_are_written_with_their_times_and_escaped_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    def ask(url: str) -> Any:
        if "label" in url:
            return ["up", "a:rule"]
        return {"result": [{"metric": {"__name__": "up", "job": 'm"gr'}, "values": [[1.5, "1"], [6.5, "0"]]}]}

    monkeypatch.setattr(series, "_ask", ask)
    written = list(series.openmetrics("http://x"))
    assert written == ["# TYPE up unknown\n", 'up{job="m\\"gr"} 1 1.5\n', 'up{job="m\\"gr"} 0 6.5\n', "# EOF\n"]


def test_a_step_is_1_from_its_begin_to_its_end() -> None:
    once = series.StepSpan("s", 'kill "a"', 100.0, 107.5)
    again = series.StepSpan("s", 'kill "a"', 200.0, 200.0)
    labels = '{scenario="s",step="kill \\"a\\""}'
    samples = [f"cephlab_step{labels} 1 {at_s}\n" for at_s in ("100.000", "105.000", "107.500", "200.000")]
    assert list(series.step_samples([once, again])) == ["# TYPE cephlab_step gauge\n", *samples, "# EOF\n"]


def test_without_promtool_no_step_is_put_into_a_store(tmp_path: Path) -> None:
    assert not series.add_steps(f"{tmp_path}/prometheus", tmp_path, [series.StepSpan("s", "a", 1.0, 2.0)])


def test_a_dashboard_marks_the_steps_and_faults() -> None:
    (marks,) = series.dashboard()["annotations"]["list"]
    assert (marks["expr"], marks["titleFormat"]) == (series.STEP, "{{step}}")


def test_a_dashboard_draws_all_that_the_report_draws() -> None:
    panels = series.dashboard()["panels"]
    assert sum(len(panel["targets"]) for panel in panels) == len(QUERIES)
    assert [panel["title"] for panel in panels] == list(dict.fromkeys(query.panel for query in QUERIES))
    assert not any("$w" in target["expr"] for panel in panels for target in panel["targets"])
