"""A provider whose nodes an engine keeps: asked for, launched, closed and pruned alike, whichever engine it is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from cephlab.lab.base.errors import LabError, SpecError, Unavailable
from cephlab.lab.base.home import Home
from cephlab.lab.base.progress import Progress, quiet
from cephlab.lab.base.runs import Run, RunId
from cephlab.lab.images.image import Image
from cephlab.lab.providers.base import Images, Lab, Silent
from cephlab.lab.providers.engine.answers import as_unavailable
from cephlab.lab.providers.engine.removal import EngineRemoval
from cephlab.lab.spec.clusterspec import Capability, ClusterSpec

E = TypeVar("E")
L = TypeVar("L", bound=Lab)


class EngineProvider(ABC, Generic[E, L]):
    """find: connects to the engine; Unavailable where none answers."""

    def __init__(self, find: Callable[[], E], called: str) -> None:
        self._find = find
        self._called = called

    # What each engine does in its own way.

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def cost(self) -> int: ...

    @abstractmethod
    def usual(self) -> frozenset[Capability]:
        """What such an engine can do, where nothing is known of it."""

    @abstractmethod
    def capabilities_of(self, engine: E) -> frozenset[Capability]: ...

    @abstractmethod
    def obstacle(self, engine: E, spec: ClusterSpec | None) -> Unavailable | None:
        """Why an engine that answered cannot serve (this spec), returned or raised."""

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

    # What follows from that.

    @contextmanager
    def _engine(self) -> Iterator[E | None]:
        """The engine while the block lasts; None where none answers."""
        try:
            engine = self._find()
        except Unavailable:
            yield None
            return
        try:
            yield engine
        finally:
            self.hang_up(engine)

    def capabilities(self) -> frozenset[Capability]:
        """What the engine here can do; what one usually can, where there is none (see `unavailable`)."""
        with self._engine() as engine:
            return self.usual() if engine is None else self.capabilities_of(engine)

    def unavailable(self, spec: ClusterSpec | None = None) -> Unavailable | None:
        try:
            engine = self._find()
        except Unavailable as absent:
            return absent
        try:
            return self.obstacle(engine, spec)
        except LabError as error:
            return as_unavailable(error)
        finally:
            self.hang_up(engine)

    @contextmanager
    def launch(self, spec: ClusterSpec, images: Images, run: Run, *, progress: Progress = quiet) -> Iterator[L]:
        engine = self._find()
        try:
            self._refuse_taken(engine, run)
        except BaseException:
            # What is there is another run's: it stays.
            self.hang_up(engine)
            raise
        try:
            yield self.raise_nodes(engine, spec, images, run, progress)
        except BaseException as error:
            if not run.kept:
                self._remove_after(error, engine, run)
            raise
        if not run.kept:
            self._remove(engine, run)

    def _refuse_taken(self, engine: E, run: Run) -> None:
        removal = self.removal(engine, run.home, run.id)
        if removal.present():
            raise SpecError(
                f"{self._called} has things of a cluster called {run.id!r} already",
                f"labels: {removal.labels}",
                f"choose another --name, or remove it: cephlab prune (or cephlab down {run.id})",
            )

    def _remove(self, engine: E, run: Run) -> None:
        try:
            self.removal(engine, run.home, run.id).everything()
        finally:
            self.hang_up(engine)

    def _remove_after(self, error: BaseException, engine: E, run: Run) -> None:
        """Clean up while an error is on its way; what goes wrong here is told with it, not instead of it."""
        try:
            self._remove(engine, run)
        except LabError as also:
            error.add_note(f"and cleaning up: {also}")

    def leftovers(self, home: Home) -> frozenset[RunId]:
        try:
            engine = self._find()
        except Silent:
            raise
        except Unavailable:
            return frozenset()
        try:
            return self.runs_in(engine, home)
        finally:
            self.hang_up(engine)

    def forget_image(self, image: Image) -> list[str]:
        with self._engine() as engine:
            return [] if engine is None else self.forget_in(engine, image)

    def other_images(self, keys: Collection[str]) -> list[str]:
        with self._engine() as engine:
            return [] if engine is None else self.others_in(engine, keys)

    def prune(self, home: Home, run_id: RunId) -> list[str]:
        """By labels alone. Unavailable where an engine is silent, or there is none and the run was in one."""
        try:
            engine = self._find()
        except Unavailable as reason:
            if isinstance(reason, Silent) or Run(run_id, home.runs / run_id).owner().get("provider") == self.name:
                raise
            return []
        try:
            removal = self.removal(engine, home, run_id)
            return removal.everything() if self.may_hold(engine, removal) else []
        finally:
            self.hang_up(engine)

    def may_hold(self, engine: E, removal: EngineRemoval) -> bool:
        """Whether a prune has anything to remove; an engine that may hang is asked with a deadline first."""
        del engine, removal
        return True
