"""A rolling upgrade, one daemon at a time in the order of Ceph's documentation: monitors, managers, OSDs."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import LabBroken
from cephlab.lab.ceph import conf
from cephlab.lab.cluster import pools
from cephlab.lab.cluster.cluster import Cluster, insist
from cephlab.lab.cluster.own import own
from cephlab.lab.providers.base import HoldsImages, Images
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import Capability

ORDER = ("mon", "mgr", "osd")
"""From https://docs.ceph.com/en/reef/releases/reef/#upgrading-non-cephadm-clusters; MDSs and gateways come later."""

_RESTART_S = 120.0

_MAY_NOT_STOP = (errno.EBUSY, errno.EAGAIN)
"""Errors of `osd ok-to-stop`: data would become unavailable, or the manager has no statistics yet."""


@dataclass(frozen=True)
class Step:
    """One daemon after its restart. mix: release -> number of daemons that run it."""

    daemon: str
    node: str
    mix: Mapping[str, int]


def hosts_of(cluster: Cluster, images: Images) -> dict[str, Host]:
    """The cluster's nodes by name, with the programs of other images. LabBroken where the provider cannot do it."""
    lab = own(cluster).lab
    if not isinstance(lab, HoldsImages):
        what = f"the {cluster.provider_name} provider has no {Capability.SECOND_IMAGE}"
        raise LabBroken(what, "its nodes run the programs of one image", "use --lab local")
    return {name: lab.with_image(name, images[host.arch]) for name, host in cluster.hosts.items()}


def upgrade_daemon(cluster: Cluster, name: str, target: Host) -> Step:
    """Restart one daemon with the programs of another image, and wait until it serves.

    An OSD stops only when the cluster says that all data stays available. NotReached where it never says so.
    """
    old = cluster.daemon(name)
    if old.kind == "osd":
        asked = partial(cluster.client.command, "mon", "osd ok-to-stop", ids=[old.id])
        insist(cluster, asked, _MAY_NOT_STOP, what=f"permission to stop {name}", timeout_s=_RESTART_S)
    new = own(cluster).deployer.daemon(target, name, disks=old.disks)
    # The node's ceph.conf names the plugins of its first image; an option on the command line wins over it.
    options = [f"--{key}={value}" for key, value in conf.image_options(target).items()]
    cluster.stop(name)
    own(cluster).deployment.daemons[name] = replace(new, argv=(*new.argv, *options))
    cluster.start(name)
    wanted = version_of(target, old.kind)
    clock.wait(
        lambda: _serving(cluster, name),
        lambda version: version == wanted,
        what=f"{name} serving as {wanted}",
        timeout_s=_RESTART_S * cluster.patience,
    )
    if old.kind == "osd":
        pools.wait_clean(cluster)
    return Step(name, target.name, mix(cluster))


def _serving(cluster: Cluster, name: str) -> str:
    """The version of a daemon that serves again, as the cluster reports it; else what is missing."""
    cluster.check_daemons()
    status = cluster.status()
    kind, _, ident = name.partition(".")
    if kind == "mon" and len(status.quorum) < status.mons:
        return f"monitors in quorum: {', '.join(status.quorum)}"
    if kind == "mgr" and not status.mgr_available:
        return "no manager is available"
    reported: list[dict[str, Any]] = cluster.client.mon(f"{kind} metadata")
    entry = next((entry for entry in reported if str(entry.get("name", entry.get("id"))) == ident), {})
    return str(entry.get("ceph_version", "no metadata"))


def version_of(host: Host, kind: str) -> str:
    """The version that a program prints, like `ceph version 18.2.7 (...) reef (stable)`."""
    return host.run([f"ceph-{kind}", "--version"], timeout_s=60).stdout.strip()


def mix(cluster: Cluster) -> dict[str, int]:
    """Release -> number of daemons that run it, as they reported when they started."""
    versions = (
        str(entry.get("ceph_version", "")) for kind in ORDER for entry in cluster.client.mon(f"{kind} metadata")
    )
    # `ceph version 18.2.7 (commit) reef (stable)`
    return dict(Counter(words[4] if len(words := version.split()) > 4 else "unknown" for version in versions))


def upgrade(cluster: Cluster, release: str, images: Images, after: Callable[[Step], None]) -> None:
    """Upgrade every daemon. It calls `after` when each of them serves again."""
    targets = hosts_of(cluster, images)
    in_order = sorted(cluster.daemons.values(), key=lambda daemon: (ORDER.index(daemon.kind), daemon.name))
    # OSDs that are down stay in: the documentation asks for it during an upgrade.
    cluster.client.mon("osd set", key="noout")
    try:
        for daemon in in_order:
            after(upgrade_daemon(cluster, daemon.name, targets[daemon.host.name]))
        # Forbids OSDs of older releases, and so enables the features of the newer one.
        cluster.client.mon("osd require-osd-release", release=release)
    finally:
        cluster.client.mon("osd unset", key="noout")
