"""S3 cases on multipart uploads."""

from collections.abc import Iterable
from functools import partial
from hashlib import md5 as _md5
from typing import Any

from cephlab.suites.s3.stand import Ways, named, refusal, same

md5 = partial(_md5, usedforsecurity=False)
PART = 5 << 20
"""The minimum part size of S3, for all parts but the last."""


def part_of(number: int, size: int = PART) -> bytes:
    """The body of a part, different for each part number."""
    line = f"part {number} ".encode()
    return (line * (size // len(line) + 1))[:size]


def tag_of(bodies: Iterable[bytes]) -> str:
    """The ETag of an object that was uploaded in parts: a digest of their digests, and their number."""
    digests = [md5(body).digest() for body in bodies]
    return f"{md5(b''.join(digests)).hexdigest()}-{len(digests)}"


def begun(ways: Ways, key: str = "k", **more: Any) -> str:
    return str(ways.write.create_multipart_upload(Bucket=ways.bucket, Key=key, **more)["UploadId"])


def sent(client: Any, ways: Ways, upload: str, number: int, body: bytes) -> dict[str, Any]:
    """Upload a part; returns its entry for the completion request."""
    answer = client.upload_part(Bucket=ways.bucket, Key="k", UploadId=upload, PartNumber=number, Body=body)
    return {"PartNumber": number, "ETag": answer["ETag"]}


def completed(client: Any, ways: Ways, upload: str, parts: list[dict[str, Any]]) -> Any:
    return client.complete_multipart_upload(
        Bucket=ways.bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts}
    )


def in_parts(ways: Ways) -> None:
    """Parts are uploaded alternately through both gateways and out of order; the object is complete and in order."""
    ways.made()
    upload = begun(ways, Metadata={"a": "1"})
    bodies = {1: part_of(1), 2: part_of(2), 3: part_of(3, 1000)}
    order = ((3, ways.read), (1, ways.write), (2, ways.read))
    parts = sorted(
        (sent(client, ways, upload, number, bodies[number]) for number, client in order),
        key=lambda part: int(part["PartNumber"]),
    )
    listed = ways.read.list_parts(Bucket=ways.bucket, Key="k", UploadId=upload)["Parts"]
    sizes = {part["PartNumber"]: part["Size"] for part in listed}
    same("parts listed", sizes, {number: len(body) for number, body in bodies.items()})
    tag = completed(ways.write, ways, upload, parts)["ETag"]
    same("ETag", tag.strip('"'), tag_of(bodies.values()))
    answer = ways.read.get_object(Bucket=ways.bucket, Key="k")
    same("body", answer["Body"].read(), b"".join(bodies.values()))
    same("metadata", answer["Metadata"], {"a": "1"})
    same("a range across parts", ways.got("k", Range=f"bytes={PART - 4}-{PART + 3}"), bodies[1][-4:] + bodies[2][:4])


def one_part_again(ways: Ways) -> None:
    """A part uploaded again replaces the first one; the upload is completed through the other gateway."""
    ways.made()
    upload = begun(ways)
    sent(ways.write, ways, upload, 1, part_of(9))
    parts = [sent(ways.read, ways, upload, 1, part_of(1)), sent(ways.write, ways, upload, 2, b"end")]
    completed(ways.read, ways, upload, parts)
    same("body", ways.got("k"), part_of(1) + b"end")


def aborted(ways: Ways) -> None:
    """An aborted upload leaves nothing behind."""
    ways.made()
    upload = begun(ways)
    sent(ways.write, ways, upload, 1, b"x")
    ways.read.abort_multipart_upload(Bucket=ways.bucket, Key="k", UploadId=upload)
    refusal("GET", lambda: ways.got("k"), "NoSuchKey")
    same("uploads", ways.read.list_multipart_uploads(Bucket=ways.bucket).get("Uploads", []), [])
    ways.write.delete_bucket(Bucket=ways.bucket)


def completed_after_abort(ways: Ways) -> None:
    """Completing an aborted upload is refused with NoSuchUpload."""
    ways.made()
    upload = begun(ways)
    part = sent(ways.write, ways, upload, 1, b"x")
    ways.read.abort_multipart_upload(Bucket=ways.bucket, Key="k", UploadId=upload)
    refusal("its completion", lambda: completed(ways.write, ways, upload, [part]), "NoSuchUpload")


def uploads_listed(ways: Ways) -> None:
    """Uploads in progress are listed through the other gateway."""
    ways.made()
    wanted = sorted((key, begun(ways, key)) for key in ("a", "b", "b"))
    listed = ways.read.list_multipart_uploads(Bucket=ways.bucket)["Uploads"]
    same("uploads", sorted((upload["Key"], upload["UploadId"]) for upload in listed), wanted)


def wrong_parts(ways: Ways) -> None:
    """A wrong ETag, a missing part and a part that is too small are refused, and no object is created."""
    ways.made()
    upload = begun(ways)
    parts = [sent(ways.write, ways, upload, 1, b"small"), sent(ways.write, ways, upload, 2, b"end")]
    wrong = [{**parts[0], "ETag": '"00000000000000000000000000000000"'}]
    refusal("a wrong ETag", lambda: completed(ways.read, ways, upload, wrong), "InvalidPart")
    refusal(
        "a missing part", lambda: completed(ways.read, ways, upload, [{**parts[0], "PartNumber": 7}]), "InvalidPart"
    )
    refusal("a small part", lambda: completed(ways.read, ways, upload, parts), "EntityTooSmall")
    refusal("GET", lambda: ways.got("k"), "NoSuchKey")


def parts_copied(ways: Ways) -> None:
    """Parts copied from another object, and from a range of it."""
    ways.made()
    ways.put("source", part_of(1))
    upload, parts = begun(ways), []
    for number, span in ((1, None), (2, "bytes=100-199")):
        more = {"CopySourceRange": span} if span else {}
        answer = ways.read.upload_part_copy(
            Bucket=ways.bucket,
            Key="k",
            UploadId=upload,
            PartNumber=number,
            CopySource={"Bucket": ways.bucket, "Key": "source"},
            **more,
        )
        parts.append({"PartNumber": number, "ETag": answer["CopyPartResult"]["ETag"]})
    completed(ways.write, ways, upload, parts)
    same("body", ways.got("k"), part_of(1) + part_of(1)[100:200])


CASES = named(in_parts, parts_copied, one_part_again, wrong_parts, aborted, completed_after_abort, uploads_listed)
