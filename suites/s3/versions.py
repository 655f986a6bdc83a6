"""S3 cases on versions, delete markers, retention and legal holds."""

from datetime import UTC, datetime, timedelta
from typing import Any

from cephlab.suites.s3.stand import Ways, named, refusal, same


def versioned(ways: Ways, status: str = "Enabled") -> None:
    """Set the versioning of the bucket; create the bucket first if versioning is enabled."""
    if status == "Enabled":
        ways.made()
    ways.write.put_bucket_versioning(Bucket=ways.bucket, VersioningConfiguration={"Status": status})


def every_version(ways: Ways) -> None:
    """Each version can be read by its ID; a read without an ID returns the newest."""
    versioned(ways)
    same("status", ways.read.get_bucket_versioning(Bucket=ways.bucket)["Status"], "Enabled")
    bodies = {ways.put("k", body)["VersionId"]: body for body in (b"one", b"two", b"three")}
    same("versions", len(bodies), 3)
    for version, body in bodies.items():
        same(f"version {body!r}", ways.got("k", VersionId=version), body)
    same("newest version", ways.got("k"), b"three")
    listed = ways.read.list_object_versions(Bucket=ways.bucket)["Versions"]
    same("order, newest first", [version["VersionId"] for version in listed], list(reversed(bodies)))
    same("IsLatest", [version["IsLatest"] for version in listed], [True, False, False])


def delete_marker(ways: Ways) -> None:
    """A delete hides an object and keeps its versions; removing the delete marker restores it."""
    versioned(ways)
    version = ways.put("k", b"one")["VersionId"]
    marker = ways.write.delete_object(Bucket=ways.bucket, Key="k")
    same("marker", marker["DeleteMarker"], True)
    refusal("GET of a hidden object", lambda: ways.got("k"), "NoSuchKey")
    same("its older version", ways.got("k", VersionId=version), b"one")
    ways.read.delete_object(Bucket=ways.bucket, Key="k", VersionId=marker["VersionId"])
    same("body without the marker", ways.write.get_object(Bucket=ways.bucket, Key="k")["Body"].read(), b"one")


def version_deleted(ways: Ways) -> None:
    """A version deleted by its ID is gone, and the previous version is the newest."""
    versioned(ways)
    first, second = (ways.put("k", body)["VersionId"] for body in (b"one", b"two"))
    ways.write.delete_object(Bucket=ways.bucket, Key="k", VersionId=second)
    same("newest version", ways.got("k"), b"one")
    refusal("GET of the deleted version", lambda: ways.got("k", VersionId=second), "NoSuchVersion", "NoSuchKey")
    ways.write.delete_object(Bucket=ways.bucket, Key="k", VersionId=first)
    ways.write.delete_bucket(Bucket=ways.bucket)


def suspended(ways: Ways) -> None:
    """While versioning is suspended, PUTs replace the version `null` and older versions stay."""
    versioned(ways)
    kept = ways.put("k", b"kept")["VersionId"]
    versioned(ways, "Suspended")
    for body in (b"a", b"b"):
        ways.put("k", body)
    same("newest version", ways.got("k"), b"b")
    same("version null", ways.got("k", VersionId="null"), b"b")
    same("older version", ways.got("k", VersionId=kept), b"kept")
    listed = ways.read.list_object_versions(Bucket=ways.bucket)["Versions"]
    same("versions", sorted(version["VersionId"] for version in listed), sorted([kept, "null"]))


def locked(ways: Ways) -> str:
    """Put an object into a bucket with object lock; returns its version ID."""
    ways.made(ObjectLockEnabledForBucket=True)
    return str(ways.put("k", b"held")["VersionId"])


def later(hours: int = 1) -> datetime:
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=hours)


def let_go(ways: Ways, version: str, client: Any = None) -> None:
    """Delete a version with BypassGovernanceRetention."""
    (client or ways.write).delete_object(Bucket=ways.bucket, Key="k", VersionId=version, BypassGovernanceRetention=True)


def retention(ways: Ways) -> None:
    """A version under GOVERNANCE cannot be deleted through either gateway, unless the owner bypasses the retention."""
    version, until = locked(ways), later()
    ways.write.put_object_retention(
        Bucket=ways.bucket, Key="k", VersionId=version, Retention={"Mode": "GOVERNANCE", "RetainUntilDate": until}
    )
    kept = ways.read.get_object_retention(Bucket=ways.bucket, Key="k", VersionId=version)["Retention"]
    same("retention", (kept["Mode"], kept["RetainUntilDate"]), ("GOVERNANCE", until))
    for client in (ways.write, ways.read):
        refusal(
            "deleting a retained version",
            lambda client=client: client.delete_object(Bucket=ways.bucket, Key="k", VersionId=version),  # type: ignore[misc]
            "AccessDenied",
        )
    same("body", ways.got("k"), b"held")
    let_go(ways, version)
    refusal("GET", lambda: ways.got("k"), "NoSuchKey")


def compliance(ways: Ways) -> None:
    """A version under COMPLIANCE cannot be deleted, and its retention cannot be shortened."""
    version = locked(ways)
    lock = {"Mode": "COMPLIANCE", "RetainUntilDate": later(2)}
    ways.write.put_object_retention(Bucket=ways.bucket, Key="k", VersionId=version, Retention=lock)
    shorter = {**lock, "RetainUntilDate": later(1)}
    refusal("bypassing it", lambda: let_go(ways, version, ways.read), "AccessDenied")
    refusal(
        "shortening it",
        lambda: ways.read.put_object_retention(Bucket=ways.bucket, Key="k", VersionId=version, Retention=shorter),
        "AccessDenied",
    )
    same("body", ways.got("k", VersionId=version), b"held")


def legal_hold(ways: Ways) -> None:
    """A version under a legal hold cannot be deleted until the hold is lifted."""
    version = locked(ways)

    def hold(status: str) -> None:
        ways.write.put_object_legal_hold(Bucket=ways.bucket, Key="k", VersionId=version, LegalHold={"Status": status})

    hold("ON")
    refusal("deleting a held version", lambda: let_go(ways, version, ways.read), "AccessDenied")
    hold("OFF")
    let_go(ways, version, ways.read)
    refusal("GET", lambda: ways.got("k"), "NoSuchKey")


def default_retention(ways: Ways) -> None:
    """The default retention of a bucket applies to objects that are put later."""
    ways.made(ObjectLockEnabledForBucket=True)
    rule = {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}
    ways.write.put_object_lock_configuration(
        Bucket=ways.bucket, ObjectLockConfiguration={"ObjectLockEnabled": "Enabled", "Rule": rule}
    )
    lock = ways.read.get_object_lock_configuration(Bucket=ways.bucket)["ObjectLockConfiguration"]
    same("rule", lock["Rule"], rule)
    version = ways.put("k", b"held")["VersionId"]
    same("mode of an object", ways.read.head_object(Bucket=ways.bucket, Key="k")["ObjectLockMode"], "GOVERNANCE")
    refusal(
        "deleting it", lambda: ways.read.delete_object(Bucket=ways.bucket, Key="k", VersionId=version), "AccessDenied"
    )


CASES = named(
    every_version,
    delete_marker,
    version_deleted,
    suspended,
    retention,
    compliance,
    legal_hold,
    default_retention,
)
