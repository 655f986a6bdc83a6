"""Taking a run out of the engine, by its labels alone: the end of every run, and of those that were killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import docker.errors

from lab.errors import LabBroken
from lab.home import Home
from lab.providers.blockdevices import BlockDevices
from lab.providers.container import limits, names
from lab.providers.container.engine import Engine, engine_errors
from lab.runs import LABEL


class Removal:
    """What one run has in the engine. removed, errors: in words, filled by `everything`."""

    def __init__(self, engine: Engine, home: Home, run_id: str) -> None:
        self._engine = engine
        self._run_id = run_id
        self._labels = names.labels(run_id, home)
        self.removed: list[str] = []
        self.errors: list[str] = []

    def present(self) -> bool:
        """Whether the engine has anything of the run."""
        with engine_errors(f"looking for what {self._run_id} has"):
            return bool(self._containers() or self._networks() or self._volumes())

    def everything(self) -> Removal:
        """Containers first, then what they used; goes on after an error."""
        with engine_errors(f"looking for what {self._run_id} has"):
            containers, networks, volumes = self._containers(), self._networks(), self._volumes()
        self._each("container", containers, self._remove_container)
        self._each("network", networks, self._engine.client.api.remove_network)
        self._detach_loops(volumes)
        self._each("volume", [str(found["Name"]) for found in volumes], self._remove_volume)
        return self

    def _containers(self) -> list[str]:
        found = labelled(self._engine.client.api.containers, self._labels, all=True)
        return [str(container["Names"][0]).lstrip("/") for container in found]

    def _networks(self) -> list[str]:
        return [str(network["Name"]) for network in labelled(self._engine.client.api.networks, self._labels)]

    def _volumes(self) -> list[dict[str, Any]]:
        return labelled(self._engine.client.api.volumes, self._labels)

    def _remove_container(self, name: str) -> None:
        self._engine.client.api.remove_container(name, force=True, v=True)

    def _remove_volume(self, name: str) -> None:
        self._engine.client.api.remove_volume(name, force=True)

    def _detach_loops(self, volumes: Sequence[dict[str, Any]]) -> None:
        if not self._engine.local:
            return
        for volume in volumes:
            devices = BlockDevices().loops_below(Path(str(volume["Mountpoint"])))
            failed = limits.detach_loops(devices)
            self.errors += failed
            if not failed:
                self.removed += [f"loop device {device}" for device in devices]

    def _each(self, kind: str, found: Sequence[str], remove: Callable[[str], None]) -> None:
        if not found:
            return
        with ThreadPoolExecutor(max_workers=min(8, len(found))) as pool:
            for name, outcome in zip(found, pool.map(lambda name: _attempt(kind, name, remove), found), strict=True):
                if outcome.error:
                    self.errors.append(outcome.error)
                elif outcome.removed:
                    self.removed.append(f"{kind} {name}")


@dataclass(frozen=True)
class _Outcome:
    """Of one removal. Neither: it was gone already."""

    removed: bool = False
    error: str = ""


def _attempt(kind: str, name: str, remove: Callable[[str], None]) -> _Outcome:
    try:
        with engine_errors(f"removing {kind} {name}"):
            remove(name)
    except LabBroken as error:
        gone = isinstance(error.__cause__, docker.errors.NotFound)
        return _Outcome() if gone else _Outcome(error=str(error))
    return _Outcome(removed=True)


def labelled(listing: Callable[..., Any], labels: Mapping[str, str], **options: Any) -> list[dict[str, Any]]:
    """What a listing of the engine has with all of these labels.

    Looked at here again, as Podman 4.3 lists volumes that have any one of them.
    """
    wanted = [f"{key}={value}" for key, value in labels.items()]
    listed = listing(filters={"label": wanted}, **options)
    found = listed["Volumes"] if isinstance(listed, dict) else listed
    return [thing for thing in found or [] if labels.items() <= (thing.get("Labels") or {}).items()]


def runs_present(engine: Engine, home: Home) -> frozenset[str]:
    """Ids of the home's runs that have a container, a network or a volume in the engine."""
    ours = {names.HOME_LABEL: str(home.path)}
    api = engine.client.api
    with engine_errors("looking for runs"):
        found = [
            *labelled(api.containers, ours, all=True),
            *labelled(api.networks, ours),
            *labelled(api.volumes, ours),
        ]
    return frozenset(str(thing["Labels"][LABEL]) for thing in found if LABEL in thing["Labels"])
