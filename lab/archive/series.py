"""Reopens the Prometheus data of a run: serves it on loopback, exports OpenMetrics, makes a dashboard."""

import json
import shutil
import tarfile
import urllib.parse
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cephlab.lab.archive.archive import SERIES, STORE
from cephlab.lab.base.errors import NotInstalled, SpecError
from cephlab.lab.base.process import run
from cephlab.lab.images.store import ImageStore
from cephlab.lab.services.prometheus import ENDS_WITH_US, EVERY_S, PROMETHEUS, running_here, server_argv
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import DEFAULT_RELEASE
from cephlab.lab.telemetry.tsdb import QUERIES

PROGRAM = "prometheus"
TOOL = "promtool"
STEP = "cephlab_step"
"""Series of the steps and faults of a scenario: 1 while each lasts."""
_ALWAYS = "100y"
_ASK_S = 60.0
_ACROSS, _WIDE, _HIGH = 2, 12, 8


def unpack(archive: Path, folder: Path) -> None:
    """Put the series of all clusters of an archive into a folder, as one store; SpecError if it has none."""
    stores = sorted((archive / SERIES).glob(f"*{STORE}"))
    if not stores:
        raise SpecError(
            f"{archive} has no series", "no cluster of that run had a Prometheus", "start one: `cephlab gate --metrics`"
        )
    for store in stores:
        with tarfile.open(store) as tar:
            tar.extractall(folder, filter="data")
    (folder / "prometheus.yml").write_text("{}\n")  # nothing to scrape


@dataclass(frozen=True)
class StepSpan:
    """A step or a fault of a scenario, with its begin and end in seconds since the epoch."""

    scenario: str
    name: str
    began_s: float
    ended_s: float


def step_samples(spans: Iterable[StepSpan]) -> Iterator[str]:
    """Spans as samples of STEP, in lines of OpenMetrics; spans of the same name in a scenario are one series."""
    yield f"# TYPE {STEP} gauge\n"
    by_labels: dict[str, list[float]] = {}
    for span in spans:
        labels = _labels({"scenario": span.scenario, "step": span.name})
        count = int((span.ended_s - span.began_s) / EVERY_S)
        times = [*(span.began_s + EVERY_S * number for number in range(count + 1)), span.ended_s]
        by_labels.setdefault(labels, []).extend(times)
    for labels, times in by_labels.items():
        yield from (f"{STEP}{labels} 1 {at_s:.3f}\n" for at_s in sorted(set(times)))
    yield "# EOF\n"


def add_steps(server: str, folder: Path, spans: Iterable[StepSpan]) -> bool:
    """Put spans into an unpacked store with promtool; False if that is not installed next to the server."""
    tool = shutil.which(TOOL, path=str(Path(server).parent))
    if tool is None:
        return False
    samples = folder / "steps.om"
    samples.write_text("".join(step_samples(spans)))
    run((tool, "tsdb", "create-blocks-from", "openmetrics", str(samples), str(folder / "tsdb")), timeout_s=_ASK_S)
    return True


def program(root: Path | None) -> str:
    """Path of a Prometheus of this machine, else of the image with that root; NotInstalled without either."""
    path = shutil.which(PROGRAM) or (str(root / "usr/bin" / PROGRAM) if root is not None else None)
    if path is None:
        raise NotInstalled({PROGRAM: PROGRAM}, "it shows the series of a run")
    return path


def server_program(images: ImageStore) -> str:
    """Path of a Prometheus of this machine, else of a cached image for it; NotInstalled without either."""
    image = images.cached(DEFAULT_RELEASE, host_arch(), ("ceph", PROMETHEUS.role_set))
    return program(image.root if image is not None else None)


def argv(server: str, folder: Path, port: int) -> tuple[str, ...]:
    """Command that serves an unpacked store on loopback while this process lives. Old data is never dropped."""
    command = server_argv(server, folder, f"127.0.0.1:{port}")
    return (*ENDS_WITH_US, *command, f"--storage.tsdb.retention.time={_ALWAYS}")


@contextmanager
def served(server: str, folder: Path, port: int) -> Iterator[str]:
    """Serve an unpacked store during the block; yields the address of its API. LabBroken if the server ends early."""
    with running_here(argv(server, folder, port), folder / "prometheus.log", port) as api:
        yield api


def openmetrics(api: str) -> Iterator[str]:
    """Every sample of a server as lines of OpenMetrics 1.0; families have the type `unknown`."""
    for name in _ask(f"{api}/label/__name__/values"):
        if ":" in name:
            continue  # only recording rules make such names, and some programs that read OpenMetrics refuse them
        yield f"# TYPE {name} unknown\n"
        query = urllib.parse.urlencode({"query": f"{name}[{_ALWAYS}]"})
        for series in _ask(f"{api}/query?{query}")["result"]:
            labels = _labels(series["metric"])
            yield from (f"{name}{labels} {value} {at_s}\n" for at_s, value in series["values"])
    yield "# EOF\n"


def _labels(metric: Mapping[str, str]) -> str:
    pairs = ",".join(f'{key}="{_escaped(value)}"' for key, value in sorted(metric.items()) if key != "__name__")
    return f"{{{pairs}}}"


def _escaped(value: str) -> str:
    """As OpenMetrics has it, which knows no other escapes."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def dashboard() -> dict[str, Any]:
    """A Grafana dashboard with the charts of the report."""
    panels: dict[str, list[dict[str, str]]] = {}
    for query in QUERIES:
        legend = query.label.replace("{", "{{").replace("}", "}}")
        target = {"expr": query.expr.replace("$w", "$__rate_interval"), "legendFormat": legend}
        targets = panels.setdefault(query.panel, [])
        targets.append({"refId": chr(ord("A") + len(targets)), **target})
    drawn = [
        {
            "type": "timeseries",
            "title": title,
            "targets": targets,
            "gridPos": {
                "x": number % _ACROSS * _WIDE,
                "y": number // _ACROSS * _HIGH,
                "w": _WIDE,
                "h": _HIGH,
            },
        }
        for number, (title, targets) in enumerate(panels.items())
    ]
    steps = {
        "name": "steps and faults",
        "datasource": {"type": PROGRAM},
        "enable": True,
        "iconColor": "orange",
        "expr": STEP,
        "step": f"{EVERY_S}s",
        "titleFormat": "{{step}}",
        "textFormat": "{{scenario}}",
    }
    marked = {"annotations": {"list": [steps]}, "panels": drawn}
    return {"title": "cephlab", "timezone": "utc", "schemaVersion": 39, **marked}


def _ask(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=_ASK_S) as answer:
        return json.load(answer)["data"]
