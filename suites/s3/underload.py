"""Changes of buckets under load: resharding, versioning with object lock, and lifecycle expiry."""

import errno
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cephlab.lab.base import clock
from cephlab.lab.base.errors import CephTrouble, CommandFailed
from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster.cluster import Cluster
from cephlab.lab.history.history import Recorder
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.arch import host_arch
from cephlab.lab.spec.clusterspec import Capability
from cephlab.lab.workloads.s3_load_program import RUN
from cephlab.lab.workloads.s3load import S3Load, S3Operation, S3Result
from cephlab.suites.object.stand import ended, gateways, near, now_s, read_back, running_load, truthful
from cephlab.suites.s3.stand import Keys, entrances, owner, require_boto3

MIX = {"get": 50.0, "put": 30.0, "list": 10.0, "delete": 10.0}
WRITES = ("put", "delete")
OBJECTS = 40
AROUND_S = 2.0
Span = tuple[float, float]
"""When something began and ended, in seconds since the epoch."""
SHARDS = (23, 5)
"""First more than the 11 that a new bucket has, then fewer."""
BUSY = {"503", "ServiceUnavailable", "SlowDown"}
"""Codes that ask a client to retry. A gateway sends them if a reshard takes longer than it is willing to wait."""
UNLOCKED_S = 60.0
"""After a reshard, each operation that it held up takes the reshard lock for a moment (ceph pull request 48411)."""
EXPIRY_S = 120.0
KEPT_DAYS = 1
TRIED = 5


def under_load(stage: Stage, bucket: str, change: Callable[[], Sequence[Span]]) -> S3Result:
    """Make a change during a load through both gateways; returns the load's result. Every answer must be right.

    change: returns when it resharded the bucket.
    """
    cluster = stage.cluster
    seed = stage.rng.randrange(1 << 31)
    load = S3Load(mix=MIX, bucket=bucket, objects=OBJECTS, workers=5, runtime_s=0.0, page=9, seed=seed)
    with running_load(cluster, list(gateways(cluster).values()), load, AROUND_S) as running:
        reshards = change()
        changed_s = now_s(near(cluster))
        result = ended(cluster, running, AROUND_S)
    truthful(stage.recorder, "the load", result)
    errors(stage.recorder, result, reshards)
    goes_on(stage.recorder, result.of(RUN), changed_s)
    return result


def goes_on(recorder: Recorder, operations: Sequence[S3Operation], changed_s: float) -> None:
    """Observe that a write is acknowledged after a change: a bucket that stays busy for ever would be no error."""
    later = [op for op in operations if op.kind in WRITES and op.ended_s > changed_s]
    refused = bool(later) and all(op.code for op in later)
    recorder.observe("every write after the change is refused", got=refused, wanted=False, of=len(later))


def errors(recorder: Recorder, result: S3Result, reshards: Sequence[Span] = ()) -> None:
    """Observe that operations failed only with a retry code, and that the final read had no errors.

    A list during a reshard may also miss the old index, which is gone at its end: see rgw-list-after-reshard in
    suites/defects/known.toml.
    """
    excused = [op for op in result.operations if misses_index(op, reshards)]
    left = Counter(op.code for op in result.operations if op.code not in {"", *BUSY} and op not in excused)
    recorder.observe("errors of the load", got=dict(left), wanted={}, of=len(result.operations))
    if excused:
        recorder.step(f"{how_many(len(excused), 'list')} missed the old index (rgw-list-after-reshard)")
    read_back(recorder, result)


def misses_index(operation: S3Operation, reshards: Sequence[Span]) -> bool:
    """Whether an operation is a list that failed during a reshard, as if an object were missing."""
    during = any(operation.began_s < ended_s and operation.ended_s > began_s for began_s, ended_s in reshards)
    return during and (operation.kind, operation.code) == ("list", "NoSuchKey")


def resharded(stage: Stage) -> None:
    """Change the number of index shards of a bucket twice under load."""
    cluster = stage.cluster

    def change() -> list[Span]:
        reshards = []
        for shards in SHARDS:
            began_s = now_s(near(cluster))
            reshard(cluster, shards)
            reshards.append((began_s, now_s(near(cluster))))
            stage.recorder.step(f"{shards} shards")
            now = shards_of(cluster)
            stage.recorder.observe(f"shards of the index after a reshard to {shards}", got=now, wanted=shards)
        return reshards

    under_load(stage, "reshard", change)


def reshard(cluster: Cluster, shards: int) -> None:
    """Reshard the bucket. Until UNLOCKED_S, a refusal because the lock is held only means "not yet"."""
    argv = ("bucket", "reshard", "--bucket", "reshard0", "--num-shards", str(shards), "--yes-i-really-mean-it")

    def refusal() -> str:
        try:
            cluster.tool(cluster.client.host.name, "radosgw-admin", *argv)
        except CephTrouble as error:
            if not (isinstance(error.__cause__, CommandFailed) and error.__cause__.code == errno.EBUSY):
                raise
            return str(error)
        return ""

    limit_s = UNLOCKED_S * cluster.patience
    clock.wait(refusal, lambda reason: not reason, what=f"a reshard to {shards}", timeout_s=limit_s, interval_s=1.0)


