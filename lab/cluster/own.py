"""A cluster that the lab made. Machines and daemons can be added and removed, and another process can find it again.

A pulled image may contain any Ceph, so its nodes are asked for their version and the engine for the image's id.
"""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from cephlab.lab.base.errors import LabBroken, LabError, SpecError
from cephlab.lab.base.given import parse_json
from cephlab.lab.base.progress import quiet
from cephlab.lab.base.runs import Run, write_json, write_private
from cephlab.lab.ceph import conf, keyring
from cephlab.lab.ceph.client import RadosClient
from cephlab.lab.ceph.daemon import Daemon, daemon_from_json
from cephlab.lab.ceph.keyring import Entity
from cephlab.lab.ceph.offline import run_tool
from cephlab.lab.cluster.attach.guard import NotPermitted
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.deploy.packages import Deployer, Deployment, OsdPlan, plan_osd
from cephlab.lab.images.image import Image, Pulled
from cephlab.lab.providers.base import HoldsPulled, Images, Lab, Provider
from cephlab.lab.providers.host import Host, lacks_aio
from cephlab.lab.services import daemons_on, service_of
from cephlab.lab.spec.arch import Arch
from cephlab.lab.spec.clusterspec import Node
from cephlab.lab.spec.specfile import spec_from_json, spec_to_json

STATE_SCHEMA = 1
_VERSION = re.compile(r"ceph version (\S+) \(\w+\) (\w+)")
_LOOK_S = 60.0
_CARRIED = ("keyring", "crush_device_class")  # files of an OSD's directory that its disks do not hold


@dataclass
class OwnCluster(Cluster):
    """A cluster that the lab made, with what an attached one cannot do: it can be extended, taken apart and kept."""

    lab: Lab
    deployment: Deployment
    deployer: Deployer
    images: Images = field(default_factory=dict)
    stores: str = ""
    """Name under which its stores are kept, or from which they came; empty if it neither uses nor keeps stores."""
    raised_from: str = ""
    """Where its stores came from, in words; empty if they were built from scratch."""

    @property
    def hosts(self) -> Mapping[str, Host]:
        return self.lab.hosts

    @property
    def daemons(self) -> Mapping[str, Daemon]:
        return self.deployment.daemons

    @property
    def patience(self) -> float:
        return self.deployment.patience

    def load_nodes(self) -> list[str]:
        """One host, because all hosts share this machine."""
        return [self.deployer.client_host().name]

    def new_client(self, node: str, *, options: Mapping[str, str] | None = None) -> RadosClient:
        host = self.hosts[node]
        return RadosClient(host, conf.conf_path(host), patience=self.patience, options=options)

    @property
    def client_name(self) -> str:
        return self.deployment.admin.name

    def daemons_changed(self) -> None:
        self.save()

    # Machines, OSDs and daemons

    def add_node(self, node: Node) -> Host:
        """Start a machine, then add and start its OSDs, if any. SpecError, before that, if it fits no spec."""
        grown = replace(self.spec, nodes=(*self.spec.nodes, node))
        host = self.lab.add_node(node)
        self.respec(grown.nodes)
        self.deployer = replace(self.deployer, hosts=self.lab.hosts, shims=self.shims_with(host))
        self.deployer.prepare_host(self.deployment, host)
        for osd in node.osds:
            self.add_osd(plan_osd(node, osd, self.next_osd_id()))
        self.save()
        return host

    def respec(self, nodes: Sequence[Node]) -> None:
        """Change the spec to these nodes; SpecError if they make no valid cluster."""
        self.spec = replace(self.spec, nodes=tuple(nodes))
        self.deployer = replace(self.deployer, spec=self.spec)

    def shims_with(self, host: Host) -> Mapping[str, Path]:
        """The shims with one more host. An emulated host gets the shim of its architecture."""
        shims = self.deployer.shims
        if not lacks_aio(host):
            return shims
        return {**shims, host.name: next(path for name, path in shims.items() if self.hosts[name].arch is host.arch)}

    def add_osd(self, plan: OsdPlan) -> Daemon:
        """Make and start one OSD on a node that has its disks."""
        daemon = self.deployer.make_osd(self.deployment, self.client, plan)
        daemon.start()
        self.save()
        return daemon

    def next_osd_id(self) -> int:
        return max(self.osd_ids(), default=-1) + 1

    def move_osd(self, osd_id: int, target: str) -> Daemon:
        """Move the disks of a stopped OSD to another node and start it there with its identity and data."""
        old = self.daemon(f"osd.{osd_id}")
        if old.alive():
            raise LabBroken(f"{old.name} is running", "its disks cannot be removed", f"stop {old.name} first")
        carried = {name: old.host.read(old.host.directory / old.name / name) for name in _CARRIED}
        for disk in old.disks:
            self.lab.move_disk(disk, target)
        self.deployer = replace(self.deployer, hosts=self.lab.hosts)
        host = self.hosts[target]
        data = host.directory / old.name
        for name, content in carried.items():
            host.push(content, data / name, mode=0o600)
        daemon = self.deployer.daemon(host, old.name, disks=old.disks)
        self.deployer.prime_osd(daemon)
        self.deployment.daemons[daemon.name] = daemon
        daemon.start()
        self.save()
        return daemon

    def forget_daemon(self, name: str) -> None:
        """Remove a stopped daemon from the lab's list."""
        self.deployment.daemons.pop(name)
        self.save()

    # State

    def save(self) -> None:
        """Write the state from which another cephlab process finds this cluster."""
        deployment = self.deployment
        write_json(
            self.run.state_file,
            {
                "schema": STATE_SCHEMA,
                "spec": spec_to_json(self.spec),
                "provider": self.provider_name,
                "lab": self.lab.state,
                "fsid": deployment.fsid,
                "mon_addresses": dict(deployment.mon_addresses),
                "options": dict(deployment.options),
                "sizing": asdict(deployment.sizing),
                "patience": deployment.patience,
                "daemons": [daemon.to_json() for daemon in deployment.daemons.values()],
                "shims": {node: str(path) for node, path in self.deployer.shims.items()},
                "identities": dict(self.deployer.identities),
            },
        )

    def keep(self) -> None:
        """Keep the cluster after this process ends; `cephlab down` removes it."""
        self.save()
        self.run.claim(provider=self.provider_name, kept=True)

    @property
    def client_files(self) -> tuple[Path, Path]:
        """ceph.conf and keyring for programs of this machine; see `write_client_files`."""
        folder = self.run.directory / "client"
        return folder / "ceph.conf", folder / "keyring"

    def write_client_files(self) -> None:
        """Write what a Ceph client on this machine needs to reach the cluster."""
        path, keys = self.client_files
        path.parent.mkdir(mode=0o700, exist_ok=True)
        write_private(keys, keyring.render([self.deployment.admin]))
        write_private(path, conf.render_client(self.deployment.fsid, self.deployment.mon_addresses, str(keys)))

    def power_off(self) -> None:
        """Switch every machine off at once, so that nothing runs and nothing can be started."""
        for name in list(self.hosts):
            # Closing the lab tries again and reports errors.
            with suppress(LabError):
                self.lab.kill_node(name)


