"""Demand files: what is written is read again, and what does not fit is refused by name."""

import json
from pathlib import Path
from typing import Any

import pytest

from cephlab.lab.base.errors import SpecError
from cephlab.lab.spec.arch import Arch
from cephlab.lab.telemetry import demandfile
from cephlab.lab.telemetry.demand import Demand, Interval, Operation, Resource, Role
from cephlab.lab.telemetry.demandfile import Batch, Measurement

DEMAND = Demand(
    operation=Operation("randwrite", 4096, depth=16),
    release="reef",
    arch=Arch.X86_64,
    image="abc",
    costs={Role.PRIMARY: {Resource.CPU_USER_S: Interval(2e-4, 1.9e-4, 2.1e-4, 10)}},
    memory_bytes={Role.PRIMARY: 500_000_000},
    counters={"bluestore.write_big": 0.0},
)
MEASURED = Measurement(
    DEMAND,
    batches=(Batch(1000, 2.0, 16, {Role.PRIMARY: {Resource.CPU_USER_S: 2e-4}}, reference={"memory": 0.01}),),
    stopped="narrow enough",
    linearity="linear",
    conditions={"provider": "local"},
)


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "demands" / "one.json"
    demandfile.save(path, [MEASURED, DEMAND])
    assert demandfile.load_measurements(path) == (MEASURED, Measurement(DEMAND))
    assert demandfile.load(path) == (DEMAND, DEMAND)


def changed(edit: str) -> dict[str, Any]:
    raw = demandfile.to_json((MEASURED,))
    demand = raw["measurements"][0]["demand"]
    match edit:
        case "kind":
            raw["kind"] = "novel"
        case "schema":
            raw["schema"] = 99
        case "unknown":
            demand["colour"] = "red"
        case "missing":
            del demand["release"]
        case "role":
            demand["costs"]["cook"] = {}
    return raw


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        ("kind", "'novel'"),
        ("schema", "99"),
        ("unknown", "colour: unknown key"),
        ("missing", "release: missing"),
        ("role", "'cook'"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, edit: str, named: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(changed(edit)))
    with pytest.raises(SpecError, match=str(path)) as caught:
        demandfile.load(path)
    assert named in str(caught.value)


@pytest.mark.parametrize("content", [None, "no json", "[]"])
def test_a_file_of_another_sort_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "other.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(SpecError, match=str(path)):
        demandfile.load(path)
