"""Taking a run out of an engine, by its labels alone: the end of every run, and of those that were killed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cephlab.lab.base.errors import CleanupFailed, LabError

_AT_ONCE = 8


class EngineRemoval(ABC):
    """What one run has in an engine. removed, errors: in words, filled by `sweep`."""

    def __init__(self, run_id: str, labels: Mapping[str, str]) -> None:
        self._run_id = run_id
        self.labels = labels
        self.removed: list[str] = []
        self.errors: list[str] = []

    @abstractmethod
    def present(self) -> bool:
        """Whether the engine has anything of the run."""

    @abstractmethod
    def sweep(self) -> None:
        """Nodes first, then what they used; goes on after an error."""

    def everything(self) -> list[str]:
        """Remove all of it; what was removed, in words. CleanupFailed says what could not be."""
        self.sweep()
        if self.errors:
            raise CleanupFailed(self.errors)
        return self.removed

    def _each(self, kind: str, names: Sequence[str], remove: Callable[[str], bool]) -> None:
        """Remove things of a kind, several at once. remove: whether it was still there."""
        if not names:
            return
        with ThreadPoolExecutor(max_workers=min(_AT_ONCE, len(names))) as pool:
            for name, (there, error) in zip(names, pool.map(lambda name: _attempt(name, remove), names), strict=True):
                if error:
                    self.errors.append(error)
                elif there:
                    self.removed.append(f"{kind} {name}")


def _attempt(name: str, remove: Callable[[str], bool]) -> tuple[bool, str]:
    """(whether it was there, what went wrong)."""
    try:
        return remove(name), ""
    except LabError as error:
        return False, str(error)
