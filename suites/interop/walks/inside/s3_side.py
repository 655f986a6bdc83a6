"""A side of a walk over S3: one bucket, through one gateway, with Python's own HTTP client.

Settings: address (HOST:PORT of the gateway), access_key, secret_key, place (the bucket), and conf and name for
radosgw-admin.
Requests are signed with AWS Signature Version 4 (docs.aws.amazon.com, "Authenticating Requests"), without their bodies.
"""

import base64
import hashlib
import hmac
import http.client
import json
import re
import time
import urllib.parse
import xml.etree.ElementTree
import xml.sax.saxutils

SETTINGS = {"address": "127.0.0.1:7480", "access_key": "", "secret_key": ""}
SETTINGS.update({"conf": "/etc/ceph/ceph.conf", "name": "client.admin"})
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
    authorization = "AWS4-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%s" % (credential, names, signature)
    return {**headers, "Authorization": authorization}


class Side:
    """One connection to one gateway."""

    refusals = (Refusal, OSError, http.client.HTTPException, ValueError, TypeError, AttributeError, SyntaxError)
    refusals += (KeyError,)

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
        encoded = "&".join("%s=%s" % (quoted(name), quoted(value)) for name, value in sorted(query))
        extra = signed(self.settings, method, path, encoded, dict(headers))
        self.line.request(method, path + ("?" + encoded if encoded else ""), body=body, headers=extra)
        told_back = self.line.getresponse()
        data = told_back.read()
        if told_back.status // 100 != 2:
            code = tree_of(data).findtext("Code") if data else None
            raise Refusal(code or str(told_back.status))
        return told_back, data

    def op_put(self, key, seed, size, note, tags):
        """note: user metadata."""
        headers = {"x-amz-meta-note": note}
        if tags:
            headers["x-amz-tagging"] = "&".join("%s=%s" % (quoted(name), quoted(tags[name])) for name in tags)
        self.ask("PUT", key, content(seed, size), headers=headers)

    def op_put_new(self, key, seed, size, note):
        headers = {"x-amz-meta-note": note, "if-none-match": "*"}
        self.ask("PUT", key, content(seed, size), headers=headers)

    def op_get(self, key, version=()):
        told_back, data = self.ask("GET", key, query=version)
        _, tags = self.ask("GET", key, query=[("tagging", ""), *version])
        words = [{part.tag.rpartition("}")[2]: part.text or "" for part in tag} for tag in all_in(tags, "Tag")]
        tags_of = {word["Key"]: word["Value"] for word in words}
        return [told(data), told_back.headers["x-amz-meta-note"], told_back.headers["ETag"], tags_of]

    def op_get_if(self, key, header, when):
        """A GET with the object's ETag, or another one, in a header."""
        told_back, _ = self.ask("GET", key)
        tag = told_back.headers["ETag"] if when == "same" else '"%s"' % ("0" * 32)
        return told(self.ask("GET", key, headers={header.lower(): tag})[1])

    def op_range(self, key, first, last):
        return self.bytes_of(key, "%d-%d" % (first, last))

    def op_rest(self, key, first):
        return self.bytes_of(key, "%d-" % first)

    def op_tail(self, key, count):
        return self.bytes_of(key, "-%d" % count)

    def bytes_of(self, key, which):
        told_back, data = self.ask("GET", key, headers={"range": "bytes=" + which})
        return [told(data), told_back.headers["Content-Range"]]

    def source(self, key, version=""):
        """The header that names the source of a copy."""
        return {"x-amz-copy-source": quoted("/" + self.bucket + "/" + key, "/") + version}

    def op_copy(self, key, to):
        self.ask("PUT", to, b"", headers=self.source(key))

    def op_recopy(self, key, to, note):
        replaced = {"x-amz-metadata-directive": "REPLACE", "x-amz-meta-note": note}
        self.ask("PUT", to, b"", headers={**self.source(key), **replaced})

    def op_delete(self, key):
        self.ask("DELETE", key)

    def op_delete_many(self, keys):
        objects = "".join("<Object><Key>%s</Key></Object>" % xml.sax.saxutils.escape(key) for key in keys)
        body = ("<Delete>%s</Delete>" % objects).encode()
        digest = base64.b64encode(hashlib.md5(body).digest()).decode()
        _, data = self.ask("POST", None, body, [("delete", "")], {"content-md5": digest})
        return sorted(key.text for key in found_in(tree_of(data), "Deleted", "Key"))

    def op_multipart(self, key, seed, sizes, note):
        """Upload parts in order, but the first one last. Part n has the content of seed + n - 1."""
        self.op_initiate(key, note)
        for number in [*range(2, len(sizes) + 1), 1]:
            self.op_part(key, number, seed + number - 1, sizes[number - 1])
        self.op_complete(key)

    def upload(self, key):
        """The ID of the upload of a key in progress."""
        _, data = self.ask("GET", None, query=[("uploads", ""), ("prefix", key), ("encoding-type", "url")])
        for entry in all_in(data, "Upload"):
            if urllib.parse.unquote_plus(entry.findtext("{*}Key")) == key:
                return entry.findtext("{*}UploadId")
        raise Refusal("NoSuchUpload")

    def op_initiate(self, key, note):
        self.ask("POST", key, b"", [("uploads", "")], {"x-amz-meta-note": note})

    def op_part(self, key, number, seed, size):
        query = [("partNumber", str(number)), ("uploadId", self.upload(key))]
        return self.ask("PUT", key, content(seed, size), query)[0].headers["ETag"]

    def op_part_copy(self, key, number, source, first, last):
        query = [("partNumber", str(number)), ("uploadId", self.upload(key))]
        headers = {**self.source(source), "x-amz-copy-source-range": "bytes=%d-%d" % (first, last)}
        tag = text_of(self.ask("PUT", key, b"", query, headers)[1], "ETag")
        return '"%s"' % tag.strip('"')  # RGW writes it without quotes here

    def op_complete(self, key):
        """Complete an upload with all of its parts."""
        parts = self.parts(key, 1000)
        part = "<Part><PartNumber>%d</PartNumber><ETag>%s</ETag></Part>"
        body = "".join(part % (number, tag) for number, _, tag in parts)
        body = "<CompleteMultipartUpload>%s</CompleteMultipartUpload>" % body
        self.ask("POST", key, body.encode(), [("uploadId", self.upload(key))])

    def op_abort(self, key):
        self.ask("DELETE", key, query=[("uploadId", self.upload(key))])

    def op_parts(self, key, page):
        return self.parts(key, page)

    def parts(self, key, page):
        """[number, size, ETag] of each part, read in pages."""
        parts, after, upload = [], "0", self.upload(key)
        while True:
            query = [("uploadId", upload), ("max-parts", str(page)), ("part-number-marker", after)]
            _, data = self.ask("GET", key, query=query)
            for part in all_in(data, "Part"):
                number, size, tag = (part.findtext("{*}" + name) for name in ("PartNumber", "Size", "ETag"))
                parts.append([int(number), int(size), tag])
            if text_of(data, "IsTruncated") != "true":
                return parts
            after = further(after, text_of(data, "NextPartNumberMarker"))

    def op_uploads(self, prefix, delimiter, page):
        return self.listed(
            [("uploads", ""), *given(prefix, delimiter, page, "max-uploads")],
            "Upload",
            {"key-marker": "NextKeyMarker", "upload-id-marker": "NextUploadIdMarker"},
        )

    def op_tag(self, key, tags):
        escape = xml.sax.saxutils.escape
        pairs = "".join("<Tag><Key>%s</Key><Value>%s</Value></Tag>" % (escape(k), escape(v)) for k, v in tags.items())
        body = ("<Tagging><TagSet>%s</TagSet></Tagging>" % pairs).encode()
        digest = base64.b64encode(hashlib.md5(body).digest()).decode()
        self.ask("PUT", key, body, [("tagging", "")], {"content-md5": digest})

    def op_list(self, prefix, delimiter, page):
        """[[keys], [common prefixes]] in the gateway's order, read in pages of `page` entries."""
        query = [("list-type", "2"), *given(prefix, delimiter, page)]
        return self.listed(query, "Contents", {"continuation-token": "NextContinuationToken"})

    def op_list_after(self, prefix, delimiter, page, after, kind):
        """The same from a key on. kind: 1 for the older call, 2 for the newer one."""
        if kind == 1:
            return self.listed(
                [("marker", after), *given(prefix, delimiter, page)], "Contents", {"marker": "NextMarker"}
            )
        query = [("list-type", "2"), ("start-after", after), *given(prefix, delimiter, page)]
        return self.listed(query, "Contents", {"continuation-token": "NextContinuationToken"})

    def listed(self, query, group, markers):
        """[[keys], [common prefixes]] of all pages. markers: query key -> where an answer has its next value."""
        keys, prefixes, more = [], [], {}
        while True:
            _, data = self.ask("GET", None, query=[*{**dict(query), **more}.items()])
            tree = tree_of(data)
            keys += [urllib.parse.unquote_plus(key.text) for key in found_in(tree, group, "Key")]
            prefixes += [urllib.parse.unquote_plus(key.text) for key in found_in(tree, "CommonPrefixes", "Prefix")]
            if text_of(data, "IsTruncated") != "true":
                return [keys, prefixes]
            more = further(more, {key: marker_of(data, name) or [*keys, ""][-1] for key, name in markers.items()})

    def op_versioning(self, status):
        body = "<VersioningConfiguration><Status>%s</Status></VersioningConfiguration>" % status
        self.ask("PUT", None, body.encode(), [("versioning", "")])

    def all_versions(self, prefix, delimiter, page):
        """([key, size, ETag, whether null, whether newest, ID] of each version, common prefixes), read in pages."""
        entries, prefixes, more = [], [], {}
        while True:
            query = {"versions": "", **dict(given(prefix, delimiter, page)), **more}
            _, data = self.ask("GET", None, query=query.items())
            for entry in tree_of(data):
                kind = entry.tag.rpartition("}")[2]
                if kind in ("Version", "DeleteMarker"):
                    key, name = urllib.parse.unquote_plus(entry.findtext("{*}Key")), entry.findtext("{*}VersionId")
                    size = int(entry.findtext("{*}Size")) if kind == "Version" else -1
                    tag = entry.findtext("{*}ETag") if kind == "Version" else ""
                    entries.append([key, size, tag, name == "null", entry.findtext("{*}IsLatest") == "true", name])
            shared = found_in(tree_of(data), "CommonPrefixes", "Prefix")
            prefixes += [urllib.parse.unquote_plus(key.text) for key in shared]
            if text_of(data, "IsTruncated") != "true":
                return entries, prefixes
            names = {"key-marker": "NextKeyMarker", "version-id-marker": "NextVersionIdMarker"}
            now = {key: marker_of(data, name) for key, name in names.items()}
            more = further(more, {key: value for key, value in now.items() if value})

    def version(self, key, number):
        """The ID of a version, by its place from the newest on."""
        entries, _ = self.all_versions(key, "", 1000)
        names = [entry[-1] for entry in entries if entry[0] == key]
        if number >= len(names):
            raise Refusal("only %d versions" % len(names))
        return names[number]

    def op_get_version(self, key, number):
        return self.op_get(key, [("versionId", self.version(key, number))])

    def op_delete_version(self, key, number):
        self.ask("DELETE", key, query=[("versionId", self.version(key, number))])

    def op_copy_version(self, key, number, to):
        self.ask("PUT", to, b"", headers=self.source(key, "?versionId=" + self.version(key, number)))

    def op_versions(self, prefix, delimiter, page):
        entries, prefixes = self.all_versions(prefix, delimiter, page)
        return [[entry[:-1] for entry in entries], prefixes]

    def admin(self, *words):
        """What radosgw-admin answers."""
        command = ["radosgw-admin", "--conf", self.settings["conf"], "--name", self.settings["name"], *words]
        return output_of(command)

    def op_reshard(self, shards):
        bucket = ["--bucket", self.bucket, "--num-shards", str(shards)]
        self.admin("bucket", "reshard", *bucket, "--yes-i-really-mean-it")

    def op_count(self):
        """Objects and bytes of the bucket's statistics."""
        usage = json.loads(self.admin("bucket", "stats", "--bucket", self.bucket))["usage"].get("rgw.main", {})
        return [usage.get("num_objects", 0), usage.get("size", 0)]

    def op_look(self, versioned):
        """Every object in the order of the listing, with its content; every version."""
        keys, _ = self.op_list("", "", 1000)
        entries = self.op_versions("", "", 1000)[0] if versioned else []
        return [[[key, *self.op_get(key)] for key in keys], entries]


