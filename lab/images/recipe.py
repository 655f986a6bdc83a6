"""Recipes: which packages of which Debian suite make an image of a Ceph release."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError, model_validator

from lab.arch import Arch
from lab.errors import LabError, SpecError
from lab.spec import PAGE_BYTES

RECIPES = Path(__file__).with_name("recipes.toml")
CEPH = "ceph"
"""The role set that is Ceph itself."""

# Names reach apt's command line through a shell, so the file may hold nothing but names.
_Package = Annotated[str, StringConstraints(pattern=r"^[a-z0-9][a-z0-9+.-]+$")]
_Program = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9+._-]*$")]
_Word = re.compile(r"[a-z][a-z0-9-]*")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Release(_Table):
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")]
    archs: Annotated[tuple[Arch, ...], Field(min_length=1)]
    packages: dict[Arch, tuple[_Package, ...]] = {}
    """What this release's own packages need and do not name."""
    lacks: tuple[_Program, ...] = ()
    """Packages and programs of the role sets that its suite does not have."""
    supported: bool = True
    """False for a suite without security support any more: the mirror may still list updates whose files are gone."""


class _Contents(_Table):
    packages: Annotated[tuple[_Package, ...], Field(min_length=1)]
    programs: tuple[_Program, ...] = ()


class _Kernel(_Table):
    suite: Annotated[str, StringConstraints(pattern=r"^[a-z]+$")]
    packages: Annotated[dict[Arch, tuple[_Package, ...]], Field(min_length=1)]
    page_bytes: int = 4 << 10
    config: Annotated[str, StringConstraints(pattern=r"^[a-z0-9-]+\.config$")] | None = None
    """Name of a file beside this package's own recipes: what to build of the source that the packages hold."""

    @model_validator(mode="after")
    def _pages_fit(self) -> _Kernel:
        for arch in self.packages:
            if self.page_bytes not in PAGE_BYTES[arch]:
                raise ValueError(f"no {arch} kernel has pages of {self.page_bytes} bytes, but of {PAGE_BYTES[arch]}")
        return self


class _Book(_Table):
    default: str
    releases: Annotated[dict[str, _Release], Field(min_length=1)]
    base: _Contents
    role_sets: Annotated[dict[str, _Contents], Field(min_length=1)]
    kernels: dict[str, _Kernel] = {}

    @model_validator(mode="after")
    def _names_fit(self) -> _Book:
        if self.default not in self.releases:
            raise ValueError(f"default names {self.default!r}, which [releases] lacks")
        for name in (*self.releases, *self.role_sets):
            if not _Word.fullmatch(name):
                raise ValueError(f"{name!r} is not a name of a-z, 0-9 and -")
        parts = [self.base, *self.role_sets.values()]
        held = {name for part in parts for name in (*part.packages, *part.programs)}
        for name, release in self.releases.items():
            if strange := set(release.lacks) - held:
                raise ValueError(f"{name} lacks {', '.join(sorted(strange))}, which no role set names")
        return self


@dataclass(frozen=True)
class Recipe:
    """What to ask apt for, and which programs of the result are looked for under /usr/bin and /usr/sbin.

    supported: whether the suite still gets security updates; those of others are left out.
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
        """sha256 over all of it, hex."""
        return _digest_of(self)

    @property
    def title(self) -> str:
        return f"{self.release} for {self.arch}"

    @property
    def bare(self) -> bool:
        """Whether it is its packages and nothing around them: no root to live in."""
        return not self.role_sets


@dataclass(frozen=True)
class KernelRecipe(Recipe):
    """A kernel's packages. page_bytes: size of its pages; config: what is built of its source, empty for nothing."""

    page_bytes: int = 4 << 10
    config: str = ""

    @cached_property
    def digest(self) -> str:
        """sha256, hex: over the packages, and over the configuration where there is one."""
        packages = _digest_of(self)
        return hashlib.sha256(f"{packages}\n{self.config}".encode()).hexdigest() if self.config else packages


def _digest_of(recipe: Recipe) -> str:
    # Whether it is supported is no part of an image's content: that says itself which packages it has.
    parts = {part.name: getattr(recipe, part.name) for part in fields(Recipe) if part.name != "supported"}
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


