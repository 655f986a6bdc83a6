"""Moving a volume from one machine's LXD to another's. The two LXDs transfer it; this side only asks for it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.providers.engine.answers import NotThere
from cephlab.lab.providers.lxd.server import Server, lxd_errors

_log = logging.getLogger(__name__)

_PUSH = {"type": "migration", "mode": "push"}


def carry(source: Server, target: Server, project: str, volume: str) -> None:
    """Move a custom volume that no instance uses. After an error it stays where it was.

    The LXD that listens on the network is connected to by the other, with its address, its certificate and secrets
    that LXD makes for this one volume; neither needs to trust the other. The whole volume is read, including holes,
    which stay holes (rsync --sparse, or the storage driver's own transfer between two of a kind).
    """
    doing = f"carrying {volume} from {source.address.url} to {target.address.url}"
    node = _volumes(source, project)[volume]
    request = _copy_request(volume, source.get(doing, node))
    try:
        if target.address.host:
            _push(doing, source, target, project, request)
        else:
            _pull(doing, source, target, project, request)
    except BaseException:
        _forget(target, project, volume)
        raise
    with lxd_errors(f"removing {volume} where it was"):
        source.wait(doing, node.delete())


def _push(doing: str, source: Server, target: Server, project: str, request: Mapping[str, Any]) -> None:
    """The target waits, the source sends."""
    volume = request["name"]
    with lxd_errors(doing):
        waiting = _volumes(target, project).post(json={**request, "source": _PUSH}).json()["metadata"]
        migration = {"name": volume, "migration": True, "target": _endpoint(target, waiting)}
        sending = _volumes(source, project)[volume].post(json=migration)
    source.wait(doing, sending)
    target.wait_for(doing, waiting["id"])


def _pull(doing: str, source: Server, target: Server, project: str, request: Mapping[str, Any]) -> None:
    """The source waits, the target fetches."""
    volume = request["name"]
    with lxd_errors(doing):
        migration = {"name": volume, "migration": True}
        waiting = _volumes(source, project)[volume].post(json=migration).json()["metadata"]
        origin = {"type": "migration", "mode": "pull", **_endpoint(source, waiting)}
        fetching = _volumes(target, project).post(json={**request, "source": origin})
    target.wait(doing, fetching)
    source.wait_for(doing, waiting["id"])


def _copy_request(volume: str, source: Mapping[str, Any]) -> dict[str, Any]:
    """Asks for a volume like the source, including the mapping of user ids of its files on disk."""
    kind = source.get("content_type", "filesystem")
    return {"name": volume, "type": "custom", "content_type": kind, "config": dict(source["config"])}


def _endpoint(server: Server, waiting: Mapping[str, Any]) -> dict[str, Any]:
    """Where the other LXD connects to an operation that waits."""
    certificate = server.address.server
    if certificate is None:
        raise LabBroken(f"no certificate of {server.address.url} is known")
    return {
        "operation": f"{server.address.url}/1.0/operations/{waiting['id']}",
        "certificate": certificate.read_text(),
        "secrets": dict(waiting["metadata"]),
    }


def _volumes(server: Server, project: str) -> Any:
    return server.api(project).storage_pools[server.pool].volumes.custom


def _forget(server: Server, project: str, volume: str) -> None:
    """Remove a partial copy, if any. An error here is only logged, because another one is being raised."""
    try:
        with lxd_errors(f"removing what arrived of {volume}"):
            server.wait("removing", _volumes(server, project)[volume].delete())
    except NotThere:
        return
    except LabError as error:
        _log.warning("%s", error)
