"""Demand files: measured demands and their batches as versioned JSON. Baselines are demand files too."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import parse_json, read_text
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import write_json
from cephlab.lab.history.history import Event, data_of
from cephlab.lab.spec.specfile import explain
from cephlab.lab.telemetry.demand import Demand, Resource, Role

_SHORT = 12
SCHEMA = 1
KIND = "cephlab-demands"
PAIR = "beside"
"""Condition of two measurements made in parallel: the same text in both, and in no other measurement."""

CALIBRATED = "calibrated by the client"
"""Condition of such a pair if its clients ran the same programs."""


@dataclass(frozen=True)
class Batch:
    """A period of steady load. operations: how many completed; costs: per operation, without the cost at rest.

    depth: requests in flight; reference: kind of reference work -> CPU seconds per round of it during the load;
    batching: wake-ups and commits per operation (`switches`, `syncs`), and how many CPUs other programs used
    (`others`). start: which start of the daemons it belongs to, counted from 0.
    """

    operations: float
    seconds: float
    depth: int
    costs: Mapping[Role, Mapping[Resource, float]]
    reference: Mapping[str, float] = field(default_factory=dict)
    batching: Mapping[str, float] = field(default_factory=dict)
    start: int = 0


@dataclass(frozen=True)
class Measurement:
    """A demand and the batches that it was computed from.

    stopped: why no more batches were taken; conditions: where and how (cpu model, provider, tool's command line);
    lower: batches at a lower load, which are not part of the demand's intervals.
    """

    demand: Demand
    batches: tuple[Batch, ...] = ()
    lower: tuple[Batch, ...] = ()
    stopped: str = ""
    linearity: str = ""
    conditions: Mapping[str, str] = field(default_factory=dict)


_ADAPTER: TypeAdapter[tuple[Measurement, ...]] = TypeAdapter(tuple[Measurement, ...], config=ConfigDict(extra="forbid"))
"""An unknown key is an error, not ignored."""


def save(path: Path, measurements: Iterable[Measurement | Demand]) -> None:
    """Write a demand file in one step, with the folders above it."""
    whole = tuple(measured if isinstance(measured, Measurement) else Measurement(measured) for measured in measurements)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, to_json(whole), mode=0o644)


def to_json(measurements: tuple[Measurement, ...]) -> dict[str, Any]:
    """The file's content as JSON values."""
    return {"kind": KIND, "schema": SCHEMA, "measurements": _ADAPTER.dump_python(measurements, mode="json")}


EVENT = "demand"
"""Kind of the event that records a measurement in a history, and so in an archive."""


def event_of(measured: Measurement) -> dict[str, Any]:
    """The data of such an event."""
    return {"measured": _ADAPTER.dump_python((measured,), mode="json")[0]}


def measured_in(events: Iterable[Event]) -> tuple[Measurement, ...]:
    """Every measurement of a history; SpecError if one has another schema."""
    raw = [data["measured"] for data in data_of(events, EVENT)]
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        what = "the demands in the history were written by another version of cephlab"
        raise SpecError(what, explain(error, tuple[Measurement, ...]), "run it again") from None


def load(path: Path) -> tuple[Demand, ...]:
    """The demands of a file; SpecError as in `load_measurements`."""
    return tuple(measured.demand for measured in load_measurements(path))


def load_measurements(path: Path) -> tuple[Measurement, ...]:
    """Read a demand file; SpecError if it is missing, has another kind or schema, or an unknown key."""
    hint = "make one with `cephlab measure`"
    raw = parse_json(read_text(path, hint), path, hint)
    if not isinstance(raw, dict) or raw.get("kind") != KIND:
        got = raw.get("kind") if isinstance(raw, dict) else type(raw).__name__
        raise SpecError(f"{path} is not a demand file", f"kind: got {got!r}, wanted {KIND!r}", hint)
    if raw.get("schema") != SCHEMA:
        raise SpecError(
            f"{path} was made by another version of cephlab",
            f"schema: got {raw.get('schema')!r}, wanted {SCHEMA}",
            "measure again",
        )
    try:
        return _ADAPTER.validate_python(raw.get("measurements"), strict=False)
    except ValidationError as error:
        raise SpecError(
            f"{path} is not a demand file", explain(error, tuple[Measurement, ...]), "measure again"
        ) from None


def baseline_folder(home: Home) -> Path:
    """The folder of all baselines."""
    return home.demands / "baseline"


def baseline_path(home: Home, demand: Demand) -> Path:
    """The baseline's file for a demand's release, architecture and image's digest."""
    return baseline_folder(home) / f"{demand.release}-{demand.arch}-{demand.image[:_SHORT]}.json"


def store_baseline(home: Home, measured: Measurement) -> Path:
    """Store a measurement as the baseline of its operation for its image. Other operations keep theirs."""
    path = baseline_path(home, measured.demand)
    known = load_measurements(path) if path.exists() else ()
    others = [entry for entry in known if entry.demand.operation != measured.demand.operation]
    save(path, [*others, measured])
    return path


def find_baseline(home: Home, demand: Demand) -> Measurement | None:
    """The baseline of the same image, else the newest one of the release and architecture.

    The first shows changes around Ceph (the lab, the machine, options), the second those of a new build.
    """
    own = baseline_path(home, demand)
    others = sorted(
        (path for path in baseline_folder(home).glob(f"{demand.release}-{demand.arch}-*.json") if path != own),
        key=lambda path: path.stat().st_mtime,
        reverse=True,
    )
    for path in [own, *others] if own.exists() else others:
        for entry in load_measurements(path):
            if entry.demand.operation == demand.operation:
                return entry
    return None
