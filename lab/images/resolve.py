"""Finds the package versions that a recipe gives today, from Debian's archive with verified signatures."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from urllib.parse import unquote

from cephlab.lab.base.errors import CommandFailed, LabBroken, LabError, NotInstalled, SpecError, Unavailable
from cephlab.lab.images.lock import PINS, Deb, Lock
from cephlab.lab.images.recipe import Recipe
from cephlab.lab.images.tools import BUILD_VARIABLE, Tools, require

MIRROR_VARIABLE = "CEPHLAB_MIRROR"
EXPIRED_VARIABLE = "CEPHLAB_ACCEPT_EXPIRED"

_KEYRINGS = (
    Path("/usr/share/keyrings/debian-archive-keyring.gpg"),
    Path("/usr/share/keyrings/debian-archive-keyring.pgp"),
)
KEYRING = {"debian-archive-keyring": "debian-archive-keyring"}
_RESOLVE_TIMEOUT_S = 600.0
_ESSENTIAL = "?essential"
_URI_LINE = re.compile(
    r"'[^']+' (?P<name>[^_\s]+)_(?P<version>[^_\s]+)_(?P<arch>[a-z0-9]+)\.deb (?P<size>\d+)"
    r" SHA256:(?P<sha256>[0-9a-f]{64})"
)

# For each cause: pattern of apt's message, what went wrong, what to do.
_TROUBLES: tuple[tuple[str, str, str], ...] = (
    (
        r"is expired|Valid-Until|not valid yet",
        "the mirror's package lists are out of date",
        "check the clock of this machine; for a frozen mirror that is meant to be old, set "
        f"{EXPIRED_VARIABLE}=1 (signatures are still verified)",
    ),
    (
        r"NO_PUBKEY|is not signed|EXPKEYSIG|BADSIG"
        r"|signatures? (?:were|was|couldn't be|could not be) (?:invalid|verified)"
        r"|no acceptable signature|Missing key|Signing key on",
        "the mirror's signature could not be verified",
        "update the package debian-archive-keyring, or use another mirror",
    ),
    (
        r"Unable to locate package|has no installation candidate|unmet dependencies|does not have a Release file",
        "the mirror does not have the packages of the recipe",
        f"choose a release that Debian still has, or a mirror that has it ({MIRROR_VARIABLE})",
    ),
    (
        r"No space left on device",
        "the disk is full",
        "free some space (`cephlab prune`, `cephlab image rm`)",
    ),
)
_NO_ANSWER = re.compile(
    r"Could not resolve|Temporary failure|Could not connect|Unable to connect|Connection (?:failed|refused|timed out)"
    r"|Failed to fetch|Network is unreachable"
)


@dataclass(frozen=True)
class DebianSource:
    """Where packages come from. mirror: None for the default of mmdebstrap.

    snapshot: the time of the packages; the mirror is then an archive of snapshots, whose lists have expired.
    """

    mirror: str | None = None
    accept_expired: bool = False
    keyrings: Sequence[Path] = _KEYRINGS
    snapshot: datetime | None = None

    @staticmethod
    def from_environment() -> DebianSource:
        """CEPHLAB_MIRROR: URL of a mirror. CEPHLAB_ACCEPT_EXPIRED=1: accept expired lists."""
        mirror = os.environ.get(MIRROR_VARIABLE, "").rstrip("/")
        return DebianSource(mirror or None, os.environ.get(EXPIRED_VARIABLE) == "1")

    def digest(self, recipe: Recipe) -> str:
        """Digest of the recipe. It includes a given mirror, whose packages may differ at equal versions."""
        named = f"{recipe.digest}\n{self.mirror}".encode()
        return hashlib.sha256(named).hexdigest() if self.mirror else recipe.digest

    def name(self, recipe: Recipe) -> str:
        """The name under which the resolved packages of a recipe are stored."""
        return f"{recipe.release}-{recipe.arch.debian}-{self.digest(recipe)[:12]}"

    def arguments(self, recipe: Recipe) -> list[str]:
        """Arguments of mmdebstrap after the root; none for its default mirror."""
        if self.snapshot is None:
            return [self.mirror] if self.mirror else []
        if self.mirror is None:
            raise SpecError(
                "packages of another day need an archive of snapshots, but none is given",
                f"{MIRROR_VARIABLE}: missing",
                f"set {MIRROR_VARIABLE} to its address, below which are debian/ and debian-security/",
            )
        places = [("debian", recipe.suite)]
        if recipe.suite != "sid":
            places.append(("debian", f"{recipe.suite}-updates"))
            places += [("debian-security", f"{recipe.suite}-security")] if recipe.supported else []
        keyring = next((path for path in self.keyrings if path.exists()), self.keyrings[0])
        day = self.snapshot.strftime("%Y%m%dT%H%M%SZ")
        base = f"deb [signed-by={keyring}] {self.mirror.rstrip('/')}"
        return [f"{base}/{archive}/{day} {suite} main" for archive, suite in places]

    def require_keyring(self) -> None:
        """NotInstalled, with the name of the package, if Debian's signatures cannot be verified."""
        if not self.has_keyring():
            raise NotInstalled(KEYRING, "without it the signatures of Debian's archive cannot be verified")

    def has_keyring(self) -> bool:
        return any(path.exists() for path in self.keyrings)


