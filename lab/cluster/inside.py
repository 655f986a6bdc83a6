"""Compares the programs inside containers and guests with the image from which those were made."""

import json
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import PurePosixPath

from cephlab.lab.base.errors import LabBroken
from cephlab.lab.base.numbers import how_many
from cephlab.lab.cluster.own import OwnCluster
from cephlab.lab.images.image import LINK, SEALED, Image
from cephlab.lab.providers.host import Host
from cephlab.lab.spec.clusterspec import Capability

_COMPARED = re.compile(
    r"usr/lib/[^/]+/(ceph/(erasure-code|compressor)/|ceph/libceph-common\.so|rados-classes/|lib(rados|rbd|cephfs)\.so)"
    r"|usr/lib/[^/]+/(ld-linux[^/]*|lib(c|m|stdc\+\+|gcc_s|tcmalloc|aio|crypto|ssl|z|lz4|snappy|zstd))\.so"
    r"|usr/lib/python3/dist-packages/(rados|rbd|cephfs|rgw)\.[^/]*so$"
    r"|usr/bin/python3\.\d+$"
)
_SHOWN = 5
_SUM_S = 120.0
"""Per host, multiplied by patience. It hashes about 110 MiB, which takes an emulated host some seconds."""


def require_copies(cluster: OwnCluster) -> None:
    """LabBroken, with the first files, if a host would run a program or library that differs from its image.

    Compares the programs of the host's daemons, Ceph's libraries, the C and C++ runtime, compressors, ciphers and
    Python. Not compared: processes of this machine, because they run from the cache, which has its own check; pulled
    images, because nobody recorded their content.
    """
    # Nodes without a network of their own are processes of this machine, with its files.
    if Capability.OWN_NETWORK not in cluster.provider.capabilities():
        return
    with ThreadPoolExecutor() as pool:
        by_host = list(pool.map(lambda host: _others(cluster, host), cluster.hosts.values()))
    other = [line for lines in by_host for line in lines]
    if other:
        programs = how_many(len(other), "program inside the nodes differs", "programs inside the nodes differ")
        raise LabBroken(
            f"{programs} from the image",
            "\n".join(other[:_SHOWN]),
            "remove the copies: `cephlab image rm`, and the image of that name in the container engine",
        )


def _others(cluster: OwnCluster, host: Host) -> list[str]:
    image = cluster.images.get(host.arch)
    if image is None or not image.contents.exists():
        return []
    wanted = watched(image, {daemon.argv[0] for daemon in cluster.daemons.values() if daemon.host.name == host.name})
    paths = [str(host.root / path) for path in wanted]
    sums = host.run(["sha256sum", *paths], timeout_s=_SUM_S * cluster.patience, check=False).stdout
    return [f"{host.name}: {line}" for line in differing(wanted, dict(_sums(host, sums)))]


def watched(image: Image, programs: set[str]) -> dict[str, str]:
    """Path below the root -> sha256, for these programs and the libraries that they load, in an image."""
    names = {PurePosixPath(program).name for program in programs}
    noted: Mapping[str, str] = json.loads(image.contents.read_text())
    return {
        path: held
        for path, held in noted.items()
        if not held.startswith((LINK, SEALED))
        and (_COMPARED.match(path) or (path.startswith("usr/bin/") and PurePosixPath(path).name in names))
    }


def _sums(host: Host, sums: str) -> Iterator[tuple[str, str]]:
    for line in sums.splitlines():
        digest, _, path = line.partition("  ")
        yield str(PurePosixPath(path).relative_to(host.root)), digest


def differing(wanted: Mapping[str, str], present: Mapping[str, str]) -> Iterator[str]:
    """Files that are missing or differ, in words."""
    for path in sorted(wanted):
        if path not in present:
            yield f"{path} is missing"
        elif present[path] != wanted[path]:
            yield f"{path} has changed"