def given(prefix, delimiter, page, limit="max-keys"):
    """The query of a list."""
    query = [(limit, str(page)), ("encoding-type", "url"), ("prefix", prefix)]
    return query + ([("delimiter", delimiter)] if delimiter else [])


def marker_of(data, name):
    """A marker of an answer's last entry. Only keys are quoted, not tokens."""
    return (urllib.parse.unquote_plus if name in ("NextMarker", "NextKeyMarker") else str)(text_of(data, name))


def further(before, now):
    """Where the next page begins. A refusal if it is where this page began, because that would not end."""
    if now == before:
        raise Refusal("the same page again")
    return now


def tree_of(data):
    """An answer's XML. A gateway writes control characters of a key as references that XML 1.0 does not allow."""
    known = re.sub(rb"&#(x[0-9a-fA-F]+|[0-9]+);", lambda match: match[0] if number_of(match[1]) >= 32 else b"?", data)
    return xml.etree.ElementTree.fromstring(known)


def number_of(reference):
    return int(reference[1:], 16) if reference[:1] == b"x" else int(reference)


def found_in(tree, group, name):
    """The elements NAME of every GROUP, whatever the answer's XML namespace is."""
    return list(tree.iterfind("{*}%s/{*}%s" % (group, name)))


def all_in(data, name):
    """Every element NAME of an answer."""
    return tree_of(data).iterfind(".//{*}" + name)


def text_of(data, name):
    """The first NAME of an answer, or nothing."""
    return tree_of(data).findtext("{*}" + name) or ""
