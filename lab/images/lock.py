"""Lock files: versions and checksums of the packages of a release, so that the same images can be built again."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from cephlab.lab.base.errors import LabBroken, SpecError
from cephlab.lab.images.recipe import Recipe
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.specfile import load_model

PINS = "etc/apt/preferences.d/cephlab-lock"
"""File in a root under construction that tells apt which versions to use."""

# Both get into apt's preferences, so only the characters of Debian names and versions are allowed.
_Name = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
_Version = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9.+:~-]+$")]


class Deb(BaseModel):
    """One package of Debian's archive. arch: Debian's name, `all` for any; sha256: of the file, hex."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    version: _Version
    arch: str
    sha256: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]


class _LockFile(BaseModel):
    model_config = ConfigDict(extra="forbid")

    release: str
    packages: Annotated[dict[Arch, dict[_Name, Deb]], Field(min_length=1)]


@dataclass(frozen=True)
class Lock:
    """The packages of all locked role sets. An image may have fewer of them, but no others."""

    source: Path
    release: str
    packages: Mapping[Arch, Mapping[str, Deb]]

    def of(self, recipe: Recipe) -> Mapping[str, Deb]:
        """The packages for a recipe; SpecError if the lock is not for its release or architecture."""
        if recipe.release != self.release or recipe.arch not in self.packages:
            described = f"{self.release} for {', '.join(self.packages)}"
            raise SpecError(
                f"{self.source} does not cover {recipe.title}", f"it is for {described}", "use another lock"
            )
        return self.packages[recipe.arch]

    def pins(self, recipe: Recipe) -> str:
        """Preferences that make apt use the locked versions that the mirror still has, even older ones."""
        rows = self.of(recipe).items()
        return "\n".join(f"Package: {name}\nPin: version {deb.version}\nPin-Priority: 1001\n" for name, deb in rows)

    def require(self, recipe: Recipe, got: Mapping[str, Deb]) -> None:
        """LabBroken if a mirror gives other packages; it names each with the wanted and the actual version."""
        wanted = self.of(recipe)
        other = [line for name, deb in got.items() for line in _difference(name, wanted.get(name), deb)]
        if other:
            raise LabBroken(
                f"{recipe.title}: the mirror does not have the packages of {self.source}",
                "\n".join(other),
                "use packages from the day of the lock (--snapshot DATE), or write a new lock (--refresh)",
            )

    def changes(self, arch: Arch, got: Mapping[str, str]) -> list[str]:
        """One line for each package whose version in an image differs from the lock, or that the lock does not have."""
        locked = self.packages.get(arch, {})
        versions = {name: deb.version for name, deb in locked.items()}
        return [_line(name, versions.get(name), got[name]) for name in sorted(got) if got[name] != versions.get(name)]


def _difference(name: str, wanted: Deb | None, got: Deb) -> Iterable[str]:
    if wanted is None or wanted.version != got.version:
        yield _line(name, wanted.version if wanted else None, got.version)
    elif wanted != got:
        yield f"{name} {got.version}: wanted {wanted.arch} {wanted.sha256}, got {got.arch} {got.sha256}"


def _line(name: str, wanted: str | None, got: str) -> str:
    return f"{name}: wanted {wanted or 'none'}, got {got}"


def read_lock(path: Path) -> Lock:
    """Read a lock file; SpecError names each invalid key."""
    file = load_model(path, _LockFile, what="a lock", hint="`cephlab image build --lock FILE` writes one")
    return Lock(path, file.release, file.packages)


def write_lock(lock: Lock) -> None:
    """Write a lock to its `source`."""
    command = f"cephlab image build {lock.release} --lock THIS_FILE"
    lines = [f"# Packages of images; `{command}` installs these again.", f"release = {json.dumps(lock.release)}"]
    for arch in sorted(lock.packages):
        lines += ["", f"[packages.{arch}]"]
        for name, deb in sorted(lock.packages[arch].items()):
            fields = ", ".join(f"{key} = {json.dumps(value)}" for key, value in deb.model_dump().items())
            lines.append(f"{json.dumps(name)} = {{ {fields} }}")
    lock.source.parent.mkdir(parents=True, exist_ok=True)
    lock.source.write_text("\n".join(lines) + "\n")
