"""S3 cases on access: ACLs, policies, presigned requests, forms, wrong keys, customer-provided encryption keys."""

import hashlib
import http.client
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from cephlab.lab.base.clock import SYSTEM
from cephlab.suites.s3.stand import OTHER, Differs, Keys, Ways, named, refusal, same

BODY = b"who may read this? " * 20
NOBODY = Keys(None)
SECRET = "0" * 32
EXPIRED_S = 2.0
"""A URL counts whole seconds: one for 1 s has expired after 2 s at the latest."""
CUSTOMER = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": SECRET}


def asked(
    url: str, method: str = "GET", body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of a plain request. It has no Content-Type of its own, since no presigned URL signs that."""
    target = urlsplit(url)
    line = http.client.HTTPConnection(target.netloc, timeout=120)
    try:
        line.request(method, urlunsplit(("", "", target.path, target.query, "")), body, dict(headers or {}))
        answer = line.getresponse()
        return answer.status, answer.read()
    finally:
        line.close()


def held(ways: Ways, **more: Any) -> None:
    """Make the bucket with one object of its owner."""
    ways.made()
    ways.put("k", BODY, **more)


def private(ways: Ways) -> None:
    """By default, neither another user nor an anonymous client may read, list or write."""
    held(ways)
    for who in (ways.other, NOBODY):
        client = ways.reader.client(who)
        refusal("GET", lambda client=client: ways.got("k", client), "AccessDenied")  # type: ignore[misc]
        refusal("LIST", lambda client=client: client.list_objects_v2(Bucket=ways.bucket), "AccessDenied")  # type: ignore[misc]
        refusal(
            "PUT",
            lambda client=client: client.put_object(Bucket=ways.bucket, Key="n", Body=b"x"),  # type: ignore[misc]
            "AccessDenied",
        )


def acl_public(ways: Ways) -> None:
    """public-read lets anybody read and nobody else write; setting it back to private ends that."""
    held(ways, ACL="public-read")
    nobody = ways.reader.client(NOBODY)
    same("body for an anonymous client", ways.got("k", nobody), BODY)
    refusal("PUT", lambda: nobody.put_object(Bucket=ways.bucket, Key="k", Body=b"x"), "AccessDenied")
    ways.write.put_object_acl(Bucket=ways.bucket, Key="k", ACL="private")
    refusal("GET after it is private again", lambda: ways.got("k", nobody), "AccessDenied")


def acl_grant(ways: Ways) -> None:
    """A READ grant to one user lets that user read; others may not."""
    held(ways)
    theirs = ways.reader.client(ways.other)
    ways.write.put_object_acl(
        Bucket=ways.bucket, Key="k", GrantRead=f"id={OTHER}", GrantFullControl=f"id={owner_of(ways)}"
    )
    same("body for the other user", ways.got("k", theirs), BODY)
    refusal("anonymous GET", lambda: ways.got("k", ways.reader.client(NOBODY)), "AccessDenied")
    grants = ways.read.get_object_acl(Bucket=ways.bucket, Key="k")["Grants"]
    same(
        "grants",
        sorted((grant["Grantee"]["ID"], grant["Permission"]) for grant in grants),
        sorted([(OTHER, "READ"), (owner_of(ways), "FULL_CONTROL")]),
    )


def owner_of(ways: Ways) -> str:
    return str(ways.write.get_bucket_acl(Bucket=ways.bucket)["Owner"]["ID"])


def policy(ways: Ways, *statements: Mapping[str, Any]) -> None:
    """Put a bucket policy."""
    text = json.dumps({"Version": "2012-10-17", "Statement": list(statements)})
    ways.write.put_bucket_policy(Bucket=ways.bucket, Policy=text)


def statement(ways: Ways, effect: str, action: str, key: str = "/*") -> dict[str, Any]:
    who = {"AWS": [f"arn:aws:iam:::user/{OTHER}"]}
    return {"Effect": effect, "Principal": who, "Action": action, "Resource": f"arn:aws:s3:::{ways.bucket}{key}"}


def policy_allows(ways: Ways) -> None:
    """A policy lets one user get and list, and no more; deleting the policy ends that."""
    held(ways)
    theirs = ways.reader.client(ways.other)
    policy(ways, statement(ways, "Allow", "s3:GetObject"), statement(ways, "Allow", "s3:ListBucket", ""))
    same("body for the other user", ways.got("k", theirs), BODY)
    listed = theirs.list_objects_v2(Bucket=ways.bucket)["Contents"]
    same("names for the other user", [entry["Key"] for entry in listed], ["k"])
    refusal("PUT", lambda: theirs.put_object(Bucket=ways.bucket, Key="n", Body=b"x"), "AccessDenied")
    same("statements", len(json.loads(ways.read.get_bucket_policy(Bucket=ways.bucket)["Policy"])["Statement"]), 2)
    ways.write.delete_bucket_policy(Bucket=ways.bucket)
    refusal("GET without the policy", lambda: ways.got("k", theirs), "AccessDenied")


def policy_denies(ways: Ways) -> None:
    """A Deny statement takes precedence over an ACL and over an Allow statement."""
    held(ways, ACL="public-read")
    ways.put("open", BODY)
    policy(ways, statement(ways, "Allow", "s3:GetObject"), statement(ways, "Deny", "s3:GetObject", "/k"))
    theirs = ways.reader.client(ways.other)
    same("body of the allowed object", ways.got("open", theirs), BODY)
    refusal("GET of the denied object", lambda: ways.got("k", theirs), "AccessDenied")


def presigned(ways: Ways) -> None:
    """A presigned URL works without keys, but only for the signed key, method and expiry."""
    held(ways)

    def url(client: Any, verb: str, key: str = "k", seconds: int = 600) -> str:
        return str(client.generate_presigned_url(verb, Params={"Bucket": ways.bucket, "Key": key}, ExpiresIn=seconds))

    same("presigned GET", asked(url(ways.read, "get_object")), (200, BODY))
    same("status of a presigned PUT", asked(url(ways.write, "put_object", "new"), "PUT", b"new")[0], 200)
    same("body of the presigned PUT", ways.got("new"), b"new")
    other = url(ways.read, "get_object").replace("/k?", "/new?")
    same("status for another key", asked(other)[0], 403)
    same("status of a PUT with the signature of a GET", asked(url(ways.read, "get_object"), "PUT", b"x")[0], 403)
    late = url(ways.read, "get_object", seconds=1)
    ways.read.head_object(Bucket=ways.bucket, Key="k")
    same("status with a changed expiry", asked(late.replace("X-Amz-Expires=1", "X-Amz-Expires=2"))[0], 403)


def presigned_late(ways: Ways) -> None:
    """A presigned URL that has expired is refused."""
    held(ways)
    url = ways.read.generate_presigned_url("get_object", Params={"Bucket": ways.bucket, "Key": "k"}, ExpiresIn=1)
    SYSTEM.sleep(EXPIRED_S)
    same("status of an expired URL", asked(url)[0], 403)


def form(fields: Mapping[str, str], body: bytes) -> tuple[bytes, dict[str, str]]:
    """A browser form with a file: (body, headers)."""
    line = "lab-form-border"
    parts = [
        f'--{line}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    head = f'--{line}\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
    whole = "".join(parts).encode() + head.encode() + body + f"\r\n--{line}--\r\n".encode()
    return whole, {"Content-Type": f"multipart/form-data; boundary={line}"}


def post_form(ways: Ways) -> None:
    """A form with a policy puts an object; a form that violates its policy or has no signature is refused."""
    ways.made()
    post = ways.write.generate_presigned_post(
        ways.bucket, "k", Conditions=[["content-length-range", 1, 1000]], ExpiresIn=600
    )
    url = f"http://{ways.writer.address}/{ways.bucket}"
    status, answer = asked(url, "POST", *form(post["fields"], BODY))
    if status != 204:
        raise Differs(f"status of a form: got {status}, {answer[:200]!r}, wanted 204")
    same("body of the form's file", ways.got("k"), BODY)
    same("status of a file that is too large", asked(url, "POST", *form(post["fields"], BODY * 9))[0], 400)
    same("status with another key", asked(url, "POST", *form({**post["fields"], "key": "n"}, BODY))[0], 403)
    same("status without a policy", asked(url, "POST", *form({"key": "n"}, BODY))[0], 403)
    refusal("GET", lambda: ways.got("n"), "NoSuchKey")


def wrong_keys(ways: Ways) -> None:
    """A wrong secret and an unknown access key are refused, with different codes."""
    held(ways)
    wrong = replace(ways.keys, secret="x" * 40)
    refusal("a wrong secret", lambda: ways.got("k", ways.reader.client(wrong)), "SignatureDoesNotMatch")
    unknown = Keys("UNKNOWNKEY", "x" * 40)
    refusal("an unknown key", lambda: ways.got("k", ways.reader.client(unknown)), "InvalidAccessKeyId")


def customers_key(ways: Ways) -> None:
    """An object encrypted with a customer-provided key (SSE-C) can be read over TLS with that key, and only with it."""
    ways.made()
    write, read = (door.client(ways.keys, tls=True) for door in (ways.writer, ways.reader))
    write.put_object(Bucket=ways.bucket, Key="k", Body=BODY, **CUSTOMER)
    same("body", ways.got("k", read, **CUSTOMER), BODY)
    head = read.head_object(Bucket=ways.bucket, Key="k", **CUSTOMER)
    same("length", head["ContentLength"], len(BODY))
    # RGW answers InvalidArgument, Amazon InvalidRequest.
    refusal("GET without the key", lambda: ways.got("k", read), "InvalidArgument", "InvalidRequest")
    another = {**CUSTOMER, "SSECustomerKey": "1" * 32}
    refusal("GET with another key", lambda: ways.got("k", read, **another), "InvalidArgument", "AccessDenied")


def customers_key_in_parts(ways: Ways) -> None:
    """A multipart upload with a customer-provided key, and a range read across parts."""
    ways.made()
    write, read = (door.client(ways.keys, tls=True) for door in (ways.writer, ways.reader))
    upload = write.create_multipart_upload(Bucket=ways.bucket, Key="k", **CUSTOMER)["UploadId"]
    bodies = [hashlib.sha256(bytes([number])).digest() * (5 << 15) for number in (1, 2)]
    parts = [
        {
            "PartNumber": number,
            "ETag": client.upload_part(
                Bucket=ways.bucket, Key="k", UploadId=upload, PartNumber=number, Body=body, **CUSTOMER
            )["ETag"],
        }
        for number, (client, body) in enumerate(zip((write, read), bodies, strict=True), 1)
    ]
    write.complete_multipart_upload(
        Bucket=ways.bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts}, **CUSTOMER
    )
    whole = b"".join(bodies)
    same("body", ways.got("k", read, **CUSTOMER), whole)
    middle = len(bodies[0])
    span = f"bytes={middle - 9}-{middle + 8}"
    same("a range across parts", ways.got("k", read, Range=span, **CUSTOMER), whole[middle - 9 : middle + 9])


CASES = named(
    presigned_late,
    private,
    acl_public,
    acl_grant,
    policy_allows,
    policy_denies,
    presigned,
    post_form,
    wrong_keys,
    customers_key,
    customers_key_in_parts,
)
