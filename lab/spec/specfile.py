"""Specs as files and as JSON: every key is checked, and what does not fit is named with its place."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from lab.errors import SpecError
from lab.spec import MIN_DISK_BYTES, UNKNOWN_RELEASE, ClusterSpec, Disk, DiskLimits, Misfit, Node, Osd

for _part in (ClusterSpec, Node, Osd, Disk, DiskLimits):
    # A key that nobody knows is a typing error; pydantic would pass over it in a plain dataclass.
    setattr(_part, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010

_ADAPTER: TypeAdapter[ClusterSpec] = TypeAdapter(ClusterSpec)


def spec_to_json(spec: ClusterSpec) -> dict[str, Any]:
    """A spec as JSON values."""
    dumped: dict[str, Any] = _ADAPTER.dump_python(spec, mode="json")
    return dumped


def spec_from_json(raw: Mapping[str, Any], source: str = "spec") -> ClusterSpec:
    """A spec from JSON values; SpecError names source, key, got and wanted."""
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        raise SpecError(f"{source} is not a cluster spec", explain(error), "see docs/adding.md for the keys") from None
    except Misfit as error:
        raise in_file(source, error) from None


def load_spec(path: Path) -> ClusterSpec:
    """Read a TOML spec file; SpecError when it is not there, not TOML, not a spec, or not one that `up` can raise."""
    try:
        raw = tomllib.loads(path.read_text())
    except OSError as error:
        raise SpecError(f"{path} cannot be read", str(error)) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path} is not TOML", str(error)) from error
    if "image" in raw:
        _refuse_release(path, raw)
        raw["release"] = UNKNOWN_RELEASE
    spec = spec_from_json(raw, str(path))
    try:
        _refuse_small_disks(spec)
    except Misfit as error:
        raise in_file(str(path), error) from None
    return spec


def in_file(source: str, error: Misfit) -> SpecError:
    """What does not fit, told by file and key, with a remedy that is one for the file."""
    return SpecError(f"{source}: {error.what}", f"{error.key}: {error.detail}", error.in_file)


def _refuse_release(path: Path, raw: Mapping[str, Any]) -> None:
    if "release" in raw:
        raise SpecError(
            f"{path}: release and image cannot be given together",
            f"release: got {raw['release']!r}; image: got {raw['image']!r}",
            "leave release out: a pulled image's own programs say which it is",
        )


def _refuse_small_disks(spec: ClusterSpec) -> None:
    for number, node in enumerate(spec.nodes):
        for index, disk in enumerate(node.disks):
            if disk.size_bytes < MIN_DISK_BYTES:
                raise Misfit(
                    f"disk {disk.name} is too small for an OSD",
                    f"got {disk.size_bytes}, wanted: {MIN_DISK_BYTES} (1 GiB) or more",
                    "leave it out for 10 GiB: disks are sparse, a large one takes no more room than its data",
                    key=f"nodes.{number}.disks.{index}.size_bytes",
                )


def explain(error: ValidationError) -> str:
    """pydantic's findings as lines `key: got ..., wanted ...`.

    A rule about a whole table names its keys itself, and no table is shown; that a list is too short because its
    entries did not fit is not told beside what did not fit.
    """
    errors = error.errors()
    places = [found["loc"] for found in errors]
    return "\n".join(
        _line(found)
        for found in errors
        if found["type"] != "too_short" or not any(len(found["loc"]) < len(place) for place in _under(found, places))
    )


def _under(found: ErrorDetails, places: Sequence[tuple[int | str, ...]]) -> list[tuple[int | str, ...]]:
    """Places at or below that of a finding."""
    return [place for place in places if place[: len(found["loc"])] == found["loc"]]


def _line(found: ErrorDetails) -> str:
    key = ".".join(str(part) for part in found["loc"])
    said = found["msg"].removeprefix("Value error, ")
    if found["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        return f"{key}: unknown key"
    if found["type"] in ("missing", "missing_argument"):
        return f"{key}: missing"
    given = found["input"]
    if isinstance(given, Mapping) and set(given) == {"value", "source"}:
        given = given["value"]
    if isinstance(given, Mapping | list | tuple):
        return f"{key}: {said}" if key else said
    return f"{key}: got {given!r}, wanted: {said}"