def shards_of(cluster: Cluster) -> int:
    """The number of index shards of the bucket, as radosgw-admin reports it."""
    argv = ("bucket", "stats", "--bucket", "reshard0", "--format", "json")
    return int(json.loads(cluster.tool(cluster.client.host.name, "radosgw-admin", *argv))["num_shards"])


def client_of(stage: Stage) -> Any:
    """A boto3 client for the native gateway."""
    require_boto3()
    door = owner(stage.cluster)
    return entrances(stage.cluster, stage.scratch)[host_arch()].client(Keys(door.access_key, door.secret_key))


def versioned(stage: Stage) -> None:
    """Load a bucket with object lock: every write makes a version, and no version can be deleted before its time."""
    client = client_of(stage)
    client.create_bucket(Bucket="locked0", ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "COMPLIANCE", "Days": KEPT_DAYS}}
    client.put_object_lock_configuration(
        Bucket="locked0", ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    result = under_load(stage, "locked", lambda: ())
    pages = list(client.get_paginator("list_object_versions").paginate(Bucket="locked0"))
    kept = [version for page in pages for version in page.get("Versions", [])]
    markers = [version for page in pages for version in page.get("DeleteMarkers", [])]
    counted(stage.recorder, result.operations, {"put": len(kept), "delete": len(markers)})
    refused = [refused_with(client, version) for version in stage.rng.sample(kept, TRIED)]
    stage.recorder.observe("deletions of locked versions", got=refused, wanted=["AccessDenied"] * TRIED)


def counted(recorder: Recorder, operations: Sequence[S3Operation], versions: Mapping[str, int]) -> None:
    """Observe that the number of versions and delete markers matches the acknowledged writes.

    RGW adds no second marker to an object that is already deleted; S3 would.
    """
    wrote = {(op.path, op.version): op.kind for op in operations if op.kind in WRITES}
    for kind in WRITES:
        answered = [op for op in operations if op.kind == kind and not op.code]
        again = sum(wrote.get((op.path, op.version - 1)) == "delete" for op in answered if kind == "delete")
        doubtful = sum(op.kind == kind and bool(op.code) for op in operations)
        recorder.witness(f"acknowledged operations, {kind}", got=len(answered), least=1)
        fits = len(answered) - again <= versions[kind] <= len(answered) + doubtful
        writes = f"{len(answered)} acknowledged ({again} of them on deleted objects) and {doubtful} failed operations"
        recorder.observe(f"{versions[kind]} versions by {kind} match {writes}", got=fits, wanted=True)


def refused_with(client: Any, version: dict[str, Any]) -> str:
    """The S3 error code for deleting a version; empty if it was deleted."""
    from botocore.exceptions import ClientError

    try:
        client.delete_object(Bucket="locked0", Key=version["Key"], VersionId=version["VersionId"])
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def expired(stage: Stage) -> None:
    """Expire objects of one bucket by a lifecycle rule while another bucket is under load."""
    client = client_of(stage)
    client.create_bucket(Bucket="expiring")
    for number in range(OBJECTS):
        client.put_object(Bucket="expiring", Key=f"{'old' if number % 2 else 'kept'}/{number}", Body=b"x" * number)
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "old/"}, "Expiration": {"Days": 1}}

    def change() -> tuple[Span, ...]:
        client.put_bucket_lifecycle_configuration(Bucket="expiring", LifecycleConfiguration={"Rules": [rule]})
        clock.wait(
            lambda: names(client, "old/"),
            lambda left: not left,
            what="the objects of a lifecycle rule to expire",
            timeout_s=EXPIRY_S * stage.cluster.patience,
            interval_s=2.0,
        )
        return ()

    under_load(stage, "beside", change)
    wanted = sorted(f"kept/{number}" for number in range(0, OBJECTS, 2))
    stage.recorder.observe("objects that the rule does not match", got=names(client, ""), wanted=wanted)


def names(client: Any, prefix: str) -> list[str]:
    """Names of objects in the bucket with the lifecycle rule."""
    listed = client.list_objects_v2(Bucket="expiring", Prefix=prefix).get("Contents", [])
    return [str(entry["Key"]) for entry in listed]


_KINDS = {
    "reshard": (resharded, "A bucket's index is resharded under load", "Reshards from 11 to 23 shards, then to 5"),
    "versions": (versioned, "Each write to a locked bucket makes a version", "Counts versions, tries to delete some"),
    "lifecycle": (expired, "A rule expires objects while another bucket is loaded", "Waits for a rule's day of 5 s"),
}


def scenarios(topology: Topology) -> tuple[Scenario, ...]:
    """One scenario for each change. topology: with a gateway of each architecture and short lifecycle days."""
    return tuple(
        Scenario(
            name=f"s3.under-load[{name}]",
            goal=f"{goal}, and all answers through gateways of both architectures are right.",
            method=f"{method}, under a mix of PUT, GET, LIST and DELETE; reads all objects back.",
            run=run,
            check="witnessed",
            topology=topology,
            needs=frozenset({Capability.THIS_MACHINE}),
        )
        for name, (run, goal, method) in _KINDS.items()
    )
