"""Ask Debian's archive, signatures verified, which package versions a recipe means today."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from lab.errors import CommandFailed, LabBroken, LabError, Unavailable
from lab.images.recipe import Recipe
from lab.images.tools import Tools, require

MIRROR_VARIABLE = "CEPHLAB_MIRROR"
EXPIRED_VARIABLE = "CEPHLAB_ACCEPT_EXPIRED"
BUILD_VARIABLE = "CEPHLAB_BUILD"
"""Marks the processes of a build with its scratch folder, so that those of a killed build can be found."""

_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
_RESOLVE_TIMEOUT_S = 600.0
_ESSENTIAL = "?essential"
_URI_LINE = re.compile(r"'[^']+' (?P<name>[^_\s]+)_(?P<version>[^_\s]+)_[a-z0-9]+\.deb (?P<size>\d+)")

# By cause: what apt says, what went wrong, what to do.
_TROUBLES: tuple[tuple[str, str, str], ...] = (
    (
        r"is expired|Valid-Until|not valid yet",
        "the mirror's package lists are out of date",
        "set this machine's clock right; for a frozen mirror that you trust to be old, set "
        f"{EXPIRED_VARIABLE}=1 (signatures are still verified)",
    ),
    (
        r"NO_PUBKEY|is not signed|EXPKEYSIG|BADSIG"
        r"|signatures? (?:were|was|couldn't be|could not be) (?:invalid|verified)"
        r"|no acceptable signature|Missing key|Signing key on",
        "the mirror's signature could not be verified",
        "bring the package debian-archive-keyring up to date, or choose another mirror",
    ),
    (
        r"Unable to locate package|has no installation candidate|unmet dependencies|does not have a Release file",
        "the mirror does not carry what the recipe asks for",
        f"choose a release that Debian still has, or a mirror that has it ({MIRROR_VARIABLE})",
    ),
    (
        r"No space left on device",
        "the disk became full",
        "free some space (`cephlab prune`, `cephlab image rm`)",
    ),
)
_NO_ANSWER = re.compile(
    r"Could not resolve|Temporary failure|Could not connect|Unable to connect|Connection (?:failed|refused|timed out)"
    r"|Failed to fetch|Network is unreachable"
)


@dataclass(frozen=True)
class DebianSource:
    """Where packages come from. mirror: None for the one that mmdebstrap knows."""

    mirror: str | None = None
    accept_expired: bool = False
    keyrings: Sequence[Path] = _KEYRINGS

    @staticmethod
    def from_environment() -> DebianSource:
        """CEPHLAB_MIRROR: a mirror's URL. CEPHLAB_ACCEPT_EXPIRED=1: take lists past their date."""
        return DebianSource(os.environ.get(MIRROR_VARIABLE) or None, os.environ.get(EXPIRED_VARIABLE) == "1")

    def require_keyring(self) -> None:
        """Refuse, by the package's name, where Debian's signatures could not be verified."""
        if not any(path.exists() for path in self.keyrings):
            raise Unavailable(
                "debian-archive-keyring is not installed",
                "without it the signatures of Debian's archive cannot be verified",
                "on Debian and Ubuntu: sudo apt-get install debian-archive-keyring",
            )


@dataclass(frozen=True)
class Resolution:
    """packages: name -> version of all that apt would unpack. download_bytes: their sum."""

    packages: dict[str, str]
    download_bytes: int


def resolve(tools: Tools, recipe: Recipe, source: DebianSource, scratch: Path) -> Resolution:
    """Fetch and verify the package lists into `scratch/lists` and let apt choose.

    Raises Unavailable when the mirror does not answer, LabBroken for anything else it finds wrong.
    """
    choose = (
        'set -e; export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; apt-get update --error-on=any >&2; '
        f'apt-get install --print-uris -qq -y {shlex.join(_asked_for(recipe))} >"$1/plan"'
    )
    target = scratch / "resolve"
    hooks = (choose, f"copy-out /plan /var/lib/apt/lists {shlex.quote(str(scratch))}")
    run_mmdebstrap(
        tools,
        recipe,
        source,
        [*(f"--setup-hook={hook}" for hook in hooks), recipe.suite, str(target)],
        scratch=scratch,
        timeout_s=_RESOLVE_TIMEOUT_S,
    )
    return _read_plan((scratch / "plan").read_text())


def include_options(recipe: Recipe) -> list[str]:
    """mmdebstrap's --include for the recipe; a pattern needs an option of its own."""
    names = f"--include={','.join(recipe.packages)}"
    return [names] if recipe.bare else [f"--include={_ESSENTIAL}", names]


def run_mmdebstrap(
    tools: Tools,
    recipe: Recipe,
    source: DebianSource,
    arguments: Sequence[str],
    *,
    scratch: Path,
    timeout_s: float,
) -> None:
    """Run mmdebstrap with what every call of it needs; apt's complaints become errors with a remedy.

    Mode chrootless serves root and ordinary users alike: the extract variant runs nothing of what it
    unpacks, so there is no root to enter, no namespace, no subordinate ids, and files are the caller's.
    """
    options = [
        "--variant=extract",
        "--mode=chrootless",
        "--skip=check/chrootless",
        "--format=directory",
        f"--arch={recipe.arch.debian}",
    ]
    if not recipe.supported and source.mirror is None:
        # Of its own accord mmdebstrap names the updates' place too, and nothing else does.
        options.append(f"""--setup-hook=sed -i '/ {recipe.suite}-security /d' "$1/etc/apt/sources.list\"""")
    if source.accept_expired:
        options.append('--aptopt=Acquire::Check-Valid-Until "false"')
    mirror = [source.mirror] if source.mirror else []
    argv = [require(tools, "mmdebstrap"), *options, *arguments, *mirror]
    # What it leaves in the temporary folder, and it does, goes away with the scratch folder.
    env = {"LC_ALL": "C", BUILD_VARIABLE: str(scratch), "TMPDIR": str(scratch)}
    try:
        tools.run(argv, timeout_s=timeout_s, env=env)
    except CommandFailed as error:
        raise _explain(error, recipe) from error


def _asked_for(recipe: Recipe) -> list[str]:
    return [*([] if recipe.bare else [_ESSENTIAL]), *recipe.packages]


def _read_plan(text: str) -> Resolution:
    found = [match for line in text.splitlines() if (match := _URI_LINE.match(line))]
    if not found or len(found) != len(text.splitlines()):
        raise LabBroken("apt's plan could not be read", text[:2000] or "(it is empty)")
    packages = {match["name"]: unquote(match["version"]) for match in found}
    return Resolution(dict(sorted(packages.items())), sum(int(match["size"]) for match in found))


def _explain(error: CommandFailed, recipe: Recipe) -> LabError:
    complaints = [line for line in error.stderr.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    said = "\n".join(line for line in complaints if "chrootless mode" not in line)
    detail = said or error.stderr[-2000:]
    for pattern, what, hint in _TROUBLES:
        if re.search(pattern, error.stderr):
            return LabBroken(f"{recipe.title}: {what}", detail, hint)
    if _NO_ANSWER.search(error.stderr):
        return Unavailable(
            f"{recipe.title}: the package mirror does not answer",
            detail,
            f"check the network and its proxy settings, or name a mirror in {MIRROR_VARIABLE}, then run it again",
        )
    return error
