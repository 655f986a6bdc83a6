"""Build a kernel of the source that Debian packages, from a configuration that names only what it has to have."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.progress import Progress
from cephlab.lab.images.recipe import KernelRecipe
from cephlab.lab.images.tools import BUILD_VARIABLE, Tools, require
from cephlab.lab.spec.arch import Arch, host_arch

SPACE_BYTES = 3_000_000_000
"""The source takes 1.7 GB, what is made of it and its package the rest."""

_SOURCE = "usr/src/linux-source-*.tar.*"
_NAMES = {Arch.X86_64: ("x86_64", "arch/x86/boot/bzImage"), Arch.AARCH64: ("arm64", "arch/arm64/boot/Image")}
"""What the kernel's own makefiles call an architecture, and where they put its image."""
_KEPT = ("bin/busybox", "usr/bin/busybox")
_UNPACK_S, _CONFIGURE_S, _COMPILE_S = 1800.0, 1800.0, 4 * 3600.0
_VERSION = re.compile(r"\d+\.\d+\.[\w.+-]+")


def tools(arch: Arch) -> tuple[str, ...]:
    """Programs of this machine that a build for an architecture starts."""
    return ("bc", "bison", "flex", "gcc", "make", "tar", "xz", f"{_prefix(arch)}gcc")


def build(programs: Tools, recipe: KernelRecipe, root: Path, scratch: Path, progress: Progress) -> None:
    """Turn `root`, which holds a source, into the kernel, busybox and an empty folder of modules."""
    source, made = scratch / "source", scratch / "made"
    for folder in (source, made):
        folder.mkdir()
    env = {BUILD_VARIABLE: str(scratch), "LC_ALL": "C", "TMPDIR": str(scratch)}
    progress(f"{recipe.title}: unpacking the source")
    unpack = [require(programs, "tar"), "-xf", str(_archive(root)), "-C", str(source), "--strip-components=1"]
    programs.run(unpack, timeout_s=_UNPACK_S, env=env)
    config = scratch / "wanted.config"
    config.write_text(recipe.config)
    make = [require(programs, "make"), "-s", "-C", str(source), *_variables(recipe.arch, made)]
    # Settings that the file does not name are off, unless one that it names needs them.
    programs.run([*make, f"KCONFIG_ALLCONFIG={config}", "allnoconfig"], timeout_s=_CONFIGURE_S, env=env)
    _refuse_untaken(recipe, (made / ".config").read_text())
    jobs = len(os.sched_getaffinity(0))
    name, image = _NAMES[recipe.arch]
    progress(f"{recipe.title}: compiling, {jobs} files at a time")
    programs.run([*make, f"-j{jobs}", Path(image).name], timeout_s=_COMPILE_S, env=env)
    version = _release((made / "include/config/kernel.release").read_text())
    progress(f"{recipe.title}: built {version} for {name}")
    _replace(root, made / image, version)


def _prefix(arch: Arch) -> str:
    return "" if arch is host_arch() else f"{arch.triplet}-"


def _variables(arch: Arch, made: Path) -> list[str]:
    """For every call of make. Who builds where and when is in no kernel."""
    return [
        f"O={made}",
        f"ARCH={_NAMES[arch][0]}",
        f"CROSS_COMPILE={_prefix(arch)}",
        "KBUILD_BUILD_USER=cephlab",
        "KBUILD_BUILD_HOST=cephlab",
        "KBUILD_BUILD_TIMESTAMP=@0",
    ]


def _archive(root: Path) -> Path:
    archives = sorted(root.glob(_SOURCE))
    if not archives:
        raise LabBroken("the packages hold no source of a kernel", f"{root}: {_SOURCE}", "name one in the recipe file")
    return archives[0]


def untaken(wanted: str, taken: str) -> Iterator[str]:
    """Settings of a configuration that another lacks, because it does not know them or because they need others."""
    lines = frozenset(taken.splitlines())
    return (line for line in wanted.splitlines() if line.startswith("CONFIG_") and line not in lines)


def _refuse_untaken(recipe: KernelRecipe, taken: str) -> None:
    lost: Sequence[str] = list(untaken(recipe.config, taken))
    if lost:
        raise LabBroken(
            f"the source of {recipe.title} does not take its configuration",
            f"not as wanted: {', '.join(lost)}",
            "name what these depend on, or leave them out",
        )


def _release(text: str) -> str:
    version = text.strip()
    if not _VERSION.fullmatch(version):
        raise LabBroken("the kernel that was built does not say which it is", repr(text[:200]))
    return version


def _replace(root: Path, image: Path, version: str) -> None:
    """Put the kernel in the place of its source and of what that depends on."""
    old = root.with_name("unpacked")
    root.replace(old)
    busybox = next(old / name for name in _KEPT if (old / name).is_file())
    for folder in ("boot", f"usr/lib/modules/{version}", "usr/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy2(busybox, root / "usr/bin/busybox")
    shutil.copy2(image, root / f"boot/vmlinuz-{version}")
    shutil.rmtree(old)
