"""Carrying a volume from one machine's LXD to another's: they send it to each other, this side only asks."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError
from cephlab.lab.providers.lxd.server import Server, lxd_errors, status_of

_log = logging.getLogger(__name__)

_GONE = 404
_PUSH = {"type": "migration", "mode": "push"}


def carry(source: Server, target: Server, project: str, volume: str) -> None:
    """Move a custom volume, which no instance may have; it stays where it was when that fails.

    Whichever of the two listens on the network is connected to by the other, by its address and its certificate, with
    secrets that LXD makes for this one volume; neither needs to trust the other. All that the volume holds is read,
    holes too; they stay holes (rsync --sparse, or the storage's own way between two of a kind).
    """
    doing = f"carrying {volume} from {source.address.url} to {target.address.url}"
    node = _volumes(source, project)[volume]
    order = _order(volume, source.get(doing, node))
    try:
        if target.address.host:
            _push(doing, source, target, project, order)
        else:
            _pull(doing, source, target, project, order)
    except BaseException:
        _forget(target, project, volume)
        raise
    with lxd_errors(f"removing {volume} where it was"):
        source.wait(doing, node.delete())


def _push(doing: str, source: Server, target: Server, project: str, order: Mapping[str, Any]) -> None:
    """The target waits, the source sends."""
    volume = order["name"]
    with lxd_errors(doing):
        waiting = _begun(_volumes(target, project).post(json={**order, "source": _PUSH}))
        wanted = {"name": volume, "migration": True, "target": _end(target, waiting)}
        sending = _volumes(source, project)[volume].post(json=wanted)
    source.wait(doing, sending)
    target.wait_for(doing, waiting["id"])


def _pull(doing: str, source: Server, target: Server, project: str, order: Mapping[str, Any]) -> None:
    """The source waits, the target fetches."""
    volume = order["name"]
    with lxd_errors(doing):
        waiting = _begun(_volumes(source, project)[volume].post(json={"name": volume, "migration": True}))
        origin = {"type": "migration", "mode": "pull", **_end(source, waiting)}
        fetching = _volumes(target, project).post(json={**order, "source": origin})
    target.wait(doing, fetching)
    source.wait_for(doing, waiting["id"])


def _order(volume: str, like: Mapping[str, Any]) -> dict[str, Any]:
    """A volume like another, with the mapping of user ids that its files have on disk."""
    kind = like.get("content_type", "filesystem")
    return {"name": volume, "type": "custom", "content_type": kind, "config": dict(like["config"])}


def _begun(response: Any) -> dict[str, Any]:
    """The operation that waits for the other end."""
    return dict(response.json()["metadata"])


def _end(server: Server, waiting: Mapping[str, Any]) -> dict[str, Any]:
    """Where the other end has to connect."""
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
    """What came of it before it failed; the error that is on its way is the one to be told."""
    try:
        with lxd_errors(f"removing what arrived of {volume}"):
            server.wait("removing", _volumes(server, project)[volume].delete())
    except LabError as error:
        if status_of(error) != _GONE:
            _log.warning("%s", error)
