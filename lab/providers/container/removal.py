"""Removing a run from the container engine by its labels alone."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL, RunId, run_ids
from cephlab.lab.providers.blockdevices import BlockDevices
from cephlab.lab.providers.container import limits, names
from cephlab.lab.providers.container.engine import Engine, engine_errors
from cephlab.lab.providers.engine.places import HOME_LABEL
from cephlab.lab.providers.engine.provider import EngineRemoval


class ContainerRemoval(EngineRemoval):
    """What one run has in the engine."""

    def __init__(self, engine: Engine, home: Home, run_id: str) -> None:
        super().__init__(run_id, names.labels(run_id, home))
        self._engine = engine

    def present(self) -> bool:
        with engine_errors(f"looking for resources of {self._run_id}"):
            return bool(self._containers() or self._networks() or self._volumes())

    def sweep(self) -> None:
        api = self._engine.client.api
        with engine_errors(f"looking for resources of {self._run_id}"):
            containers, networks, volumes = self._containers(), self._networks(), self._volumes()
        self._each("container", containers, lambda name: _remove(name, api.remove_container, force=True, v=True))
        self._each("network", networks, lambda name: _remove(name, api.remove_network))
        self._each("loop device", self._loops(volumes), limits.detach_loop)
        volume_names = [str(volume["Name"]) for volume in volumes]
        self._each("volume", volume_names, lambda name: _remove(name, api.remove_volume, force=True))

    def _containers(self) -> list[str]:
        listed = labelled(self._engine.client.api.containers, self.labels, all=True)
        return [str(container["Names"][0]).lstrip("/") for container in listed]

    def _networks(self) -> list[str]:
        return [str(network["Name"]) for network in labelled(self._engine.client.api.networks, self.labels)]

    def _volumes(self) -> list[dict[str, Any]]:
        return labelled(self._engine.client.api.volumes, self.labels)

    def _loops(self, volumes: Sequence[dict[str, Any]]) -> list[str]:
        """Devices on files of these volumes, where the engine is on this machine."""
        if not self._engine.local:
            return []
        folders = [Path(str(volume["Mountpoint"])) for volume in volumes]
        return [str(device) for folder in folders for device in BlockDevices().loops_below(folder)]


def _remove(name: str, call: Callable[..., object], **options: bool) -> None:
    with engine_errors(f"removing {name}"):
        call(name, **options)


def labelled(listing: Callable[..., Any], labels: Mapping[str, str], **options: Any) -> list[dict[str, Any]]:
    """The entries of an engine's listing that have all of these labels.

    Checked here again, because Podman 4.3 lists volumes that have any one of them.
    """
    wanted = [f"{key}={value}" for key, value in labels.items()]
    listed = listing(filters={"label": wanted}, **options)
    things = listed["Volumes"] if isinstance(listed, dict) else listed
    return [thing for thing in things or [] if labels.items() <= (thing.get("Labels") or {}).items()]


def runs_present(engine: Engine, home: Home) -> frozenset[RunId]:
    """Ids of the home's runs that have a container, a network or a volume in the engine."""
    labels = {HOME_LABEL: str(home.path)}
    api = engine.client.api
    with engine_errors("looking for runs"):
        things = [
            *labelled(api.containers, labels, all=True),
            *labelled(api.networks, labels),
            *labelled(api.volumes, labels),
        ]
    return run_ids(str(thing["Labels"].get(LABEL, "")) for thing in things)
