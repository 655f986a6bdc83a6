"""Rebuilds the monitors' store from the OSDs when every monitor has lost it, as Ceph's manual describes.

https://docs.ceph.com/en/reef/rados/troubleshooting/troubleshooting-mon/#recovery-using-osds
"""

from __future__ import annotations

from functools import partial
from pathlib import PurePosixPath

from cephlab.lab.ceph import conf
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.ceph.objectstore import ObjectStore
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.own import OwnCluster, own
from cephlab.lab.faults.daemons import each_at_once, start_at_once
from cephlab.lab.providers.host import Host

_TOOL_S = 120.0


def rebuild_from_osds(cluster: Cluster) -> None:
    """Stop everything, remove every monitor's store, make one from what the OSDs hold, start everything.

    What OSDs do not know is lost, as the manual says: options stored by monitors, and Ceph's log. The lab restores the
    one option that it had stored.
    """
    cluster = own(cluster)
    daemons = sorted(cluster.daemons.values(), key=lambda daemon: daemon.name)
    keys = _keys(cluster)
    cluster.close_clients()
    # Not Cluster.stop, which waits until the monitors have noticed.
    each_at_once([partial(daemon.stop, patience=cluster.patience) for daemon in daemons])
    mons = [daemon for daemon in daemons if daemon.kind == "mon"]
    for mon in mons:
        mon.host.remove(mon.host.directory / mon.name / "store.db")
    content = _gather(cluster, [daemon for daemon in daemons if daemon.kind == "osd"])
    first = mons[0]
    _unpack(first.host, content, first.host.directory / "gathered")
    _rebuild(cluster, first, mons, keys)
    whole = _pack(first.host, first.host.directory / "gathered")
    for mon in mons:
        _unpack(mon.host, whole, mon.host.directory / mon.name)
    first.host.remove(first.host.directory / "gathered")
    start_at_once(cluster, [daemon.name for daemon in mons])
    cluster.deployer.confine_managers(cluster.client)
    start_at_once(cluster, [daemon.name for daemon in daemons])


def _keys(cluster: OwnCluster) -> bytes:
    """Keys and capabilities of monitors, managers and the administrator, which OSDs do not have."""
    wanted = ["mon.", cluster.deployment.admin.name]
    wanted += [name for name in sorted(cluster.daemons) if name.startswith("mgr.")]
    return b"\n".join(cluster.client.command("mon", "auth get", entity=name) for name in wanted)


def _gather(cluster: Cluster, osds: list[Daemon]) -> bytes:
    """Let one OSD after the other add what it knows to a store, which is carried from host to host as a tar."""
    content = b""
    for osd in osds:
        folder = osd.host.directory / "gathered"
        osd.host.remove(folder)
        osd.host.make_directory(folder)
        if content:
            _unpack(osd.host, content, folder)
        ObjectStore(osd, cluster.patience).tool("--op", "update-mon-db", "--mon-store-path", str(folder))
        content = _pack(osd.host, folder)
        osd.host.remove(folder)
    return content


def _rebuild(cluster: OwnCluster, first: Daemon, mons: list[Daemon], keys: bytes) -> None:
    """Make a monitors' store of the gathered data."""
    host = first.host
    secret = host.directory / "rebuild.keyring"
    host.push(keys, secret, mode=0o600)
    # In the order of mon_host, from which the tool takes the addresses.
    names = [name for name in cluster.deployment.mon_addresses if f"mon.{name}" in {mon.name for mon in mons}]
    argv = ["ceph-monstore-tool", str(host.directory / "gathered"), "rebuild", "--", "--keyring", str(secret)]
    argv += ["--mon-ids", *names]
    try:
        host.run(argv, env={"CEPH_CONF": str(conf.conf_path(host))}, timeout_s=_TOOL_S * cluster.patience)
    finally:
        host.remove(secret)


def _pack(host: Host, folder: PurePosixPath) -> bytes:
    """A tar of the store and of the file beside it that names its kind."""
    return host.run(["tar", "--create", "--directory", str(folder), "."], timeout_s=_TOOL_S).stdout_bytes


def _unpack(host: Host, content: bytes, folder: PurePosixPath) -> None:
    host.make_directory(folder)
    host.run(["tar", "--extract", "--directory", str(folder)], stdin=content, timeout_s=_TOOL_S)
