"""Removing a run from LXD by its labels alone."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.home import Home
from cephlab.lab.base.runs import LABEL, RunId, run_ids
from cephlab.lab.providers.engine.places import HOME_LABEL
from cephlab.lab.providers.engine.provider import EngineRemoval
from cephlab.lab.providers.lxd import names
from cephlab.lab.providers.lxd.server import Server, lxd_errors, repeat_while

_BUSY = "is busy running a"
_MADE_S = 180.0
"""Unpacking an image takes a quarter of a minute on an idle machine; many may be unpacked at once."""


class InstanceRemoval(EngineRemoval):
    """What one run has in the LXDs of some machines."""

    def __init__(self, servers: Sequence[Server], home: Home, run_id: str) -> None:
        super().__init__(run_id, names.labels(run_id, home))
        self._servers = servers

    def present(self) -> bool:
        """Whether any machine has anything of a run with this id, of any home."""
        wanted = f"user.{LABEL}"
        return any(
            thing["config"].get(wanted) == self._run_id for server in self._servers for thing in _labelled(server)
        )

    def sweep(self) -> None:
        for server in self._servers:
            with self.clean_up.step(server.address.url):
                self._on(server)

    def _on(self, server: Server) -> None:
        for project in self._ours(server, "projects"):
            self._empty(server, project)
        self._delete_each(server, "network", self._ours(server, "networks"), server.api().networks)

    def _ours(self, server: Server, kind: str) -> list[str]:
        listed = server.get(f"listing its {kind}", getattr(server.api(), kind), params={"recursion": 1})
        return [str(thing["name"]) for thing in listed if self.labels.items() <= (thing.get("config") or {}).items()]

    def _empty(self, server: Server, project: str) -> None:
        api = server.api(project)
        instances = _names(server.get("listing instances", api.instances))
        self._each("instance", instances, partial(_remove_instance, server, project))
        for pool in _names(server.get("listing storage", api.storage_pools)):
            volumes = api.storage_pools[pool].volumes.custom
            self._delete_each(server, "volume", _names(server.get("listing volumes", volumes)), volumes)
        profiles = [name for name in _names(server.get("listing profiles", api.profiles)) if name != "default"]
        self._delete_each(server, "profile", profiles, api.profiles)
        self._delete_each(server, "project", [project], server.api().projects)

    def _delete_each(self, server: Server, kind: str, things: Sequence[str], node: Any) -> None:
        self._each(kind, things, lambda name: _delete(server, node[name], f"{kind} {name}"))


def _remove_instance(server: Server, project: str, name: str) -> None:
    """Remove an instance. LXD may still be making it for an interrupted run, and refuses changes until then."""
    repeat_while(
        _BUSY,
        lambda: _remove_idle(server, project, name),
        what=f"removing {name}, which it is still busy with",
        timeout_s=_MADE_S,
    )


def _remove_idle(server: Server, project: str, name: str) -> None:
    instance = server.api(project).instances[name]
    try:
        with lxd_errors(f"stopping {name}"):
            server.wait(f"stopping {name}", instance.state.put(json={"action": "stop", "force": True, "timeout": 30}))
    except LabBroken as error:
        if "already stopped" not in error.detail:
            raise
    _delete(server, instance, f"instance {name}")


def _delete(server: Server, node: Any, what: str) -> None:
    with lxd_errors(f"removing {what}"):
        server.wait(f"removing {what}", node.delete())


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
    configs = [thing["config"] for server in servers for thing in _labelled(server)]
    return run_ids(
        str(config[f"user.{LABEL}"]) for config in configs if config.get(f"user.{HOME_LABEL}") == str(home.path)
    )
