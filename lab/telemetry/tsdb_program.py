"""Runs on the machine of a Prometheus for lab/telemetry/tsdb.py: runs queries, or makes a snapshot of its store."""

import io
import json
import sys
import tarfile
import urllib.parse
import urllib.request
from typing import Any

TIMEOUT_S = 60


def ask(url: str, fields: dict[str, Any]) -> Any:
    """POST a form to the API of the server and return the data in its answer."""
    body = urllib.parse.urlencode(fields).encode()
    with urllib.request.urlopen(urllib.request.Request(url, body), timeout=TIMEOUT_S) as answer:
        return json.load(answer)["data"]


def ranges(base: str) -> None:
    """Answer the queries on the standard input: {queries, start, end, step} -> a list of results."""
    queries = json.load(sys.stdin)
    common = {key: queries[key] for key in ("start", "end", "step")}
    results = [ask(f"{base}/query_range", {"query": query, **common})["result"] for query in queries["queries"]]
    json.dump(results, sys.stdout)


def snapshot(base: str, store: str, target: str) -> None:
    """Put the store as it is now into a tar file, with an empty `wal`, without which promtool refuses it."""
    name = ask(f"{base}/admin/tsdb/snapshot", {})["name"]
    with tarfile.open(target, "w:gz") as tar:
        tar.add(f"{store}/snapshots/{name}", "tsdb")
        folder = tarfile.TarInfo("tsdb/wal")
        folder.type, folder.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(folder, io.BytesIO())


if __name__ == "__main__":
    if sys.argv[1] == "ranges":
        ranges(sys.argv[2])
    else:
        snapshot(*sys.argv[2:])