def own(cluster: Cluster) -> OwnCluster:
    """The cluster as one that the lab made; NotPermitted if it is attached."""
    if not isinstance(cluster, OwnCluster):
        raise NotPermitted("this needs the machines, disks and keys of a cluster that the lab made")
    return cluster


def add_service(cluster: OwnCluster, node: str, service: str) -> Daemon:
    """Start a service, e.g. `rgw`, on a node. It does not serve yet, see `Cluster.wait_healthy`."""
    before = next(known for known in cluster.spec.nodes if known.name == node)
    after = replace(before, services=(*before.services, service))
    cluster.respec([after if known is before else known for known in cluster.spec.nodes])
    *_, name = daemons_on(after)
    service_of(name).tell_managers(cluster.client)
    service_of(name).prepare(cluster.client)
    deployer, deployment = cluster.deployer, cluster.deployment
    entity = deployer.new_entity(deployment, name)
    if entity.caps:
        cluster.client.command("mon", "auth import", payload=keyring.render([entity]))
    deployer.push_conf(deployment, cluster.hosts[node])
    deployer.start_service(deployment, after, name, {entity.name: entity})
    _tell_followers(cluster, service_of(name).kind)
    cluster.save()
    return cluster.daemon(name)


def remove_service(cluster: OwnCluster, name: str) -> None:
    """Stop a service, which may already be dead, and remove its directory, its key and its entry in the spec."""
    daemon, service = cluster.daemon(name), service_of(name)
    if daemon.alive():
        cluster.stop_or_kill(name)
    if service.caps:
        cluster.client.mon("auth del", entity=service.entity(daemon.id))
    daemon.host.remove(service.data(daemon.host, daemon.id))
    cluster.respec([_without(node, name) for node in cluster.spec.nodes])
    cluster.deployer.push_conf(cluster.deployment, daemon.host)
    cluster.forget_daemon(name)
    _tell_followers(cluster, service.kind)


def _tell_followers(cluster: OwnCluster, kind: str) -> None:
    """Write a new configuration for every daemon that lists daemons of this kind, and restart it if it runs."""
    peers = cluster.deployer.peers()
    for daemon in cluster.daemons.values():
        service = service_of(daemon.name)
        if service.follows != kind:
            continue
        service.configure(daemon.host, daemon.id, peers)
        if daemon.alive():
            daemon.stop(patience=cluster.patience)
            daemon.start()


