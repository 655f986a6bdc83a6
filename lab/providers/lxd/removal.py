"""Taking a run out of LXD, by its labels alone: the end of every run, and of those that were killed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL, RunId, run_ids
from cephlab.lab.providers.engine.places import HOME_LABEL
from cephlab.lab.providers.engine.removal import EngineRemoval
from cephlab.lab.providers.lxd import names
from cephlab.lab.providers.lxd.server import Server, lxd_errors, status_of

_GONE = 404
_BUSY = "is busy running a"
_MADE_S = 180.0
"""A quarter of a minute is what it takes to unpack an image on an idle machine; many may be unpacked at once."""


class Removal(EngineRemoval):
    """What one run has on some machines."""

    def __init__(self, servers: Sequence[Server], home: Home, run_id: str) -> None:
        super().__init__(run_id, names.labels(run_id, home))
        self._servers = servers

    def present(self) -> bool:
        """Whether any machine has anything of the run, of whichever home."""
        wanted = f"user.{LABEL}"
        return any(
            thing["config"].get(wanted) == self._run_id for server in self._servers for thing in _labelled(server)
        )

    def sweep(self) -> None:
        for server in self._servers:
            try:
                self._on(server)
            except LabError as error:
                self.errors.append(f"{server.address.url}: {error}")

    def _on(self, server: Server) -> None:
        for project in self._ours(server, "projects"):
            self._empty(server, project)
        networks = server.api().networks
        bridges = self._ours(server, "networks")
        self._each("network", bridges, lambda name: _delete(server, networks[name], f"network {name}"))

    def _ours(self, server: Server, kind: str) -> list[str]:
        listed = server.get(f"listing its {kind}", getattr(server.api(), kind), params={"recursion": 1})
        return [str(thing["name"]) for thing in listed if self.labels.items() <= (thing.get("config") or {}).items()]

    def _empty(self, server: Server, project: str) -> None:
        api = server.api(project)
        instances = _names(server.get("listing instances", api.instances))
        self._each("instance", instances, lambda name: _remove_instance(server, project, name))
        pools = _names(server.get("listing storage", api.storage_pools))
        for pool in pools:
            self._empty_pool(server, api.storage_pools[pool].volumes.custom)
        profiles = [name for name in _names(server.get("listing profiles", api.profiles)) if name != "default"]
        self._each("profile", profiles, lambda name: _delete(server, api.profiles[name], f"profile {name}"))
        self._each("project", [project], lambda name: _delete(server, server.api().projects[name], f"project {name}"))

    def _empty_pool(self, server: Server, volumes: Any) -> None:
        volume_names = _names(server.get("listing volumes", volumes))
        self._each("volume", volume_names, lambda name: _delete(server, volumes[name], f"volume {name}"))


def _remove_instance(server: Server, project: str, name: str) -> bool:
    """Remove it, once LXD has made it: what was interrupted goes on there, and until its end nothing else may begin."""

    def attempt() -> tuple[bool, LabBroken | None]:
        try:
            return _remove_idle(server, project, name), None
        except LabBroken as error:
            if _BUSY not in error.detail:
                raise
            return False, error

    there, _ = clock.wait(
        attempt,
        lambda outcome: outcome[1] is None,
        what=f"the end of what LXD does with {name}",
        timeout_s=_MADE_S,
        interval_s=0.1,
        timed_out=lambda what, timeout_s, last: LabBroken(f"{what} did not come within {timeout_s:g} s", str(last[1])),
    )
    return there


def _remove_idle(server: Server, project: str, name: str) -> bool:
    instance = server.api(project).instances[name]
    try:
        with lxd_errors(f"stopping {name}"):
            response = instance.state.put(json={"action": "stop", "force": True, "timeout": 30})
        server.wait(f"stopping {name}", response)
    except LabBroken as error:
        if status_of(error) == _GONE:
            return False
        if "already stopped" not in error.detail:
            raise
    return _delete(server, instance, f"instance {name}")


def _delete(server: Server, node: Any, what: str) -> bool:
    try:
        with lxd_errors(f"removing {what}"):
            response = node.delete()
        server.wait(f"removing {what}", response)
    except LabBroken as error:
        if status_of(error) == _GONE:
            return False
        raise
    return True


def _names(urls: Sequence[str]) -> list[str]:
    """Names in a listing of LXD: the last part of each path, without its query."""
    return [url.rpartition("/")[2].partition("?")[0] for url in urls]


def _labelled(server: Server) -> list[dict[str, Any]]:
    """Projects and networks that carry a run's label."""
    api = server.api()
    listed = [
        *server.get("listing its projects", api.projects, params={"recursion": 1}),
        *server.get("listing its networks", api.networks, params={"recursion": 1}),
    ]
    return [thing for thing in listed if f"user.{LABEL}" in (thing.get("config") or {})]


def runs_present(servers: Sequence[Server], home: Home) -> frozenset[RunId]:
    """Ids of the home's runs that have a project or a network on a machine."""
    ours = (f"user.{HOME_LABEL}", str(home.path))
    configs = [thing["config"] for server in servers for thing in _labelled(server)]
    return run_ids(str(config[f"user.{LABEL}"]) for config in configs if config.get(ours[0]) == ours[1])
