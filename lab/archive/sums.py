"""Checksums of the files of an archive: as sealed, and as they are now."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from cephlab.lab.base.given import is_file, read_text
from cephlab.lab.base.runs import write_private

SUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
MODE = 0o644
"""Mode of every file of an archive."""


def files(directory: Path) -> list[Path]:
    """Every file of an archive except its checksums and their signature, sorted by name."""
    seals = (directory / SUMS, directory / SIGNATURE)
    return sorted(path for path in directory.rglob("*") if path.is_file() and path not in seals)


def sums_now(directory: Path) -> dict[str, str]:
    """Name -> checksum of every file, as the files are now."""
    return {str(path.relative_to(directory)): sha256(path.read_bytes()).hexdigest() for path in files(directory)}


def read_sums(directory: Path) -> dict[str, str]:
    """Name -> checksum of every file, as it was when the archive was sealed."""
    lines = read_text(directory / SUMS, most_bytes=None).splitlines()
    return {name: value for value, _, name in (line.partition("  ") for line in lines)}


def write_sums(directory: Path, sums: Mapping[str, str]) -> None:
    """Write the checksums of the files of a directory. sums: name -> checksum."""
    lines = (f"{value}  {name}\n" for name, value in sorted(sums.items()))
    write_private(directory / SUMS, "".join(lines).encode(), mode=MODE)


def altered(directory: Path) -> list[str]:
    """What does not match the checksums, in words: changed, missing and added files."""
    if not is_file(directory / SUMS):
        return [f"{SUMS} is missing: the run was not sealed"]
    sealed = read_sums(directory)
    bad = sealed.pop("", None)
    now = sums_now(directory)
    return [
        *([f"{SUMS} has a line that is no checksum"] if bad is not None else ()),
        *(f"{name} is missing" for name in sorted(sealed.keys() - now.keys())),
        *(f"{name} was added" for name in sorted(now.keys() - sealed.keys())),
        *(f"{name} was altered" for name in sorted(sealed.keys() & now.keys()) if sealed[name] != now[name]),
    ]
