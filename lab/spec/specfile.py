"""Reads TOML files and cluster specs. Every key is checked, and an error names each key that does not fit."""

import copy
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import date, time
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import outsize, read_text
from cephlab.lab.base.nearest import did_you_mean
from cephlab.lab.spec.clusterspec import (
    MAX_DISK_BYTES,
    MIN_DISK_BYTES,
    UNKNOWN_RELEASE,
    ClusterSpec,
    Disk,
    DiskLimits,
    Misfit,
    Node,
    Osd,
)
from cephlab.lab.spec.keys import keys_at

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
Count = Annotated[int, Field(ge=1, le=10_000_000, strict=True)]
"""Of machines, their parts and their clients: more is a typing error."""


class TomlTable(BaseModel):
    """A table of a file. An unknown key is refused, because it is a typing error."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def refuse_twice(what: str, names: Sequence[str]) -> None:
    """ValueError if a name is there more than once."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise ValueError(f"{what}: got more than once: {', '.join(twice)}; wanted: each name once")


for _part in (ClusterSpec, Node, Osd, Disk, DiskLimits):
    # An unknown key is a typing error, but pydantic would ignore it in a plain dataclass.
    setattr(_part, "__pydantic_config__", ConfigDict(extra="forbid"))  # noqa: B010

_KEYS = "docs/reference/files.md shows a spec file with all keys"
_STAND_INS = {"arch": "x86_64"}
"""Values for keys that a table must have."""
_ADAPTER: TypeAdapter[ClusterSpec] = TypeAdapter(ClusterSpec)
_Model = TypeVar("_Model")


def load_toml(path: Path, hint: str = "") -> dict[str, Any]:
    """The tables of a TOML file; SpecError when it cannot be read or is not TOML."""
    try:
        return tomllib.loads(read_text(path, hint or "is that the file you mean?"))
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not TOML", str(error), "fix the line that is named") from error
    except RecursionError:
        raise SpecError(f"{path} is not TOML", "its lists and tables are nested too deeply", hint) from None
    except ValueError:
        raise SpecError(f"{path} is not TOML", "a number has thousands of digits", "write a smaller number") from None


def load_model(path: Path, model: type[_Model], *, what: str, hint: str) -> _Model:
    """A TOML file as a pydantic model or dataclass; SpecError also names each key that does not fit.

    what: what the file should be, e.g. `a lock`.
    """
    return as_model(load_toml(path, hint), model, source=path, what=what, hint=hint)


def as_model(raw: Any, model: type[_Model], *, source: object, what: str, hint: str) -> _Model:
    """Values that were read from `source` as a model; see `load_model`."""
    if wrong := outsize(raw):
        raise SpecError(f"{source} is not {what}", wrong, hint)
    try:
        return TypeAdapter(model).validate_python(raw)
    except ValidationError as error:
        raise SpecError(f"{source} is not {what}", explain(error, model), hint) from None


def spec_to_json(spec: ClusterSpec) -> dict[str, Any]:
    """A spec as JSON values."""
    return dict(_ADAPTER.dump_python(spec, mode="json"))


def spec_from_json(raw: Mapping[str, Any], source: str = "spec") -> ClusterSpec:
    """A spec from JSON values; SpecError names source and each key that does not fit, with the value got and wanted."""
    if wrong := outsize(raw):
        raise SpecError(f"{source} is not a cluster spec", wrong, _KEYS)
    try:
        return _ADAPTER.validate_python(raw)
    except ValidationError as error:
        lines = [explain(error, ClusterSpec), *map(_misfit_line, _misfits_beside(raw, error))]
        raise SpecError(f"{source} is not a cluster spec", "\n".join(lines), _KEYS) from None
    except Misfit as error:
        if error.others:
            lines = [*map(_misfit_line, (error, *error.others))]
            raise SpecError(f"{source} does not describe a valid cluster", "\n".join(lines), _KEYS) from None
        raise SpecError(f"{source}: {error.what}", f"{error.key}: {error.detail}", error.in_file) from None


def _misfit_line(misfit: Misfit) -> str:
    """One line; what was got and wanted says enough, if it has both."""
    if misfit.detail.startswith("got ") and "wanted: " in misfit.detail:
        return f"{misfit.key}: {misfit.detail}"
    return f"{misfit.key}: {misfit.what}: {misfit.detail}"


def _misfits_beside(raw: Mapping[str, Any], error: ValidationError) -> Sequence[Misfit]:
    """Further errors in a spec, found without the values that pydantic refused.

    Rules about several tables (`nodes.*.mon`) are left out, because they might need the values that were dropped.
    """
    rest = copy.deepcopy(dict(raw))
    for loc in (problem["loc"] for problem in error.errors()):
        table: Any = rest
        for part in loc[:-1]:
            table = table[part]
        if not isinstance(table, dict) or loc[-1] not in table:
            return ()
        if loc[-1] in _STAND_INS:
            table[loc[-1]] = _STAND_INS[str(loc[-1])]
        else:
            del table[loc[-1]]
    try:
        _ADAPTER.validate_python(rest)
    except Misfit as misfit:
        return [other for other in (misfit, *misfit.others) if "*" not in other.key]
    except ValidationError:
        pass
    return ()


