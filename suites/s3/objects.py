"""S3 cases on single objects: bodies, names, metadata, ranges, conditions, copies, tags."""

import hashlib
import time
from email.utils import parsedate_to_datetime

from cephlab.suites.s3.stand import Differs, Ways, named, refusal, same

BODY = bytes(range(256)) * 40
CLOCK_S = 2.0
STRIPE = 4 << 20
"""A gateway stores an object in stripes of 4 MiB."""


def put_and_get(ways: Ways) -> None:
    """Body, ETag and length are right, also around a stripe boundary."""
    ways.made()
    for size in (0, 1, len(BODY), STRIPE - 1, STRIPE + 1):
        body = (BODY * (size // len(BODY) + 1))[:size]
        tag = ways.put(f"k{size}", body)["ETag"]
        same(f"ETag of {size} bytes", tag.strip('"'), hashlib.md5(body, usedforsecurity=False).hexdigest())
        same(f"body of {size} bytes", ways.got(f"k{size}"), body)
        head = ways.read.head_object(Bucket=ways.bucket, Key=f"k{size}")
        same("length and ETag of HEAD", (head["ContentLength"], head["ETag"]), (size, tag))


def dated(ways: Ways) -> None:
    """An object's date is when it was put, and the date of the answer is now."""
    ways.made()
    before_s = time.time()
    ways.put("k", BODY)
    head = ways.read.head_object(Bucket=ways.bucket, Key="k")
    after_s = time.time()
    answered = parsedate_to_datetime(head["ResponseMetadata"]["HTTPHeaders"]["date"])
    for what, date in (("Last-Modified", head["LastModified"]), ("Date", answered)):
        # Both have whole seconds.
        off_s = max(before_s - CLOCK_S - date.timestamp(), date.timestamp() - after_s - CLOCK_S, 0.0)
        same(f"seconds by which {what} is off", round(off_s), 0)


def overwritten(ways: Ways) -> None:
    """After each acknowledged PUT, the other gateway returns the new body and never an older one."""
    ways.made()
    for number in range(5):
        body = f"version {number}".encode() * 50
        ways.put("k", body)
        same(f"body after put {number}", ways.got("k"), body)


def deleted(ways: Ways) -> None:
    """A deleted object is gone for the other gateway; deleting it again is no error."""
    ways.made()
    ways.put("k", BODY)
    for _ in range(2):
        answer = ways.write.delete_object(Bucket=ways.bucket, Key="k")
        same("status of DELETE", answer["ResponseMetadata"]["HTTPStatusCode"], 204)
        refusal("GET of a deleted object", lambda: ways.got("k"), "NoSuchKey")


def many_deleted(ways: Ways) -> None:
    """DeleteObjects removes some objects; a name that does not exist is no error."""
    ways.made()
    for number in range(4):
        ways.put(f"k{number}", b"x")
    to_delete = [{"Key": "k0"}, {"Key": "k2"}, {"Key": "never"}]
    answer = ways.write.delete_objects(Bucket=ways.bucket, Delete={"Objects": to_delete})
    same("deleted", sorted(entry["Key"] for entry in answer["Deleted"]), ["k0", "k2", "never"])
    left = ways.read.list_objects_v2(Bucket=ways.bucket)["Contents"]
    same("names left", [entry["Key"] for entry in left], ["k1", "k3"])


def metadata(ways: Ways) -> None:
    """User metadata and HTTP headers are returned as put."""
    ways.made()
    sent = {
        "ContentType": "text/x-lab",
        "CacheControl": "max-age=7",
        "ContentDisposition": "inline",
        "ContentLanguage": "de",
    }
    ways.put("k", BODY, Metadata={"architecture": "both", "empty-less": "1"}, **sent)
    head = ways.read.head_object(Bucket=ways.bucket, Key="k")
    same("metadata", head["Metadata"], {"architecture": "both", "empty-less": "1"})
    same("headers", {key: head[key] for key in sent}, sent)


def odd_names(ways: Ways) -> None:
    """Names with spaces, signs, slashes and non-ASCII letters are kept as they are."""
    names = sorted(["a b", "a+b", "a%2Fb", "a//b", "ключ", "日本", "a?b=c&d", "x" * 1000])
    ways.made()
    for name in names:
        ways.put(name, name.encode())
    for name in names:
        same(f"body of {name[:20]!r}", ways.got(name), name.encode())
    listed = ways.read.list_objects_v2(Bucket=ways.bucket)["Contents"]
    same("names", sorted(entry["Key"] for entry in listed), names)


def ranged(ways: Ways) -> None:
    """Ranges across stripes are right; a range beyond the end is refused."""
    body = BODY * (STRIPE // len(BODY) + 3)
    ways.made()
    ways.put("k", body)
    for text, wanted in (
        ("bytes=0-9", body[:10]),
        (f"bytes={STRIPE - 5}-{STRIPE + 4}", body[STRIPE - 5 : STRIPE + 5]),
        ("bytes=-7", body[-7:]),
        (f"bytes={len(body) - 3}-", body[-3:]),
    ):
        answer = ways.read.get_object(Bucket=ways.bucket, Key="k", Range=text)
        same(f"status of {text}", answer["ResponseMetadata"]["HTTPStatusCode"], 206)
        same(text, answer["Body"].read(), wanted)
    refusal("a range beyond the end", lambda: ways.got("k", Range=f"bytes={len(body)}-"), "InvalidRange")


def conditional_get(ways: Ways) -> None:
    """GET with If-Match, If-None-Match and If-Modified-Since."""
    ways.made()
    tag = ways.put("k", BODY)["ETag"]
    when = ways.read.head_object(Bucket=ways.bucket, Key="k")["LastModified"]
    same("If-Match", ways.got("k", IfMatch=tag), BODY)
    same("If-None-Match with another ETag", ways.got("k", IfNoneMatch='"0"'), BODY)
    refusal("If-None-Match", lambda: ways.got("k", IfNoneMatch=tag), "304")
    refusal("If-Match with another ETag", lambda: ways.got("k", IfMatch='"0"'), "PreconditionFailed")
    refusal("If-Modified-Since", lambda: ways.got("k", IfModifiedSince=when), "304")


def conditional_put(ways: Ways) -> None:
    """A PUT with If-None-Match: * creates an object and never replaces one."""
    ways.made()
    ways.put("k", b"first", IfNoneMatch="*")
    refusal("a second PUT", lambda: ways.put("k", b"second", IfNoneMatch="*"), "PreconditionFailed")
    same("body", ways.got("k"), b"first")


def copied(ways: Ways) -> None:
    """A server-side copy keeps or replaces the metadata, and leaves the source unchanged."""
    ways.made()
    ways.put("k", BODY, Metadata={"a": "1"})
    source = {"Bucket": ways.bucket, "Key": "k"}
    ways.read.copy_object(Bucket=ways.bucket, Key="kept", CopySource=source)
    ways.read.copy_object(
        Bucket=ways.bucket, Key="new", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"}
    )
    for key, wanted in (("k", {"a": "1"}), ("kept", {"a": "1"}), ("new", {"b": "2"})):
        answer = ways.write.get_object(Bucket=ways.bucket, Key=key)
        same(f"body and metadata of {key}", (answer["Body"].read(), answer["Metadata"]), (BODY, wanted))


def tagged(ways: Ways) -> None:
    """Object tags are put with the object, replaced and deleted."""
    ways.made()
    ways.put("k", BODY, Tagging="kind=lab&arch=both")

    def tags(client: object) -> dict[str, str]:
        answer = client.get_object_tagging(Bucket=ways.bucket, Key="k")  # type: ignore[attr-defined]
        return {entry["Key"]: entry["Value"] for entry in answer["TagSet"]}

    same("tags of the put", tags(ways.read), {"kind": "lab", "arch": "both"})
    ways.write.put_object_tagging(Bucket=ways.bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "b c"}]})
    same("tags after their replacement", tags(ways.read), {"a": "b c"})
    ways.write.delete_object_tagging(Bucket=ways.bucket, Key="k")
    same("tags after their deletion", tags(ways.read), {})
    same("body", ways.got("k"), BODY)


def digests(ways: Ways) -> None:
    """A body that does not match its Content-MD5 is refused, and no object is created."""
    ways.made()
    refusal("a wrong Content-MD5", lambda: ways.put("k", BODY, ContentMD5="AAAAAAAAAAAAAAAAAAAAAA=="), "BadDigest")
    refusal("GET", lambda: ways.got("k"), "NoSuchKey")


def trailing_checksum(ways: Ways) -> None:
    """A checksum that boto3 sends after the body, as it does by default since 1.36, does not change the body."""
    ways.made()
    ways.put("k", BODY, ChecksumAlgorithm="CRC32")
    if (body := ways.got("k")) != BODY:
        raise Differs(f"body: got {len(body)} bytes, begins with {body[:20]!r}")


CASES = named(
    put_and_get,
    dated,
    overwritten,
    deleted,
    many_deleted,
    metadata,
    odd_names,
    ranged,
    conditional_get,
    conditional_put,
    copied,
    tagged,
    digests,
    trailing_checksum,
)
