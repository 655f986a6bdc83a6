"""What overwritten and deleted S3 objects and aborted uploads leave in RADOS, where no list of a bucket shows it."""

from collections.abc import Sequence
from typing import Any

from cephlab.lab.base.workers import Workers
from cephlab.lab.cluster.gateway import DATA_POOL
from cephlab.lab.scenario.scenario import Scenario, Stage
from cephlab.lab.scenario.topology import Topology
from cephlab.lab.spec.clusterspec import Capability
from cephlab.suites.s3.objects import STRIPE
from cephlab.suites.s3.stand import Keys, entrances, owner, require_boto3

BODY = b"who pays for this?" * (STRIPE // 18 + 1)
"""A little more than a stripe: the head of the object and one more RADOS object, a tail."""
KEPT = "space-kept"
QUOTA = 2
"""Objects."""
LEAST_GARBAGE = 3
"""Two tails of an object that was overwritten and deleted, and a part of the aborted upload, through each gateway."""


def run(stage: Stage) -> None:
    """Make garbage through each gateway, let it be collected, and compare the RADOS objects with those before."""
    require_boto3()
    cluster = stage.cluster
    door = owner(cluster)
    keys = Keys(door.access_key, door.secret_key)
    clients = [entrance.client(keys) for entrance in entrances(cluster, stage.scratch).values()]
    clients[0].create_bucket(Bucket=KEPT)
    clients[0].put_object(Bucket=KEPT, Key="k", Body=BODY)  # the first object makes the pool
    before = set(cluster.client.list_objects(DATA_POOL))
    with Workers(len(clients), thread_name_prefix="s3") as workers:
        list(workers.map(wasted, clients, [f"space{number}" for number in range(len(clients))]))
    created = set(cluster.client.list_objects(DATA_POOL)) - before
    stage.recorder.witness("RADOS objects to collect", got=len(created), least=LEAST_GARBAGE * len(clients))
    # Gateways do the same, after two hours (rgw_gc_obj_min_wait).
    cluster.tool(cluster.client.host.name, "radosgw-admin", "gc", "process", "--include-all")
    left = sorted(set(cluster.client.list_objects(DATA_POOL)) - before)
    stage.recorder.observe("RADOS objects left by deleted S3 objects", got=left, wanted=[], of=len(created))
    observe_quota(stage, clients)
    kept = clients[-1].get_object(Bucket=KEPT, Key="k")["Body"].read()
    stage.recorder.observe("an object that nobody deleted is as it was put", got=kept == BODY, wanted=True)


def observe_quota(stage: Stage, clients: Sequence[Any]) -> None:
    """Fill a bucket up to its quota through one gateway: each refuses one object more."""
    cluster, bucket = stage.cluster, "space-quota"
    clients[0].create_bucket(Bucket=bucket)
    for argv in (("set", "--max-objects", str(QUOTA)), ("enable",)):
        words = ("quota", *argv, "--quota-scope", "bucket", "--bucket", bucket)
        cluster.tool(cluster.client.host.name, "radosgw-admin", *words)
    for number in range(QUOTA):
        clients[0].put_object(Bucket=bucket, Key=f"k{number}", Body=b"x")
    answers = [answer_to(client, bucket) for client in clients]
    stage.recorder.observe("PUTs beyond the quota of a bucket", got=answers, wanted=["QuotaExceeded"] * len(clients))


def answer_to(client: Any, bucket: str) -> str:
    """The S3 error code for putting one object more; empty if it was put."""
    from botocore.exceptions import ClientError

    try:
        client.put_object(Bucket=bucket, Key="more", Body=b"x")
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def wasted(client: Any, bucket: str) -> None:
    """Overwrite an object, delete it, and abort an upload; remove the bucket."""
    client.create_bucket(Bucket=bucket)
    for _ in range(2):
        client.put_object(Bucket=bucket, Key="k", Body=BODY)
    upload = client.create_multipart_upload(Bucket=bucket, Key="m")["UploadId"]
    client.upload_part(Bucket=bucket, Key="m", UploadId=upload, PartNumber=1, Body=BODY)
    client.abort_multipart_upload(Bucket=bucket, Key="m", UploadId=upload)
    client.delete_object(Bucket=bucket, Key="k")
    client.delete_bucket(Bucket=bucket)


def scenario(topology: Topology) -> Scenario:
    return Scenario(
        name="s3.space",
        goal="Deleted and overwritten objects and aborted uploads leave nothing in RADOS, and a full quota refuses "
        "more, through either gateway.",
        method="Overwrites and deletes an object and aborts an upload through each gateway, collects the garbage, and "
        "compares the RADOS objects with those before. Fills a bucket up to its quota, then puts one object more.",
        run=run,
        check="witnessed",
        topology=topology,
        needs=frozenset({Capability.THIS_MACHINE}),
    )
