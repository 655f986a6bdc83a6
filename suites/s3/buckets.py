"""S3 cases on buckets: creation, listing, tags, CORS, lifecycle."""

import urllib.request

from cephlab.lab.base import clock
from cephlab.suites.s3.stand import Ways, named, refusal, same

EXPIRY_S = 90.0
"""A day of a rule lasts rgw_lc_debug_interval, and gateways process rules at the same interval."""


def made_and_removed(ways: Ways) -> None:
    """A bucket is visible through the other gateway, cannot be removed while it has objects, and is gone afterwards."""
    bucket = ways.made()
    ways.read.head_bucket(Bucket=bucket)
    names = [entry["Name"] for entry in ways.read.list_buckets()["Buckets"]]
    same("the bucket's name in the list", names.count(bucket), 1)
    ways.put("k", b"x")
    refusal("removing a full bucket", lambda: ways.read.delete_bucket(Bucket=bucket), "BucketNotEmpty")
    ways.write.delete_object(Bucket=bucket, Key="k")
    ways.write.delete_bucket(Bucket=bucket)
    refusal("HEAD of a removed bucket", lambda: ways.read.head_bucket(Bucket=bucket), "404", "NoSuchBucket")
    refusal("a PUT into it", lambda: ways.put("k", b"x"), "NoSuchBucket")


def of_another(ways: Ways) -> None:
    """Another user cannot create a bucket with a name that is taken."""
    bucket = ways.made()
    theirs = ways.reader.client(ways.other)
    refusal("creating it again", lambda: theirs.create_bucket(Bucket=bucket), "BucketAlreadyExists")


def listed_by_pages(ways: Ways) -> None:
    """Both list operations, page by page, return every name once and in order."""
    bucket, names = ways.made(), [f"n{number:03}" for number in range(25)]
    for name in names:
        ways.put(name, b"x")
    for kind in ("list_objects_v2", "list_objects"):
        pages = list(ways.read.get_paginator(kind).paginate(Bucket=bucket, PaginationConfig={"PageSize": 7}))
        same(f"pages of {kind}", len(pages), 4)
        same(f"names of {kind}", [entry["Key"] for page in pages for entry in page["Contents"]], names)
    later = ways.read.list_objects_v2(Bucket=bucket, StartAfter="n019")["Contents"]
    same("names after n019", [entry["Key"] for entry in later], names[20:])


def listed_by_prefix(ways: Ways) -> None:
    """Prefix and delimiter list objects like folders."""
    bucket = ways.made()
    for name in ("a/1", "a/2", "a/b/3", "a/z", "b/4", "top"):
        ways.put(name, b"x")
    top = ways.read.list_objects_v2(Bucket=bucket, Delimiter="/")
    same("names at the top", [entry["Key"] for entry in top["Contents"]], ["top"])
    same("folders at the top", [entry["Prefix"] for entry in top["CommonPrefixes"]], ["a/", "b/"])
    below = ways.read.list_objects_v2(Bucket=bucket, Prefix="a/", Delimiter="/")
    same("names in a", [entry["Key"] for entry in below["Contents"]], ["a/1", "a/2", "a/z"])
    same("folders in a", [entry["Prefix"] for entry in below["CommonPrefixes"]], ["a/b/"])
    for size in range(1, 4):
        listed = ways.read.get_paginator("list_objects_v2").paginate(
            Bucket=bucket, Prefix="a/", Delimiter="/", PaginationConfig={"PageSize": size}
        )
        pages = [(page.get("Contents", ()), page.get("CommonPrefixes", ())) for page in listed]
        seen = [[entry["Key"] for keys, _ in pages for entry in keys], [f["Prefix"] for _, fs in pages for f in fs]]
        same(f"names and folders in a, {size} to a page", seen, [["a/1", "a/2", "a/z"], ["a/b/"]])


def tagged(ways: Ways) -> None:
    """Bucket tags can be set, read and deleted."""
    bucket, tags = ways.made(), [{"Key": "team", "Value": "lab"}]
    ways.write.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": tags})
    same("tags", ways.read.get_bucket_tagging(Bucket=bucket)["TagSet"], tags)
    ways.write.delete_bucket_tagging(Bucket=bucket)
    refusal("tags after their deletion", lambda: ways.read.get_bucket_tagging(Bucket=bucket), "NoSuchTagSet")


def cors(ways: Ways) -> None:
    """CORS rules are returned as put, and a preflight request is answered according to them."""
    bucket = ways.made()
    rule = {"AllowedMethods": ["GET"], "AllowedOrigins": ["https://lab.example"], "MaxAgeSeconds": 60}
    ways.write.put_bucket_cors(Bucket=bucket, CORSConfiguration={"CORSRules": [rule]})
    same("rules", ways.read.get_bucket_cors(Bucket=bucket)["CORSRules"], [rule])
    headers = {"Origin": "https://lab.example", "Access-Control-Request-Method": "GET"}
    request = urllib.request.Request(f"http://{ways.reader.address}/{bucket}/k", method="OPTIONS", headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        same("allowed origin", answer.headers["Access-Control-Allow-Origin"], "https://lab.example")


def lifecycle_kept(ways: Ways) -> None:
    """Lifecycle rules are returned as put, and can be deleted."""
    bucket = ways.made()
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 3}}
    ways.write.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    same("rules", ways.read.get_bucket_lifecycle_configuration(Bucket=bucket)["Rules"], [rule])
    ways.write.delete_bucket_lifecycle(Bucket=bucket)
    refusal(
        "rules after their deletion",
        lambda: ways.read.get_bucket_lifecycle_configuration(Bucket=bucket),
        "NoSuchLifecycleConfiguration",
    )


def lifecycle_expires(ways: Ways) -> None:
    """Objects that a lifecycle rule matches expire after its time, and no others do."""
    bucket = ways.made()
    for name in ("tmp/1", "tmp/2", "kept"):
        ways.put(name, b"x")
    rule = {"ID": "old", "Status": "Enabled", "Filter": {"Prefix": "tmp/"}, "Expiration": {"Days": 1}}
    ways.write.put_bucket_lifecycle_configuration(Bucket=bucket, LifecycleConfiguration={"Rules": [rule]})
    clock.wait(
        lambda: [entry["Key"] for entry in ways.read.list_objects_v2(Bucket=bucket)["Contents"]],
        lambda names: names == ["kept"],
        what="the objects of a lifecycle rule to expire",
        timeout_s=EXPIRY_S * ways.patience,
        interval_s=2.0,
    )
    same("body of an object without a rule", ways.got("kept"), b"x")


CASES = named(
    lifecycle_expires, made_and_removed, of_another, listed_by_pages, listed_by_prefix, tagged, cors, lifecycle_kept
)
"""The longest case comes first."""
