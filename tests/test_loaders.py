"""Every file that people write is read by strict types, and one wrong value in it is refused with file and key."""

from collections.abc import Callable, Iterator
from copy import deepcopy
from datetime import UTC, date, datetime
from importlib import import_module
from inspect import isclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from cephlab.fixtures import selection
from cephlab.fixtures.selection import alone_among, read_expected_skips, read_quarantine
from cephlab.lab.base.errors import SpecError
from cephlab.lab.ceph.logs import read_allowed
from cephlab.lab.cluster.attach.permit import read_permit
from cephlab.lab.jobs.jobfile import load_job
from cephlab.lab.report.defects import read_defects
from cephlab.lab.spec.inventory import load_inventory
from cephlab.lab.spec.specfile import TomlTable, load_spec, load_toml
from cephlab.lab.telemetry.bmc import load_bmcs
from cephlab.suites.cephtests.programs import read_known
from cephlab.tuning.comparison import load_findings
from cephlab.tuning.named import read as read_tuning
from cephlab.tuning.profile import Figure
from cephlab.tuning.profilefile import load_hardware
from cephlab.tuning.references import load_reference
from cephlab.tuning.requirements import Amount, Protection
from tests.code_tree import ROOT

HOST = {"name": "a", "address": "192.0.2.1", "architecture": "x86_64", "roles": ["mon", "mgr", "osd"], "sudo": True}
INVENTORY = {
    "hosts": [HOST],
    "ceph": {"conf": "a.conf", "keyring": "a.key"},
    "s3": {"endpoints": ["a:80"], "keys": "k"},
}
SPEC = {
    "options": {"mon_lease": 5},
    "nodes": [
        {
            "name": "n0",
            "arch": "x86_64",
            "mon": True,
            "mgr": True,
            "cores": 1.5,
            "memory_bytes": "2GiB",
            "disks": [{"name": "d", "size_bytes": "10GiB", "limits": {"write_iops": 5}}],
            "osds": [{"block": "d"}],
        }
    ],
}
OBJECTS = {"name": "o", "objects": 9, "sizes": [[1, "4KiB", 1.0]], "workers": 2, "mix": {"get": 1.0}, "runtime_s": 5.0}
BLOCKS = {
    "name": "b",
    "pattern": ["rw"],
    "block_bytes": ["4KiB"],
    "depth": [1],
    "volume_bytes": "1GiB",
    "runtime_s": 5.0,
}
JOB = {"name": "j", "source": "s", "pools": [{"name": "p", "k": 2, "m": 1}], "objects": [OBJECTS], "blocks": [BLOCKS]}
BMCS = {"bmc": [{"node": "n", "protocol": "ipmi", "address": "b", "user": "u", "password_file": "pw", "port": 623}]}


def shipped(path: str) -> dict[str, Any]:
    """A file of the repository with at most two tables of each list."""
    raw = load_toml(ROOT / path)
    return {key: value[:2] if isinstance(value, list) else value for key, value in raw.items()}


def permit_of(path: Path) -> object:
    (path.parent / "hosts.toml").write_text(tomli_w.dumps(INVENTORY))
    return read_permit(str(path), load_inventory(path.parent / "hosts.toml"))


LOADERS: dict[str, tuple[Callable[[Path], object], dict[str, Any], str]] = {
    "spec": (load_spec, SPEC, "s.toml"),
    "profile": (load_hardware, shipped("examples/storage-3n.toml"), "storage-3n.toml"),
    "inventory": (load_inventory, INVENTORY, "i.toml"),
    "permit": (permit_of, {"pools": ["p"], "daemons": ["osd.1"], "hosts": ["a"], "disks": ["a:/dev/sdb"]}, "b.toml"),
    "job": (load_job, JOB, "j.toml"),
    "controllers": (load_bmcs, BMCS, "c.toml"),
    "reference": (load_reference, shipped("tuning/references/incerta.toml"), "r.toml"),
    "findings": (load_findings, shipped("tuning/findings/incerta-oltp.toml"), "f.toml"),
    "tuning": (read_tuning, shipped("tuning/tunings/pve-host.toml"), "pve-host.toml"),
    "skips": (read_expected_skips, shipped("suites/expected-skips.toml"), "e.toml"),
    "quarantine": (
        read_quarantine,
        {"quarantine": [{"scenario": "a.b", "rate": "1 of 9", "reason": "x" * 20}]},
        "q.toml",
    ),
    "alone": (lambda path: alone_among((), path), shipped("suites/alone.toml"), "a.toml"),
    "defects": (read_defects, shipped("suites/defects/known.toml"), "d.toml"),
    "known": (read_known, shipped("suites/cephtests/known-gtest.toml"), "k.toml"),
    "log lines": (read_allowed, shipped("suites/allowed-log-lines.toml"), "l.toml"),
}

