"""Removing a run from an engine by its labels alone, when it ends and after it was killed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from cephlab.lab.base.errors import CleanupFailed, LabError
from cephlab.lab.providers.engine.answers import NotThere

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
        """Remove nodes first, then what they used. Goes on after an error."""

    def everything(self) -> list[str]:
        """Remove all of it and return what was removed, in words. CleanupFailed lists what could not be removed."""
        self.sweep()
        if self.errors:
            raise CleanupFailed(self.errors)
        return self.removed

    def _each(self, kind: str, names: Sequence[str], remove: Callable[[str], object]) -> None:
        """Remove things of a kind, several at once. What was already gone is neither removed nor an error."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            removals = [(name, pool.submit(remove, name)) for name in names]
        for name, removal in removals:
            try:
                removal.result()
            except NotThere:
                continue
            except LabError as error:
                self.errors.append(str(error))
            else:
                self.removed.append(f"{kind} {name}")
