"""Shared by providers whose nodes run in an engine: finding the engine, its images, launching and removing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from cephlab.lab.base.errors import CleanUp, LabError, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images, Lab, Silent, removing
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec

if TYPE_CHECKING:
    from cephlab.lab.images.export import Form

_AT_ONCE = 8

Export = Callable[[Image], Path]
"""Gives the file of a cephlab image, made on first use."""


class EngineRemoval(ABC):
    """What one run has in an engine, found by labels alone. `sweep` fills both: removed, in words, and clean_up."""

    def __init__(self, run_id: str, labels: Mapping[str, str]) -> None:
        self._run_id = run_id
        self.labels = labels
        self.removed: list[str] = []
        self.clean_up = CleanUp()

    @abstractmethod
    def present(self) -> bool:
        """Whether the engine has anything of the run."""

    @abstractmethod
    def sweep(self) -> None:
        """Remove nodes first, then what they used. Continues after an error."""

    def everything(self) -> list[str]:
        """Remove all of it and return what was removed, in words. CleanupFailed lists what could not be removed."""
        self.sweep()
        self.clean_up.end()
        return self.removed

    def _each(self, kind: str, names: Sequence[str], remove: Callable[[str], object]) -> None:
        """Remove things of a kind, several at once. Something already gone is neither removed nor an error."""
        with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
            removals = [(name, pool.submit(remove, name)) for name in names]
        for name, removal in removals:
            with self.clean_up.step(), suppress(NotThere):
                removal.result()
                self.removed.append(f"{kind} {name}")


E = TypeVar("E")
T = TypeVar("T")
L = TypeVar("L", bound=Lab)


class EngineProvider(ABC, Generic[E, L]):
    """find: connects to the engine, or raises Unavailable. called: the engine's name in messages."""

    def __init__(self, find: Callable[[], E], called: str) -> None:
        self._find = find
        self._called = called

    # What each engine implements. usual: what such an engine can do, as far as is known without one.

    name: str
    cost: int
    usual: frozenset[Capability]

    @abstractmethod
    def capabilities_of(self, engine: E) -> frozenset[Capability]: ...

    @abstractmethod
    def obstacle(self, engine: E, spec: ClusterSpec | None) -> Unavailable | None:
        """Why an engine that answered cannot serve, or cannot serve this spec. Returned or raised."""

    @abstractmethod
    def raise_nodes(self, engine: E, spec: ClusterSpec, images: Images, run: Run, progress: Progress) -> L: ...

    @abstractmethod
    def attach(self, run: Run, state: Mapping[str, Any]) -> L: ...

    @abstractmethod
    def removal(self, engine: E, home: Home, run_id: str) -> EngineRemoval: ...

    @abstractmethod
    def runs_in(self, engine: E, home: Home) -> frozenset[RunId]:
        """Ids of the home's runs that have something in the engine."""

    @abstractmethod
    def forget_in(self, engine: E, image: Image) -> list[str]: ...

    @abstractmethod
    def others_in(self, engine: E, keys: Collection[str]) -> list[str]: ...

    @abstractmethod
    def hang_up(self, engine: E) -> None: ...

    # What is built on that.

    @contextmanager
    def _connected(self) -> Iterator[E]:
        engine = self._find()
        try:
            yield engine
        finally:
            self.hang_up(engine)

    def _ask(self, question: Callable[[E], T], without_engine: T) -> T:
        try:
            with self._connected() as engine:
                return question(engine)
        except Unavailable:
            return without_engine

    def capabilities(self) -> frozenset[Capability]:
        """What the engine here can do; without an engine (see `unavailable`), what it usually can."""
        return self._ask(self.capabilities_of, self.usual)

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        try:
            with self._connected() as engine:
                return self.obstacle(engine, spec)
        except Unavailable as reason:
            return reason
        except LabError as error:
            return Unavailable(error.what, error.detail, error.hint)

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet) -> Iterator[L]:
        engine = self._find()
        try:
            self._refuse_taken(engine, run)
        except BaseException:
            # Whatever the engine has belongs to another run and stays.
            self.hang_up(engine)
            raise
        with removing(run, lambda: self._remove(engine, run)):
            yield self.raise_nodes(engine, spec, images, run, progress)

    def _refuse_taken(self, engine: E, run: Run) -> None:
        removal = self.removal(engine, run.home, run.id)
        if removal.present():
            raise SpecError(
                f"{self._called} already has resources of a cluster called {run.id!r}",
                f"labels: {removal.labels}",
                f"choose another --name, or remove it: cephlab prune (or cephlab down {run.id})",
            )

    def _remove(self, engine: E, run: Run) -> None:
        try:
            self.removal(engine, run.home, run.id).everything()
        finally:
            self.hang_up(engine)

    def leftovers(self, home: Home) -> frozenset[RunId]:
        try:
            with self._connected() as engine:
                return self.runs_in(engine, home)
        except Silent:
            raise
        except Unavailable:
            return frozenset()

    def forget_image(self, image: Image) -> list[str]:
        return self._ask(lambda engine: self.forget_in(engine, image), [])

    def other_images(self, keys: Collection[str]) -> list[str]:
        return self._ask(lambda engine: self.others_in(engine, keys), [])

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        """Remove by labels alone. Unavailable when the engine is silent, or absent although the run was in it."""
        try:
            with self._connected() as engine:
                removal = self.removal(engine, home, run_id)
                return removal.everything() if self.may_hold(engine, removal) else []
        except Unavailable as reason:
            if isinstance(reason, Silent) or Run(run_id, home.runs / run_id).owner().get("provider") == self.name:
                raise
            return []

    def may_hold(self, engine: E, removal: EngineRemoval) -> bool:
        """Whether there may be anything to remove. An engine that may hang is asked with a deadline first."""
        del engine, removal
        return True


def exporter(home: Home, form: Form, progress: Progress = quiet) -> Export:
    """Exports from the cache, in a form that the engine reads; the first export of an image takes a minute."""

    def export(image: Image) -> Path:
        # Building images takes modules that a lab of cached images never needs.
        from cephlab.lab.images.store import ImageStore

        return ImageStore(home).export(image, form, progress=progress)

    return export
