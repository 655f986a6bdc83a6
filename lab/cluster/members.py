"""Adds services to a running cluster and removes them."""

from __future__ import annotations

from dataclasses import replace

from cephlab.lab.ceph import keyring
from cephlab.lab.ceph.daemon import Daemon
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.services import daemons_on, service_of
from cephlab.lab.spec.clusterspec import Node


def add_service(cluster: OwnCluster, node: str, service: str) -> Daemon:
    """Start a service on a node, as `rgw`. It does not serve yet, see `Cluster.wait_healthy`."""
    before = next(each for each in cluster.spec.nodes if each.name == node)
    after = replace(before, services=(*before.services, service))
    cluster.respec([after if each is before else each for each in cluster.spec.nodes])
    *_, name = daemons_on(after)
    service_of(name).prepare(cluster.client)
    deployer, deployment = cluster.deployer, cluster.deployment
    entity = deployer.new_entity(deployment, name)
    if entity.caps:
        cluster.client.command("mon", "auth import", payload=keyring.render([entity]))
    deployer.push_conf(deployment, cluster.hosts[node])
    deployer.start_service(deployment, after, name, {entity.name: entity})
    cluster.save()
    return cluster.daemon(name)


def remove_service(cluster: OwnCluster, name: str) -> None:
    """Stop a service, which may be dead, and remove its directory, its key and its place in the spec."""
    daemon, service = cluster.daemon(name), service_of(name)
    if daemon.alive():
        daemon.stop(patience=cluster.patience)
    if service.caps:
        cluster.client.mon("auth del", entity=service.entity(daemon.id))
    daemon.host.remove(service.data(daemon.host, daemon.id))
    cluster.respec([_without(node, name) for node in cluster.spec.nodes])
    cluster.deployer.push_conf(cluster.deployment, daemon.host)
    cluster.forget_daemon(name)


def _without(node: Node, name: str) -> Node:
    pairs = zip(node.services, daemons_on(node), strict=True)
    return replace(node, services=tuple(service for service, daemon in pairs if daemon != name))
