"""The commit of this project that is running, if its files are an unchanged checkout."""

import shutil
from pathlib import Path

from cephlab.lab.base import process
from cephlab.lab.base.errors import LabError

_TIMEOUT_S = 10.0


def commit_of(root: Path) -> str | None:
    """The commit of the checkout at root, 40 hexadecimal digits. None if it has changes or is not a checkout."""
    if shutil.which("git") is None or not (root / ".git").exists():
        return None
    git = ("git", "-C", str(root), "-c", f"safe.directory={root}")
    try:
        changed = process.run((*git, "status", "--porcelain"), timeout_s=_TIMEOUT_S).stdout.strip()
        commit = process.run((*git, "rev-parse", "HEAD"), timeout_s=_TIMEOUT_S).stdout.strip()
    except LabError:
        return None
    return None if changed else commit