def _without(node: Node, name: str) -> Node:
    pairs = zip(node.services, daemons_on(node), strict=True)
    return replace(node, services=tuple(service for service, daemon in pairs if daemon != name))


def load_cluster(provider: Provider, run: Run) -> OwnCluster:
    """Find a kept cluster again; SpecError if it has no state or one of another schema."""
    try:
        text = run.state_file.read_text(errors="replace")
    except FileNotFoundError:
        raise _no_cluster(run) from None
    raw: dict[str, Any] = parse_json(text, run.state_file, f"remove the cluster: cephlab down {run.id}")
    if raw["schema"] != STATE_SCHEMA:
        raise SpecError(f"{run.id} is of another cephlab version", f"schema {raw['schema']}, wanted {STATE_SCHEMA}")
    lab = provider.attach(run, raw["lab"])
    spec = spec_from_json(raw["spec"])
    deployment = Deployment(
        fsid=raw["fsid"],
        mon_addresses=raw["mon_addresses"],
        options=raw["options"],
        sizing=conf.Sizing(**raw["sizing"]),
        patience=float(raw["patience"]),
        admin=Entity("client.admin", _key_of(lab)),
        daemons={entry["name"]: daemon_from_json(entry, lab.hosts[entry["node"]]) for entry in raw["daemons"]},
    )
    shims = {node: Path(path) for node, path in raw["shims"].items()}
    deployer = Deployer(
        spec, lab.hosts, shims, deployment.sizing, deployment.patience, quiet, raw.get("identities", {})
    )
    return OwnCluster(run, spec, provider, lab, deployment, deployer)


def _no_cluster(run: Run) -> SpecError:
    missing = f"{run.state_file} is missing"
    if run.abandoned():
        hint = f"remove what it left: `cephlab prune` or `cephlab down {run.id}`"
        return SpecError(f"{run.id} is abandoned: the process that raised it is gone", missing, hint)
    return SpecError(f"{run.id} has no cluster yet", missing, f"wait for it, or remove it: cephlab down {run.id}")


def _key_of(lab: Lab) -> str:
    for host in lab.hosts.values():
        if host.up():
            text = host.read(host.directory / "keyring").decode()
            return text.partition("key = ")[2].split()[0]
    raise LabBroken("every host of the cluster is down", f"hosts: {', '.join(lab.hosts)}")


def identified(cluster: OwnCluster, images: Images) -> Images:
    """The images with their real release, version and id. The cluster's spec gets that release too.

    Images that the lab built are returned unchanged. LabBroken if the architectures have different releases.
    """
    if cluster.spec.image is None:
        return images
    known = {arch: _identified(cluster, image) for arch, image in images.items()}
    releases = sorted({image.release for image in known.values()})
    if len(releases) > 1:
        versions = "\n".join(f"{arch}: {image.release} {image.ceph_version}" for arch, image in known.items())
        raise LabBroken(f"{cluster.spec.image} mixes releases of Ceph", versions, "choose another --image")
    cluster.spec = replace(cluster.spec, release=releases[0])
    cluster.deployer = replace(cluster.deployer, spec=cluster.spec)
    cluster.save()
    return known


def _identified(cluster: OwnCluster, image: Image) -> Image:
    host = next(host for host in cluster.hosts.values() if host.arch is image.arch)
    # `ceph --version` would do too, but it needs a Python interpreter.
    argv = ["ceph-osd", "--version"]
    printed = run_tool(host, argv, timeout_s=_LOOK_S * cluster.patience).stdout
    match = _VERSION.search(printed)
    if match is None:
        raise LabBroken(f"the Ceph version of {host.name} is unknown", f"{' '.join(argv)} printed: {printed.strip()}")
    key, digests = _identity(cluster, image.arch)
    return replace(image, release=match[2], pulled=Pulled(match[1], key, digests))


def described(cluster: OwnCluster) -> dict[str, Any] | None:
    """The pulled image of a running cluster: {reference, ids, digests}; None if the lab built the image."""
    if cluster.spec.image is None:
        return None
    identities = {arch: _identity(cluster, arch) for arch in cluster.spec.archs}
    return {
        "reference": cluster.spec.image,
        "ids": {arch.value: key for arch, (key, _) in identities.items()},
        "digests": sorted({digest for _, digests in identities.values() for digest in digests}),
    }


def _identity(cluster: OwnCluster, arch: Arch) -> tuple[str, tuple[str, ...]]:
    if not isinstance(cluster.lab, HoldsPulled):
        raise LabBroken(f"provider {cluster.provider_name} cannot tell the id of a pulled image")
    return cluster.lab.pulled_image(arch)
