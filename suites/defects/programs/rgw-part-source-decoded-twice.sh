#!/usr/bin/env bash
# Shows that a gateway ends when a part is copied from an object called `100% done`. Starts a gateway of its own on
# 127.0.0.1. Needs a running cluster (CEPH_CONF, or /etc/ceph/ceph.conf) on which pools may be created and removed, its
# admin key, and Python's rados module.
set -euo pipefail

# shellcheck source=suites/defects/programs/shared/own-gateway.sh
source "$(dirname "${BASH_SOURCE[0]}")/shared/own-gateway.sh"

with_gateway <<'PYTHON'
import re


def copied(process, port):
    """What became of the gateway and of the copy."""
    ask(port, "PUT", "/defect")
    ask(port, "PUT", "/defect/100%25%20done", b"content")
    _, begun = ask(port, "POST", "/defect/copy?uploads")
    upload = re.search("<UploadId>(.+)</UploadId>", begun)[1]
    path = "/defect/copy?partNumber=1&uploadId=" + upload
    try:
        status, _ = ask(port, "PUT", path, x_amz_copy_source="/defect/100%25%20done", x_amz_copy_source_range="bytes=0-6")
    except ValueError:
        return "the gateway ended with status %d" % process.wait(60)
    return "the status was %d" % status


with own_gateway() as (process, port):
    said = copied(process, port)
print("not seen" if said.endswith("200") else "seen", "a part was copied from an object called `100% done`: " + said, sep=": ")
PYTHON
