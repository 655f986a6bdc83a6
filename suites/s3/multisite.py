"""Multisite: two zones of one realm, each with a gateway of one architecture, replicate objects to each other."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.redaction import remember
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.cluster.gateway import USER, Gateway
from cephlab.lab.faults import inflict
from cephlab.lab.faults.daemons import KillDaemon
from cephlab.lab.scenario.scenario import Scenario, Stage, Tier
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.services.rgw import RGW
from cephlab.lab.spec.arch import Arch, host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.s3_load_program import FILL, FINAL
from cephlab.lab.workloads.s3load import S3Load
from cephlab.suites.object.stand import gateways, loaded, near
from cephlab.suites.resilience.trial import EXPECTED
from cephlab.suites.s3.stand import Keys, entrances, require_boto3

REALM = ("--rgw-realm", "lab")
GROUP = ("--rgw-zonegroup", "lab")
SYNC_USER = "sync"
SIZES = ((1, 65_536, 4.0), (5 << 20, 6 << 20, 1.0))
OBJECTS = 20
SYNCED_S = 180.0
START_S = 120.0


@dataclass(frozen=True)
class Zone:
    """A zone and its gateway."""

    arch: Arch
    gateway: Gateway

    @property
    def name(self) -> str:
        return self.arch.debian

    @property
    def options(self) -> tuple[str, ...]:
        return (*REALM, *GROUP, "--rgw-zone", self.name)


def admin(cluster: Cluster, *argv: str, stdin: bytes = b"") -> Any:
    """The answer of radosgw-admin, parsed if it is JSON."""
    answer = cluster.tool(cluster.client.host.name, "radosgw-admin", *argv, stdin=stdin)
    return json.loads(answer) if answer.startswith(("{", "[")) else answer


def made(cluster: Cluster) -> tuple[Zone, Zone]:
    """Create a realm of two zones, the master zone on the native architecture, and restart the gateways in them."""
    by_arch = gateways(cluster)
    master, other = (Zone(arch, by_arch[arch]) for arch in (host_arch(), host_arch().other))
    for zone in (master, other):
        zone.gateway.daemon.stop(patience=cluster.patience)
    admin(cluster, "realm", "create", *REALM, "--default")
    where = ("--endpoints", f"http://{master.gateway.address}")
    admin(cluster, "zonegroup", "create", *REALM, *GROUP, *where, "--master", "--default")
    admin(cluster, "zone", "create", *master.options, *where, "--master", "--default")
    keys = user(cluster, master, SYNC_USER, "--system")
    admin(cluster, "zone", "create", *other.options, "--endpoints", f"http://{other.gateway.address}")
    for zone in (master, other):
        # Through standard input, because a command line would show the secret.
        settings = admin(cluster, "zone", "get", *zone.options) | {"system_key": keys}
        admin(cluster, "zone", "set", *zone.options, stdin=json.dumps(settings).encode())
    admin(cluster, "period", "update", "--commit", *master.options)
    owner = user(cluster, master, USER)
    return started(cluster, master, owner), started(cluster, other, owner)


def user(cluster: Cluster, zone: Zone, name: str, *more: str) -> dict[str, str]:
    """Create a user in the master zone; returns {access_key, secret_key}."""
    argv = ("user", "create", "--uid", name, "--display-name", name, *more, *zone.options)
    key = admin(cluster, *argv)["keys"][0]
    remember(key["access_key"], key["secret_key"])
    return {what: str(key[what]) for what in ("access_key", "secret_key")}


def started(cluster: Cluster, zone: Zone, keys: Mapping[str, str]) -> Zone:
    """Start the gateway of a zone in that zone; returns the zone, with the keys of the user that owns the objects."""
    daemon = zone.gateway.daemon
    daemon.argv = (*daemon.argv, *zone.options)
    daemon.start()
    clock.wait(
        lambda: RGW.missing(cluster.client, daemon.host, daemon.id),
        lambda missing: not missing,
        what=f"an answer from {daemon.name} in zone {zone.name}",
        timeout_s=START_S * cluster.patience,
        interval_s=0.5,
    )
    known = replace(zone.gateway, access_key=keys["access_key"], secret_key=keys["secret_key"])
    return replace(zone, gateway=known)


def run(stage: Stage) -> None:
    """Put objects into one zone and read them in the other; both ways; then while the other gateway is dead."""
    require_boto3()
    cluster = stage.cluster
    master, other = made(cluster)
    for source, target in ((master, other), (other, master)):
        across(stage, source, target, f"from-{source.name}-")
    apart(stage, (master, other))
    load = objects(stage, "missed-")
    with inflict(KillDaemon(other.gateway.name), cluster, stage.recorder):
        loaded(stage, "objects while the other zone is down", near(cluster), [master.gateway], load)
    cluster.wait_healthy()
    came(stage, master, other, load)
    emptied(stage, master, other, load)


def objects(stage: Stage, bucket: str) -> S3Load:
    seed = stage.rng.randrange(1 << 31)
    return S3Load(bucket=bucket, objects=OBJECTS, sizes=SIZES, seed=seed, phases=(FILL,))


def across(stage: Stage, source: Zone, target: Zone, bucket: str) -> None:
    """Put objects into a zone, and read them in the other zone once they are replicated."""
    load = objects(stage, bucket)
    loaded(stage, f"objects put into {source.name}", near(stage.cluster), [source.gateway], load)
    came(stage, source, target, load)


def apart(stage: Stage, zones: Sequence[Zone]) -> None:
    """Witness that each zone has all objects in a pool of its own: gateways of one pool would need no replication."""
    client, wanted = stage.cluster.client, OBJECTS * len(zones)
    there = set(client.mon("osd pool ls"))
    for zone in zones:
        pool = f"{zone.name}.rgw.buckets.data"
        count = len(client.list_objects(pool)) if pool in there else 0
        stage.recorder.witness(f"RADOS objects in the data pool of {zone.name}", got=count, least=wanted)


def came(stage: Stage, source: Zone, target: Zone, load: S3Load) -> None:
    """Wait until the target lists the same objects as the source, and read every object there."""
    bucket = f"{load.bucket}0"
    wanted = tags(stage, source, bucket)
    stage.recorder.observe(f"objects of {bucket} in the zone where they were put", got=len(wanted), wanted=OBJECTS)
    until_equal(stage, target, bucket, wanted)
    final = replace(load, phases=(FINAL,))
    loaded(stage, f"{bucket} read in {target.name}", near(stage.cluster), [target.gateway], final)


def emptied(stage: Stage, source: Zone, target: Zone, load: S3Load) -> None:
    """Delete objects in one zone, and wait until they are gone in the other."""
    bucket = f"{load.bucket}0"
    client = client_of(stage, source)
    for name in tags(stage, source, bucket):
        client.delete_object(Bucket=bucket, Key=name)
    until_equal(stage, target, bucket, {})
    left = sorted(tags(stage, target, bucket))
    stage.recorder.observe(f"objects of {bucket} left in {target.name}", got=left, wanted=[], of=OBJECTS)


def until_equal(stage: Stage, zone: Zone, bucket: str, wanted: Mapping[str, str]) -> None:
    """Wait until a zone lists exactly these objects, compared by ETag."""
    clock.wait(
        lambda: tags(stage, zone, bucket),
        lambda listed: listed == dict(wanted),
        what=f"{len(wanted)} objects of {bucket} in zone {zone.name}",
        timeout_s=SYNCED_S * stage.cluster.patience,
        interval_s=2.0,
    )


def tags(stage: Stage, zone: Zone, bucket: str) -> dict[str, str]:
    """Name -> ETag of the objects that a zone lists; empty if it does not know the bucket or its owner yet."""
    from botocore.exceptions import ClientError

    try:
        listed = client_of(stage, zone).list_objects_v2(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in ("NoSuchBucket", "InvalidAccessKeyId"):
            raise
        return {}
    return {str(entry["Key"]): str(entry["ETag"]) for entry in listed.get("Contents", [])}


def client_of(stage: Stage, zone: Zone) -> Any:
    """A boto3 client for the gateway of a zone."""
    keys = Keys(zone.gateway.access_key, zone.gateway.secret_key)
    return entrances(stage.cluster, stage.scratch)[zone.arch].client(keys)


def scenario(topology: Topology) -> Scenario:
    return Scenario(
        name="s3.multisite",
        goal="Zones on gateways of different architectures replicate both ways, and catch up after a gateway dies.",
        method="Makes a realm of two zones with separate pools in one cluster; puts, kills a gateway, deletes, reads.",
        run=run,
        check="witnessed",
        sees=("wrong answers of .* read in .*", "objects of .* left in .*"),
        tier=Tier.FULL,
        topology=topology,
        spoils=True,
        needs=frozenset({Capability.THIS_MACHINE}),
        expects={
            **EXPECTED,
            "^shutting down$": "The scenario stops gateways to give them zones.",
            r"get_sync_policy_handler\(\) returned -2$": "The data of a new bucket may be asked for before the bucket "
            "has come over (failed to get bucket instance info). The gateway asks again.",
        },
    )