@dataclass(frozen=True)
class Resolution:
    """debs: all packages that apt would unpack, by name. download_bytes: their total size."""

    debs: dict[str, Deb]
    download_bytes: int

    @property
    def packages(self) -> dict[str, str]:
        """name -> version."""
        return {name: deb.version for name, deb in self.debs.items()}


def resolve(tools: Tools, recipe: Recipe, source: DebianSource, scratch: Path, lock: Lock | None = None) -> Resolution:
    """Fetch and verify the package lists into `scratch/lists` and let apt choose, if possible the versions of a lock.

    Raises Unavailable if the mirror does not answer, LabBroken for anything else that is wrong, for example packages
    that differ from the lock.
    """
    plan = f'install --print-uris -o Acquire::ForceHash=SHA256 -qq -y {shlex.join(_requested(recipe))} >"$1/plan"'
    choose = f'set -e; export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; apt-get update --error-on=any >&2; apt-get {plan}'
    if lock is not None:
        (scratch / "pins").write_text(lock.pins(recipe))
        # The locked versions may no longer fit together. A plan without them lets `require` name the differences.
        choose += f" || apt-get -o Dir::Etc::PreferencesParts=/nowhere {plan}"
    target = scratch / "resolve"
    hooks = (*pin_hooks(scratch), choose, f"copy-out /plan /var/lib/apt/lists {shlex.quote(str(scratch))}")
    run_mmdebstrap(
        tools,
        recipe,
        source,
        [*(f"--setup-hook={hook}" for hook in hooks), recipe.suite, str(target)],
        scratch=scratch,
        timeout_s=_RESOLVE_TIMEOUT_S,
    )
    resolution = _read_plan((scratch / "plan").read_text())
    if lock is not None:
        lock.require(recipe, resolution.debs)
    return resolution


def pin_hooks(scratch: Path) -> list[str]:
    """The hook of mmdebstrap that makes apt use the versions of a lock, if `scratch` has them."""
    pins = scratch / "pins"
    return [f"upload {shlex.quote(str(pins))} /{PINS}"] if pins.exists() else []


def include_options(recipe: Recipe) -> list[str]:
    """Options --include of mmdebstrap for the recipe; a pattern needs a separate option."""
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
    """Run mmdebstrap with the options that every call needs; errors of apt become errors with a hint.

    Mode chrootless works for root and for ordinary users: the extract variant runs none of the unpacked
    programs, so it needs no chroot, no namespace and no subordinate IDs, and the caller owns the files.
    """
    options = [
        "--variant=extract",
        "--mode=chrootless",
        "--skip=check/chrootless",
        "--format=directory",
        f"--arch={recipe.arch.debian}",
    ]
    if not recipe.supported and not source.arguments(recipe):
        # mmdebstrap adds the security suite by itself and has no option to prevent that.
        options.append(f"""--setup-hook=sed -i '/ {recipe.suite}-security /d' "$1/etc/apt/sources.list\"""")
    if source.accept_expired or source.snapshot:
        options.append('--aptopt=Acquire::Check-Valid-Until "false"')
    argv = [require(tools, "mmdebstrap"), *options, *arguments, *source.arguments(recipe)]
    # mmdebstrap leaves files in the temporary folder; they are removed with the scratch folder.
    env = {"LC_ALL": "C", BUILD_VARIABLE: str(scratch), "TMPDIR": str(scratch)}
    try:
        tools.run(argv, timeout_s=timeout_s, env=env)
    except CommandFailed as error:
        raise _explain(error, recipe) from error


def _requested(recipe: Recipe) -> list[str]:
    return [*([] if recipe.bare else [_ESSENTIAL]), *recipe.packages]


def _read_plan(text: str) -> Resolution:
    matches = [match for line in text.splitlines() if (match := _URI_LINE.match(line))]
    if not matches or len(matches) != len(text.splitlines()):
        raise LabBroken("apt's plan could not be read", text[:2000] or "(it is empty)")
    debs = {
        match["name"]: Deb(version=unquote(match["version"]), arch=match["arch"], sha256=match["sha256"])
        for match in matches
    }
    return Resolution(dict(sorted(debs.items())), sum(int(match["size"]) for match in matches))


def _explain(error: CommandFailed, recipe: Recipe) -> LabError:
    complaints = [line for line in error.stderr.splitlines() if line.startswith(("E:", "W:", "Err:"))]
    words = "\n".join(line for line in complaints if "chrootless mode" not in line)
    detail = words or error.stderr[-2000:]
    for pattern, what, hint in _TROUBLES:
        if re.search(pattern, error.stderr):
            return LabBroken(f"{recipe.title}: {what}", detail, hint)
    if _NO_ANSWER.search(error.stderr):
        return Unavailable(
            f"{recipe.title}: the package mirror does not answer",
            detail,
            f"check the network and its proxy settings, or set a mirror in {MIRROR_VARIABLE}, then run it again",
        )
    return error