def load_spec(path: Path) -> ClusterSpec:
    """Read a TOML spec file; SpecError when it cannot be read, is not a spec, or is not one that `up` can raise."""
    raw = load_toml(path)
    if "image" in raw:
        _refuse_release(path, raw)
        raw["release"] = UNKNOWN_RELEASE
    spec = spec_from_json(raw, str(path))
    _refuse_disks(path, spec)
    return spec


def _refuse_release(path: Path, raw: Mapping[str, Any]) -> None:
    if "release" in raw:
        raise SpecError(
            f"{path}: release and image cannot be given together",
            f"release: got {raw['release']!r}; image: got {raw['image']!r}",
            "leave release out: the pulled image's own programs report the release",
        )


def _refuse_disks(path: Path, spec: ClusterSpec) -> None:
    for number, node in enumerate(spec.nodes):
        for index, disk in enumerate(node.disks):
            key = f"nodes.{number}.disks.{index}.size_bytes: got {disk.size_bytes}, wanted:"
            if disk.size_bytes < MIN_DISK_BYTES:
                raise SpecError(
                    f"{path}: disk {disk.name} is too small for an OSD",
                    f"{key} {MIN_DISK_BYTES} (1 GiB) or more",
                    "leave it out for 10 GiB: disks are sparse, a large one takes no more room than its data",
                )
            if disk.size_bytes > MAX_DISK_BYTES:
                raise SpecError(
                    f"{path}: disk {disk.name} is too large for a file",
                    f"{key} {MAX_DISK_BYTES} (below 16 TiB) or less",
                    "leave it out for 10 GiB",
                )


_PLAINLY = {
    r"^a valid integer\b.*": "a whole number",
    r"^a valid number\b.*": "a number",
    r"^a valid string\b.*": "text",
    r"^a valid boolean\b.*": "true or false",
    r"^a valid datetime or date\b.*": "a date, such as 2024-02-29 or 2024-02-29T12:00:00",
    r"^greater than or equal to (.*)": r"\1 or more",
    r"^less than or equal to (.*)": r"\1 or less",
    r"^greater than (.*)": r"more than \1",
    r"^less than (.*)": r"less than \1",
    r"^a valid (tuple|list|set|frozenset)\b.*": "a list",
    r"^a (valid )?dictionary\b.*": "a table",
    r"^(?:Tuple|List|Set|Frozenset|Dictionary) should have at least (\d+) items?\b.*": r"\1 or more entries",
    r"^String should have at least (\d+) characters?": r"text of \1 or more characters",
    r"^String should have at most (\d+) characters?": r"text of at most \1 characters",
    r"^String should match pattern '(.*)'": r"text of the form \1",
}
_SHOWN_CHARS = 200


def plainly(wanted: str) -> str:
    """What pydantic wants, in the words of the lab."""
    for theirs, ours in _PLAINLY.items():
        wanted = re.sub(theirs, ours, wanted)
    return wanted


def explain(error: ValidationError, model: Any) -> str:
    """pydantic's errors as lines `key: got ..., wanted ...`. model: what was to be read.

    A rule about a whole table names its keys itself, so the table is not shown. A list that is too short only because
    its entries do not fit is not reported in addition to those entries.
    """
    errors = error.errors()
    # Keys of all tables and lists in which something does not fit.
    above = {problem["loc"][:depth] for problem in errors for depth in range(len(problem["loc"]))}
    problems = [problem for problem in errors if problem["type"] != "too_short" or problem["loc"] not in above]
    return "\n".join(_line(problem, model) for problem in problems)


def _line(problem: ErrorDetails, model: Any) -> str:
    key = ".".join(str(part) for part in problem["loc"])
    wanted = plainly(problem["msg"].removeprefix("Value error, ").removeprefix("Input should be "))
    if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
        *place, unknown = problem["loc"]
        known = keys_at(model, place)
        meant = did_you_mean(str(unknown), known, f"known: {', '.join(sorted(known))}" if known else "")
        return f"{key}: unknown key; {meant}" if meant else f"{key}: unknown key"
    if problem["type"] in ("missing", "missing_argument"):
        return f"{key}: missing"
    value = problem["input"]
    if isinstance(value, Mapping) and set(value) == {"value", "source"}:
        value = value["value"]
    if isinstance(value, Mapping) and problem["type"] == "tuple_type":
        tables = ".".join(part for part in problem["loc"] if isinstance(part, str))
        return f"{key}: got a table, wanted: a list of tables, each under [[{tables}]]"
    if isinstance(value, Mapping | list | tuple):
        if problem["msg"].startswith("Input should be "):
            kind = "table" if isinstance(value, Mapping) else "list"
            wanted = f"got a {kind}, wanted: {wanted}"
        return f"{key}: {wanted}" if key else wanted
    return f"{key}: got {_shown(value)}, wanted: {wanted}"


def _shown(value: Any) -> str:
    """A value as an error shows it: a date as TOML writes it, and of a long text its beginning."""
    text = str(value) if isinstance(value, date | time) else repr(value)
    return text if len(text) <= _SHOWN_CHARS else f"{text[:_SHOWN_CHARS]}..."
