"""Recipes: the Debian suite and the packages that make up an image of a Ceph release."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from cephlab.lab.base.errors import SpecError, unreadable
from cephlab.lab.base.nearest import unknown
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import PAGE_BYTES
from cephlab.lab.spec.specfile import load_model
from cephlab.lab.spec.written import Flag, Whole

RECIPES = Path(__file__).with_name("recipes.toml")
CEPH = "ceph"
"""The role set of Ceph itself."""

# Names reach apt's command line through a shell, so only the characters of names are allowed.
_Package = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
_Program = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._-]*$")]
_Word = re.compile(r"[a-z][a-z0-9-]*")
_Entry = TypeVar("_Entry")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Release(_Part):
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")]
    archs: Annotated[tuple[Arch, ...], Field(min_length=1)]
    packages: dict[Arch, tuple[_Package, ...]] = {}
    """Packages that those of this release need but do not declare."""
    lacks: tuple[_Program, ...] = ()
    """Packages and programs of the role sets that its suite does not have."""
    supported: Flag = True
    """False if the suite has no security support any more: a mirror may then list updates whose files are gone."""


class _Contents(_Part):
    packages: Annotated[tuple[_Package, ...], Field(min_length=1)]
    programs: tuple[_Program, ...] = ()
    archs: tuple[Arch, ...] = tuple(Arch)
    """Architectures for which Debian has the packages."""


class _Kernel(_Part):
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")]
    packages: Annotated[dict[Arch, tuple[_Package, ...]], Field(min_length=1)]
    page_bytes: Whole = 4 << 10
    expires: Flag = True
    """False if lists of packages serve after they have expired, as those of a frozen mirror. Signatures still count."""
    config: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.config$")] | None = None
    """Name of a kernel configuration file next to the recipe file, to build from the source in the packages."""

    @model_validator(mode="after")
    def _pages_fit(self) -> _Kernel:
        for arch in self.packages:
            if self.page_bytes not in PAGE_BYTES[arch]:
                raise ValueError(f"page_bytes: got {self.page_bytes}, wanted for {arch}: one of {PAGE_BYTES[arch]}")
        return self


@dataclass(frozen=True)
class Recipe:
    """The packages to request from apt, and the programs that must then exist under /usr/bin and /usr/sbin.

    supported: whether the suite still gets security updates; if not, its security archive is not used.
    """

    release: str
    suite: str
    arch: Arch
    role_sets: tuple[str, ...]
    packages: tuple[str, ...]
    programs: tuple[str, ...]
    supported: bool = field(default=True, kw_only=True)

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over the whole recipe except `supported`."""
        return _digest_of(self)

    @property
    def title(self) -> str:
        return f"{self.release} for {self.arch}"

    @property
    def bare(self) -> bool:
        """Whether only the packages are wanted, not a root in which programs can run."""
        return not self.role_sets


