"""A side of a walk over S3: one bucket, through one gateway, with Python's own HTTP client.

Settings: address (HOST:PORT of the gateway), access_key, secret_key, place (the bucket).
Requests are signed with AWS Signature Version 4 (docs.aws.amazon.com, "Authenticating Requests"), without their bodies.
"""

import hashlib
import hmac
import http.client
import re
import time
import urllib.parse
import xml.etree.ElementTree

SETTINGS = {"address": "127.0.0.1:7480", "access_key": "", "secret_key": ""}
REGION, UNSIGNED = "us-east-1", "UNSIGNED-PAYLOAD"


class Refusal(Exception):
    """An answer that is not a success. Its argument is S3's error code."""


def quoted(text, safe=""):
    return urllib.parse.quote(text, safe="-_.~" + safe)


def signed(settings, method, path, query, extra):
    """Headers of one request, with its signature. path, query: quoted; extra: further headers, which are signed too."""
    now = time.gmtime()
    stamp, day = time.strftime("%Y%m%dT%H%M%SZ", now), time.strftime("%Y%m%d", now)
    headers = {"host": settings["address"], "x-amz-content-sha256": UNSIGNED, "x-amz-date": stamp, **extra}
    names = ";".join(sorted(headers))
    lines = ["%s:%s" % (key, headers[key]) for key in sorted(headers)]
    canonical = "\n".join([method, path, query, *lines, "", names, UNSIGNED])
    scope = "%s/%s/s3/aws4_request" % (day, REGION)
    key = ("AWS4" + settings["secret_key"]).encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    words = "AWS4-HMAC-SHA256\n%s\n%s\n%s" % (stamp, scope, hashlib.sha256(canonical.encode()).hexdigest())
    signature = hmac.new(key, words.encode(), "sha256").hexdigest()
    credential = "%s/%s" % (settings["access_key"], scope)
    said = "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s" % (credential, names, signature)
    return {**headers, "Authorization": said}


class Side:
    """One connection to one gateway."""

    refusals = (Refusal, OSError, http.client.HTTPException, ValueError, TypeError, AttributeError, SyntaxError)

    def __init__(self, settings):
        self.settings = settings
        self.bucket = ""
        self.line = http.client.HTTPConnection(settings["address"], timeout=120)

    def begin(self, place):
        """Go to an empty bucket."""
        self.bucket = place
        try:
            self.ask("PUT", None)
        except Refusal as refusal:
            if "BucketAlready" not in str(refusal):
                raise

    def close(self):
        self.line.close()

    def word(self, error):
        """S3's code of a refusal, or the full text of an error that no walk expects."""
        return str(error) if isinstance(error, Refusal) else "%s: %s" % (type(error).__name__, error)

    def ask(self, method, key, body=None, query=(), headers=()):
        """(headers, body) of the answer. key: None for the bucket itself; query: pairs."""
        path = "/" + self.bucket + ("" if key is None else "/" + quoted(key, "/"))
        asked = "&".join("%s=%s" % (quoted(name), quoted(value)) for name, value in sorted(query))
        extra = signed(self.settings, method, path, asked, dict(headers))
        self.line.request(method, path + ("?" + asked if asked else ""), body=body, headers=extra)
        told_back = self.line.getresponse()
        data = told_back.read()
        if told_back.status // 100 != 2:
            code = tree_of(data).findtext("Code") if data else None
            raise Refusal(code or str(told_back.status))
        return told_back, data

    def op_put(self, key, seed, size, note):
        """note: user metadata."""
        self.ask("PUT", key, content(seed, size), headers={"x-amz-meta-note": note})

    def op_get(self, key):
        told_back, data = self.ask("GET", key)
        return [told(data), told_back.headers["x-amz-meta-note"], told_back.headers["ETag"]]

    def op_range(self, key, first, last):
        told_back, data = self.ask("GET", key, headers={"range": "bytes=%d-%d" % (first, last)})
        return [told(data), told_back.headers["Content-Range"]]

    def op_copy(self, key, to):
        source = quoted("/" + self.bucket + "/" + key, "/")
        self.ask("PUT", to, b"", headers={"x-amz-copy-source": source})

    def op_delete(self, key):
        self.ask("DELETE", key)

    def op_multipart(self, key, seed, sizes, note):
        """Upload parts in order, but the first one last. Part n has the content of seed + n - 1."""
        _, data = self.ask("POST", key, b"", [("uploads", "")], {"x-amz-meta-note": note})
        upload = text_of(data, "UploadId")
        tags = {}
        for number in [*range(2, len(sizes) + 1), 1]:
            query = [("partNumber", str(number)), ("uploadId", upload)]
            told_back, _ = self.ask("PUT", key, content(seed + number - 1, sizes[number - 1]), query)
            tags[number] = told_back.headers["ETag"]
        part = "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>"
        parts = "".join(part % (number, tags[number]) for number in sorted(tags))
        body = "<CompleteMultipartUpload>%s</CompleteMultipartUpload>" % parts
        self.ask("POST", key, body.encode(), [("uploadId", upload)])

    def op_list(self, prefix, delimiter, page):
        """[[keys], [common prefixes]] in the gateway's order, read in pages of `page` entries."""
        keys, prefixes, more = [], [], ""
        while True:
            query = [("list-type", "2"), ("max-keys", str(page)), ("encoding-type", "url"), ("prefix", prefix)]
            query += [("delimiter", delimiter)] if delimiter else []
            query += [("continuation-token", more)] if more else []
            _, data = self.ask("GET", None, query=query)
            tree = tree_of(data)
            keys += [urllib.parse.unquote_plus(key.text) for key in found_in(tree, "Contents", "Key")]
            prefixes += [urllib.parse.unquote_plus(key.text) for key in found_in(tree, "CommonPrefixes", "Prefix")]
            more = text_of(data, "NextContinuationToken")
            if not more:
                return [keys, prefixes]

    def op_look(self):
        """Every object in the order of the listing, with its content."""
        keys, _ = self.op_list("", "", 1000)
        return [[key, *self.op_get(key)] for key in keys]


def tree_of(data):
    """An answer's XML. A gateway writes control characters of a key as references that XML 1.0 does not allow."""
    known = re.sub(rb"&#(x[0-9a-fA-F]+|[0-9]+);", lambda match: match[0] if number_of(match[1]) >= 32 else b"?", data)
    return xml.etree.ElementTree.fromstring(known)


def number_of(reference):
    return int(reference[1:], 16) if reference[:1] == b"x" else int(reference)


def found_in(tree, group, name):
    """The elements NAME of every GROUP, whatever the answer's XML namespace is."""
    return list(tree.iterfind("{*}%s/{*}%s" % (group, name)))


def text_of(data, name):
    """The first NAME of an answer, or nothing."""
    return tree_of(data).findtext("{*}" + name) or ""
