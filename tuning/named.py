"""Named tunings: the settings of a paper's cluster as a file, each with its place in the paper."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from cephlab.lab.base.errors import SpecError
from cephlab.lab.base.given import user_path
from cephlab.lab.base.nearest import unknown
from cephlab.lab.spec.specfile import Text, TomlTable, load_model, refuse_twice
from cephlab.lab.tunables.settings import Kind, Setting

FOLDER = Path(__file__).with_name("tunings")

_KEYS = {
    Kind.SYSCTL: (re.compile(r"[a-z][a-z0-9_-]*(\.[a-zA-Z0-9_-]+)+"), "a dotted name, e.g. vm.swappiness"),
    Kind.SYSFS: (re.compile(r"/sys/[\w/.*\[\]-]+"), "an absolute path below /sys; * matches within a name"),
    Kind.MTU: (re.compile(r"cluster"), "cluster: the interface of the cluster's network"),
    Kind.SWAP: (re.compile(r"all"), "all"),
    Kind.LIMITS: (re.compile(r"\S+ (soft|hard|-) [a-z]+"), "DOMAIN soft|hard|- ITEM, e.g. * soft nofile"),
    Kind.CMDLINE: (re.compile(r"[a-z][\w.,=-]*"), "one word of the kernel's command line"),
    Kind.CEPH: (re.compile(r"[a-z][a-z0-9_/]+"), "an option of Ceph with underscores"),
}
"""What a key of each kind looks like. A path with .. is refused."""

_SECTION = re.compile(r"global|mon|mgr|osd|mds|client(\.[\w.-]+)?")


class _Setting(TomlTable):
    kind: Kind
    key: Text
    value: Text = ""
    section: str = ""
    source: Text
    note: str = ""

    @model_validator(mode="after")
    def _fits(self) -> _Setting:
        pattern, wanted = _KEYS.get(self.kind, (re.compile(".+"), "any words"))
        if not pattern.fullmatch(self.key) or ".." in self.key:
            raise ValueError(f"key {self.key!r} does not fit kind {self.kind}; wanted: {wanted}")
        if (self.kind is Kind.CEPH) != bool(self.section):
            raise ValueError("section: kind ceph needs it, no other kind takes it")
        if self.section and not _SECTION.fullmatch(self.section):
            raise ValueError(f"section: got {self.section!r}, wanted one of global, mon, mgr, osd, mds, client")
        if not self.value and self.kind not in (Kind.CMDLINE, Kind.MANUAL):
            raise ValueError("value is missing")
        if self.kind is Kind.SWAP and self.value != "off":
            raise ValueError(f"swap can only be 'off', got {self.value!r}")
        if self.kind is Kind.MTU and not self.value.isdigit():
            raise ValueError(f"an MTU is a number of bytes, got {self.value!r}")
        return self

    def frozen(self) -> Setting:
        return Setting(self.kind, self.key, self.value, self.source, self.section, self.note)


class _TuningFile(TomlTable):
    title: Text
    paper: Text
    settings: Annotated[tuple[_Setting, ...], Field(min_length=1)]

    @model_validator(mode="after")
    def _once(self) -> _TuningFile:
        places = [f"{setting.kind} {setting.section} {setting.key}".replace("  ", " ") for setting in self.settings]
        refuse_twice("settings", places)
        return self


@dataclass(frozen=True)
class Tuning:
    """A named tuning. paper: where its settings come from; each of them names the place."""

    name: str
    title: str
    paper: str
    settings: tuple[Setting, ...]


def names(folder: Path = FOLDER) -> list[str]:
    """Names of the tunings that ship with cephlab."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load(name: str, folder: Path = FOLDER) -> Tuning:
    """A tuning by name, or by the path of a TOML file; SpecError for an unknown name."""
    path = user_path(name)
    if path.suffix == ".toml":
        return read(path)
    if name not in names(folder):
        otherwise = "choose one of these, or give the path of a .toml file"
        raise unknown(f"there is no tuning {name!r}", name, names(folder), otherwise)
    return read(folder / f"{name}.toml")


def read(path: Path) -> Tuning:
    """Read a tuning file; SpecError names file, key, got and wanted."""
    file = load_model(path, _TuningFile, what="a tuning", hint="see docs/tuning.md for the keys")
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]*", path.stem):
        raise SpecError(f"{path.stem!r} is not a valid name for a tuning", "wanted: a-z, 0-9 and -", "rename the file")
    return Tuning(path.stem, file.title, file.paper, tuple(setting.frozen() for setting in file.settings))