@dataclass(frozen=True)
class KernelRecipe(Recipe):
    """Packages of a kernel. page_bytes: its page size; config: configuration to build from source, empty for none.

    expires: whether lists of packages that have expired are refused.
    """

    page_bytes: int = 4 << 10
    config: str = ""
    expires: bool = True

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) over the packages and the configuration, if there is one."""
        packages = _digest_of(self)
        return hashlib.sha256(f"{packages}\n{self.config}".encode()).hexdigest() if self.config else packages


def _digest_of(recipe: Recipe) -> str:
    # `supported` only affects which packages are chosen, and those are part of the image key anyway.
    parts = {part.name: getattr(recipe, part.name) for part in fields(Recipe) if part.name != "supported"}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class RecipeBook(_Part):
    """The recipe file."""

    default: str
    releases: Annotated[dict[str, _Release], Field(min_length=1)]
    base: _Contents
    role_sets: Annotated[dict[str, _Contents], Field(min_length=1)]
    kernels: dict[str, _Kernel] = {}

    @model_validator(mode="after")
    def _names_fit(self) -> RecipeBook:
        if self.default not in self.releases:
            raise ValueError(f"default is {self.default!r}, which is not in [releases]")
        for name in (*self.releases, *self.role_sets):
            if not _Word.fullmatch(name):
                raise ValueError(f"{name!r} is not a valid name: use a-z, 0-9 and -")
        parts = [self.base, *self.role_sets.values()]
        known = {name for part in parts for name in (*part.packages, *part.programs)}
        for name, release in self.releases.items():
            if strange := set(release.lacks) - known:
                raise ValueError(f"lacks of {name}: {', '.join(sorted(strange))} is in no role set")
        return self

    def release(self, name: str) -> _Release:
        """The entry of a release; SpecError if the book has none."""
        return _named("release", name, self.releases)

    def find(self, release: str, arch: Arch, role_sets: Sequence[str] = (CEPH,)) -> Recipe:
        """The recipe of an image; SpecError on a release, architecture or role set that is not in the book."""
        entry = self.release(release)
        if arch not in entry.archs:
            hint = f"use only nodes of {entry.archs[0]}: --nodes {entry.archs[0]}:3"
            raise SpecError(f"unknown architecture of {release} '{arch}'", f"known: {', '.join(entry.archs)}", hint)
        if not role_sets:
            raise SpecError(
                "an image needs at least one role set", "got none", f"known: {', '.join(sorted(self.role_sets))}"
            )
        wanted = tuple(sorted(set(role_sets)))
        contents = [self.base, *(self._role_set(name, arch) for name in wanted)]
        own = entry.packages.get(arch, ()) if CEPH in wanted else ()
        return Recipe(
            release=release,
            suite=entry.suite,
            arch=arch,
            role_sets=wanted,
            packages=tuple(sorted({*own, *(name for part in contents for name in part.packages)} - {*entry.lacks})),
            programs=tuple(sorted({name for part in contents for name in part.programs} - {*entry.lacks})),
            supported=entry.supported,
        )

    def _role_set(self, name: str, arch: Arch) -> _Contents:
        contents = _named("role set", name, self.role_sets)
        if arch not in contents.archs:
            raise unknown(f"unknown architecture of the role set {name} '{arch}'", arch, sorted(contents.archs))
        return contents

    def archs_of(self, release: str) -> tuple[Arch, ...]:
        """Architectures of a release; SpecError if the book has no such release."""
        return self.release(release).archs

    def archs_of_kernel(self, name: str) -> tuple[Arch, ...]:
        """Architectures of a kernel; SpecError if the book has no such kernel."""
        return tuple(_named("kernel", name, self.kernels).packages)

    def kernels_with(self, arch: Arch, page_bytes: int) -> tuple[str, ...]:
        """Names of the kernels for an architecture with that page size."""
        kernels = self.kernels.items()
        return tuple(name for name, kernel in kernels if arch in kernel.packages and kernel.page_bytes == page_bytes)

    def find_kernel(self, name: str, arch: Arch) -> KernelRecipe:
        """The recipe of a kernel, whose `release` is `kernel-NAME`; SpecError if the book has none."""
        entry = _named("kernel", name, self.kernels)
        if arch not in entry.packages:
            raise unknown(f"unknown architecture of the kernel {name} '{arch}'", arch, sorted(entry.packages))
        return KernelRecipe(
            release=f"kernel-{name}",
            suite=entry.suite,
            arch=arch,
            role_sets=(),
            packages=tuple(sorted(entry.packages[arch])),
            programs=(),
            page_bytes=entry.page_bytes,
            expires=entry.expires,
            config=_config(entry.config) if entry.config else "",
        )


def read_recipes(path: Path = RECIPES) -> RecipeBook:
    """Read and validate a recipe file; SpecError names each invalid place."""
    return load_model(path, RecipeBook, what="a recipe file", hint="correct these places")


def _config(name: str) -> str:
    path = RECIPES.with_name(name)
    try:
        return path.read_text()
    except OSError as error:
        raise unreadable(path, error) from error


def _named(kind: str, name: str, entries: Mapping[str, _Entry]) -> _Entry:
    if name not in entries:
        raise unknown(f"unknown {kind} {name!r}", name, sorted(entries))
    return entries[name]