WRONG = st.sampled_from(
    (
        *("", "x" * 400, "a\0b", "\x1b[31m", "10gib", "1e400", "-1", "/", "..", True, False, 0, -1, 1.5, 1 << 62),
        *(float("inf"), float("nan"), 1e-320, datetime(2024, 2, 29, tzinfo=UTC), date(2024, 2, 29)),
        *([], [[]], [{}], {}, {"value": 1}, ["a", 1], {"a": {"b": 1}}),
    )
)
THEIRS = (
    "Value error",
    "Input should",
    "pydantic",
    "instance of",
    "dictionary",
    "tuple",
    "datetime",
    "after validation",
)
"""Words of the libraries, which nobody who writes a file should read."""


def places(value: object, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every key and entry."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield (*above, key)
        yield from places(part, (*above, key))


def changed(raw: dict[str, Any], place: tuple[Any, ...], value: object) -> dict[str, Any]:
    made: Any = deepcopy(raw)
    here = made
    for key in place[:-1]:
        here = here[key]
    here[place[-1]] = value
    return dict(made)


def files(folder: Path) -> None:
    """The files that the examples name."""
    for name in ("a.conf", "a.key", "pw"):
        (folder / name).touch(mode=0o600)
    (folder / "k").write_text('{"access_key": "a", "secret_key": "b"}')


@pytest.mark.parametrize("kind", LOADERS)
def test_the_example_of_each_file_is_read(tmp_path: Path, kind: str) -> None:
    load, raw, name = LOADERS[kind]
    files(tmp_path)
    (tmp_path / name).write_text(tomli_w.dumps(raw))
    load(tmp_path / name)


@pytest.mark.slow
@pytest.mark.parametrize("kind", LOADERS)
@settings(max_examples=80, derandomize=True, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_wrong_value_is_read_or_refused_with_file_and_key(tmp_path: Path, kind: str, data: st.DataObject) -> None:
    load, raw, name = LOADERS[kind]
    files(tmp_path)
    place, value = data.draw(st.sampled_from([*places(raw)])), data.draw(WRONG)
    (tmp_path / name).write_text(tomli_w.dumps(changed(raw, place, value)))
    try:
        load(tmp_path / name)
    except SpecError as error:
        told = str(error)
    else:
        return
    assert name in told
    assert any(key in told for key in place if isinstance(key, str))
    assert [word for word in THEIRS if word in told] == []


MADE = (Amount, Figure, Protection)
"""What a reader of the lab makes of a text that it has checked."""


def lax(schema: dict[str, Any]) -> Iterator[str]:
    """What a number or a boolean would also take."""
    if schema.get("type") in ("int", "float", "bool") and not schema.get("strict"):
        yield "text and other types"
    if schema.get("type") == "float" and schema.get("allow_inf_nan", True) and not {"le", "lt"} & set(schema):
        yield "inf"


def numbers(schema: object, key: str = "") -> Iterator[str]:
    """`key: what` for the numbers and booleans of a model that would also take something else."""
    if isinstance(schema, list | tuple):
        for part in schema:
            yield from numbers(part, key)
    if not isinstance(schema, dict) or schema.get("type") == "function-before" or schema.get("cls") in MADE:
        return
    yield from (f"{key} takes {what}" for what in lax(schema))
    for name, part in schema.items():
        fields = part if name == "fields" and isinstance(part, dict) else {}
        for field, below in fields.items():
            yield from numbers(below, f"{key}.{field}")
        if not fields and name not in ("metadata", "serialization"):
            yield from numbers(part, key)


def tables() -> list[type[BaseModel]]:
    """Every table of every file that users write; those of this repository's own tests do not count."""
    import_module("cephlab.suites.defects.shown")
    ahead: list[type[BaseModel]] = [TomlTable]
    models = [model for model in vars(selection).values() if isclass(model) and issubclass(model, BaseModel)]
    while ahead:
        below = ahead.pop().__subclasses__()
        models += below
        ahead += below
    return [model for model in models if model.__module__.startswith("cephlab.")]


@pytest.mark.slow
def test_numbers_and_booleans_of_every_file_are_taken_as_they_are_written() -> None:
    models = tables()
    assert len(models) > 20
    assert sorted({each for model in models for each in numbers(model.__pydantic_core_schema__, model.__name__)}) == []