class RecipeBook:
    """The recipe file, read and found sound."""

    def __init__(self, book: _Book) -> None:
        self._book = book

    @property
    def default(self) -> str:
        return self._book.default

    @property
    def releases(self) -> tuple[str, ...]:
        return tuple(self._book.releases)

    @property
    def role_sets(self) -> tuple[str, ...]:
        return tuple(self._book.role_sets)

    def find(self, release: str, arch: Arch, role_sets: Sequence[str] = (CEPH,)) -> Recipe:
        """The recipe of an image; SpecError on a release, architecture or role set that is not in the book."""
        found = self._book.releases.get(release)
        if found is None:
            raise _unknown("release", release, self.releases)
        if arch not in found.archs:
            raise _unknown(f"architecture of {release}", arch, found.archs)
        if not role_sets:
            raise SpecError(
                "an image needs at least one role set", "got none", f"known: {', '.join(sorted(self.role_sets))}"
            )
        wanted = tuple(sorted(set(role_sets)))
        for name in wanted:
            if name not in self._book.role_sets:
                raise _unknown("role set", name, self.role_sets)
        contents = [self._book.base, *(self._book.role_sets[name] for name in wanted)]
        own = found.packages.get(arch, ()) if CEPH in wanted else ()
        return Recipe(
            release=release,
            suite=found.suite,
            arch=arch,
            role_sets=wanted,
            packages=tuple(sorted({*own, *(name for part in contents for name in part.packages)} - {*found.lacks})),
            programs=tuple(sorted({name for part in contents for name in part.programs} - {*found.lacks})),
            supported=found.supported,
        )

    def archs_of(self, release: str) -> tuple[Arch, ...]:
        """Architectures that a release is for; SpecError where the book has no such release."""
        if release not in self._book.releases:
            raise _unknown("release", release, self.releases)
        return self._book.releases[release].archs

    @property
    def kernels(self) -> tuple[str, ...]:
        return tuple(self._book.kernels)

    def archs_of_kernel(self, name: str) -> tuple[Arch, ...]:
        """Architectures that a kernel is for; SpecError where the book has no such kernel."""
        if name not in self._book.kernels:
            raise _unknown("kernel", name, self.kernels)
        return tuple(self._book.kernels[name].packages)

    def kernels_with(self, arch: Arch, page_bytes: int) -> tuple[str, ...]:
        """Names of the kernels for an architecture whose pages have that size."""
        found = self._book.kernels.items()
        return tuple(name for name, one in found if arch in one.packages and one.page_bytes == page_bytes)

    def find_kernel(self, name: str, arch: Arch) -> KernelRecipe:
        """The recipe of a kernel, whose `release` is `kernel-NAME`; SpecError where the book has none."""
        found = self._book.kernels.get(name)
        if found is None:
            raise _unknown("kernel", name, self.kernels)
        if arch not in found.packages:
            raise _unknown(f"architecture of the kernel {name}", arch, tuple(found.packages))
        return KernelRecipe(
            release=f"kernel-{name}",
            suite=found.suite,
            arch=arch,
            role_sets=(),
            packages=tuple(sorted(found.packages[arch])),
            programs=(),
            page_bytes=found.page_bytes,
            config=_config(found.config) if found.config else "",
        )


def read_recipes(path: Path = RECIPES) -> RecipeBook:
    """Read and validate a recipe file; SpecError names each place that does not fit."""
    try:
        return RecipeBook(_Book.model_validate(tomllib.loads(path.read_text())))
    except OSError as error:
        raise SpecError(f"the recipe file {path} cannot be read", str(error)) from error
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"{path} is not TOML", str(error), "mend the line that is named") from error
    except ValidationError as error:
        places = [f"{'.'.join(map(str, found['loc'])) or 'file'}: {found['msg']}" for found in error.errors()]
        raise SpecError(f"{path} is not a recipe file", "\n".join(places), "mend the places that are named") from error


def _config(name: str) -> str:
    path = RECIPES.with_name(name)
    try:
        return path.read_text()
    except OSError as error:
        raise SpecError(f"the kernel's configuration {path} cannot be read", str(error)) from error


def _unknown(kind: str, got: str, known: Sequence[str]) -> LabError:
    return SpecError(f"unknown {kind} '{got}'", f"known: {', '.join(sorted(known))}", "choose one of these")
